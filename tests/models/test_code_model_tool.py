"""Laws of how the code model is trained and tested: what it reads, what is kept from it, how its heads are judged."""

import itertools
import math
import platform
import random
import re

import numpy as np
import pytest
import torch

from attention_tutorial.analysis.head_jobs import JOBS, JobScore, copy_score
from attention_tutorial.data.byte_pairs import BEGIN, BytePairs
from attention_tutorial.models.code_model import CodeModel, held_out_files, load_code_model
from tools import code_model as tool

IN_THE_LIBRARY = {"html_parser": "html/parser.py"}
HELD_OUT = {IN_THE_LIBRARY.get(name, f"{name}.py"): text for name, text in held_out_files().items()}
SOURCE = '''class Shelf(Thing):
    """A shelf of books; a book has a title."""

    def find(self, title, *, default=None):
        for book in self.books:
            if book.title == title:
                return len(book) > 3 and book
        self.missing = [title, default]
        raise KeyError(title)
'''


@pytest.fixture(scope="module")
def texts():
    """What `Texts` makes of a small library: three shipped files to read, one more that is held out."""
    with pytest.MonkeyPatch.context() as patch:
        files = {f"read{number}.py": text for number, text in enumerate(list(HELD_OUT.values())[:3])}
        assert not any(map(tool.is_held_out, files))
        patch.setattr(tool, "library", lambda: {**files, "sched.py": HELD_OUT["sched.py"]})
        patch.setattr(tool, "foreign", lambda: HELD_OUT["trace.py"])
        patch.setattr(tool, "TOKENS", 300)
        return tool.Texts()


@pytest.fixture(scope="module")
def model(texts):
    return CodeModel(texts.tokens, d_model=8, num_heads=2, context=32, generator=torch.Generator().manual_seed(1))


# ---- What is read ---------------------------------------------------------------------------------------------------


def test_the_shipped_files_are_held_out_of_the_running_library_too():
    files = tool.library()
    held_out = {name for name in files if tool.is_held_out(name)}
    assert len(files) > 300 and 0.02 < len(held_out) / len(files) < 0.12
    assert all(map(tool.is_held_out, HELD_OUT))
    read = {text for name, text in files.items() if name not in held_out}
    assert not read & {*HELD_OUT.values()}
    assert not any(re.search(r"(^|/)(test|tests|idlelib|encodings)/", name) for name in files)
    if platform.python_version() == "3.11.7":
        assert HELD_OUT.items() <= files.items()


def test_held_out_text_is_neither_read_nor_learned_from(texts):
    assert texts.held_out == HELD_OUT["sched.py"] and texts.read.keys() == {"read0.py", "read1.py", "read2.py"}
    assert texts.training == "\n".join(texts.read.values())
    counts = tool.Counter(piece.encode() for piece in tool.cut_pieces(texts.training))
    assert texts.tokens.merges == BytePairs(tool.learn_merges(counts, 300 - 257)).merges
    assert texts.tokens.decode(texts.plain) == texts.training
    assert len(texts.renamed) == tool.COPIES
    assert all(texts.tokens.decode(copy) != texts.training for copy in texts.renamed)


def test_foreign_text_is_of_other_packages():
    text = tool.foreign(60_000)
    assert 50_000 < len(text) < 120_000 and "numpy" in text and "torch" in text
    assert text == tool.foreign(60_000)


# ---- Names ----------------------------------------------------------------------------------------------------------


def test_names_that_a_file_gives_are_known():
    assert tool.bound_names(SOURCE) == {"Shelf", "find", "title", "default", "book", "missing"}
    assert tool.bound_names("def f(:") == set()


def test_renaming_touches_a_file_s_own_names_and_nothing_else():
    for text in HELD_OUT.values():
        names = tool.bound_names(text)
        result = tool.renamed(text, names, random.Random(2))
        assert tool.WORD.sub("?", result) == tool.WORD.sub("?", text)
        pairs = list(zip(tool.WORD.findall(text), tool.WORD.findall(result), strict=True))
        assert {old for old, new in pairs if old != new} <= names
        assert sum(old != new for old, new in pairs) > 0.5 * sum(old in names for old, _ in pairs)


def test_renamed_code_is_the_same_code_with_other_names():
    draw, kept, names = random.Random(3), 0, tool.bound_names(SOURCE)
    for _ in range(100):
        result = tool.renamed(SOURCE, names, draw)
        new = dict(zip(tool.WORD.findall(SOURCE), tool.WORD.findall(result), strict=True))
        assert tool.WORD.sub(lambda match, new=new: new[match[0]], SOURCE) == result, "one new name for each"
        assert len({new[name] for name in names}) == len(names)
        kept += sum(new[name] == name for name in names) / len(names)
    assert 12 < kept < 28  # a share of .2, with a standard error of 1.6


def test_names_change_again_after_a_while():
    names = [
        re.search(r"(\w+) = 1", line)[1]
        for line in tool.renamed("abc = 1  # and so on\n" * 400, {"abc"}, random.Random(4)).splitlines()
    ]
    runs = [len([*run]) for _, run in itertools.groupby(names)]
    assert 3 <= len(runs) <= 7 and max(runs) < 200


# ---- Windows --------------------------------------------------------------------------------------------------------


def begins_again(row):
    return next((period for period in range(16, 128) if np.array_equal(row[period:], row[:-period])), None)


def test_batches_hold_text_its_copies_repeated_passages_and_random_tokens(texts):
    first = list(itertools.islice(texts.batches(256, 7), 40))
    again = list(itertools.islice(texts.batches(256, 7), 40))
    assert all(
        a.equal(b) and a.shape == (tool.BATCH, 257) and a.dtype == torch.long for a, b in zip(first, again, strict=True)
    )
    rows = torch.cat(first)
    assert (rows[:, 0] == BEGIN).all() and (rows[:, 1:] > 0).all()
    sources = [source.tobytes() for source in (texts.plain, *texts.renamed)]
    kinds = tool.Counter()
    for row in rows[:, 1:].numpy():
        period = begins_again(row)
        homes = [number for number, source in enumerate(sources) if row[:period].tobytes() in source]
        kinds["repeated" if period and homes else "random" if period else "plain" if 0 in homes else "renamed"] += 1
        assert period or homes
    shares = {"repeated": 0.15, "random": 0.05, "plain": 0.4, "renamed": 0.4}
    for kind, share in shares.items():  # of 320 windows; a renamed one without a name in it counts as plain
        assert abs(kinds[kind] / 320 - share) < 4 * math.sqrt(share * (1 - share) / 320), kind


def test_windows_are_passages_behind_the_token_that_begins_a_text(texts):
    rows = tool.windows(texts.plain, 9, 32, seed=3)
    assert rows.shape == (9, 32) and (rows[:, 0] == BEGIN).all()
    assert all(row[1:].numpy().tobytes() in texts.plain.tobytes() for row in rows)
    assert rows.equal(tool.windows(texts.plain, 9, 32, seed=3)) and not rows.equal(tool.windows(texts.plain, 9, 32, 4))


# ---- Measuring ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_loss_is_the_next_token_s_and_a_removed_head_adds_to_it(texts, model):
    ids = tool.windows(texts.ids(texts.held_out), 9, 32, seed=3)
    p = model(ids).logits.softmax(dim=-1)
    expected = torch.tensor([[-math.log(p[b, i, ids[b, i + 1]]) for i in range(31)] for b in range(9)])
    loss = tool.loss_by_token(model, ids)
    torch.testing.assert_close(loss, expected)
    again = torch.tensor([tool.occurs_again(row) for row in ids.tolist()])
    added = (tool.loss_by_token(model, ids, ((2, 1),)) - loss)[again].mean()
    assert again.any() and tool.added_loss(model, ids, (2, 1)) == pytest.approx(added.item(), abs=6e-4)


def test_a_token_occurs_again_after_the_same_two():
    tokens = BytePairs([])
    again = tool.occurs_again([BEGIN, *tokens.encode("abc(abc)abx")])
    assert (
        again == [False] * 6 + [True] + [False] * 4
    )  # the first pair that comes again is "ab", before the c, not the x


def test_a_model_that_knows_nothing_needs_all_bits_of_a_token(texts):
    nothing = CodeModel(texts.tokens, d_model=8, num_heads=2, context=32)
    torch.nn.init.zeros_(nothing.embedding.weight)
    ids = texts.ids(texts.held_out)
    counted = range(0, len(ids) - 32, 16)
    size = sum(len(texts.tokens.contents[i]) for at in counted for i in ids[at + 16 : at + 32])
    expected = math.log2(300) * 16 * len(counted) / size
    assert tool.bits_per_byte(nothing, texts.held_out) == pytest.approx(expected, rel=1e-5)


def test_baselines_are_code_lengths_of_counts(texts):
    record = tool.baselines(texts)
    plain, ids = texts.plain.tolist(), texts.ids(texts.held_out).tolist()
    single = {i: (plain.count(i) + 0.01) / (len(plain) + 3) for i in range(300)}
    pairs, starts = tool.Counter(itertools.pairwise(plain)), tool.Counter(plain[:-1])
    of_pairs = [
        -math.log2((pairs[a, b] + 10 * single[b]) / (starts[a] + 10)) for a, b in itertools.pairwise(ids)
    ]  # fmt: skip
    size = len(texts.held_out.encode())
    assert record["held out"]["single tokens"] == pytest.approx(
        sum(-math.log2(single[i]) for i in ids) / size, abs=6e-4
    )
    assert record["held out"]["pairs of tokens"] == pytest.approx(sum(of_pairs) / size, abs=6e-4)
    assert 1 < record["foreign"]["lzma"] < 4 and 1 < record["foreign"]["gzip"] < 4


@torch.no_grad()
def test_a_path_is_cut_at_its_own_end_alone():
    """Where first-layer head 1.3 adds nothing, cutting it changes nothing; the whole is what the head is scored at."""
    model = load_code_model()
    head = copy_score(model, 8, 64, torch.Generator().manual_seed(5)).best()
    whole = copy_score(model, 24, 64, torch.Generator().manual_seed(12)).target[head[0] - 1, head[1] - 1]
    record = tool.paths(model, head)
    assert record["whole"] == pytest.approx(whole.item(), abs=6e-4)
    cut = {name for name, weight in record["keys without"].items() if weight < 0.5 * record["whole"]}
    assert len(cut) == 1 and all(record["queries without"][name] > 0.5 * record["whole"] for name in cut)
    model.layers[0].w_o.weight.view(128, 4, 32)[:, 2] = 0
    record = tool.paths(model, head)
    assert record["keys without"]["1.3"] == record["whole"] == record["queries without"]["1.3"]


@pytest.mark.parametrize(
    ("on_target", "on_decoy", "abroad", "held"),
    [(0.5, 0.2, 0.5, True), (0.49, 0.0, 0.5, False), (0.6, 0.31, 0.6, False), (0.6, 0.3, 0.4, False)],
)
def test_a_job_is_held_above_its_threshold_and_twice_the_decoy_on_both_texts(on_target, on_decoy, abroad, held):
    def score(target, decoy):
        return JobScore(torch.tensor([[0.1, 0.1], [target, 0.0]]), torch.tensor([[0.9, 0.9], [decoy, 0.0]]), 7)

    assert JOBS["previous"][1] == 0.5
    scores = {"held out": score(on_target, on_decoy), "foreign": score(abroad, 0.1)}
    verdict = tool.judged("previous", scores)
    assert (verdict["head"], verdict["held"]) == ([2, 1], held)
    assert verdict["scores"]["held out"] == pytest.approx([on_target, on_decoy], abs=1e-3)
