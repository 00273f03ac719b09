"""`preflight`: memory and time of a build, before it runs.

    n points      m samples held      d dimension      s bytes of a number

Memory is the larger of two peaks, plus blocks of work and what grows with the points: a step on all samples, which are
held in m d s bytes, and once more if an offset is subtracted, with NUMBERS float64 a sample; and the start, on COPIES
of a part of the samples. Measured, and 0.8 of the estimate, in MiB, for (n, m, d), float32 without an offset
(tolerances as in tests/planning/test_preflight.py):

    (10, 500k, 2) 78, 87    (50, 200k, 2) 50, 43    (20, 30k, 100) 40, 36    (100, 100k, 16) 39, 34
    (150, 150k, 3) 42, 40    (250, 100k, 4) 54, 41    (500, 100k, 8) 61, 75    (1000, 100k, 8) 219, 185
    (50, 100k, 4) 24, 28 for p = 1    (10, 100k, 2) 25 or 35, by the tolerance, 26

With few samples a point it may be twice as much ((500, 20k, 2): 101 and 50). What the allocator keeps varies by some
10 MiB. Time is measured: one transport on a part of the samples, scaled up.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from ..coresets.samples import DEFAULT_SAMPLES, LINE_SAMPLES, SAMPLES_PER_POINT, most_of_file
from ..coresets.start import check_size, pool_size, repeat_to
from ..modes import solver_modes
from ..sources import Source, as_source, make_generator, permutation
from ..sources.tables import TensorSource
from ..tensors import check_count
from ..transport import check_power, make_problem, solve

MIB = 1 << 20
NUMBERS = 24  # float64 a sample beside its coordinates
COPIES = 5  # of the samples on which a start is found
BLOCKS = 14 * MIB  # of work on a part of the samples at a time
BOUNDARIES = 0.0011 * MIB  # costs of the samples near boundaries, times n^1.75 (measured)
PER_SAMPLE = 2400  # bytes of the same, at most
STEPS = 40  # of a typical build by fixed points, until it has converged
PROBE = 20_000  # samples, at most, of the transport that is timed
PROBE_PER_POINT = 20  # samples a point, if that is more


@dataclass(frozen=True, kw_only=True, repr=False)
class Preflight:
    """Expected memory and time of a build; `print` it.

    Attributes:
        memory: bytes at the peak, beyond what is in memory now. A build asks for 0.8 of them, right to a quarter; the C
            library keeps some of what it is given back, up to half as much more. With few samples a point it may take
            twice as much.
        seconds: time until convergence; a rough estimate, since the number of steps is not known before.
        samples: rows that will be held.
        dimension: their columns.
        advice: what to do if this is too much, in words.
    """

    memory: int
    seconds: float
    samples: int
    dimension: int
    advice: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [
            f"about {self.memory / MIB:.0f} MiB of memory and {_duration(self.seconds)}, holding {self.samples:,} "
            f"samples in {self.dimension} dimensions"
        ]
        return "\n".join([*lines, *self.advice])


def preflight(
    source: Any, size: int, p: float = 2, *, samples: int | None = None, seed: int | torch.Generator = 0
) -> Preflight:
    """Estimate memory and time of `build_coreset(source, size, p, samples=samples)`, with its default algorithm.

    Draws up to 20,000 samples (20 a point, if that is more) and solves one transport on them. A loader is read from its
    start; an iterator loses the rows that are drawn.

    Args:
        source: anything that `as_source` reads.
        size: number of points n.
        p: power of the distance.
        samples: as for `build_coreset`.
        seed: which samples and points to measure on.

    Raises:
        ValueError: invalid arguments or samples.

    Example:
        >>> import torch, torchcoreset as tc
        >>> found = tc.preflight(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 50)
        >>> found.samples, 20 < found.memory / 2**20 < 200
        (100000, True)
    """
    check_size(size)
    check_power(p)
    if samples is not None:
        check_count(samples, "samples")
    read, generator = as_source(source), make_generator(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="source: the .* ended after", category=UserWarning)
        wanted = max(PROBE, PROBE_PER_POINT * size)
        rows = read.draw(wanted if read.size is None else min(wanted, read.size), generator)
    held = _held(read, size, rows.shape[1], samples)
    # A table that is held whole is not copied to be held.
    kept = 0 if isinstance(read, TensorSource) and held == read.size else 1
    shifted = make_problem(rows[:1], rows, p).y.data_ptr() != rows.data_ptr()
    memory = estimate_memory(held, size, rows.shape[1], rows.element_size(), kept, int(shifted))
    seconds = _measured(rows, size, p, held, generator)
    return Preflight(
        memory=memory, seconds=seconds, samples=held, dimension=rows.shape[1], advice=_advice(held, size, seconds)
    )


def estimate_memory(samples: int, size: int, dimension: int, bytes_a_number: int, kept: int, shifted: int) -> int:
    """Bytes at the peak of a build, by the rule at the head of this file.

    `kept` and `shifted` (0 or 1) say of how many samples a copy is held, and how many are less an offset.
    """
    row = dimension * bytes_a_number
    step = samples * (row * shifted + NUMBERS * 8)
    start = COPIES * min(samples, pool_size(size)) * row
    boundaries = min(BOUNDARIES * size**1.75, PER_SAMPLE * samples)
    return int(samples * row * kept + max(step, start) + BLOCKS + boundaries)


def _held(source: Source, size: int, dimension: int, samples: int | None) -> int:
    """How many rows `build_coreset` holds."""
    if samples is None and source.on_disk:
        samples = most_of_file(size, dimension)
    if samples is not None:
        return samples if source.size is None else min(samples, source.size)
    if source.size is not None:
        return source.size
    return max(DEFAULT_SAMPLES, SAMPLES_PER_POINT * size, LINE_SAMPLES if source.endless and dimension == 1 else 0)


def _measured(rows: torch.Tensor, size: int, p: float, held: int, generator: torch.Generator) -> float:
    """Seconds of a build: a transport from scratch, and then one a step from the potential of the step before."""
    points = repeat_to(rows[permutation(len(rows), generator)[:size].to(rows.device)], size, generator).clone()
    with solver_modes():
        problem = make_problem(points, rows, p)
        began = time.perf_counter()
        found = solve(problem, tolerance=1e-2, exact=False, start=None, max_steps=100)
        cold = time.perf_counter() - began
        noise = torch.randn(points.shape, generator=generator, device=generator.device)
        points += 0.01 * rows.std(0, correction=0) * noise.to(points)
        problem = make_problem(points, rows, p)
        began = time.perf_counter()
        solve(problem, tolerance=1e-3, exact=False, start=found.potential, max_steps=100)
        warm = time.perf_counter() - began
    return (cold + STEPS * warm) * max(1.0, held / len(rows))


def _advice(held: int, size: int, seconds: float) -> tuple[str, ...]:
    advice = []
    if held < 20 * size:
        advice.append(
            f"{held / size:.1f} samples a point are few: the points will fit them rather than what is behind them."
        )
    if seconds > 60 and held > SAMPLES_PER_POINT * size:
        enough = SAMPLES_PER_POINT * size
        less = _duration(seconds * enough / held)
        advice.append(f"samples={enough} would be enough for {size} points, and take {less}.")
    return tuple(advice)


def _duration(seconds: float) -> str:
    if math.isinf(seconds) or seconds >= 7200:
        return f"{seconds / 3600:.0f} hours"
    return f"{seconds:.1f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
