"""Algorithm 2 with fresh samples in each step and averaged points, for endless sources.

    x (n, d) points      y (m, d) samples of this step      T(x) centres of the cells of x

Points that are optimal for one set of samples fit its noise: with m / n samples a point they miss the optimum of the
distribution by several n / m (6 % at 200 samples a point in the unit square). The average of the points of K steps on
fresh samples is as good as if K times as many samples had been loaded (Polyak, Juditsky 1992).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Generator, Tensor

from ...sources import Source
from ...transport import Transport
from ...transport.ranks import agree
from ..samples import WHY
from .fixed_point import RELAXATION
from .objective import Objective

# Steps of a run. Measured in the unit square, n = 1024: 30 of 200 samples a point end at 1.023 times the lower limit,
# 18 at 1.037, and the points of one set of samples at 1.069.
STEPS = 30
SETTLING = 4  # the first steps / SETTLING are not averaged: they still leave where one set of samples has led
ACCURACY = 1e-2  # relative gap of a transport: what is gained beyond it is lost in the scatter of the samples


@dataclass(frozen=True)
class State:
    """Between two steps."""

    points: Tensor  # (n, d) those of the next step
    average: Tensor  # (n, d) float64, of the points since they settled
    potential: Tensor | None = None  # (n,) from which the next transport starts; None starts cold
    steps: int = 0  # done

    @property
    def result(self) -> Tensor:
        """The average, in the dtype of the points."""
        return self.average.to(self.points.dtype)

    def record(self) -> dict[str, Any]:
        """The whole state, for a run that is resumed later."""
        return dict(vars(self))

    def resumed(self, record: Mapping[str, Any]) -> State:
        """The state of a record."""
        return State(**record)


def init(points: Tensor, potential: Tensor | None = None) -> State:
    """Before the first step: points (n, d) that are nearly right, and the potential (n,) of their last transport."""
    return State(points, points.double(), potential)


def step(
    state: State, objective: Objective, source: Source, count: int, generator: Generator, settling: int
) -> tuple[State, Transport]:
    """One transport to `count` fresh samples on each rank, and the points past the centres of its cells.

    The first `settling` steps are not averaged. `source` is endless; on several ranks each draws from its own.
    """
    # A source that fails on one rank fails on all.
    drawn, _ = agree(objective.ranks, "build_coreset", lambda: (source.draw(count, generator), ()), why=WHY)
    samples = drawn.to(state.points)
    on = objective.on(samples)
    found = on.transport(state.points, tolerance=ACCURACY, start=state.potential)
    centres = on.centres(state.points, found)
    x = objective.past_centres(state.points, centres, found, RELAXATION)
    steps = state.steps + 1
    average = state.average + (x - state.average) / max(1, steps - settling)
    return State(x.to(state.points.dtype), average, found.potential, steps), found
