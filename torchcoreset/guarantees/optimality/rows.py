"""The rows that a bound speaks of, and blocks of costs between them that rounding cannot have put too high.

y (m, d) distinct rows      a (m,) their masses, sum 1      n points      k the cost's `spread_share`
c_kl = k c(y_k, y_l) + w_k - w_l, or with any other antisymmetric term
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ...deterministic import column_medians
from ...tensors import normalised
from ...transport import Cost

BLOCK = 1 << 22  # costs of a block, 32 MiB
EXACT = 1 << 29  # m^2 d; up to it costs are from differences, which take ten times as long as a matrix product
UNIT = torch.finfo(torch.float64).eps / 2  # unit roundoff


@dataclass(frozen=True)
class Rows:
    """Distinct rows with mass, float64."""

    y: Tensor  # (m, d)
    a: Tensor  # (m,) positive, sum 1
    cost: Cost

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def roundoffs(self) -> float:
        """Relative error of a cost and of a sum over all rows, in unit roundoffs."""
        return self.cost.roundoffs(self.y.shape[1]) + len(self) + 64.0

    @cached_property
    def exact(self) -> bool:
        """Whether costs are from differences."""
        return len(self) ** 2 * self.y.shape[1] <= EXACT

    @cached_property
    def centred(self) -> Tensor:
        """The rows about their medians, where the expanded squares of most rows are small."""
        return self.y - column_medians(self.y)

    def costs(self, some: slice) -> Tensor:
        """k c(y_k, y_l) of some rows to all, (k, m), for relative errors of `roundoffs` not above the true ones."""
        if self.exact:
            found = self.cost.pairwise_exact(self.y[some], self.y)
        else:
            found = self.cost.pairwise_below(self.centred[some], self.centred)
        return found.mul_(self.cost.spread_share)

    def blocks(self) -> Iterator[slice]:
        """All rows, so many at once that their costs to all others are a block."""
        step = max(1, BLOCK // len(self))
        return (slice(start, min(start + step, len(self))) for start in range(0, len(self), step))

    def picked(self, index: Tensor) -> Rows:
        """Some of the rows, with masses of sum 1."""
        a = self.a[index]
        return Rows(self.y[index], a / a.sum(), self.cost)


def distinct_rows(rows: Tensor, weights: Tensor | None, cost: Cost) -> Rows:
    """Rows (m, d) of weights (m,), equal if None: those without mass are left out, and equal ones become one."""
    a = normalised(weights, len(rows), "weights", rows.device)
    y = rows.double()
    if not bool((a > 0).all()):
        y, a = y[a > 0], a[a > 0]
    y, place = torch.unique(y + 0.0, dim=0, return_inverse=True)  # + 0.0: -0 and 0 are one number
    return Rows(y, a.new_zeros(len(y)).index_add_(0, place, a), cost)
