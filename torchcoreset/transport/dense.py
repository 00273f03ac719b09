"""The engine that works everywhere: blocks of c - v by matrix products, reduced by torch.

x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .engine import Engine, SoftSums
from .problem import Problem

# exp(-30) is 1e-13, below what a sum of float32 shares resolves, and its square times a weight of 1e-9 is still
# a normal float32. Denormals are 10 times slower on CPUs.
LOWEST_EXPONENT = -30.0
DECIDED = 1e-3  # a sample that sends less than this away from its first point adds nothing to the curvature


class DenseEngine(Engine):
    """Blocks of rows of the m x n matrix c - v, one after the other, so that each stays in cache."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._x2 = problem.x.square().sum(1)
        self._y2 = problem.y.square().sum(1)
        self._rows = max(16, self._elements // len(problem.x))

    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        cells, slacks = [], []
        for start in range(0, len(self.problem.y), self._rows):
            reduced = self._reduced(slice(start, start + self._rows), v)
            lowest, cell = reduced.min(1)
            cells.append(cell)
            slacks.append(reduced.scatter_(1, cell[:, None], math.inf).amin(1) - lowest)
        return torch.cat(cells), torch.cat(slacks)

    def _soft_sums(self, v: Tensor, eta: float) -> SoftSums:
        b, dtype = self.problem.b, self.problem.x.dtype
        sums = SoftSums(b.new_zeros(()), b.new_zeros(()), b.new_zeros(len(b)), b.new_zeros(len(b), len(b)))
        v = v + b.log() * eta
        for start in range(0, len(self.problem.y), self._rows):
            rows = slice(start, start + self._rows)
            a = self.problem.a[rows]
            share, lowest, total = self._shares(rows, v, eta)
            minimum = lowest.double() - eta * total.double().log()
            if self.problem.p == 2:
                minimum += self._y2[rows, None].double()
            sums.minimum.add_(a @ minimum[:, 0])
            sums.certainty.add_(a @ total[:, 0].double().reciprocal())
            share.mul_((a.sqrt() / total[:, 0]).to(dtype)[:, None])
            sums.mass.add_(a.sqrt().to(dtype) @ share)
            rows_left = undecided(total[:, 0])
            if len(rows_left) < len(share):
                share = share[rows_left]
            sums.overlap.add_(share.t() @ share)
        return sums

    def _shares(self, rows: slice | Tensor, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        """exp of (lowest - (c - v)) / eta (rows, n), the lowest c - v of each row and the sum of its exp, (rows, 1)."""
        share = self._reduced(rows, v)
        lowest = share.amin(1, keepdim=True)
        share.sub_(lowest).mul_(-1 / eta).clamp_(min=LOWEST_EXPONENT).exp_()
        return share, lowest, share.sum(1, keepdim=True)

    def _reduced(self, rows: slice | Tensor, v: Tensor) -> Tensor:
        """c(y, x) - v for some samples, (rows, n); for p = 2 without the constant |y|^2 of each row."""
        problem = self.problem
        y = problem.y[rows]
        v = v.to(problem.x.dtype)
        if problem.p == 2:
            return torch.addmm(self._x2 - v, y, problem.x.t(), alpha=-2)
        square = torch.addmm(self._x2, y, problem.x.t(), alpha=-2)
        square.add_(self._y2[rows, None]).clamp_(min=0)
        cost = square.sqrt_() if problem.p == 1 else square.pow_(problem.p / 2)
        return cost.sub_(v)


def undecided(total: Tensor) -> Tensor:
    """Indices of the samples that the curvature needs, from the sum of each one's shares relative to the largest.

    A decided sample joins no two points, and after the first stages most samples are decided.
    """
    return (total > 1 + DECIDED).nonzero()[:, 0]
