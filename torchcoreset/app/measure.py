"""How far coresets and random rows of the same size are from a table, for `torchcoreset compare` and the demo."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..coresets import Coreset
from ..sources import as_source
from ..transport import as_cost, transport

DRAWS = 5  # sets of random rows to average over


@dataclass(frozen=True)
class Measured:
    """W_p from points to the rows of a table, or its mean over several sets of random rows.

    Attributes:
        name: what the points are.
        coreset: the points; of several sets the first.
        distance: W_p, rooted.
        lower: its lower bound.
        gap: relative gap of the transport; the largest of several.
        spread: standard deviation of the distance over the sets; None for one set.
    """

    name: str
    coreset: Coreset
    distance: float
    lower: float
    gap: float
    spread: float | None = None


def measure(name: str, coreset: Coreset, rows: Tensor, mass: Tensor | None, p: float) -> Measured:
    """The distance of one coreset."""
    plan = transport(coreset.points.detach(), rows, p, coreset.weights, mass)
    root = as_cost(p).root
    return Measured(name, coreset, root(plan.value), root(max(plan.lower, 0.0)), plan.gap)


def measure_random_rows(name: str, size: int, rows: Tensor, mass: Tensor | None, p: float, seed: int) -> Measured:
    """The mean over DRAWS random subsets of the rows."""
    source = as_source(rows, mass)
    draws = [measure(name, Coreset.from_source(source, size, seed=seed + k), rows, mass, p) for k in range(DRAWS)]
    distances = torch.tensor([draw.distance for draw in draws], dtype=torch.float64, device="cpu")
    return Measured(
        f"{name} (mean of {DRAWS})",
        draws[0].coreset,
        float(distances.mean()),
        sum(draw.lower for draw in draws) / DRAWS,
        max(draw.gap for draw in draws),
        float(distances.std()),
    )
