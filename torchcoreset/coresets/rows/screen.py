"""Screening of swaps that cannot lower the value, by a few steps of dual ascent; the flows of those that are left.

    c (m, n) costs of the chosen rows, held      v (n,) potential      D(v) semi-dual      g = b - mass of the cells

Any D(v) is a lower bound of W_p^p after the swap; once it reaches the value before the swap, the swap is rejected.
Nearly all swaps that do not lower the value are rejected after one to three Newton steps (digits, Pendigits, HTRU2).
The Hessian is that of a softmin between the two nearest points of each sample. The others are solved by a min-cost flow
on the costs held, from the potential reached: that takes as long as one to three more steps, and a third to a fortieth
of the time of a transport of rows and samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...transport import WRONG_MASS, Cost, balance_all
from ...transport.flow import Floats, Ints, nearest_cells

MOST = 1 << 25  # numbers of the costs that are held, float64: 256 MiB; beyond, every swap has its transport solved
# Coordinates times rows up to which costs come from differences, a second (one core): beyond, from products, whose
# rounding is for the transport to judge.
DIFFERENCES = 1 << 30
PASSES = 12  # most passes of the ascent; what is not out by then has its transport solved
PASSES_BEFORE_FLOW = 3  # the same where a flow solves it
SMOOTHING = 0.25  # median margins: eta of the softmin; with 0.5 and 1 bounds rise half as fast (measured)
TRUST = 32.0  # etas: longest step of a potential; with 8, far shifts take twice the steps (measured)
SHORTER = 3.0  # what a step that did not rise is divided by
RIDGE = 1e-6  # of the largest entry of the Hessian


@dataclass(frozen=True)
class Solved:
    """Bounds of the value, and the potential (n,)."""

    value: float
    lower: float
    potential: Floats


class Screen:
    """The costs of the rows chosen, and the ascent and the flow after a swap."""

    def __init__(self, y: Tensor, a: Tensor, rows: Tensor, b: Tensor | None, cost: Cost) -> None:
        """Of samples y (m, d), a (m,), float64, and rows (n,) among them; their weights b (n,) are None if free."""
        self._y, self._cost = y, cost
        held = a > 0
        self._held, a = (y, a) if bool(held.all()) else (y[held], a[held])
        self._a = a.cpu().numpy()
        self._b = None if b is None else b.cpu().numpy()
        by_differences = self._held.numel() * len(rows) <= DIFFERENCES
        self._pairwise = cost.pairwise_exact if by_differences else cost.pairwise
        self.has_flow = by_differences and self._b is not None and self._b.min() > 0
        self._costs: Floats = self._pairwise(self._held, y[rows]).cpu().numpy()
        self._column: tuple[int, Floats] | None = None  # the row last asked for, and its costs (m,)
        self._passes = PASSES_BEFORE_FLOW if self.has_flow else PASSES

    def bound(self, position: int, row: int, v: Floats, target: float) -> tuple[float, Floats]:
        """A lower bound of the value with `row` at `position`, at least `target` if that is reached, and where.

        `v` (n,) is a guess of the potential then. For free weights it is 0, and the bound is the value.
        """
        before = self._costs[:, position].copy()
        self.put(position, row)
        found = self._ascend(v, target)
        self._costs[:, position] = before
        return found

    def solve(self, position: int, row: int, v: Floats) -> Solved | None:
        """The value with `row` at `position`, by a flow from the cells of v (n,); None if it misses weights."""
        assert self._b is not None, "free weights need no flow"
        before = self._costs[:, position].copy()
        self.put(position, row)
        found = balance_all(
            self._costs[None], self._a[None], self._b[None], v[None], self._cost.roundoffs(self._y.shape[1])
        )
        self._costs[:, position] = before
        if found.found.wrong[0] > WRONG_MASS / len(v):
            return None
        return Solved(float(found.found.value[0]), float(found.dual[0]), found.found.potential[0])

    def put(self, position: int, row: int) -> None:
        """Apply a swap."""
        if self._column is None or self._column[0] != row:
            self._column = row, self._pairwise(self._held, self._y[row : row + 1])[:, 0].cpu().numpy()
        self._costs[:, position] = self._column[1]

    def _ascend(self, v: Floats, target: float) -> tuple[float, Floats]:
        a, b, costs = self._a, self._b, self._costs
        best, highest, length, direction = -math.inf, v, 1.0, v
        for _ in range(self._passes):
            cell, reduced = nearest_cells(costs, v)
            height = float(a @ reduced) + (0.0 if b is None else float(b @ v))
            if height > best:
                best, highest, length = height, v, 1.0
                if best >= target or b is None or len(b) == 1:
                    break
                gradient: Floats = b - np.bincount(cell, a, len(b))
                direction = self._newton_step(cell, reduced, v, gradient)
            else:
                length /= SHORTER
            v = highest + length * direction
        return best, highest

    def _newton_step(self, cell: Ints, reduced: Floats, v: Floats, gradient: Floats) -> Floats:
        n, every = len(v), np.arange(len(cell))
        own = self._costs[every, cell].copy()
        self._costs[every, cell] = np.inf
        second, further = nearest_cells(self._costs, v)
        self._costs[every, cell] = own
        margin = further - reduced
        eta = SMOOTHING * _median(margin) or SMOOTHING * float(margin.mean())
        if not eta > 0:
            return np.zeros(n)
        share = np.exp(-margin / eta)
        curvature = self._a * share / (1 + share) ** 2 / eta
        coupling = np.bincount(cell * n + second, curvature, n * n).reshape(n, n)
        coupling += coupling.T
        hessian = np.diag(coupling.sum(1)) - coupling
        hessian[np.diag_indices(n)] += RIDGE * hessian.diagonal().max()
        step = np.linalg.solve(hessian, gradient)
        clipped: Floats = np.clip(step - _median(step), -TRUST * eta, TRUST * eta)
        return clipped


def _median(values: NDArray[np.floating]) -> float:
    """The upper median; np.median takes twice as long (measured)."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])
