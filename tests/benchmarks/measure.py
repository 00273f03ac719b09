"""Seconds, hard passes and peak memory of one method on one piece of work, in this process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .method import Method, Outcome
from .problems import Work

REPEATS = 5
ENOUGH = 5.0  # seconds of repeating after which the best so far is taken
CHUNK_ELEMENTS = 1 << 19  # of one block of costs: 2 MiB, which stays in cache
STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one method took.

    Attributes:
        seconds: of each run; the best counts.
        hard_pass: seconds of one hard pass on the same work in the same process, best of five.
        minimum_only: seconds of one that drops the index of the nearest point.
        peak: bytes by which the first run raised the memory of the process above the data; None where the system
            does not tell.
        outcome: of the last run.
        warnings: messages of the first run.
    """

    seconds: list[float]
    hard_pass: float
    minimum_only: float
    peak: int | None
    outcome: Outcome
    warnings: list[str]


def measure(work: Work, method: Method, repeats: int = REPEATS) -> Measurement:
    """Get ready, run until it has been repeated enough, keep all times."""
    run = method.prepare(work)
    hard_pass = best_of(5, lambda: hard_pass_over(work.points, work.samples))
    minimum_only = best_of(5, lambda: minimum_pass_over(work.points, work.samples))
    before = reset_peak()
    seconds: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while not seconds or (len(seconds) < repeats and sum(seconds) < ENOUGH):
            began = time.perf_counter()
            outcome = run()
            seconds.append(time.perf_counter() - began)
            if len(seconds) == 1:
                peak = None if before is None else max(0, memory("VmHWM") - before)
    messages = sorted({str(warning.message).strip().partition("\n")[0] for warning in caught})
    return Measurement(
        seconds=seconds,
        hard_pass=hard_pass,
        minimum_only=minimum_only,
        peak=peak,
        outcome=outcome,
        warnings=messages,
    )


def best_of(repeats: int, run: Callable[[], object]) -> float:
    """Least seconds of some runs; one that takes long is not repeated."""
    best, total = float("inf"), 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        took = time.perf_counter() - began
        best, total = min(best, took), total + took
        if total > ENOUGH:
            break
    return best


def hard_pass_over(x: Tensor, y: Tensor) -> None:
    """The unit of work: one chunked computation of min_i |y_k - x_i|^2 with its index, a bare loop in float32.

    The index is what a solver needs, to know the cells; |y_k|^2, the same for all i, is left out.
    """
    square = x.square().sum(1)
    rows = max(16, CHUNK_ELEMENTS // len(x))
    for start in range(0, len(y), rows):
        torch.addmm(square, y[start : start + rows], x.t(), alpha=-2).min(1)


def minimum_pass_over(x: Tensor, y: Tensor) -> None:
    """The same without the index, which torch computes two to five times faster on CPUs."""
    square = x.square().sum(1)
    rows = max(16, CHUNK_ELEMENTS // len(x))
    for start in range(0, len(y), rows):
        torch.addmm(square, y[start : start + rows], x.t(), alpha=-2).amin(1)


def reset_peak() -> int | None:
    """Make the system forget the highest memory use so far; returns the present use in bytes, None without /proc."""
    try:
        CLEAR.write_text("5")
        return memory("VmRSS")
    except OSError:
        return None


def memory(field: str, status: Path = STATUS) -> int:
    """Bytes in a line of /proc/PID/status: VmRSS (now) or VmHWM (highest)."""
    for line in status.read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"{status} has no {field}")
