"""Soft passes over lists: of each sample only the points that may matter, with their costs kept.

    c_ki cost of sample k and its candidate point i      v (n,) potential      eta smoothing      e entries of all lists

Once eta is small, a sample is undecided between few points. One pass over all points finds these; later passes cost as
much as there are entries, and compute no distances. The semi-dual of the transport restricted to the lists is concave
too. It guides Newton's steps; bounds are never taken from it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ..problem import Problem
from .engine import Entries
from .gram import gram_of
from .soft import Meter, SoftEngine, SoftSums, exponential_

REACH = 7.0  # etas beyond the nearest point within which points are candidates; exp(-7) is 1e-3
LEAST_REACH = 3.0  # of lists after the potential has moved: beyond, they are made anew
SMALL = 1e-2  # shares below this part of the sample's largest are left out of the Gram matrix
ENOUGH = 100  # shares a point; of more, the Gram matrix takes every second sample, every third, ...

Search = Callable[[Tensor, float], Entries]


class TruncatedEngine(SoftEngine):
    """Soft passes over the entries of lists, which `search` makes about v and eta, counting its own pass.

    They hold every point within REACH eta of a sample's nearest in c - v: (e,) int32 samples, ascending, (e,) int32
    points, and (e,) costs.
    """

    trust = REACH

    def __init__(self, problem: Problem, meter: Meter, search: Search, v: Tensor, eta: float) -> None:
        super().__init__(problem, meter)
        self._search = search
        self._fill(v, eta)

    def renew(self, v: Tensor, eta: float) -> bool:
        change = v - self._origin
        if float(change.max() - change.min()) < self._reach - LEAST_REACH * eta:
            return False
        self._fill(v, eta)
        return True

    @property
    def filled(self) -> float:
        """The part of all pairs of points and samples that the lists hold."""
        return len(self._rows) / (len(self.problem.x) * len(self.problem.y))

    def _fill(self, v: Tensor, eta: float) -> None:
        self._origin, self._reach = v, REACH * eta
        self._rows, self._cols, self._cost = self._search(v, eta)
        counts = torch.bincount(self._rows, minlength=len(self.problem.y))
        self._offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))

    def _size(self) -> int:
        return len(self._rows)

    def _soft_sums(self, v: Tensor, eta: float) -> SoftSums:
        a, b, rows, cols, offsets = self.problem.a, self.problem.b, self._rows, self._cols, self._offsets
        height = (v + b.log() * eta).to(self._cost.dtype)
        share = self._cost - height.index_select(0, cols)
        lowest = torch.segment_reduce(share, "min", offsets=offsets)
        exponential_(share.sub_(lowest.index_select(0, rows)), eta)
        kept = share > SMALL
        total = torch.segment_reduce(share, "sum", offsets=offsets)
        minimum = lowest.double() - eta * total.double().log()
        largest_share = total.double().reciprocal()
        root = a.sqrt().to(share.dtype)
        share *= (root / total).index_select(0, rows)
        mass = mass_by_cell(cols, share * root.index_select(0, rows), len(b)).double()
        return SoftSums(a @ minimum, a @ largest_share, mass, lambda: self._gram(offsets, cols, share, kept))

    def _gram(self, offsets: Tensor, cols: Tensor, share: Tensor, kept: Tensor) -> Tensor:
        """Of a pass over lists that may have been made anew since."""
        n = len(self.problem.x)
        stride = max(1, int(kept.sum()) // (ENOUGH * n))
        return gram_of(offsets, cols, share, kept, n, stride)
