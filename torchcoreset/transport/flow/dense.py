"""From nearly balanced cells to a feasible plan: excess mass moved along shortest augmenting paths.

    i, j cells (n)      k samples      r_ij least c_kj - c_ki over the samples k of cell i      v (n,) potential

After Newton every sample lies in the cell of its nearest point in c - v, and each cell holds almost the mass of its
point. What is left over travels over the graph whose nodes are the n cells: the arc from i to j costs the least that
a sample of cell i pays for leaving to j, r_ij + v_i - v_j >= 0. Raising v by the distances from the cells with a
excess makes the shortest paths to those with a deficit free, and leaves no arc negative; mass flows over free arcs
until they are blocked, and so on. When no excess is left, plan and potential are both optimal. A sample may be split,
so weights need not be equal.

Where some cost may be wasted, arcs that cost a little count as free: a few rounds then do for hundreds.

Only samples near a boundary ever move. The caller passes those, with their costs to all points in float64.

Source: Ahuja, Magnanti, Orlin (1993), Network Flows: the primal-dual method in section 9.8, and in section 7.5 flows
over levels (Dinic).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from .cell_samples import CellSamples, Floats, Ints
from .network import Balanced, FlowNetwork


def balance(
    cost: Floats,
    cell: Ints,
    mass: Floats,
    excess: Floats,
    v: Floats,
    *,
    arc_tolerance: float,
    suboptimality: Sequence[float],
    enough: float = 0.0,
) -> Balanced:
    """Move excess mass to the cells that lack it, along cheapest paths.

    Args:
        cost: (k, n) costs of the boundary samples to all points.
        cell: (k,) their cells, nearest in cost - v.
        mass: (k,) their masses.
        excess: (n,) mass of each cell over the weight of its point; sums to zero.
        v: (n,) potential.
        arc_tolerance: arcs that cost no more than this are free; at rounding, with a suboptimality of 0, the result is
            optimal.
        suboptimality: mass times cost that may be wasted. After each but the last, samples return to the cells that are
            nearest at the new potential: an exact result is reached sooner by way of some that are not.
        enough: excess that may stay where it is.

    Returns:
        The new plan of these samples and the new potential. Surplus that found no path stays where it is.
    """
    return DenseNetwork(cost, cell, mass, excess, v, arc_tolerance).balanced(suboptimality, enough)


class DenseNetwork(FlowNetwork):
    """A stock in each cell, and all arcs between them; arguments as of `balance`."""

    def __init__(self, cost: Floats, cell: Ints, mass: Floats, excess: Floats, v: Floats, arc_tolerance: float) -> None:
        n = len(v)
        self.cost = cost
        order = np.argsort(cell, kind="stable")
        first = np.searchsorted(cell[order], np.arange(n + 1))
        price = cost[order]
        price -= np.take_along_axis(price, cell[order, None], 1)
        self.arc = np.full((n, n), np.inf)
        some = np.flatnonzero(np.diff(first))
        if len(some):
            self.arc[some] = np.minimum.reduceat(price, first[some])
        np.fill_diagonal(self.arc, np.inf)
        self.stocks = [
            CellSamples(i, order[here], mass[order[here]], price[here], self.arc[i])
            for i, here in enumerate(map(slice, first[:-1].tolist(), first[1:].tolist()))
        ]
        largest = float(np.abs(self.arc[np.isfinite(self.arc)]).max(initial=0.0)) + float(np.ptp(v))
        super().__init__(excess, v, max(arc_tolerance, 16 * np.finfo(np.float64).eps * largest), len(cell))
        self._bound, self._free = np.empty((n, n)), np.empty((n, n), dtype=bool)

    def _restore_slackness(self) -> None:
        for stock in self.stocks:
            for k, mass, target in stock.violations(self.v, self.arc_tolerance):
                self.stocks[target].add(k, mass, self.cost[k])
                self.excess[stock.cell] -= mass
                self.excess[target] += mass

    def _entries(self) -> tuple[Ints, Ints, Floats]:
        rows = np.array(list(chain.from_iterable(stock.rows for stock in self.stocks)), dtype=np.int64)
        cols = np.repeat(np.arange(len(self.v)), [len(stock.rows) for stock in self.stocks])
        mass = np.array(list(chain.from_iterable(stock.mass for stock in self.stocks)), dtype=np.float64)
        return rows, cols, mass

    def _raise_potential(self) -> bool:
        """Dijkstra from all cells with an excess at once."""
        arc, v = self.arc, self.v
        roots, wanted = np.flatnonzero(self.excess > self.mass_tolerance), self.excess < -self.mass_tolerance
        number = int(wanted.sum())
        if not len(roots) or not number:
            return False
        opened = np.maximum((arc[roots] + v[roots, None]).min(0) - v, 0.0)
        opened[roots] = np.inf
        remaining = v.copy()  # -inf once settled, so that no arc leads back
        remaining[roots] = -np.inf
        settled, distances = roots.tolist(), [0.0] * len(roots)
        through = np.empty(len(v))
        while number:
            i = int(opened.argmin())
            distance = float(opened[i])
            if distance == np.inf:
                break
            settled.append(i)
            distances.append(distance)
            number -= bool(wanted[i])
            np.subtract(arc[i], remaining, out=through)
            through += v[i] + distance
            opened[i], remaining[i] = np.inf, -np.inf
            np.maximum(through, distance, out=through)
            through[i] = np.inf
            np.minimum(opened, through, out=opened)
        if number == int(wanted.sum()):
            return False
        v[settled] += np.array(distances) - distances[-1]
        return True

    def _flow(self, limit: float) -> bool:
        level = self._levels(limit)
        ends = np.flatnonzero((self.excess < -self.mass_tolerance) & (level < len(level)))
        for end in ends[level[ends].argsort(kind="stable")].tolist():
            while self.excess[end] < -self.mass_tolerance and (path := self._path(end, level)):
                self._send(path)
                if self.excess[path[0]] <= self.mass_tolerance:
                    level[path[0]] = len(level)
        return len(ends) > 0

    def _levels(self, limit: float) -> Ints:
        """(n,) number of free arcs, at most `limit` long, from the nearest cell with an excess; n where none lead."""
        n = len(self.v)
        np.subtract.outer(limit - self.v, -self.v, out=self._bound)  # of the prices
        np.less_equal(self.arc, self._bound, out=self._free)
        level = np.where(self.excess > self.mass_tolerance, 0, n)
        for steps in range(n):
            reached = self._free[level == steps].any(0) & (level == n)
            if not reached.any():
                break
            level[reached] = steps + 1
        return level

    def _path(self, end: int, level: Ints) -> list[int]:
        """Cells on a way over free arcs from one with an excess, each a level higher, or none.

        Cells to which none is found lose their level.
        """
        path = [end]
        while path:
            j = path[-1]
            if level[j] == 0:
                return path[::-1]
            before = np.flatnonzero(level == level[j] - 1)
            over = self.arc[before, j] - self._bound[before, j]
            if len(before) and over.min() <= 0:
                # Arcs on shortest paths are as long as each other but for rounding, which is not to choose among them.
                cheapest = over <= min(over.min() + self.arc_tolerance, 0.0)
                path.append(int(before[cheapest.argmax()]))
            else:
                level[j] = len(level)
                path.pop()
        return path

    def _send(self, path: list[int]) -> None:
        """Send what the last cell of a path lacks and the first has too much; what cannot go on stays on the way.

        A cell on the way that holds next to nothing is no bottleneck as long as what arrives can go on.
        """
        first, last = path[0], path[-1]
        amount = float(min(self.excess[first], -self.excess[last]))
        for i, j in pairwise(path):
            paid, amount = self.stocks[i].send(
                self.stocks[j], amount, float(self._bound[i, j]), self.cost, self.mass_tolerance
            )
            self._left -= paid + amount * float(self.v[i] - self.v[j])
            self.excess[i] -= amount
            self.excess[j] += amount
            self._walked += amount
        self._sent += amount


def spread(
    rows: Ints, cols: Ints, mass: Floats, excess: Floats, along: tuple[Floats, Floats] | None = None
) -> tuple[Ints, Ints, Floats]:
    """Move whatever excess is left to whichever cell lacks it (north-west corner rule); always feasible, not optimal.

    Args:
        rows, cols, mass: (entries,) a plan; of each cell the first entries leave.
        excess: (n,) its column sums minus the point weights.
        along: a coordinate of each row and of each point; mass is matched in their order, so that little goes far.

    Returns:
        Entries of a plan whose column sums are the point weights.
    """
    order = np.argsort(cols, kind="stable")
    rows, cols, mass = rows[order], cols[order], mass[order]
    before = np.cumsum(mass) - mass
    first = np.searchsorted(cols, np.arange(len(excess)))
    before -= before[np.minimum(first, len(cols) - 1)][cols]  # mass of the same cell in earlier entries
    leaving = np.clip(np.maximum(excess, 0.0)[cols] - before, 0.0, mass)
    movers = np.flatnonzero(leaving > 0)
    takers = np.flatnonzero(excess < 0)
    if along is not None:
        movers = movers[np.argsort(along[0][rows[movers]], kind="stable")]
        takers = takers[np.argsort(along[1][takers], kind="stable")]
    sent, wanted = np.cumsum(leaving[movers]), np.cumsum(-excess[takers])
    ends = np.union1d(sent, wanted)
    pieces = np.diff(ends, prepend=0.0)
    piece_ends = ends - pieces / 2
    mover = np.minimum(np.searchsorted(sent, piece_ends), len(movers) - 1)
    taker = np.minimum(np.searchsorted(wanted, piece_ends), len(takers) - 1)
    stay = mass - leaving
    kept = (stay > 0) | (mass == 0)
    return (
        np.concatenate((rows[kept], rows[movers[mover]])),
        np.concatenate((cols[kept], takers[taker])),
        np.concatenate((stay[kept], pieces)),
    )
