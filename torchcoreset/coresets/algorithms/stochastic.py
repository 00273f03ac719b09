"""Algorithm 1: fresh samples, one step of the dual, one step against the gradient, repeat.

    x (n, d) points, b (n,) weights      q (n,) mass of a batch's cells      k step
    g_i gradient in x_i of the batch's semi-dual      L_i size of its cell, see `cell_sizes`

The step is x_i <- x_i - rate / sqrt(k) * g_i / (max(b_i, q_i) p L_i^(p-2)): for p = 1 the mean unit vector away from
the cell, times the size of the cell; for p = 2 a part of the way to the mean of the cell's samples, and never beyond
it, however many of a small batch a cell receives. Where a point stands still does not depend on the divisor: whatever
the number of samples in a cell, their mean is that of the cell.

The paper solves the dual of each batch afresh, which pulls the points inwards (6 % excess with 2 samples a point). Here
each batch is measured at a running potential, and moves it by one step: see `transport.running`. The paper also
prints the opposite direction for p = 1, which ascends, and a full step for p = 2, which keeps the noise of one batch.
Steps that shrink like 1/sqrt(k) and the average of the second half (Polyak and Juditsky 1992) remove it.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ...errors import DriftWarning, warn_user
from ...sources import Source
from ...tensors import wide_enough
from ...transport import make_problem
from ...transport.stream import Memory, StreamTransport, follow, see
from .cell_sizes import CellSizes


class StochasticDescent:
    """Steps on batches from a source, of any size.

    Args:
        points: (n, d) start.
        weights: (n,) weights of the points.
        source: where batches come from.
        batch_size: samples a step.
        p: power of the cost.
        rate: length of the first step, relative to the size of a cell.
        average_from: step from which iterates are averaged.
        generator: of the draws.
        engine: of each pass over a batch.

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
        rate: float,
        average_from: int,
        generator: Generator,
        engine: str = "auto",
    ) -> None:
        self.points, self.weights = points, weights
        self.source, self.batch_size, self.generator = source, batch_size, generator
        self.engine = engine
        self.p, self.rate, self.average_from = p, rate, average_from
        self.average = points.to(torch.float64, copy=True)
        self.batch = self.largest_batch = points
        self._memory: Memory | None = None
        self._gradient: Tensor | None = None
        self._sizes = CellSizes(p)
        self._steps = 0

    def evaluate(self) -> StreamTransport:
        """A fresh batch, measured at the running potential.

        Warns:
            DriftWarning: the distribution of the batches has moved.
        """
        batch = self.source.draw(self.batch_size, self.generator)
        self.points = wide_enough(self.points, batch)
        self.batch = batch.to(self.points)
        if self._steps == 0 or len(batch) >= len(self.largest_batch):
            self.largest_batch = self.batch
        problem = make_problem(self.points, self.batch, self.p, self.weights)
        seen = see(self._memory, problem, self.points, self.batch, self.engine)
        found = follow(self._memory, problem, self.points, self.batch, seen, forgetting=0.0, engine=self.engine)
        result, self._gradient, self._memory = found.transport, found.gradient, found.memory
        if found.is_new:
            message = (
                f"source: the distribution of the batches has moved, as batch {result.batches} shows: means or spreads "
                "of the last ones differ from those of all by more than chance explains, and the points follow them. "
                "Shuffle the rows, or pass them as a table or a dataset, of which draws are in random order."
            )
            warn_user(DriftWarning(message, result))
        return result

    def move(self, result: StreamTransport) -> None:
        """One step on the batch that was just evaluated."""
        assert self._gradient is not None  # evaluated
        self._steps += 1
        mass = torch.maximum(self.weights.double(), result.cell_mass)[:, None]
        direction = self._gradient / mass.where(mass > 0, 1.0) * self._sizes.step_factors(result)
        self.points = (self.points - self.rate / self._steps**0.5 * direction).to(self.points.dtype)
        averaged = max(1, self._steps - self.average_from)
        self.average += (self.points.double() - self.average) / averaged

    def finish(self) -> Tensor:
        """The averaged points."""
        return self.average.to(self.points.dtype)
