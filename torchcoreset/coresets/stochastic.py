"""Algorithm 1: fresh samples, their transport, one step against the gradient, repeat.

    x (n, d) points, b (n,) weights      g_i gradient of W_p^p in x_i      k step      W = value^(1/p)

The step is x_i <- x_i - rate / sqrt(k) * g_i / (b_i p W^(p-2)), with W from the first batch: for p = 1 the mean unit
vector away from the cell, times a length of the size of a cell; for p = 2 a part of the way to the mean of the cell.
The paper prints the opposite direction for p = 1, which ascends, and a full step for p = 2, which keeps the noise of
one batch. Steps that shrink like 1/sqrt(k) and the average of the second half (Polyak and Juditsky 1992) remove it.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ..losses.envelope import position_gradients
from ..sources import Source
from ..transport.problem import make_problem
from ..transport.result import Transport
from ..transport.solve import solve


class StochasticDescent:
    """Steps on batches from a source. Each batch's dual is solved, so batches must be large: see `CoresetLoss`.

    Args:
        points: (n, d) start.
        weights: (n,) weights of the points.
        source: where batches come from.
        batch_size: samples a step.
        p: power of the cost.
        tolerance: relative gap of each transport.
        rate: length of the first step, relative to the size of a cell.
        average_from: step from which iterates are averaged.
        generator: of the draws.
        engine: of each transport.

    Attributes:
        batch: the samples of the last step.
        largest_batch: those of the last step that was not short of samples.
    """

    def __init__(
        self,
        points: Tensor,
        weights: Tensor,
        source: Source,
        batch_size: int,
        p: float,
        tolerance: float,
        rate: float,
        average_from: int,
        generator: Generator,
        engine: str = "auto",
    ) -> None:
        self.points, self.weights = points, weights
        self.source, self.batch_size, self.generator = source, batch_size, generator
        self.engine = engine
        self.p, self.tolerance, self.rate, self.average_from = p, tolerance, rate, average_from
        self.potential: Tensor | None = None
        self.average = points.to(torch.float64, copy=True)
        self._scale: float | None = None
        self._steps = 0
        self.batch = self.largest_batch = points

    def evaluate(self) -> Transport:
        """Transport of the present points on a fresh batch."""
        batch = self.source.draw(self.batch_size, self.generator)
        self.batch = batch.to(self.points)
        if self._steps == 0 or len(batch) >= len(self.largest_batch):
            self.largest_batch = self.batch
        problem = make_problem(self.points, self.batch, self.p, self.weights)
        result = solve(
            problem, tolerance=self.tolerance, exact=False, start=self.potential, max_steps=100, engine=self.engine
        )
        self.potential = result.potential
        return result

    def move(self, result: Transport) -> None:
        """One step on the batch that was just evaluated."""
        if self._scale is None:
            # At a value of 0 every point sits on its samples, and so does the gradient: any scale does.
            self._scale = max(result.value, torch.finfo(self.points.dtype).tiny) ** (1 / self.p)
        self._steps += 1
        gradient, _ = position_gradients(self.points, self.batch, result.plan, self.p, True, False)
        assert gradient is not None
        mass = self.weights.double()[:, None]
        direction = gradient / mass.where(mass > 0, 1.0) / (self.p * self._scale ** (self.p - 2))
        self.points = (self.points - self.rate / self._steps**0.5 * direction).to(self.points.dtype)
        averaged = max(1, self._steps - self.average_from)
        self.average += (self.points.double() - self.average) / averaged

    def finish(self) -> Tensor:
        """The averaged points."""
        return self.average.to(self.points.dtype)
