"""POT: the network simplex (exact), averaged stochastic gradients (semi-discrete), the free-support barycenter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from .method import Method, Outcome
from .problems import Work


def emd2(work: Work) -> Callable[[], Outcome]:
    """Network simplex on the full cost matrix, whose computation is counted: everyone starts from coordinates."""
    import ot

    x, y = work.points.double().numpy(), work.samples.double().numpy()
    b, a = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))

    def run() -> Outcome:
        value, log = ot.emd2(b, a, ot.dist(x, y), numItermax=10**8, log=True)
        return Outcome(potential=torch.from_numpy(log["u"]), value=float(value), note=log["warning"] or "")

    return run


@dataclass(frozen=True)
class Descent:
    """Settings of `solve_semidiscrete` that are not its defaults.

    Attributes:
        rate: first step length, over its default sqrt(n batch) times the mean squared distance to the nearest
            point. Its default assumes costs of order 1.
        batch: samples a step.
        steps: number of steps.
    """

    rate: float
    batch: int
    steps: int


# The cheapest of the grid in `python -m tests.benchmarks.tune` that reach a gap of 1e-4, or the smallest gap seen.
DESCENT = {
    "n=50 m=1k d=2": Descent(rate=10.0, batch=32, steps=500),
    "n=100 m=10k d=2": Descent(rate=10.0, batch=32, steps=4096),
    "n=50 m=50k d=2": Descent(rate=10.0, batch=32, steps=4096),
    "n=100 m=100k d=16": Descent(rate=0.3, batch=256, steps=1024),
    "n=500 m=20k d=16": Descent(rate=0.3, batch=256, steps=1024),
}
DEFAULT_DESCENT = Descent(rate=0.3, batch=256, steps=1024)
SMOOTHING = 0.1  # first eta of its decreasing regularisation, its default for costs of order 1


def semidiscrete(work: Work) -> Callable[[], Outcome]:
    """With the settings tuned for this work."""
    return with_settings(work, DESCENT.get(work.name, DEFAULT_DESCENT))


def with_settings(work: Work, settings: Descent) -> Callable[[], Outcome]:
    """Averaged stochastic gradients on samples drawn with replacement; hard minimum in the end (reg = 0)."""
    from ot.semidiscrete import solve_semidiscrete

    x, y = work.points.numpy(), work.samples.numpy()
    scale = nearest_cost(work)

    def run() -> Outcome:
        draw = np.random.default_rng(work.seed)
        potential = solve_semidiscrete(
            x,
            lambda count: y[draw.integers(len(y), size=count)],
            max_iter=settings.steps,
            batch_size=settings.batch,
            lr0=settings.rate * scale * (len(x) * settings.batch) ** 0.5,
            decreasing_reg_initial_eps=SMOOTHING * scale,
        )
        return Outcome(potential=torch.from_numpy(np.asarray(potential)), note=str(settings))

    return run


def nearest_cost(work: Work) -> float:
    """Mean squared distance from a thousand samples to the nearest point: the scale of potentials."""
    return float(torch.cdist(work.samples[:1000], work.points).amin(1).square().mean())


def barycenter(work: Work) -> Callable[[], Outcome]:
    """Fixed point on the network simplex; default settings: 100 steps, or none moves the points by 1e-7."""
    import ot

    x, y = work.points.double().numpy(), work.samples.double().numpy()
    a = np.full(len(y), 1 / len(y))

    def run() -> Outcome:
        points, log = ot.lp.free_support_barycenter([y], [a], x, log=True)
        return Outcome(points=torch.from_numpy(points), note=f"{len(log['displacement_square_norms'])} steps")

    return run


METHODS = [
    Method(name="POT emd2", task="transport", prepare=emd2, rival="ours, exact"),
    Method(name="POT solve_semidiscrete", task="transport", prepare=semidiscrete, rival="ours, gap 1e-4"),
    Method(name="POT free_support_barycenter", task="coreset", prepare=barycenter, rival="ours"),
]
