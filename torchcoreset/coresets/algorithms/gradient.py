"""Any torch optimizer on the exact loss."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ...losses import CoresetLoss
from ...transport import Transport, as_cost

OptimizerFactory = Callable[[list[nn.Parameter]], Optimizer]


class GradientDescent:
    """An optimizer on `CoresetLoss` over a fixed set of samples.

    Args:
        points: (n, d) start.
        weights: (n,) weights of the points.
        samples: (m, d).
        sample_weights: (m,) or None.
        p: power of the cost.
        tolerance: relative gap of each transport.
        steps: number of steps, over which the default optimizer's rate falls to zero.
        optimizer: from a list of parameters to an optimizer. None takes Adam, whose first step moves a point by a
            tenth of W_p, with cosine decay, and no weight decay, which would pull the points to the origin.
        engine: of each transport.
        group: whose ranks hold the samples together, as in `CoresetLoss`.
    """

    def __init__(
        self,
        points: Tensor,
        weights: Tensor,
        samples: Tensor,
        sample_weights: Tensor | None,
        p: float,
        tolerance: float,
        steps: int,
        optimizer: OptimizerFactory | None,
        engine: str = "auto",
        group: Any = None,
    ) -> None:
        self._parameter = nn.Parameter(points.clone())
        self._measures = (samples, weights, sample_weights)
        self._loss = CoresetLoss(p, tolerance=tolerance, engine=engine, group=group)
        self._steps = steps
        self._factory = optimizer
        self._optimizer: Optimizer | None = None
        self._schedule: torch.optim.lr_scheduler.LRScheduler | None = None
        self._best: tuple[float, Tensor] = (math.inf, points)

    @property
    def points(self) -> Tensor:
        """The present points, detached."""
        return self._parameter.detach().clone()

    def evaluate(self) -> Transport:
        """Transport and gradient at the present points."""
        self._parameter.grad = None
        self._closure()
        result = self._loss.last
        assert result is not None
        if result.value < self._best[0]:
            self._best = (result.value, self.points)
        return result

    def move(self, result: Transport) -> None:
        """One step of the optimizer, with the gradient at hand; one that needs a closure (LBFGS) asks for more."""
        if self._optimizer is None:
            self._optimizer = self._make_optimizer(as_cost(self._loss.p).root(result.value))
        needs_closure = inspect.signature(self._optimizer.step).parameters["closure"].default is inspect.Parameter.empty
        self._optimizer.step(self._closure if needs_closure else None)
        if self._schedule is not None:
            self._schedule.step()

    def finish(self) -> Tensor:
        """The best points evaluated."""
        return self._best[1]

    def _closure(self) -> float:
        with torch.enable_grad():
            samples, weights, sample_weights = self._measures
            self._parameter.grad = None
            value = self._loss(self._parameter, samples, weights, sample_weights)
            value.backward()
        return float(value.detach())

    def _make_optimizer(self, scale: float) -> Optimizer:
        if self._factory is not None:
            return self._factory([self._parameter])
        optimizer = torch.optim.Adam([self._parameter], lr=0.1 * scale / self._parameter.shape[1] ** 0.5)
        steps = self._steps
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda k: 0.5 * (1 + math.cos(math.pi * min(k, steps) / steps))
        )
        return optimizer
