"""Any torch optimizer on any `CoresetLoss`."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from ...losses import CoresetLoss, LossResult
from ...transport import TransportBatch

Coordinates = Callable[[Tensor], Tensor]  # of points
OptimizerFactory = Callable[[list[nn.Parameter]], Optimizer]
Optimization = tuple[Optimizer, "LambdaLR | None"]  # with the schedule of its rate, if there is one
Setup = Callable[[nn.Parameter, float], Optimization]  # from the points and the first value of the loss


@dataclass(frozen=True)
class State:
    """Between two steps."""

    parameter: nn.Parameter  # (n, d) the points, which the optimizer moves in place
    result: Tensor  # (n, d) the points evaluated whose value is lowest
    lowest: float = math.inf  # that value
    optimizer: Optimizer | None = None  # made in the first step, once the value is known; None before
    schedule: LambdaLR | None = None  # of its rate; None where there is none
    # State of the optimizer and of its schedule in a run that goes on here.
    earlier: tuple[dict[str, Any], dict[str, Any] | None] | None = None

    def record(self) -> dict[str, Any]:
        """All of it, for a run that goes on later; copied, since the optimizer writes to what it holds."""
        assert self.optimizer is not None  # a step has been made
        schedule = None if self.schedule is None else self.schedule.state_dict()
        rates = (self.optimizer.state_dict(), schedule)
        return copy.deepcopy(
            {"points": self.parameter.detach(), "result": self.result, "lowest": self.lowest, "rates": rates}
        )

    def resumed(self, record: Mapping[str, Any]) -> State:
        """The state of a record, whose optimizer the next step makes."""
        return State(nn.Parameter(record["points"]), record["result"], record["lowest"], earlier=record["rates"])


def init(points: Tensor) -> State:
    """Before the first step, at points (n, d)."""
    return State(nn.Parameter(points.clone()), points)


def step(
    state: State,
    loss: CoresetLoss,
    samples: Tensor,
    weights: Tensor | None,
    sample_weights: Tensor | None,
    setup: Setup,
    coordinates: Coordinates | None = None,
) -> tuple[State, LossResult]:
    """The loss and its gradient at the current points, and one step of the optimizer, created by `setup` in the first.

    `loss` keeps its own potential; `weights` (n,) and `sample_weights` (m,) are equal ones if None. The loss is between
    the samples and the `coordinates` of the points, or these themselves.
    """
    points = state.parameter

    def closure() -> float:
        with torch.enable_grad():
            value = loss(points if coordinates is None else coordinates(points), samples, weights, sample_weights)
            (points.grad,) = torch.autograd.grad(value, points)  # and no gradient is left in a network between
        return float(value.detach())

    closure()
    measured = loss.last
    assert measured is not None  # called
    assert not isinstance(measured, TransportBatch)  # with one pair
    lowest, best = state.lowest, state.result
    if measured.value < lowest:
        lowest, best = measured.value, points.detach().clone()
    optimizer, schedule = state.optimizer, state.schedule
    if optimizer is None:
        optimizer, schedule = setup(points, measured.value)
        if state.earlier is not None:
            of_optimizer, of_schedule = state.earlier
            optimizer.load_state_dict(of_optimizer)
            if schedule is not None and of_schedule is not None:
                schedule.load_state_dict(of_schedule)
    # An optimizer that needs a closure (LBFGS) evaluates again; others take the gradient at hand.
    needs_closure = inspect.signature(optimizer.step).parameters["closure"].default is inspect.Parameter.empty
    optimizer.step(closure if needs_closure else None)
    if schedule is not None:
        schedule.step()
    return State(points, best, lowest, optimizer, schedule), measured


def decaying_adam(points: nn.Parameter, rate: float, steps: int) -> Optimization:
    """Adam with a learning rate that decays to zero over the given number of steps (half a cosine).

    Without weight decay, which would pull the points to the origin.
    """
    optimizer = torch.optim.Adam([points], lr=rate)
    return optimizer, LambdaLR(optimizer, lambda k: 0.5 * (1 + math.cos(math.pi * min(k, steps) / steps)))
