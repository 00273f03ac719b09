"""The steps and the result of a build."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from ..html import card, draw_points, draw_steps
from ..losses import Discrepancy, SinkhornResult
from ..names import Divergence
from ..sources import in_words
from ..tensors import described
from ..transport import Status, Transport, as_cost

if TYPE_CHECKING:  # the loop of the algorithms writes steps, and a coreset may begin with one of them
    from .coreset import Coreset


@dataclass(frozen=True)
class Step:
    """One step of a run.

    Attributes:
        step: counted from 0, the start.
        value: W_p^p of the points before the step, on the samples that the step used; for "sgd" the semi-dual of these
            at the running potential, a noisy estimate of a lower bound of W_p^p to the source. With another
            `divergence` its value, which is larger than the previous one where a step was rejected.
        lower: its lower bound; for "sgd" the same number; NaN with another divergence, of which none is known.
        gap: (value - lower) / value; NaN for "sgd", whose batches are not solved, and with another divergence.
        samples: number of samples that the step used.
        seconds: time since the run began, at the end of the step.
        points: (n, d) what the run would return if it stopped after this step, a copy, where a callback gets the step;
            None in a history, which would otherwise keep every set of points.
    """

    step: int
    value: float
    lower: float
    gap: float
    samples: int
    seconds: float
    points: Tensor | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class BuildResult:
    """A coreset and how it came about.

    Attributes:
        coreset: the points.
        transport: `Transport` of the points on all samples in use: the distance, its lower bound and the plan.
        history: one `Step` for each step; of a resumed run for those since, and the last few before.
        status: CONVERGED if the value had stopped falling, MAX_STEPS if the steps ran out.
        p: power of the cost, for the transport too; 2 for "mmd", which has none.
        row_numbers: (m,) int64, which row of the table each sample of `transport` is, as `transport.assignment` counts
            them; rows keep their numbers through `hold_out`. None where rows have none: those of distributions,
            loaders and iterators.
        trim: share of the mass of the samples that the distance leaves out.
        bias: root mean square distance of the points from the means of the samples that they receive, as
            `transport.plan.bias` gives it, for p = 2; the smaller it is, the sharper is the bound of `merge`. None for
            other p, and for samples of several ranks.
        rows: (n,) int64, which row of the source each point is, all different, counted as `row_numbers` are; None
            unless rows were asked for (`build_coreset(rows=True)`).
        divergence: what was minimised: "wasserstein", "energy", "mmd" or "sinkhorn".
        discrepancy: of the coreset to the samples by that divergence, a `Discrepancy` or a `SinkhornResult`; None for
            "wasserstein", whose is `transport`.
    """

    coreset: Coreset
    transport: Transport
    history: list[Step]
    status: Status
    p: float
    row_numbers: Tensor | None = None
    trim: float = 0.0
    bias: float | None = None
    rows: Tensor | None = None
    divergence: Divergence = "wasserstein"
    discrepancy: Discrepancy | SinkhornResult | None = None

    @property
    def points(self) -> Tensor:
        """(n, d) the points, detached; `coreset.points` is the parameter that they belong to."""
        return self.coreset.points.detach()

    @property
    def distance(self) -> float:
        """W_p between the coreset and the samples, rooted, in the unit of the data, or of `scale` or `cost`."""
        return as_cost(self.p).root(self.transport.value)

    def __repr__(self) -> str:
        gap, steps = f"gap={self.transport.gap:.1e}", f"steps={len(self.history)}"
        distance = f"W_{self.p:g}={self.distance:.6g}{self._unit()}"
        if self.discrepancy is not None:
            distance = f"{self.divergence}={self.discrepancy.value:.6g}, {distance}"
        return described(self, f"{self.coreset.size} points, {distance}", gap, steps, status="")

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, the points, and how the value fell."""
        least = as_cost(self.p).root(max(self.transport.lower, 0.0))
        numbers = {
            **self.coreset._numbers(),
            f"W_{self.p:g}": f"{self.distance:.6g}{self._unit()}, at least {least:.6g}",
            "steps": f"{len(self.history)}, {self.status.value}",
        }
        if self.discrepancy is not None:
            numbers[self.divergence] = f"{self.discrepancy.value:.6g}"
        values = [step.value for step in self.history]
        points = draw_points(self.coreset.points, self.coreset.weights)
        return card("BuildResult", numbers, points, draw_steps(values, "value"))

    def _unit(self) -> str:
        """The unit of the distance in words, as an end of its number."""
        return in_words(self.coreset.scaling) if self.coreset.cost is None else f" {self.coreset.cost.unit}"
