"""Measure, and write what the page of the book shows: `make benchmark`, or `python -m benchmarks --help`."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import random
import statistics
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from .contenders import CONTENDERS, MASKS, OURS, REFERENCE, Case
from .measure import in_turns, peak_bytes

RESULT = Path(__file__).parents[1] / "book" / "benchmark.json"
SIZES = [
    (1, 5, 32, 4),
    (2, 16, 64, 4),
    (8, 64, 128, 8),
    (4, 256, 256, 8),
    (2, 1024, 256, 8),
]  # batch, n, d_model, heads
LONG = (1, 2048, 256, 8)
HEADS = [(4, 256, 256, 1), (4, 256, 256, 16)]
GPU_SIZES = [*SIZES, (8, 1024, 1024, 16), (4, 4096, 1024, 16)]
PACKAGES = {"torch": "torch", "x-transformers": "x-transformers", "transformers (BERT)": "transformers"}
ROUNDS = ((64, 201), (256, 21), (1_000_000, 9))  # up to which length how many: short calls are cheap, and tremble
NEAREST = (REFERENCE, OURS, "nn.MultiheadAttention")
PASSES = ("forward", "forward and backward")


def cases(device: torch.device) -> Iterator[tuple[Case, tuple[str, ...]]]:
    """Yield what is measured, and which passes."""
    f32, bf16 = torch.float32, torch.bfloat16
    sizes = GPU_SIZES if device.type == "cuda" else [*SIZES, LONG]
    for size in sizes:
        for mask in MASKS:
            for weights in (False, True):
                if not (weights and size[1] > 1024):
                    yield Case(*size, f32, mask, weights), PASSES
    for size in HEADS:
        for weights in (False, True):
            yield Case(*size, f32, "causal", weights), PASSES
    for mask in MASKS:
        for weights in (False, True):
            yield Case(4, 256, 256, 8, bf16, mask, weights), PASSES


def quartiles(numbers: list[float]) -> list[float]:
    """Return the lower quartile, the median and the upper quartile."""
    return [round(x, 4) for x in statistics.quantiles(numbers, n=4, method="inclusive")]


def measure(
    case: Case, passes: tuple[str, ...], device: torch.device, rounds: int, least: float
) -> list[dict[str, Any]]:
    """Return a row for each contender and pass, with its ratios to the reference in the same rounds."""
    x = torch.randn(case.batch, case.n, case.d_model, device=device, dtype=case.dtype)
    state = {
        f"{w}.weight": torch.randn(case.d_model, case.d_model, device=device, dtype=case.dtype) / case.d_model**0.5
        for w in ("w_q", "w_k", "w_v", "w_o")
    }
    padding = case.padding(device)
    real = 1 if padding is None else padding[:, 0, 0, :, None]  # what is computed for padding is anybody's choice
    modules, expected = {}, None
    for name, make in CONTENDERS.items():
        shown = device.type == "cpu" and case.n <= 256 and case[:4] not in HEADS and case.dtype == torch.float32
        if name not in NEAREST and not shown:
            continue  # others are shown at one size, and a long one takes long
        try:
            made = make(case, device, state)
        except ImportError:
            continue
        if made is None:
            continue
        with torch.no_grad():
            found = made[1](x).float() * real
        expected = found if expected is None else expected
        tolerance = 1e-3 if case.dtype == torch.float32 else 0.1
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")
        modules[name] = made
    rows = []
    for which in passes:
        runs = {}
        for name, (module, call) in modules.items():
            runs[name] = forward(module, call, x) if which == "forward" else both_ways(module, call, x)
        times = in_turns(runs, rounds, least, device)
        for name in runs:
            ratios = [a / b for a, b in zip(times[name], times[REFERENCE], strict=True)]
            rows.append(
                {**case._asdict(), "dtype": str(case.dtype).removeprefix("torch."), "pass": which, "name": name,
                 "microseconds": round(statistics.median(times[name]) * 1e6, 1), "rounds": rounds,
                 "ratio": quartiles(ratios), "peak_bytes": peak_bytes(runs[name], device)}
            )  # fmt: skip
    return rows


def forward(module: Any, call: Any, x: torch.Tensor) -> Any:
    """Return a call in evaluation, without gradients."""

    def run() -> None:
        with torch.inference_mode():
            call(x)

    return lambda: (module.eval(), run())


def both_ways(module: Any, call: Any, x: torch.Tensor) -> Any:
    """Return a call in training that computes the gradients of the input and of all matrices."""
    x = x.clone().requires_grad_()
    parameters = [x, *module.parameters()]

    def run() -> None:
        module.train()
        torch.autograd.grad(call(x).sum(), parameters, allow_unused=True)

    return run


def machine(device: torch.device) -> str:
    """Say in words on what it ran."""
    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}"
    kind = {"x86_64": "x86", "AMD64": "x86"}.get(platform.machine(), platform.machine())
    capability = torch.backends.cpu.get_cpu_capability()
    return f"one thread on {os.cpu_count()} cores of an {kind} processor ({capability})"


def main() -> None:
    """Measure all cases, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=1, help="so many times the usual number of rounds")
    parser.add_argument("--least", type=float, default=0.0005, help="how many seconds a turn lasts at least")
    parser.add_argument("--only", type=int, default=None, help="measure the first so many cases (for a try)")
    parser.add_argument("--out", type=Path, default=None, help=f"where to write; {RESULT.name} in book/ when left out")
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.manual_seed(0)
    random.seed(0)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for case, passes in list(cases(device))[: given.only]:
        usual = next(rounds for most, rounds in ROUNDS if case.n <= most)
        rows += measure(case, passes, device, given.rounds * usual, given.least)
        write(rows, {}, device, given.out)
        mine = [row for row in rows[-20:] if row["name"] == OURS][-len(passes) :]
        print(f"{tuple(case)}: {', '.join(str(row['ratio'][1]) for row in mine)}", file=sys.stderr, flush=True)
    if device.type == "cuda":
        from .gpu import attention_rows, limits

        write(rows, {"limits": limits(device), "attention": attention_rows(device)}, device, given.out)


def write(rows: list[dict[str, Any]], more: dict[str, Any], device: torch.device, out: Path | None) -> None:
    """Write what is measured so far, a row to a line."""
    names = {row["name"] for row in rows}
    versions = {p: importlib.metadata.version(p) for name, p in PACKAGES.items() if name in names | {"torch"}}
    found = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(device),
        "versions": {"python": platform.python_version(), **versions},
        **more,
    }
    out = out or (RESULT if device.type == "cpu" else RESULT.with_stem(f"{RESULT.stem}_{device.type}"))
    text = json.dumps(found, indent=1)[:-2] + ',\n "rows": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]\n}\n"
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
