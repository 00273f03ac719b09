"""Algorithm 1: in each step fresh samples, one step of the dual, and one gradient step of the points.

    x (n, d) points, b (n,) weights      q (n,) mass of a batch's cells      k step
    g_i gradient in x_i of the batch's semi-dual      L_i size of its cell, see `cell_sizes`

The step is x_i <- x_i - rate / sqrt(k) * g_i / (max(b_i, q_i) p L_i^(p-2)): for p = 1 the mean unit vector away from
the cell times the size of the cell; for p = 2 a part of the way to the mean of the cell's samples, and never beyond it.
The divisor does not change the stationary points.

Differs from the paper in three things. The paper solves the dual of each batch, which pulls the points inwards (6 %
excess with 2 samples per point); here each batch is evaluated at a running potential, see `transport.stream`. For p = 1
the paper prints the opposite direction, which ascends. For p = 2 it takes a full step, which keeps the noise of one
batch; steps that decay as 1/sqrt(k) and the average of the second half (Polyak and Juditsky 1992) remove it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from ...errors import DriftWarning, warn_user
from ...losses import position_gradients
from ...sources import Source, SourceExhausted
from ...tensors import wide_enough
from ...transport import Cost, Transport, as_cost, make_problem
from ...transport.stream import Memory, StreamTransport, follow, see
from ..cell_sizes import CellSizes
from .objective import Objective

ACCURACY = 1e-2  # relative gap of the transport of a batch that is solved by itself: its samples scatter by more


@dataclass(frozen=True)
class State:
    """Between two steps."""

    points: Tensor  # (n, d) those of the next step
    average: Tensor  # (n, d) float64, of the iterates
    cell_sizes: CellSizes  # running; the object is updated by each step
    memory: Memory | None = None  # running potential, and what belongs to it; None before the first batch
    weights: Tensor | None = None  # (n,) mean of those that batches have chosen, where they choose
    steps: int = 0  # done
    largest_batch: Tensor | None = None  # (m, d) the last batch that was not short of samples; None before the first

    @property
    def result(self) -> Tensor:
        """The averaged points, in their dtype."""
        return self.average.to(self.points.dtype)

    def record(self) -> dict[str, Any]:
        """The whole state, for a run that is resumed later."""
        memory = None if self.memory is None else self.memory.tensors()
        return {**vars(self), "cell_sizes": self.cell_sizes.record(), "memory": memory}

    def resumed(self, record: Mapping[str, Any]) -> State:
        """The state of a record."""
        memory = None if record["memory"] is None else Memory.from_tensors(record["memory"])
        return State(**{**record, "cell_sizes": CellSizes.of_record(record["cell_sizes"]), "memory": memory})


def init(points: Tensor, p: float | Cost) -> State:
    """Before the first batch, at points (n, d)."""
    return State(points, points.to(torch.float64, copy=True), CellSizes(as_cost(p).p))


def step(
    state: State,
    objective: Objective,
    source: Source,
    batch_size: int,
    generator: Generator,
    *,
    rate: float,
    average_from: int,
) -> tuple[State, StreamTransport | Transport | None]:
    """A fresh batch, measured at the running potential, and a step on it; None if the source has ended.

    The first step is `rate` long, relative to the size of a cell; points are averaged from step `average_from` on.

    Raises:
        SourceExhausted: the source had ended before the first batch.

    Warns:
        DriftWarning: the distribution of the batches has moved.
    """
    try:
        drawn = source.draw(batch_size, generator)
    except SourceExhausted:
        if state.steps == 0:
            raise
        return state, None
    x = wide_enough(state.points, drawn)
    batch = drawn.to(x)
    measure = _chosen if objective.chosen else _followed
    result, gradient, mass, memory = measure(state, objective, x, batch)
    steps = state.steps + 1
    direction = gradient / mass.where(mass > 0, 1.0)[:, None] * state.cell_sizes.step_factors(result)
    x = (x - rate / steps**0.5 * direction).to(x.dtype)
    average = state.average + (x.double() - state.average) / max(1, steps - average_from)
    largest = state.largest_batch
    if largest is None or len(batch) >= len(largest):
        largest = batch
    return State(x, average, state.cell_sizes, steps=steps, largest_batch=largest, **memory), result


Measured = tuple["StreamTransport | Transport", Tensor, Tensor, dict[str, Any]]


def _followed(state: State, objective: Objective, x: Tensor, batch: Tensor) -> Measured:
    """A batch at the running potential: what was found, its gradient (n, d), the divisor (n,), and what to remember."""
    problem = make_problem(x, batch, objective.p, objective.weights)
    seen = see(state.memory, problem, x, batch, objective.engine)
    found = follow(state.memory, problem, x, batch, seen, forgetting=0.0, engine=objective.engine)
    result = found.transport
    if found.is_new:
        message = (
            f"source: the distribution of the batches has moved, as batch {result.batches} shows: means or spreads "
            "of the last batches differ significantly from those of all batches, and the points follow them. "
            "Shuffle the rows, or pass them as a table or a dataset, from which rows are drawn in random order."
        )
        warn_user(DriftWarning(message, result))
    mass = torch.maximum(objective.weights.double(), result.cell_mass)
    return result, found.gradient, mass, {"memory": found.memory}


def _chosen(state: State, objective: Objective, x: Tensor, batch: Tensor) -> Measured:
    """The same of a batch that is solved by itself, and chooses the weights of the points."""
    found = objective.on(batch).transport(x, tolerance=ACCURACY)
    gradient, _ = position_gradients(x, batch, found.plan, as_cost(objective.p), True, False)
    assert gradient is not None
    earlier = found.weights if state.weights is None else state.weights
    weights = earlier + (found.weights - earlier) / (state.steps + 1)
    return found, gradient, torch.maximum(weights, found.weights), {"weights": weights}
