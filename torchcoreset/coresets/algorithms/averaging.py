"""Algorithm 2 on samples that are drawn afresh for each step, its points averaged: for sources that never end.

    x (n, d) points      y (m, d) samples of this step      T(x) centres of the cells of x

Points that are optimal for one set of samples are too good there and not good enough elsewhere: with m / n samples a
point they miss the optimum of the distribution by several n / m (6 % at 200 samples a point in the unit square). Steps
on fresh samples scatter around the optimum instead, and the average of the points of K such steps is as near to it as
if K times as many samples had been held (Polyak, Juditsky 1992).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor

from ...sources import Source
from ...transport import Transport, solve
from ...transport.ranks import Ranks, agree, solve_on, totals_of
from ..samples import WHY
from .cells import cell_centres
from .fixed_point import RELAXATION

# Measured in the unit square, n = 1024: 30 steps of 200 samples a point end at 1.023 times the lower limit, 18 at 1.037
# and the points of one set of samples at 1.069.
STEPS = 30
SETTLING = 4  # one of these steps is not averaged: the first ones still leave where one set of samples has led
ACCURACY = 1e-2  # relative gap of a transport: more would be lost in the scatter


class AveragedFixedPoint:
    """Steps on fresh samples, from points that are nearly right.

    Args:
        points: (n, d) start.
        weights: (n,) weights of the points.
        source: endless.
        count: samples of each step.
        p: power of the cost.
        steps: that will be made.
        generator: of the samples.
        engine: of each transport.
        potential: (n,) to start the first transport from; None starts cold.
        ranks: those that draw samples too, each `count` of its own; None for this process alone.

    Attributes:
        points: those of the next step.
        potential: that of the last transport.
    """

    def __init__(
        self,
        points: Tensor,
        weights: Tensor,
        source: Source,
        count: int,
        p: float,
        steps: int,
        generator: Generator,
        engine: str = "auto",
        potential: Tensor | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.points, self.potential = points, potential
        self.weights, self.source, self.count, self.p = weights, source, count, p
        self.generator, self.engine, self.ranks = generator, engine, ranks
        self._settling = steps // SETTLING
        self._moved = 0
        self._samples = points[:0]
        self._average = points.double()

    def evaluate(self) -> Transport:
        """Transport to fresh samples at the present points."""
        # A source that fails on one rank fails on all.
        drawn, _ = agree(
            self.ranks, "build_coreset", lambda: (self.source.draw(self.count, self.generator), ()), why=WHY
        )
        self._samples = drawn.to(self.points)
        run = partial(solve, tolerance=ACCURACY, exact=False, start=self.potential, max_steps=100)
        _, result = solve_on(
            self.ranks, "build_coreset", run, self.points, self._samples, self.p, self.weights,
            engine=self.engine, state=self.potential,
        )  # fmt: skip
        self.potential = result.potential
        return result

    def move(self, result: Transport) -> None:
        """Next points, and the average with them in it."""
        x = self.points.double()
        centres = cell_centres(self.points, self._samples, result.plan, self.p, totals_of(self.ranks)).double()
        x = torch.lerp(x, centres, RELAXATION)
        self.points = x.to(self.points.dtype)
        self._moved += 1
        self._average = self._average + (x - self._average) / max(1, self._moved - self._settling)

    def finish(self) -> Tensor:
        """The average of the points since they settled."""
        return self._average.to(self.points.dtype)
