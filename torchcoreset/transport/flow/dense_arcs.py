"""Residual arcs between all cells: an (n, n) matrix of least prices, kept up to date while rows move.

    i, j cells (n)      arc_ij least c_kj - c_ki over the samples k of cell i      v (n,) potential

For up to some thousand points, and wherever mass goes far: each of the many phases then costs O(n^2), not O(k n).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from .arcs import ROUNDING, Arcs, Bools, Floats, Ints

BLOCK = 1 << 16  # elements of a block of costs: 512 KiB, about what a cache holds
MANY = 128  # samples a cell, above which a move is slow by whole rows of costs, and costs are held by cells (measured)


class DenseArcs(Arcs):
    """Arcs of samples whose costs (k, n) to all points are given; cell and mass as for `Arcs`."""

    def __init__(self, cost: Floats, cell: Ints, mass: Floats, v: Floats, tolerance: float) -> None:
        n = len(v)
        super().__init__(cell, mass, cost[np.arange(len(cell)), cell], n)
        self._many = len(cell) > MANY * n
        self._cost = np.asfortranarray(cost) if self._many else cost  # few columns of many rows are read, or whole rows
        self.arc = np.empty((n, n))
        self.regroup(np.arange(n))
        largest = float(np.abs(self.arc[np.isfinite(self.arc)]).max(initial=0.0)) + float(np.ptp(v))
        self.tolerance = max(tolerance, ROUNDING * largest)
        self._bound, self._free = np.empty((n, n)), np.empty((n, n), dtype=bool)

    def distances(self, v: Floats, sources: Bools, sinks: Bools) -> Floats:
        """Dijkstra, a row of the matrix at a time."""
        arc, number = self.arc, int(sinks.sum())
        tentative = np.maximum((arc[sources] + v[sources, None]).min(0) - v, 0.0)
        tentative[sources] = np.inf
        permanent = np.where(sources, 0.0, np.inf)
        remaining = np.where(sources, -np.inf, v)  # -inf once permanent, so that no arc leads back
        through = np.empty(len(v))
        while number:
            i = int(tentative.argmin())
            distance = float(tentative[i])
            if distance == np.inf:
                break
            permanent[i] = distance
            number -= bool(sinks[i])
            np.subtract(arc[i], remaining, out=through)
            through += v[i] + distance
            tentative[i], remaining[i] = np.inf, -np.inf
            np.maximum(through, distance, out=through)
            through[i] = np.inf
            np.minimum(tentative, through, out=tentative)
        return permanent

    def admit(self, v: Floats, limit: float) -> None:
        self._v, self._base = v, limit - v  # admissible are prices up to base_i + v_j
        np.add.outer(self._base, v, out=self._bound)
        np.less_equal(self.arc, self._bound, out=self._free)

    def heads(self, tails: Bools) -> Bools:
        reached: Bools = np.logical_or.reduce(self._free[tails])
        return reached

    def layer(self, level: Ints) -> None:
        self._level = level

    def tail(self, j: int) -> int | None:
        before = (self._level == self._level[j] - 1).nonzero()[0]
        if not len(before):
            return None
        over = self.arc[before, j] - (self._base[before] + self._v[j])
        least = over[over.argmin()]
        if least > 0:
            return None
        # Arcs on shortest paths are as long as each other but for rounding, which is not to choose among them.
        return int(before[(over <= min(least + self.tolerance, 0.0)).argmax()])

    def leaving(self, i: int, j: int) -> Iterator[tuple[int, float]]:
        rows = self._rows[i]
        cost = self._cost[self.sample[rows], j]
        price = cost - self.own[rows]
        some = (price <= self._base[i] + self._v[j]).nonzero()[0]
        some = some[price[some].argsort(kind="stable")]
        return zip(rows[some].tolist(), cost[some].tolist(), strict=True)

    def update(self, i: int, j: int, rows: list[int], new: list[int]) -> None:
        cost = self._cost[self.sample[rows]]
        here = self._rows[i]
        stay = here[self.cell[here] == i]
        if len(stay) < len(here):
            samples, own = self.sample[stay], self.own[stay]
            if (
                self._many
            ):  # least prices change only where a row that has moved had one of them: to three cells, typically
                for head in (cost - cost[:, i, None] <= self.arc[i]).any(0).nonzero()[0].tolist():
                    self.arc[i, head] = np.minimum.reduce(self._cost[:, head].take(samples) - own, initial=np.inf)
            else:
                price = self._cost.take(samples, 0)
                price -= own[:, None]
                np.minimum.reduce(price, 0, out=self.arc[i], initial=np.inf)
                self.arc[i, i] = np.inf
            self._rows[i] = stay
        if new:
            self._rows[j] = np.concatenate((self._rows[j], new))
            np.minimum(self.arc[j], np.minimum.reduce(cost - cost[:, j, None]), out=self.arc[j])
            self.arc[j, j] = np.inf

    def nearest(self, v: Floats) -> tuple[Ints, Floats]:
        k, n = self._cost.shape
        blocks = np.array_split(self._cost, 1 + k * n // BLOCK)
        cell = np.concatenate([(block - v).argmin(1) for block in blocks])
        return cell, self._cost[np.arange(k), cell]

    def regroup(self, cells: Ints) -> None:
        n = len(self.arc)
        rows = np.flatnonzero(self.mass)
        rows = rows[self.cell[rows].argsort(kind="stable")]
        bounds = np.searchsorted(self.cell[rows], np.arange(n + 1))
        self._rows = [rows[start:stop] for start, stop in pairwise(bounds.tolist())]  # of each cell
        self.arc[cells] = np.inf
        rows = rows[np.isin(self.cell[rows], cells)]
        for block in np.array_split(rows, 1 + len(rows) * n // BLOCK):
            first = np.flatnonzero(np.diff(self.cell[block], prepend=-1))
            price = np.minimum.reduceat(self._cost[self.sample[block]] - self.own[block, None], first)
            tails = self.cell[block[first]]
            self.arc[tails] = np.minimum(self.arc[tails], price)
        self.arc[cells, cells] = np.inf
