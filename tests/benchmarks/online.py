"""Coresets and potentials of a stream, from small batches: excess over the optimum against batches and seconds.

    python -m tests.benchmarks.online            # some minutes
    python -m tests.benchmarks.online --quick    # some seconds
    python -m tests.benchmarks.online --cost     # what a step costs, half a minute

N(0, 1), 10 points, batches of 20, whose optimum is known. One table with two parts. Points: plain SGD with a rate of
n / 2 (p = 2) or n / 5 (p = 1) over sqrt(k), points averaged with weights k^2; ways differ in the potential at which a
batch is measured. Potential: the optimal points stand still, and the part of W_p^p that the semi-dual of the potential
misses is shown; here POT's own function is called, which solves for points that are fixed. Its rate is in the unit of
the cost, and taken from a small grid: what it needs is found by trying.

The cost of a step, value and gradient, is set against two hard passes over its batch and a solve with an n x n factor:
what any second-order step has to do. Renewals of the curvature are in the mean. One thread, float32, CPU time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.testing import NORMAL
from torchcoreset.transport.dual.hessian import LEAST_DEGREE, Factorised
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.problem import make_problem

SIZE, BATCH = 10, 20
RATES = {1: 0.2, 2: 0.5}  # of the points, times n / sqrt(k)
GRID = (0.01, 0.03, 0.1, 0.3)  # rates of averaged gradients, in units of their default sqrt(n batch)
SIZES = ((10, 20, 1), (100, 1000, 8), (500, 5000, 16))  # n, m, d of the steps whose cost is measured
YOUTH, PERIOD = 300, 64  # steps before any is timed, and steps that are timed at once: some renewals of the curvature
Point = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Row:
    """Medians over seeds: relative excess of W_p^p (or deficit of the semi-dual), and seconds of CPU time."""

    task: str
    p: int
    way: str
    batches: int
    excess: float
    seconds: float


def stream(seed: int) -> Iterator[Tensor]:
    """Endless batches of a normal distribution, (BATCH, 1), float64."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(BATCH, 1, generator=generator, dtype=torch.float64)


class AveragedGradient:
    """The potential by averaged stochastic gradients, v += rate sqrt(n batch) / k^(2/3) (b - q), along with the points.

    POT's `solve_semidiscrete` takes these steps with points that stand still; it cannot stop after a batch and go on.
    """

    def __init__(self, p: int, rate: float) -> None:
        self.p, self.rate, self.k = p, rate * (SIZE * BATCH) ** 0.5, 0
        self.v = self.average = torch.zeros(SIZE, dtype=torch.float64)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """The semi-dual of a batch at the averaged potential."""
        self.k += 1
        cost = (y - x.t()).abs() ** self.p
        value = (cost - self.average).amin(1).mean() + self.average.mean()
        mass = torch.bincount((cost.detach() - self.v).argmin(1), minlength=SIZE) / BATCH
        self.v = self.v + self.rate / self.k ** (2 / 3) * (1 / SIZE - mass)
        self.average = self.average + (self.v - self.average) / self.k
        return value


WAYS: dict[str, Callable[[int], Point]] = {
    "online": lambda p: tc.CoresetLoss(p=p, online=True),
    **{f"averaged gradient, rate {rate:g}": lambda p, rate=rate: AveragedGradient(p, rate) for rate in GRID},
    "each batch solved": lambda p: tc.CoresetLoss(p=p),
}


def points_excess(way: str, p: int, batches: int, seed: int) -> float:
    """Excess of W_p^p after so many steps of SGD, the points averaged."""
    x = torch.nn.Parameter(torch.randn(SIZE, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    loss, average = WAYS[way](p), x.detach().clone()
    for k, y in zip(range(1, batches + 1), stream(seed + 1000), strict=False):
        (gradient,) = torch.autograd.grad(loss(x, y), x)
        with torch.no_grad():
            x -= RATES[p] * SIZE * k**-0.5 * gradient
            average += (x - average) * min(1.0, 3 / (k + 2))
    return NORMAL.value(average, p) / NORMAL.optimal_value(SIZE, p) - 1


def potential_deficit(way: str, p: int, batches: int, seed: int) -> float:
    """The part of W_p^p that the semi-dual at the potential misses, after so many batches."""
    x, y = NORMAL.optimal_points(SIZE, p), stream(seed + 2000)
    if way == "online":
        loss = tc.CoresetLoss(p=p, online=True)
        for _ in range(batches):
            loss(x, next(y))
        v = loss.potential
    else:
        v = pot_potential(x, y, p, batches, float(way.rsplit(maxsplit=1)[-1]))
    judge = NORMAL.quantile_sample(200_000)
    edge = ((judge - x.t()).abs() ** p - v).amin(1).mean() + v.mean()
    return 1 - float(edge) / tc.transport(x, judge, p).value


def pot_potential(x: Tensor, y: Iterator[Tensor], p: int, batches: int, rate: float) -> Tensor:
    """POT's averaged gradients with a falling regularisation, on the same batches; its defaults but for the rate."""
    from ot.semidiscrete import solve_semidiscrete

    scale = NORMAL.optimal_value(SIZE, p)
    potential = solve_semidiscrete(
        x.numpy(), lambda count: next(y).numpy()[:count], metric="sqeuclidean" if p == 2 else "euclidean",
        max_iter=batches, batch_size=BATCH, lr0=rate * (SIZE * BATCH) ** 0.5, decreasing_reg_initial_eps=0.1 * scale,
    )  # fmt: skip
    return torch.from_numpy(np.asarray(potential))


TASKS: dict[str, tuple[Callable[[str, int, int, int], float], list[str]]] = {
    "points": (points_excess, list(WAYS)),
    "potential": (potential_deficit, ["online", *(f"POT, rate {rate:g}" for rate in GRID)]),
}


def measured(task: str, way: str, p: int, batches: int, seeds: int) -> Row:
    """Medians over seeds."""
    run, excesses, seconds = TASKS[task][0], [], []
    for seed in range(seeds):
        began = time.process_time()
        excesses.append(run(way, p, batches, seed))
        seconds.append(time.process_time() - began)
    return Row(
        task=task, p=p, way=way, batches=batches,
        excess=statistics.median(excesses), seconds=statistics.median(seconds),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Medians over rounds, milliseconds: of a step, of a hard pass over its batch, of a solve with an n x n factor."""

    n: int
    m: int
    d: int
    step: float
    hard: float
    solve: float

    @property
    def ratio(self) -> float:
        """Of a step to two passes and a solve."""
        return self.step / (2 * self.hard + self.solve)


def cost(n: int, m: int, d: int, rounds: int) -> Cost:
    """What a step costs with a batch of m samples, and what its parts do; points move as in a training."""
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.Parameter(torch.randn(n, d, generator=generator))
    batches = [torch.randn(m, d, generator=generator) for _ in range(16)]
    loss, steps = tc.CoresetLoss(online=True), 0

    def step() -> None:
        nonlocal steps
        steps += 1
        (gradient,) = torch.autograd.grad(loss(x, batches[steps % len(batches)]), x)
        with torch.no_grad():
            x.sub_(gradient, alpha=0.2 * n * steps**-0.5)

    for _ in range(YOUTH):
        step()
    problem, v, g = (
        make_problem(x, batches[0]),
        loss.potential,
        torch.randn(n, generator=generator, dtype=torch.float64),
    )
    factor = Factorised(loss.curvature, 1.0, LEAST_DEGREE * loss.curvature.diagonal())
    work = (step, lambda: make_engine(problem, "auto").hard(v), lambda: factor.solution(g))
    times = [[milliseconds(task) for task in work] for _ in range(rounds)]
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    return Cost(n=n, m=m, d=d, step=medians[0], hard=medians[1], solve=medians[2])


def milliseconds(task: Callable[[], object]) -> float:
    """CPU time of a call, the mean over PERIOD of them."""
    began = time.process_time()
    for _ in range(PERIOD):
        task()
    return 1e3 * (time.process_time() - began) / PERIOD


def costs(sizes: Iterable[tuple[int, int, int]], rounds: int) -> list[Cost]:
    """Print a line for each size."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    print(f"{'n':>4}{'m':>6}{'d':>4}{'step, ms':>12}{'hard pass':>12}{'solve':>9}{'step / (2 passes + solve)':>28}")
    found = []
    try:
        for size in sizes:
            found.append(one := cost(*size, rounds))
            parts = f"{one.step:>12.3f}{one.hard:>12.3f}{one.solve:>9.3f}{one.ratio:>28.2f}"
            print(f"{one.n:>4}{one.m:>6}{one.d:>4}{parts}", flush=True)
    finally:
        torch.set_num_threads(threads)
    return found


def line(row: Row) -> str:
    """A line of the table."""
    return f"{row.task:11}{row.p:>2}  {row.way:30}{row.batches:>9,}{100 * row.excess:>11.3f} %{row.seconds:>10.2f}"


def main(arguments: list[str] | None = None) -> list[Row] | list[Cost]:
    """Print a line for each way, as it ends, or for each size of a step."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.online", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few batches, one seed")
    parser.add_argument("--batches", type=int, nargs="+", help="other numbers of batches")
    parser.add_argument("--cost", action="store_true", help="what a step costs; with --quick the smallest alone")
    chosen = parser.parse_args(arguments)
    quick = chosen.quick
    if chosen.cost:
        return costs(SIZES[:1] if quick else SIZES, 1 if quick else 5)
    counts = chosen.batches or ([200] if quick else [2000, 20_000])
    print(f"N(0, 1), n = {SIZE}, batches of {BATCH}; medians of {1 if quick else 5} seeds, of CPU seconds too")
    print(f"{'task':11}{'p':>2}  {'potential':30}{'batches':>9}{'excess':>13}{'seconds':>10}", flush=True)
    rows = []
    for task, (_, ways) in TASKS.items():
        for p in (2, 1):
            for batches in counts:
                for way in ways:
                    rows.append(measured(task, way, p, batches, 1 if quick else 5))
                    print(line(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    main()
