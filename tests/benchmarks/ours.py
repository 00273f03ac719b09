"""torchcoreset, with default settings but for the accuracy asked for."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

import torchcoreset as tc

from .loops import each_pair, training
from .method import Method, Outcome
from .problems import CORESETS, TRIMMED, Work, moved


def cold(tolerance: float) -> Callable[[Work], Callable[[], Outcome]]:
    """The solver without a start, to a certified gap."""

    def prepare(work: Work) -> Callable[[], Outcome]:
        return lambda: _told(tc.transport(work.points, work.samples, work.p, tolerance=tolerance))

    return prepare


def exact(work: Work) -> Callable[[], Outcome]:
    """To a gap of 1e-9, in float64."""
    x, y = work.points.double(), work.samples.double()
    return lambda: _told(tc.transport(x, y, work.p, exact=True))


def warm(work: Work) -> Callable[[], Outcome]:
    """From the potential of the points before they moved a little."""
    x, y = work.points, work.samples
    start = tc.transport(moved(x), y, work.p).potential
    return lambda: _told(tc.transport(x, y, work.p, start=start))


def _coreset_loss(work: Work) -> Callable[[Tensor], Tensor]:
    loss = tc.CoresetLoss(work.p)
    return lambda x: loss(x, work.samples)


def _wasserstein(work: Work) -> Callable[[Tensor], Tensor]:
    return lambda x: tc.wasserstein(x, work.samples, work.p)


def one_call(work: Work) -> Callable[[], Outcome]:
    """Values of all pairs of clouds in one call, and the gradients of their mean."""

    def run() -> Outcome:
        x = work.points.clone().requires_grad_()
        value = tc.wasserstein(x, work.samples, work.p).mean()
        value.backward()
        return Outcome(value=float(value.detach()))

    return run


def coreset(restarts: int | None) -> Callable[[Work], Callable[[], Outcome]]:
    """As a user calls it: the starts are its own, one or, if None, as many as it likes; weights follow the task."""

    def prepare(work: Work) -> Callable[[], Outcome]:
        n, weights = len(work.points), CORESETS[work.task]
        return lambda: _built(
            tc.build_coreset(
                work.samples, n, work.p, weights=weights, restarts=restarts, seed=work.seed, progress=False
            )
        )

    return prepare


def coreset_from_start(work: Work) -> Callable[[], Outcome]:
    """From the start that the peers are given."""
    n = len(work.points)
    return lambda: _built(tc.build_coreset(work.samples, n, work.p, init=work.points, seed=work.seed, progress=False))


def partial(work: Work) -> Callable[[], Outcome]:
    """Without the farthest samples, to a gap of 1e-9, in float64."""
    x, y = work.points.double(), work.samples.double()
    return lambda: Outcome(value=tc.transport(x, y, work.p, trim=TRIMMED, exact=True).value)


def _told(result: tc.Transport) -> Outcome:
    note = f"{result.steps} passes of its own"
    return Outcome(potential=result.potential, value=result.value, note=note, own=lambda: f"gap {result.gap:.0e}")


def _built(result: tc.BuildResult) -> Outcome:
    note = f"{len(result.history)} steps, {result.status.value}"
    return Outcome(points=result.coreset.points.detach(), note=note)


METHODS = [
    Method(name="ours, gap 1e-3", task="transport", prepare=cold(1e-3)),
    Method(name="ours, gap 1e-4", task="transport", prepare=cold(1e-4)),
    Method(name="ours, exact", task="transport", prepare=exact),
    Method(name="ours, warm, gap 1e-3", task="transport", prepare=warm, rival="ours, gap 1e-3"),
    Method(name="ours, CoresetLoss", task="loss", prepare=training(_coreset_loss)),
    Method(name="ours, wasserstein", task="loss", prepare=training(_wasserstein), rival="ours, CoresetLoss"),
    Method(name="ours, one call", task="clouds", prepare=one_call),
    Method(name="ours, a loop", task="clouds", prepare=each_pair(tc.wasserstein), rival="ours, one call"),
    Method(name="ours", task="coreset", prepare=coreset(None)),
    Method(name="ours, one start", task="coreset", prepare=coreset(1), rival="ours"),
    Method(name="ours", task="free coreset", prepare=coreset(None)),
    Method(name="ours, one start", task="free coreset", prepare=coreset(1), rival="ours"),
    Method(name="ours, one start", task="bounded coreset", prepare=coreset(1)),
    Method(name="ours", task="partial transport", prepare=partial),
    Method(name="ours, same start", task="coreset", prepare=coreset_from_start, rival="ours"),
]
