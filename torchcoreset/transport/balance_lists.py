"""The same as `balance` for many points: from lists of candidates instead of all costs.

    i, j cells (n)      r rows: sample, its cell, mass there      e entries: sample, candidate point, cost

With thousands of points the n x n arcs between cells are nearly all too dear to be used, and too many to be kept. Here
an arc exists only where a sample of one cell lists the other point. Each round sorts the entries by arc and price,
finds the shortest paths from all surplus at once by sweeping over the arcs (Bellman 1958, Ford 1956; the potential
keeps all lengths non-negative, so that few sweeps are needed), and then moves mass along many of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .balance import DUST, Balanced
from .stock import Floats, Ints

ROUNDS = 1000  # more than a problem that makes progress has needed


@dataclass(frozen=True)
class Lists:
    """Candidates of the movable samples, which include the cell of each.

    Attributes:
        offsets: (k + 1,) where the entries of each sample begin.
        cols: (e,) candidate points.
        cost: (e,) their costs.
    """

    offsets: Ints
    cols: Ints
    cost: Floats


def balance_lists(
    lists: Lists, cell: Ints, mass: Floats, surplus: Floats, v: Floats, *, allowance: float, budget: float
) -> Balanced:
    """Move surplus mass to the cells that lack it; arguments and result as for `balance`, with one budget."""
    work = _Rows(lists, cell, mass)
    v, surplus = v.copy(), surplus.copy()
    dust = DUST / len(v)
    rounds = 0
    while rounds < ROUNDS and (surplus > dust).any():
        arcs = work.arcs(v, dust)
        distance, previous = arcs.shortest(surplus > dust)
        ends = np.flatnonzero((surplus < -dust) & np.isfinite(distance))
        if not len(ends):
            break
        allowance = max(allowance, budget / float(surplus[surplus > dust].sum()))
        ends = ends[np.argsort(distance[ends], kind="stable")]
        v += np.minimum(distance, distance[ends[-1]]) - distance[ends[-1]]
        moved = 0.0
        for end in ends:
            path = arcs.path(previous, int(end))
            start = int(arcs.tail[path[0]])
            amount = float(min(surplus[start], -surplus[end]))
            if amount > dust:
                amount = work.move(path, arcs, amount, allowance, dust)
                surplus[start] -= amount
                surplus[end] += amount
                moved += amount
        rounds += 1
        if moved <= dust:
            break
    work.settle()
    alive = work.mass > 0
    return Balanced(work.sample[alive], work.cell[alive], work.mass[alive], v, rounds)


class _Arcs:
    """What mass may travel on in one round: for each pair of cells the rows that can go, cheapest first.

    Args:
        key: (e,) tail * n + head of each entry, ascending.
        price: (e,) cost of going, ascending within a key.
        rows: (e,) which row would go.
        v: (n,) potential.
    """

    def __init__(self, key: Ints, price: Floats, rows: Ints, v: Floats) -> None:
        n = len(v)
        first = np.flatnonzero(np.diff(key, prepend=-1))
        self.tail, self.head = np.divmod(key[first], n)
        self.price, self.rows = price, rows
        self.cursor = first.copy()  # of each arc, the cheapest row that has not gone
        self.stop = np.append(first[1:], len(key))
        self.least = price[first]
        # A toll of the size of rounding makes every arc cost something, so that no path is longer than it need be.
        toll = 16 * np.finfo(np.float64).eps * float(np.abs(self.least).max(initial=0.0) + np.abs(v).max())
        self._length = np.maximum(self.least + v[self.tail] - v[self.head], 0.0) + max(toll, np.finfo(np.float64).tiny)
        self._by_head = np.argsort(self.head, kind="stable")
        self._segments = np.flatnonzero(np.diff(self.head[self._by_head], prepend=-1))
        self._heads = self.head[self._by_head][self._segments]
        self._counts = np.diff(self._segments, append=len(self._by_head))

    def shortest(self, sources: NDArray[np.bool_]) -> tuple[Floats, Ints]:
        """Distance of every cell from the sources, (n,), infinite where no path leads, and the last arc of its path."""
        distance = np.where(sources, 0.0, np.inf)
        previous = np.full(len(distance), -1)
        while True:
            reached = (distance[self.tail] + self._length)[self._by_head]
            nearest = np.minimum.reduceat(reached, self._segments) if len(reached) else reached
            better = nearest < distance[self._heads]
            if not better.any():
                return distance, previous
            distance[self._heads[better]] = nearest[better]
            # Only an arc that has just shortened a way becomes the last of one: so no path runs in circles, which
            # arcs that merely agree with the distances do where these are so large that they round the tolls away.
            last = self._by_head[np.repeat(better, self._counts) & (reached == np.repeat(nearest, self._counts))]
            previous[self.head[last]] = last

    def path(self, previous: Ints, end: int) -> list[int]:
        """The arcs that lead to a cell, in their order."""
        path = []
        while (arc := int(previous[end])) >= 0:
            path.append(arc)
            end = int(self.tail[arc])
        return path[::-1]


@dataclass
class _Rows:
    """Where the mass of the movable samples is: one row for each sample and cell."""

    lists: Lists
    cell: Ints
    mass: Floats
    sample: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.cell, self.mass = self.cell.copy(), self.mass.copy()
        self.sample = np.arange(len(self.cell))
        self._parts: list[tuple[int, int, float]] = []  # of samples split in this round: sample, cell, mass

    def settle(self) -> None:
        """Put parts of split samples into rows of their own."""
        if self._parts:
            sample, cell, mass = zip(*self._parts, strict=True)
            self.sample = np.append(self.sample, sample)
            self.cell = np.append(self.cell, cell)
            self.mass = np.append(self.mass, mass)
            self._parts.clear()

    def arcs(self, v: Floats, dust: float) -> _Arcs:
        """The arcs between cells as the rows are now; one that hardly any mass could take would block a path."""
        self.settle()
        alive = np.flatnonzero(self.mass > dust)
        first = self.lists.offsets[self.sample[alive]]
        count = self.lists.offsets[self.sample[alive] + 1] - first
        rows = np.repeat(alive, count)
        entry = np.arange(len(rows)) + np.repeat(first - (np.cumsum(count) - count), count)
        tail, head, cost = self.cell[rows], self.lists.cols[entry], self.lists.cost[entry]
        own = tail == head
        here = np.zeros(len(self.cell))
        here[rows[own]] = cost[own]
        rows, key, price = rows[~own], (tail * len(v) + head)[~own], (cost - here[rows])[~own]
        order = np.lexsort((price, key))
        return _Arcs(key[order], price[order], rows[order], v)

    def move(self, path: list[int], arcs: _Arcs, amount: float, allowance: float, dust: float) -> float:
        """Send up to `amount` along a path, over rows within the allowance of the cheapest; what was sent."""
        leaving = [self._leaving(arc, arcs, amount, allowance) for arc in path]
        amount = min(amount, *(float(self.mass[rows].sum()) for rows in leaving))
        if amount <= dust:
            return 0.0
        for arc, rows in zip(path, leaving, strict=True):
            left, target = amount, int(arcs.head[arc])
            for row in rows:
                held = float(self.mass[row])
                if held - left <= dust:  # crumbs of rounding would travel for ever
                    self.cell[row] = target
                    left -= held
                else:
                    self.mass[row] = held - left
                    self._parts.append((int(self.sample[row]), target, left))
                    left = 0.0
                if left <= dust:
                    break
        return amount

    def _leaving(self, arc: int, arcs: _Arcs, amount: float, allowance: float) -> list[int]:
        """Rows that are still in the arc's tail and may go, cheapest first, until they hold the amount."""
        chosen: list[int] = []
        held, limit = 0.0, arcs.least[arc] + allowance
        place = int(arcs.cursor[arc])
        while place < arcs.stop[arc] and held < amount and arcs.price[place] <= limit:
            row = int(arcs.rows[place])
            if self.cell[row] == arcs.tail[arc]:
                chosen.append(row)
                held += float(self.mass[row])
            elif not chosen:
                arcs.cursor[arc] = place + 1
            place += 1
        return chosen
