"""Losses as they are used: training loops and minibatches of clouds, the same lines for every library."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .method import Outcome
from .problems import Work

RATE = 0.01  # of Adam


def training(loss_of: Callable[[Work], Callable[[Tensor], Tensor]]) -> Callable[[Work], Callable[[], Outcome]]:
    """A loop of the work's number of steps with Adam, on a loss of the points that is made anew for each run."""

    def prepare(work: Work) -> Callable[[], Outcome]:
        loss_of(work)  # what is missing shows before the clock starts

        def run() -> Outcome:
            x = torch.nn.Parameter(work.points.clone())
            optimizer = torch.optim.Adam([x], lr=RATE)
            loss = loss_of(work)
            for _ in range(work.steps):
                optimizer.zero_grad()
                value = loss(x)
                value.backward()
                optimizer.step()
            if not bool(torch.isfinite(x).all()):
                raise ArithmeticError("the gradient is not finite")
            return Outcome(value=float(value.detach()), note=f"{work.steps} steps")

        return run

    return prepare


def each_pair(distance: Callable[[Tensor, Tensor, float], Tensor]) -> Callable[[Work], Callable[[], Outcome]]:
    """Values of all pairs of clouds, one call after the other, and the gradients of their mean."""

    def prepare(work: Work) -> Callable[[], Outcome]:
        def run() -> Outcome:
            x = work.points.clone().requires_grad_()
            value = torch.stack([distance(*pair, work.p) for pair in zip(x, work.samples, strict=True)]).mean()
            value.backward()
            return Outcome(value=float(value.detach()))

        return run

    return prepare
