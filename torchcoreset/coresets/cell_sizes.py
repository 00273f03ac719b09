"""How large cells are, over the batches of a stream: the length of a step where the gradient does not tell it.

    d (m,) distances of a batch's samples to their points, a (m,) weights      L (n,) sizes of cells      p power

A gradient of |y - x|^p is a length to the power p - 1; divided by p L^(p-2) it is a step. L is that of each cell by
itself and of now, since points may begin far away, and arrive. For p <= 2 it is the median of the distances, which
samples far out do not change. For p > 2 they count more, and the power mean of all distances keeps the step from going
beyond them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..transport import Cost, Transport, as_cost
from ..transport.stream import StreamTransport

HALF = 0.5 - 1e-9  # of the mass of a cell, which is summed with rounding: where its median distance is
TINY = 1e-30  # a length or mass that stands in for 0 in divisors
RECENT = 3.0  # batches weigh as age^(RECENT - 1), like those of the potential


class CellSizes:
    """Running sizes of the cells of a stream, (n,) float64, in the unit of the samples, for a cost of power p."""

    def __init__(self, p: float) -> None:
        self.p = p
        self._batches = 0
        self._sizes: Tensor | None = None

    def record(self) -> dict[str, Any]:
        """All of it as numbers and a tensor."""
        return {"p": self.p, "batches": self._batches, "sizes": self._sizes}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> CellSizes:
        """The same back."""
        sizes = cls(record["p"])
        sizes._batches, sizes._sizes = record["batches"], record["sizes"]
        return sizes

    def step_factors(self, batch: StreamTransport | Transport, weights: Tensor | None = None) -> Tensor:
        """What turns the gradient of a batch, for a mass of 1 in each cell, into a step: L^(2-p) / p, (n, 1).

        `weights` (m,) are those of its samples, equal if None.
        """
        cost = as_cost(self.p)
        if cost.mean_is_best:
            return torch.full_like(batch.potential, 0.5)[:, None]
        # Where a size is 0 the point sits on its samples, and so does the gradient: any factor does.
        sizes = self._updated(batch, weights, cost).clamp(min=TINY)
        return cost.step_factor(sizes)[:, None]

    def _updated(self, batch: StreamTransport | Transport, weights: Tensor | None, cost: Cost) -> Tensor:
        """The sizes after a batch."""
        costs = (batch.transform + batch.potential[batch.assignment]).clamp(min=0)
        a = torch.ones_like(costs) if weights is None else weights.to(costs)
        found, mass = _sizes(cost.root(costs), batch.assignment, a / a.sum(), len(batch.potential), cost)
        self._batches += 1
        # A cell that is empty now is no larger than it was, nor need it be larger than others; one that holds little of
        # what it should tells little of its size.
        middle = found[mass > 0].median()
        share = (mass / batch.weights.clamp(min=TINY)).clamp(max=1).where(mass > 0, 1.0)
        share *= RECENT / (self._batches + RECENT - 1)
        before = found.where(mass > 0, middle) if self._sizes is None else self._sizes
        self._sizes = before.lerp(found.where(mass > 0, before.clamp(max=middle)), share)
        return self._sizes


def _sizes(distance: Tensor, cell: Tensor, a: Tensor, n: int, cost: Cost) -> tuple[Tensor, Tensor]:
    """Sizes (n,) of the cells of one batch, and their masses (n,)."""
    mass = a.new_zeros(n).index_add_(0, cell, a)
    extent = cost.of_length(distance) if cost.steeper_than_square else distance
    means = a.new_zeros(n).index_add_(0, cell, a * extent) / mass.where(mass > 0, 1.0)
    if cost.steeper_than_square:
        return cost.root(means), mass
    order = torch.argsort(distance)
    order = order[torch.argsort(cell[order], stable=True)]
    distance, cell, a = distance[order], cell[order], a[order]
    below = a.cumsum(0) - (mass.cumsum(0) - mass)[cell]  # mass of the cell up to each sample
    upper = torch.where(below >= HALF * mass[cell], distance, torch.inf)
    medians = torch.full_like(mass, torch.inf).scatter_reduce_(0, cell, upper, "amin")
    # A point that has most of its samples where it is: a median is there at its best, for others the rest tells.
    return (medians if cost.median_is_best else torch.where(medians > 0, medians, means)), mass
