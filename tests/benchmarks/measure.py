"""Seconds, hard passes and peak memory of one method on one piece of work, in this process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from .method import Method, Outcome
from .problems import Work

REPEATS = 5
PASSES = 50  # hard passes at most: the first of them fill caches
ENOUGH = 1.0  # seconds of repeating after which the best so far is taken: what takes longer runs once
FEW_POINTS, FEW_SAMPLES = 10, 100  # of the run that is not counted
CHUNK_ELEMENTS = 1 << 19  # of one block of costs: 2 MiB, which stays in cache
STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one method took.

    Attributes:
        seconds: wall clock of each run; the best counts.
        processor: least processor time of a run, of all threads.
        hard_pass: processor time of one hard pass on the same work in the same process, least of several; None on a
            GPU.
        peak: bytes by which the first run raised the memory of the process above the data; None where the system
            does not tell.
        outcome: of the last run.
        warnings: messages of the first run.
    """

    seconds: list[float]
    processor: float
    hard_pass: float | None
    peak: int | None
    outcome: Outcome
    warnings: list[str]


def measure(work: Work, method: Method, repeats: int = REPEATS) -> Measurement:
    """Get ready, run until it has been repeated enough, keep all times, each divided by the steps of the work."""
    warm_up(work, method)
    run = method.prepare(work)
    on_gpu = work.points.is_cuda
    # A pass of a GPU takes no processor time; tests/gpu/time_engines.py measures it.
    hard_pass = None if on_gpu else least_processor(lambda: hard_pass_over(work.points, work.samples))
    before = reset_peak()
    seconds: list[float] = []
    processor = float("inf")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while not seconds or (len(seconds) < repeats and sum(seconds) * work.steps < ENOUGH):
            began, used = time.perf_counter(), time.process_time()
            outcome = run()
            if on_gpu:
                torch.cuda.synchronize()
            processor = min(processor, (time.process_time() - used) / work.steps)
            seconds.append((time.perf_counter() - began) / work.steps)
            if len(seconds) == 1:
                peak = None if before is None else max(0, memory("VmHWM") - before)
    messages = sorted({str(warning.message).strip().partition("\n")[0] for warning in caught})
    return Measurement(
        seconds=seconds, processor=processor, hard_pass=hard_pass, peak=peak, outcome=outcome, warnings=messages
    )


def warm_up(work: Work, method: Method) -> None:
    """A run on the first few points and samples: imports and threads of a first call are not counted."""
    points, samples = work.points[..., :FEW_POINTS, :], work.samples[..., :FEW_SAMPLES, :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method.prepare(replace(work, points=points, samples=samples, steps=1))()


def least_processor(run: Callable[[], object]) -> float:
    """Least processor time of some runs: fifty of what takes milliseconds, one of what takes long."""
    took: list[float] = []
    while not took or (len(took) < PASSES and sum(took) < ENOUGH / 2):
        began = time.process_time()
        run()
        took.append(time.process_time() - began)
    return min(took)


def hard_pass_over(x: Tensor, y: Tensor) -> None:
    """The unit of work: one chunked computation of min_i |y_k - x_i|^2 with its index, a bare loop in float32.

    The index is what a solver needs, to know the cells; |y_k|^2, the same for all i, is left out. Batches of clouds are
    one product.
    """
    if x.ndim == 3:
        torch.baddbmm(x.square().sum(2)[:, None], y, x.transpose(1, 2), alpha=-2).min(2)
        return
    square = x.square().sum(1)
    rows = max(16, CHUNK_ELEMENTS // len(x))
    for start in range(0, len(y), rows):
        torch.addmm(square, y[start : start + rows], x.t(), alpha=-2).min(1)


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
