"""torchcoreset, with default settings but for the accuracy asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import torchcoreset as tc

from .method import Method, Outcome
from .problems import Work

MOVE = 0.01  # of the spacing of the points


def cold(tolerance: float) -> Callable[[Work], Callable[[], Outcome]]:
    """The solver without a start, to a certified gap."""

    def prepare(work: Work) -> Callable[[], Outcome]:
        return lambda: _told(tc.transport(work.points, work.samples, tolerance=tolerance))

    return prepare


def exact(work: Work) -> Callable[[], Outcome]:
    """To a gap of 1e-9, in float64."""
    x, y = work.points.double(), work.samples.double()
    return lambda: _told(tc.transport(x, y, exact=True))


def warm(work: Work) -> Callable[[], Outcome]:
    """From the potential of points that have since moved by 1 % of their spacing, each in a random direction."""
    x, y = work.points, work.samples
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    before = x + MOVE * spacing(x) * direction / direction.norm(dim=1, keepdim=True)
    start = tc.transport(before, y).potential
    return lambda: _told(tc.transport(x, y, start=start))


def spacing(x: Tensor) -> float:
    """Median distance from a point to the nearest other."""
    distance = torch.cdist(x, x)
    distance.fill_diagonal_(torch.inf)
    return float(distance.amin(1).median())


def loss_and_gradient(work: Work) -> Callable[[], Outcome]:
    """One differentiable loss and its gradient in the points, as in a training loop."""

    def run() -> Outcome:
        x = work.points.clone().requires_grad_()
        loss = tc.CoresetLoss()
        loss(x, work.samples).backward()
        assert x.grad is not None
        assert loss.last is not None
        if not bool(torch.isfinite(x.grad).all()):
            raise ArithmeticError("the gradient is not finite")
        return _told(loss.last)

    return run


def coreset(work: Work) -> Callable[[], Outcome]:
    """As a user calls it: the start is its own."""
    n = len(work.points)
    return lambda: _built(tc.build_coreset(work.samples, n, seed=work.seed, progress=False))


def coreset_from_start(work: Work) -> Callable[[], Outcome]:
    """From the start that the peers are given."""
    n = len(work.points)
    return lambda: _built(tc.build_coreset(work.samples, n, init=work.points, seed=work.seed, progress=False))


def _told(result: tc.Transport) -> Outcome:
    note = f"{result.steps} passes of its own, certified gap {result.gap:.0e}"
    return Outcome(potential=result.potential, value=result.value, note=note)


def _built(result: tc.BuildResult) -> Outcome:
    note = f"{len(result.history)} steps, {result.status.value}"
    return Outcome(points=result.coreset.points.detach(), note=note)


METHODS = [
    Method(name="ours, gap 1e-3", task="transport", prepare=cold(1e-3)),
    Method(name="ours, gap 1e-4", task="transport", prepare=cold(1e-4)),
    Method(name="ours, exact", task="transport", prepare=exact),
    Method(name="ours, warm, gap 1e-3", task="transport", prepare=warm, rival="ours, gap 1e-3"),
    Method(name="ours, loss and gradient", task="loss", prepare=loss_and_gradient),
    Method(name="ours", task="coreset", prepare=coreset),
    Method(name="ours, same start", task="coreset", prepare=coreset_from_start, rival="ours"),
]
