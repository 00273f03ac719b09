"""Reductions over all samples, in chunks: the only code whose work grows with n x m.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

One engine answers two questions about a potential: which point is nearest to each sample in c - v (`hard`), and how
mass is shared when the minimum is smoothed (`soft`). Everything else in this package works on their answers, of size
m, n or n x n. Another engine (KeOps, a GPU kernel) has these two methods and nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .cost import paired
from .problem import Problem

# Elements of one n x chunk block: 2 MiB in float32, which stays in cache (measured: larger blocks are up to twice
# slower on CPUs, smaller ones are bound by launch time).
CHUNK_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 26}
# exp(-30) is 1e-13, below what a sum of float32 shares resolves, and its square times a weight of 1e-9 is still
# a normal float32. Denormals are 10 times slower on CPUs.
LOWEST_EXPONENT = -30.0


@dataclass(frozen=True)
class HardPass:
    """The Laguerre cells of a potential.

    Attributes:
        cell: (m,) int64 index of the point nearest to each sample in c - v.
        cost: (m,) float64 cost c to that point.
        slack: (m,) distance in c - v from the nearest to the second nearest point (infinite when n = 1).
        mass: (n,) float64 mass of each cell.
        dual: semi-dual value, a lower bound of W_p^p.
    """

    cell: Tensor
    cost: Tensor
    slack: Tensor
    mass: Tensor
    dual: float


@dataclass(frozen=True)
class SoftPass:
    """The smoothed semi-dual at a potential.

    Attributes:
        dual: its value.
        mass: (n,) float64 mass received by each point under the softmin.
        overlap: (n, n) float64 sum_k a_k chi_ki chi_kj, from which the Hessian is made.
        ambiguity: mean mass that a sample sends anywhere but to its first point, in [0, 1).
    """

    dual: float
    mass: Tensor
    overlap: Tensor
    ambiguity: float


class DenseEngine:
    """Chunks of the n x m cost matrix by torch matrix products, on the device and in the dtype of the problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.passes = 0.0
        self._x2 = problem.x.square().sum(1)
        self._y2 = problem.y.square().sum(1)
        elements = CHUNK_ELEMENTS.get(problem.x.device.type, CHUNK_ELEMENTS["cpu"])
        self._rows = max(16, elements // len(problem.x))

    def subsample(self, count: int) -> DenseEngine:
        """An engine on `count` samples spread evenly over a fixed shuffle; weights follow the samples."""
        problem = self.problem
        generator = torch.Generator().manual_seed(len(problem.y))
        index = torch.randperm(len(problem.y), generator=generator)[:count].to(problem.y.device)
        a = problem.a[index]
        total = a.sum()
        if not bool(total > 0):
            return self
        return DenseEngine(Problem(problem.x, problem.b, problem.y[index], a / total, problem.equal, problem.p))

    def hard(self, v: Tensor) -> HardPass:
        """Nearest point in c - v of every sample, its cost, and the slack to the second nearest."""
        self.passes += 1
        problem = self.problem
        cells, slacks, costs = [], [], []
        for start in range(0, len(problem.y), self._rows):
            y = problem.y[start : start + self._rows]
            reduced = self._reduced(start, v)
            lowest, cell = reduced.min(1)
            cells.append(cell)
            costs.append(paired(y, problem.x[cell], problem.p))
            slacks.append(reduced.scatter_(1, cell[:, None], math.inf).amin(1) - lowest)
        cell, cost = torch.cat(cells), torch.cat(costs)
        mass = self._cell_mass(cell)
        dual = float(problem.a @ (cost - v[cell]) + problem.b @ v)
        return HardPass(cell, cost, torch.cat(slacks), mass, dual)

    def soft(self, v: Tensor, eta: float) -> SoftPass:
        """Value, gradient and curvature of the smoothed semi-dual, in one pass."""
        problem = self.problem
        n, dtype = len(problem.x), problem.x.dtype
        mass = problem.b.new_zeros(n)
        overlap = problem.b.new_zeros(n, n)
        dual = problem.b.new_zeros(())
        certainty = problem.b.new_zeros(())
        log_b = problem.b.log().mul_(eta)
        self.passes += 1
        for start in range(0, len(problem.y), self._rows):
            a = problem.a[start : start + self._rows]
            share = self._reduced(start, v + log_b)
            lowest = share.amin(1, keepdim=True)
            share.sub_(lowest).mul_(-1 / eta).clamp_(min=LOWEST_EXPONENT).exp_()
            total = share.sum(1, keepdim=True)
            minimum = lowest.double() - eta * total.double().log()
            if problem.p == 2:
                minimum += self._y2[start : start + self._rows, None].double()
            dual += a @ minimum[:, 0]
            certainty += a @ total[:, 0].double().reciprocal()
            root = a.sqrt().to(dtype)
            share.mul_((root / total[:, 0])[:, None])
            mass += root @ share
            overlap += share.t() @ share
        return SoftPass(float(dual + problem.b @ v), mass, overlap, 1 - float(certainty))

    def _reduced(self, start: int, v: Tensor) -> Tensor:
        """c(y, x) - v for one chunk of samples, (rows, n); for p = 2 without the constant |y|^2 of each row."""
        problem = self.problem
        y = problem.y[start : start + self._rows]
        v = v.to(problem.x.dtype)
        if problem.p == 2:
            return torch.addmm(self._x2 - v, y, problem.x.t(), alpha=-2)
        square = torch.addmm(self._x2, y, problem.x.t(), alpha=-2)
        square.add_(self._y2[start : start + self._rows, None]).clamp_(min=0)
        cost = square.sqrt_() if problem.p == 1 else square.pow_(problem.p / 2)
        return cost.sub_(v)

    def _cell_mass(self, cell: Tensor) -> Tensor:
        if self.problem.equal:  # counts are exact, sums of 1/m are not
            return torch.bincount(cell, minlength=len(self.problem.x)).double() / len(cell)
        return torch.bincount(cell, weights=self.problem.a, minlength=len(self.problem.x))
