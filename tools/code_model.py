"""Train the code model of chapter 9, and train it again from other seeds to count which heads emerge.

    python -m tools.code_model

learns its tokens and trains it on the source of the library of the Python that runs this, and writes
`attention_tutorial/models/trained/code_model.json` (some five minutes). After it: `make widgets` and `make notebooks`.

    python -m tools.code_model --runs 5

trains five more from other seeds, tests every head of each for every job, and writes `code_model_runs.json` beside it,
for what chapters 9 and 9a say about more than one training. After it,

    python -m tools.code_model --one-layer

trains two with one layer, of eight heads and of four, and adds what their tests gave, for 9.6. On another processor,
single digits differ.
"""

import argparse
import ast
import builtins
import gzip
import hashlib
import itertools
import json
import keyword
import lzma
import math
import platform
import random
import re
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_tutorial.analysis.head_jobs import JOBS, JobScore, copy_score, job_scores, repeated_tokens
from attention_tutorial.data.byte_pairs import BEGIN, BytePairs, cut_pieces, learn_merges
from attention_tutorial.models.code_model import CodeModel, Head, pack_code_model, unpack_code_model
from tools.book import ROOT

TRAINED = ROOT / "attention_tutorial" / "models" / "trained"
SHIPPED_SEED, FIRST_SEED = 10, 11
TOKENS, STEPS, BATCH, RATE, WARMUP = 1024, 2000, 8, 6e-3, 100
RENAMED, REPEATED, RANDOM = 0.5, 0.15, 0.05  # shares of the windows
COPIES = 4  # of the text, each with other invented names
LIBRARY = Path(sysconfig.get_path("stdlib"))
NOT_READ = {
    "test",
    "tests",
    "idlelib",
    "encodings",
    "lib2to3",
    "site-packages",
    "turtledemo",
    "ensurepip",
    "pydoc_data",
    "msilib",
}


# ---- The text -------------------------------------------------------------------------------------------------------


def clean(path: Path) -> str:
    """Read a file with spaces for tabs and without carriage returns."""
    return path.read_text(encoding="utf-8", errors="replace").replace("\t", "    ").replace("\r", "")


def library() -> dict[str, str]:
    """Return the source of the running interpreter's library, by file."""
    files = {path.relative_to(LIBRARY): path for path in sorted(LIBRARY.rglob("*.py"))}
    wanted = {str(name): clean(path) for name, path in files.items() if not NOT_READ & {*name.parts}}
    return {name: text for name, text in wanted.items() if len(text) > 200 and not name.startswith("config-")}


def is_held_out(name: str) -> bool:
    """Say whether a file is held out from training: one in sixteen, by its name."""
    return hashlib.sha256(name.encode()).digest()[0] < 16


def foreign(size: int = 300_000) -> str:
    """Return as much source of numpy and torch each, files in a fixed random order."""
    texts = []
    for package in (np, torch):
        paths = sorted(Path(str(package.__file__)).parent.rglob("*.py"))
        paths = [path for path in paths if not {"tests", "testing", "_vendor"} & {*path.parts}]
        random.Random(0).shuffle(paths)
        chosen = [text for text in map(clean, paths[:300]) if 2000 < len(text) < 60_000]
        lengths = itertools.accumulate(map(len, chosen))
        texts += [text for text, length in zip(chosen, lengths, strict=True) if length < size]
    return "\n".join(texts)


WORD = re.compile(r"(?<![A-Za-z_0-9])[A-Za-z_][A-Za-z_0-9]*")
ENGLISH = "a an of the to in on at or by it".split()
NEVER_RENAMED = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "self", "cls", *ENGLISH}
ONSETS = (
    "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p ph pl pr qu r s sc sh sk sl sn sp st str t th tr v w z"
).split()
VOWELS = "a e i o u a e i o ea oo ai".split()
CODAS = ["", "", "", *"b ck d g l m n nt p r rk s st t x zz".split()]


def bound_names(text: str) -> set[str]:
    """Return the names that a file gives: to functions, classes, arguments, variables, and attributes that it sets."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        return set()
    names = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return {name for name in names - NEVER_RENAMED if not name.startswith("__")}


def invented(draw: random.Random) -> str:
    """Invent a name of one to three syllables."""
    syllables = draw.choice((1, 2, 2, 3))
    word = "".join(draw.choice(ONSETS) + draw.choice(VOWELS) + draw.choice(CODAS) for _ in range(syllables))
    return draw.choices([word, word.upper(), word.capitalize(), "_" + word], [70, 10, 15, 5])[0]


def renamed(text: str, names: set[str], draw: random.Random) -> str:
    """Replace four in five of a file's own names by invented ones, anew after every 1,500 characters or so.

    Words of the text are replaced, in comments too. Where a name is also a string's prefix (an `f`), or an invented one
    is a keyword, the result is not valid Python: in about one file of five, at some place.
    """
    chunks, lines = [], text.splitlines(keepends=True)
    while lines:
        ends = list(itertools.takewhile(lambda length: length < 1500, itertools.accumulate(map(len, lines))))
        chunk, lines = lines[: len(ends) + 1], lines[len(ends) + 1 :]
        new = {name: invented(draw) if draw.random() < 0.8 else name for name in sorted(names)}
        chunks.append(WORD.sub(lambda match, new=new: new.get(match[0], match[0]), "".join(chunk)))
    return "".join(chunks)


class Texts:
    """The library as the model reads it: its tokens, and arrays of ids to train on and to test with."""

    def __init__(self, tokens: BytePairs | None = None) -> None:
        files = library()
        self.read = {name: text for name, text in files.items() if not is_held_out(name)}
        self.held_out = "\n".join(text for name, text in files.items() if is_held_out(name))
        self.foreign = foreign()
        self.training = "\n".join(self.read.values())
        if tokens is None:
            counts = Counter(piece.encode() for piece in cut_pieces(self.training))
            tokens = BytePairs(learn_merges(counts, TOKENS - 257))
        self.tokens = tokens
        self.plain = self.ids(self.training)
        draw = random.Random(1)
        bound = {name: bound_names(text) for name, text in self.read.items()}
        self.renamed = [
            self.ids("\n".join(renamed(text, bound[name], draw) for name, text in self.read.items()))
            for _ in range(COPIES)
        ]

    def ids(self, text: str) -> np.ndarray:
        """Return the token ids of a text."""
        return np.array(self.tokens.encode(text), dtype=np.int64)

    def batches(self, context: int, seed: int) -> Iterator[Tensor]:
        """Draw windows endlessly: of the library, of it with invented names, a passage repeated, or random tokens."""
        draw = np.random.default_rng(seed)
        while True:
            rows = []
            for kind in draw.random(BATCH):
                if kind < RANDOM:
                    row = np.resize(draw.integers(1, len(self.tokens), draw.integers(16, context // 2)), context)
                else:
                    text = self.renamed[draw.integers(COPIES)] if draw.random() < RENAMED else self.plain
                    at = draw.integers(len(text) - context)
                    row = text[at : at + context]
                    if kind < RANDOM + REPEATED:
                        row = np.resize(row[: draw.integers(32, context // 2)], context)
                rows.append([BEGIN, *row])
            yield torch.tensor(np.array(rows))


# ---- Training -------------------------------------------------------------------------------------------------------


def train_code_model(
    texts: Texts, seed: int, *, layers: int = 2, heads: int = 4, growth: list[dict[str, Any]] | None = None
) -> CodeModel:
    """Train one model; append to ``growth``, every 50 steps, its loss and the scores of its heads."""
    draw = torch.Generator().manual_seed(seed)
    model = CodeModel(texts.tokens, num_layers=layers, num_heads=heads, generator=draw)
    groups: dict[str, list[Tensor]] = {"matrices": [], "vectors": [], "distances": []}
    for name, parameter in model.named_parameters():
        groups["distances" if "distance" in name else "matrices" if parameter.dim() == 2 else "vectors"].append(
            parameter
        )
    optimizer = torch.optim.AdamW(
        [
            {
                "params": parameters,
                "weight_decay": 0.1 if kind == "matrices" else 0.0,
                "faster": 10.0 if kind == "distances" else 1.0,
            }
            for kind, parameters in groups.items()
        ],
        betas=(0.9, 0.98),
        fused=True,
    )
    for step, ids in zip(range(STEPS), texts.batches(model.context, seed), strict=False):
        if growth is not None and step % 50 == 0:
            growth.append({"tokens": step * BATCH * model.context, **progress(model, texts)})
        rate = RATE * min((step + 1) / WARMUP, 0.05 + 0.475 * (1 + math.cos(math.pi * step / STEPS)))
        for group in optimizer.param_groups:
            group["lr"] = rate * group["faster"]
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1]).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"seed {seed}, step {step}: {loss.item():.2f}", flush=True)
    if growth is not None:
        growth.append({"tokens": STEPS * BATCH * model.context, **progress(model, texts)})
    return model.eval()


# ---- Measuring ------------------------------------------------------------------------------------------------------


def windows(ids: np.ndarray, count: int, context: int, seed: int) -> Tensor:
    """Draw windows of a text, each after the token that begins one."""
    starts = np.random.default_rng(seed).integers(0, len(ids) - context, count)
    return torch.tensor(np.array([[BEGIN, *ids[at : at + context - 1]] for at in starts]))


@torch.no_grad()
def progress(model: CodeModel, texts: Texts) -> dict[str, Any]:
    """Return the loss on held-out text, the best score at each job, and that of the first layer at "previous"."""
    held_out = windows(texts.ids(texts.held_out[:60_000]), 8, model.context, seed=5)
    scores = job_scores(model, held_out)
    copying = copy_score(model, 4, 64, torch.Generator().manual_seed(5))
    best = {job: round(float(score.target.max()), 3) for job, score in {**scores, "copy": copying}.items()}
    return {
        "loss": round(loss_by_token(model, held_out).mean().item(), 3),
        "jobs": best,
        "previous in layer 1": round(float(scores["previous"].target[0].max()), 3),
    }


@torch.no_grad()
def loss_by_token(model: CodeModel, ids: Tensor, without: tuple[Head, ...] = ()) -> Tensor:
    """Return the loss (nats) at each next token of windows (batch, n): (batch, n - 1)."""
    return torch.cat(
        [
            F.cross_entropy(model(rows[:, :-1], without).logits.transpose(1, 2), rows[:, 1:], reduction="none")
            for rows in ids.split(8)
        ]
    )


def bits_per_byte(model: CodeModel, text: str) -> float:
    """Return the loss in bits per byte, of tokens with at least half a context before them."""
    ids = model.tokens.encode(text)
    half = model.context // 2
    rows = [[BEGIN, *ids[at : at + model.context]] for at in range(0, len(ids) - model.context, half)]
    loss = loss_by_token(model, torch.tensor(rows))[:, -half:]
    size = sum(len(model.tokens.contents[i]) for row in rows for i in row[-half:])
    return float(loss.sum()) / math.log(2) / size


def occurs_again(row: list[int]) -> list[bool]:
    """Say of each next token whether it is the one that came after the same two tokens last time."""
    last: dict[tuple[int, int], int] = {}
    result = []
    for position, (token, following) in enumerate(itertools.pairwise(row)):
        pair = (row[position - 1], token)
        result.append(last.get(pair) == following)
        last[pair] = following
    return result


def added_loss(model: CodeModel, ids: Tensor, head: Head) -> float:
    """Return what the removal of a head adds to the mean loss (nats) at tokens that occur again."""
    again = torch.tensor([occurs_again(row) for row in ids.tolist()])
    whole, less = (loss_by_token(model, ids, without)[again].double().mean() for without in ((), (head,)))
    return round(float(less - whole), 3)


@torch.no_grad()
def paths(model: CodeModel, head: Head) -> dict[str, Any]:
    """Remove each first-layer head from the input of a second-layer head's keys, or of its queries.

    Returns the mean weight on what followed last time, in random tokens written twice.
    """
    half = 64
    ids, _ = repeated_tokens(model, 24, half, torch.Generator().manual_seed(12))
    queries = torch.arange(half + 1, 2 * half + 1)
    added = model(ids).added[0]
    stream = model.embedding(ids) + added.sum(dim=1)
    norm, layer = model.norms[1], model.layers[1]

    def weight(x_query: Tensor, x_key: Tensor) -> float:
        weights = layer.weights(norm(x_query), norm(x_key))[:, head[1] - 1, queries, queries - half + 1]
        return round(float(weights.mean()), 3)

    removed = {f"1.{h + 1}": stream - added[:, h] for h in range(added.size(1))}
    return {
        "whole": weight(stream, stream),
        "keys without": {name: weight(stream, x) for name, x in removed.items()},
        "queries without": {name: weight(x, stream) for name, x in removed.items()},
    }


def report(model: CodeModel, texts: Texts, seed: int) -> dict[str, Any]:
    """Test one training: its loss, its heads, what the copying head is worth, and the path into it."""
    drawn = {
        name: windows(texts.ids(text), 48, model.context, seed=seed)
        for name, text in {"held out": texts.held_out, "foreign": texts.foreign}.items()
    }
    scores = {name: job_scores(model, ids) for name, ids in drawn.items()}
    copying = copy_score(model, 32, 64, torch.Generator().manual_seed(seed))
    jobs = {job: judged(job, {name: scores[name][job] for name in scores}) for job in scores["held out"]}
    jobs["copy"] = judged("copy", {"held out": copying, "foreign": copying})
    layer, head = copying.best()
    ids = windows(texts.ids(texts.held_out), 48, model.context, seed=seed + 1000)
    return {
        "seed": seed,
        "bits per byte": {
            "held out": round(bits_per_byte(model, texts.held_out), 3),
            "foreign": round(bits_per_byte(model, texts.foreign), 3),
        },
        "jobs": jobs,
        "removed": {"without": {f"{layer}.{head}": {"again": added_loss(model, ids, (layer, head))}}},
        "path": paths(model, (layer, head)) if layer == 2 else None,
    }


def judged(job: str, scores: dict[str, JobScore]) -> dict[str, Any]:
    """Judge a job: held if one head has the job's least weight on the target, and twice the decoy's, on both texts."""
    layer, head = scores["held out"].best()
    at = (layer - 1, head - 1)
    values = {
        name: [round(float(score.target[at]), 3), round(float(score.decoy[at]), 3)] for name, score in scores.items()
    }
    held = all(target >= max(JOBS[job][1], 2 * decoy) for target, decoy in (values["held out"], values["foreign"]))
    every = [[round(float(weight), 3) for weight in row] for row in scores["held out"].target]
    return {"head": [layer, head], "held": held, "scores": values, "every head": every}


def baselines(texts: Texts) -> dict[str, Any]:
    """Return bits per byte without attention: gzip, lzma, and counts of single tokens and of pairs."""
    size = len(texts.tokens)
    single = np.bincount(texts.plain, minlength=size) + 0.01
    single /= single.sum()
    pair = np.zeros((size, size))
    np.add.at(pair, (texts.plain[:-1], texts.plain[1:]), 1)
    pair = (pair + 10 * single) / (pair.sum(axis=1, keepdims=True) + 10)
    result = {}
    for name, text in {"held out": texts.held_out, "foreign": texts.foreign}.items():
        raw, ids = text.encode(), texts.ids(text)
        per_byte = 8 / len(raw)
        result[name] = {
            "gzip": len(gzip.compress(raw, 9)) * per_byte,
            "lzma": len(lzma.compress(raw, preset=9)) * per_byte,
            "single tokens": -np.log2(single[ids]).sum() / len(raw),
            "pairs of tokens": -np.log2(pair[ids[:-1], ids[1:]]).sum() / len(raw),
        }
    return {name: {key: round(float(bits), 3) for key, bits in row.items()} for name, row in result.items()}


def origin(texts: Texts) -> dict[str, Any]:
    """Describe the text that was read, and the versions that read it."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "files": len(texts.read),
        "bytes": len(texts.training.encode()),
        "sha256": hashlib.sha256(texts.training.encode()).hexdigest(),
        "tokens": len(texts.plain),
        "trained on": STEPS * BATCH * 256,
        "held out": sorted(name for name in library() if is_held_out(name)),
    }


def train_one_layer() -> None:
    """Train models with one layer, of as many heads and of heads as wide, and add their reports to the record."""
    shipped, tested = TRAINED / "code_model.json", TRAINED / "code_model_runs.json"
    texts = Texts(unpack_code_model(json.loads(shipped.read_text(encoding="utf-8"))).tokens)
    record = json.loads(tested.read_text(encoding="utf-8"))
    if record["origin"]["sha256"] != origin(texts)["sha256"]:
        raise SystemExit("The library of this Python is not the one that the other models were trained on.")
    record["one layer"] = []
    for seed, heads in ((FIRST_SEED, 8), (FIRST_SEED + 1, 4)):
        model = train_code_model(texts, seed, layers=1, heads=heads)
        record["one layer"].append({"heads": heads, **report(model, texts, seed)})
        tested.write_text(json.dumps(record) + "\n", encoding="utf-8")


def main() -> None:
    """Train the shipped model, or more from other seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=0, help="train this many more, and test their heads")
    parser.add_argument("--one-layer", action="store_true", help="train two with one layer, and test their heads")
    runs, one_layer = vars(parser.parse_args()).values()
    torch.set_num_threads(1)
    shipped, kept = TRAINED / "code_model.json", ROOT / "_build" / "code_models"
    if one_layer:
        train_one_layer()
        return
    if not runs:
        texts = Texts()
        record = pack_code_model(train_code_model(texts, SHIPPED_SEED))
        shipped.write_text(json.dumps({**record, "origin": origin(texts)}, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{shipped.relative_to(ROOT)}: {shipped.stat().st_size / 1e6:.2f} MB")
        return
    model = unpack_code_model(json.loads(shipped.read_text(encoding="utf-8")))
    texts = Texts(model.tokens)
    record = {
        "origin": origin(texts),
        "baselines": baselines(texts),
        "shipped": report(model, texts, SHIPPED_SEED),
        "runs": [],
    }
    for seed in range(FIRST_SEED, FIRST_SEED + runs):
        growth: list[dict[str, Any]] = []
        trained = train_code_model(texts, seed, growth=growth)
        kept.mkdir(parents=True, exist_ok=True)
        (kept / f"{seed}.json").write_text(json.dumps(pack_code_model(trained)), encoding="utf-8")
        record["runs"].append({**report(trained, texts, seed), "growth": growth})
        (TRAINED / "code_model_runs.json").write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
