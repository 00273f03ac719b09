"""The samples that may have to change cell: those of each cell that lose least by it, and those a starved cell wants.

n cells      k samples, sorted by cell and then by slack
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Movable:
    """Samples that may change cell.

    Attributes:
        y: (k, d) samples.
        a: (k,) their weights.
        cell: (k,) their cells.
        slack: (k,) what each loses by leaving for the second nearest point.
        index: (k,) their numbers among the samples of this process; -1 for those of another.
    """

    y: Tensor
    a: Tensor
    cell: Tensor
    slack: Tensor
    index: Tensor

    def picked(self, index: Tensor) -> Movable:
        """Some of these."""
        return Movable(self.y[index], self.a[index], self.cell[index], self.slack[index], self.index[index])

    def with_more(self, more: Movable) -> Movable:
        """These and others, sorted by cell."""
        pairs = ((self.y, more.y), (self.a, more.a), (self.cell, more.cell), (self.slack, more.slack))
        y, a, cell, slack = (torch.cat(pair) for pair in pairs)
        both = Movable(y, a, cell, slack, torch.cat((self.index, more.index)))
        return both.picked(torch.argsort(both.cell, stable=True))


def within_quota(cell: Tensor, quota: Tensor) -> Tensor:
    """Which samples are among the first `quota` (n,) of their cell; cells (k,) ascend."""
    first = torch.searchsorted(cell, torch.arange(len(quota), device=cell.device))
    rank = torch.arange(len(cell), device=cell.device) - first[cell]
    return rank < quota[cell]
