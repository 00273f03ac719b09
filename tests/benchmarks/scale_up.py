"""How far one machine goes: 10^6, 10^7 and 10^8 samples of a generator, each seen once, none of them kept.

    python -m tests.benchmarks.scale_up [--largest]

prints samples per second and the peak of memory above that before the run, which should not grow with m, for a plain
loop over `CoresetLoss` and for `build_coreset(algorithm="sgd")`. `--largest` adds 10^8.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

import torchcoreset as tc

from .machine import facts
from .measure import STATUS, memory, reset_peak

POINTS, DIMENSION, BATCH = 100, 8, 10_000
SIZES = (10**6, 10**7, 10**8)
JUDGES = 100_000


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What one run took.

    Attributes:
        way: name of the entry point.
        samples: m, all of them drawn and used once.
        seconds: drawing included.
        drawing: seconds that drawing alone takes, estimated on a tenth of them.
        peak: bytes above the memory before the run; None where the system does not tell.
        value: W_2^2 of the points to fresh samples.
    """

    way: str
    samples: int
    seconds: float
    drawing: float
    peak: int | None
    value: float


def mixture(rows: int, generator: torch.Generator) -> Tensor:
    """Samples of eight Gaussians in 8 dimensions, (rows, 8)."""
    centre = torch.randint(8, (rows, 1), generator=generator)
    return 2 * torch.nn.functional.one_hot(centre[:, 0], DIMENSION) + torch.randn(rows, DIMENSION, generator=generator)


def stream(samples: int, seed: int = 0) -> Iterator[Tensor]:
    """A generator that ends after so many samples."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(samples // BATCH):
        yield mixture(BATCH, generator)


def plain_loop(samples: int) -> Tensor:
    """Descent over the stream, one step a batch: rates that fall like 1 / sqrt(k), points averaged from the middle."""
    batches = stream(samples)
    points = torch.nn.Parameter(next(batches)[:POINTS].clone())
    loss = tc.CoresetLoss(p=2, online=True)
    average, steps = points.detach().clone(), samples // BATCH
    for step, batch in enumerate(batches, start=1):
        points.grad = None
        loss(points, batch).backward()
        with torch.no_grad():
            points -= POINTS / 2 / step**0.5 * points.grad
            average += (points - average) / max(1, step - steps // 2)
    return average


def sgd_build(samples: int) -> Tensor:
    """Algorithm 1 over the same stream; the rows for its start and its final measurement are drawn beside it."""
    source = tc.as_source(lambda rows: mixture(rows, torch.default_generator))
    steps = samples // BATCH
    result = tc.build_coreset(
        source, POINTS, algorithm="sgd", steps=steps, batch_size=BATCH, samples=BATCH, tolerance=0.1, progress=False
    )
    return result.coreset.points.detach()


WAYS: dict[str, Callable[[int], Tensor]] = {"loop over CoresetLoss": plain_loop, "build_coreset sgd": sgd_build}


def measure_scale(way: str, samples: int) -> Scale:
    """One run, and how good its points are."""
    judge = mixture(JUDGES, torch.Generator().manual_seed(1))
    part = max(1, samples // 10 // BATCH) * BATCH
    began = time.perf_counter()
    for _ in stream(part):
        pass
    drawing = (time.perf_counter() - began) * samples / part
    before = reset_peak()
    began = time.perf_counter()
    points = WAYS[way](samples)
    seconds = time.perf_counter() - began
    peak = None if before is None else max(0, memory("VmHWM", STATUS) - before)
    value = tc.transport(points, judge).value
    return Scale(way=way, samples=samples, seconds=seconds, drawing=drawing, peak=peak, value=value)


def line(scale: Scale) -> str:
    """A line of the table."""
    peak = "unknown" if scale.peak is None else f"{scale.peak / 2**20:.0f} MiB"
    return (
        f"{scale.way:22}{scale.samples:>12,}{scale.seconds:>10.1f}{scale.drawing:>10.1f}"
        f"{scale.samples / scale.seconds:>14,.0f}{peak:>12}{scale.value:>10.4f}"
    )


def main(arguments: list[str] | None = None) -> list[Scale]:
    """Print a line for each run, as it ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scale_up", description=__doc__.splitlines()[0])
    parser.add_argument("--largest", action="store_true", help="10^8 samples too")
    parser.add_argument("--samples", type=int, nargs="+", help=f"other numbers of samples, multiples of {BATCH:,}")
    parser.add_argument("--only", choices=WAYS, help="one entry point")
    options = parser.parse_args(arguments)
    sizes = options.samples or (SIZES if options.largest else SIZES[:2])
    print(f"{POINTS} points, d = {DIMENSION}, batches of {BATCH:,}\n{facts()}")
    print(f"{'':22}{'samples':>12}{'seconds':>10}{'drawing':>10}{'samples/s':>14}{'peak':>12}{'W2^2':>10}", flush=True)
    measured = []
    measure_scale("loop over CoresetLoss", 10 * BATCH)  # first use allocates what later runs use again
    for run in [partial(measure_scale, way, m) for way in WAYS if options.only in (None, way) for m in sizes]:
        measured.append(run())
        print(line(measured[-1]), flush=True)
    return measured


if __name__ == "__main__":
    main()
