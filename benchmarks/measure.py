"""Timing and memory: all contenders of a case in turns, in an order drawn anew each round, which shares the weather.

On a processor the time is what one thread has computed, not what the clock shows, so that other programs count little.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]


def seconds(run: Run, times: int, device: torch.device) -> float:
    """Time one call, of so many."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        begin = time.perf_counter()
        for _ in range(times):
            run()
        torch.cuda.synchronize(device)
        return (time.perf_counter() - begin) / times
    begin = time.thread_time()
    for _ in range(times):
        run()
    return (time.thread_time() - begin) / times


def in_turns(runs: Mapping[str, Run], rounds: int, least: float, device: torch.device) -> dict[str, list[float]]:
    """Return the seconds of a call of each, round by round; each turn lasts about ``least`` seconds."""
    times = {}
    for name, run in runs.items():
        run()
        times[name] = max(1, round(least / max(seconds(run, 1, device), 1e-6)))
    order, found = list(runs), {name: [] for name in runs}
    chance = random.Random(0)
    for _ in range(rounds):
        chance.shuffle(order)
        for name in order:
            found[name].append(seconds(runs[name], times[name], device))
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what torch's profiler writes to the error stream, past Python, from being seen."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def peak_bytes(run: Run, device: torch.device) -> int:
    """Return by how much the memory grew at most while it ran, what the kernels use inside included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with _quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    events = record.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    peak = now = 0
    for _, change in changes:
        now += change
        peak = max(peak, now)
    return peak
