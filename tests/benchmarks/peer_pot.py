"""POT: the network simplex (also warm, lazy and in losses), averaged stochastic gradients, free-support barycenter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import torchcoreset as tc

from .loops import each_pair, training
from .method import Method, Outcome, need_costs, need_squares
from .problems import TRIMMED, Unavailable, Work, moved

Floats = NDArray[np.float64]
METRICS = {1: "euclidean", 2: "sqeuclidean"}  # by power, of lazy costs
PIVOTS = 10**8  # of the network simplex: its default, 10^5, ends before the optimum from some thousand samples on
MOST_ELEMENTS = 100_000_000  # costs in float64: 800 MB
MOST_LAZY = 2_000_000  # costs that are computed as they are needed, beyond which it takes minutes
MOST_IN_A_BARYCENTER = 1_000_000  # costs, beyond which its hundred transports take minutes


def emd2(work: Work) -> Callable[[], Outcome]:
    """Network simplex on the full cost matrix, whose computation is counted: everyone starts from coordinates."""
    return _simplex(work, None)


def emd2_warm(work: Work) -> Callable[[], Outcome]:
    """From the potentials of the points before they moved a little, both of them, as its documentation has it.

    They are optimal whoever found them; ours are found sooner, and finding them is not counted.
    """
    import ot

    if "potentials_init" not in signature(ot.emd2).parameters:
        raise Unavailable("this POT has no potentials_init")
    need_costs(work, MOST_ELEMENTS)
    x, y = moved(work.points).double(), work.samples.double()
    u = tc.transport(x, y, work.p, exact=True).potential
    v = (torch.cdist(x, y).pow(work.p) - u[:, None]).amin(0)
    return _simplex(work, (u.numpy(), v.numpy()))


def emd2_lazy(work: Work) -> Callable[[], Outcome]:
    """The same simplex without the matrix, in memory n + m."""
    from ot.lp import emd2_lazy

    need_costs(work, MOST_LAZY)
    if work.p not in METRICS:
        raise Unavailable("for p = 1 and 2 only")
    x, y = work.points.double().cpu().numpy(), work.samples.double().cpu().numpy()

    def run() -> Outcome:
        value, log = emd2_lazy(x, y, metric=METRICS[work.p], numItermax=PIVOTS, log=True, return_matrix=False)
        return _solved(float(value), log)

    return run


def _simplex(work: Work, start: tuple[Floats, Floats] | None) -> Callable[[], Outcome]:
    import ot

    need_costs(work, MOST_ELEMENTS)
    x, y = work.points.double().cpu().numpy(), work.samples.double().cpu().numpy()
    b, a = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    options = {} if start is None else {"potentials_init": start}

    def run() -> Outcome:
        cost = ot.dist(x, y) if work.p == 2 else ot.dist(x, y, "euclidean") ** work.p
        value, log = ot.emd2(b, a, cost, numItermax=PIVOTS, log=True, **options)
        return _solved(float(value), log)

    return run


def _solved(value: float, log: dict[str, Any]) -> Outcome:
    """What the simplex returns, with the relative difference of its primal and dual costs."""
    gap = (value - float(log["u"].mean() + log["v"].mean())) / value
    return Outcome(
        potential=torch.from_numpy(log["u"]), value=value, note=log["warning"] or "", own=lambda: f"gap {gap:.0e}"
    )


def emd2_loss(x: Tensor, y: Tensor, p: float) -> Tensor:
    """The same on tensors, differentiable in the points through the costs."""
    import ot

    cost = ot.dist(x, y) if p == 2 else ot.dist(x, y, "euclidean") ** p
    value: Tensor = ot.emd2(ot.unif(len(x), type_as=x), ot.unif(len(y), type_as=y), cost, numItermax=PIVOTS)
    return value


def _training_loss(work: Work) -> Callable[[Tensor], Tensor]:
    import ot  # noqa: F401 -- a missing peer is told before the loop begins

    need_costs(work, MOST_ELEMENTS)
    return lambda x: emd2_loss(x, work.samples, work.p)


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
    "tiny transport": Descent(rate=10.0, batch=32, steps=500),
    "n=100 m=10k d=2": Descent(rate=10.0, batch=32, steps=4096),
    "n=50 m=50k d=2": Descent(rate=10.0, batch=32, steps=4096),
    "n=100 m=100k d=16": Descent(rate=0.3, batch=256, steps=1024),
    "n=500 m=20k d=16": Descent(rate=0.3, batch=256, steps=1024),
    "20 clusters, n=100 m=20k d=16": Descent(rate=10.0, batch=256, steps=16384),
    "20 clusters, n=100 m=50k d=16": Descent(rate=10.0, batch=256, steps=16384),
    "Cauchy, n=100 m=20k d=2": Descent(rate=10.0, batch=32, steps=32768),
}
DEFAULT_DESCENT = Descent(rate=0.3, batch=256, steps=1024)
SMOOTHING = 0.1  # first eta of its decreasing regularisation, its default for costs of order 1


def semidiscrete(work: Work) -> Callable[[], Outcome]:
    """With the settings tuned for this work, or else for the largest."""
    return with_settings(work, DESCENT.get(work.name, DEFAULT_DESCENT))


def with_settings(work: Work, settings: Descent) -> Callable[[], Outcome]:
    """Averaged stochastic gradients on samples drawn with replacement; hard minimum in the end (reg = 0)."""
    from ot.semidiscrete import solve_semidiscrete

    need_squares(work)
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

    need_squares(work)
    need_costs(work, MOST_IN_A_BARYCENTER)
    x, y = work.points.double().numpy(), work.samples.double().numpy()
    a = np.full(len(y), 1 / len(y))

    def run() -> Outcome:
        points, log = ot.lp.free_support_barycenter([y], [a], x, log=True)
        return Outcome(points=torch.from_numpy(points), note=f"{len(log['displacement_square_norms'])} steps")

    return run


def partial(work: Work) -> Callable[[], Outcome]:
    """Exact partial transport by the network simplex, on the full cost matrix, whose computation is counted."""
    import ot

    need_squares(work)
    need_costs(work, MOST_ELEMENTS)
    x, y = work.points.double().numpy(), work.samples.double().numpy()
    matched = 1 - TRIMMED
    b, a = np.full(len(x), matched / len(x)), np.full(len(y), 1 / len(y))

    def run() -> Outcome:
        cost = ot.dist(x, y)
        plan = ot.partial.partial_wasserstein(b, a, cost, m=float(b.sum()), numItermax=PIVOTS)
        return Outcome(value=float((plan * cost).sum()) / matched)

    return run


METHODS = [
    Method(name="POT partial_wasserstein", task="partial transport", prepare=partial, rival="ours"),
    Method(name="POT emd2", task="transport", prepare=emd2, rival="ours, exact"),
    Method(name="POT emd2, warm", task="transport", prepare=emd2_warm, rival="ours, warm, gap 1e-3"),
    Method(name="POT emd2_lazy", task="transport", prepare=emd2_lazy, rival="ours, exact"),
    Method(name="POT solve_semidiscrete", task="transport", prepare=semidiscrete, rival="ours, gap 1e-4"),
    Method(name="POT emd2", task="loss", prepare=training(_training_loss), rival="ours, CoresetLoss"),
    Method(name="POT emd2, a loop", task="clouds", prepare=each_pair(emd2_loss), rival="ours, one call"),
    Method(name="POT free_support_barycenter", task="coreset", prepare=barycenter, rival="ours"),
]
