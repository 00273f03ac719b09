"""The same as `balance` for many points: from lists of candidates instead of all costs.

    i, j cells (n)      r rows: sample, its cell, mass there      e entries: sample, candidate point, cost      v (n,)

With thousands of points the n x n arcs between cells are nearly all too dear to be used, and too many to be kept. Here
an arc exists only where a sample of one cell lists the other point, and none is kept: arcs up to the length that
matters are made from the entries whenever they are asked for. Shortest paths from all excess at once are found by
sweeping over those (Bellman 1958, Ford 1956; the potential keeps all lengths non-negative, so that few sweeps are
needed), and mass flows over levels of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cell_samples import Floats, Ints
from .network import Balanced, FlowNetwork

SHORT = 1 / 64  # of the largest price: a length that most arcs have
FARTHER = 4.0  # times as long are the arcs that are tried where those so far reach too few cells


@dataclass(frozen=True)
class ArcLists:
    """Candidates of the boundary samples, which include the cell of each.

    Attributes:
        offsets: (k + 1,) where the entries of each sample begin.
        cols: (e,) candidate points.
        cost: (e,) their costs.
    """

    offsets: Ints
    cols: Ints
    cost: Floats


def balance_lists(
    lists: ArcLists,
    cell: Ints,
    mass: Floats,
    excess: Floats,
    v: Floats,
    *,
    arc_tolerance: float,
    suboptimality: Sequence[float],
) -> Balanced:
    """Move all excess to the cells that lack it; arguments and result as for `balance`, but for lists of costs."""
    return _SparseNetwork(lists, cell, mass, excess, v, arc_tolerance).balanced(suboptimality)


@dataclass(frozen=True)
class _Arcs:
    """Ways for mass, one for each row that could take it.

    Attributes:
        row, entry: (f,) which row would leave, and for where.
        tail, head: (f,) cells.
        length: (f,) what it costs beyond the difference of the potential, not negative.
    """

    row: Ints
    entry: Ints
    tail: Ints
    head: Ints
    length: Floats

    def picked(self, index: Ints) -> _Arcs:
        """Some of these."""
        return _Arcs(self.row[index], self.entry[index], self.tail[index], self.head[index], self.length[index])


class _SparseNetwork(FlowNetwork):
    """Rows of samples: the first ones one of each sample, then those of parts that have been split off."""

    def __init__(
        self, lists: ArcLists, cell: Ints, mass: Floats, excess: Floats, v: Floats, arc_tolerance: float
    ) -> None:
        self.lists, self.counts = lists, np.diff(lists.offsets)
        self.sample: Ints = np.arange(len(cell))
        self.cell: Ints = cell.copy()
        self.mass: Floats = mass.copy()
        self._owner = owner = np.repeat(self.sample, self.counts)
        home = np.flatnonzero(lists.cols == cell[owner])
        self.own: Floats = np.zeros(len(cell))  # cost of each row where it is
        self.own[owner[home]] = lists.cost[home]
        self.parts: list[tuple[int, int, int, float]] = []  # split off and not yet rows: sample, cell, entry, mass
        prices = lists.cost - np.repeat(self.own, self.counts)
        self._largest = float(np.abs(prices).max(initial=0.0)) + float(np.ptp(v))
        super().__init__(excess, v, max(arc_tolerance, 16 * np.finfo(np.float64).eps * self._largest), len(cell))
        self._reach = SHORT * self._largest  # arcs no longer than this are tried first for shortest paths
        self._lost: NDArray[np.bool_] = np.zeros(len(v), dtype=bool)  # cells to which no arcs led, however long

    def arcs(self, limit: float) -> _Arcs:
        """All arcs up to `limit` long. One that hardly any mass could take would block a way, and is left out."""
        k, offsets = len(self.counts), self.lists.offsets
        base = np.where(self.mass > self.mass_tolerance, self.own - self.v[self.cell], -np.inf)
        length = self._reduced - np.repeat(base[:k], self.counts)
        entry = np.flatnonzero(length <= limit)
        row, length = self._owner[entry], length[entry]
        if len(base) > k:
            count = self.counts[self.sample[k:]]
            more_row = np.repeat(np.arange(k, len(base)), count)
            more = np.arange(len(more_row)) + np.repeat(offsets[self.sample[k:]] - (np.cumsum(count) - count), count)
            more_length = self._reduced[more] - base[more_row]
            short = more_length <= limit
            row, entry = np.append(row, more_row[short]), np.append(entry, more[short])
            length = np.append(length, more_length[short])
        tail, head = self.cell[row], self.lists.cols[entry]
        away = np.flatnonzero((tail != head) & np.isfinite(length))
        return _Arcs(row, entry, tail, head, np.maximum(length, 0.0)).picked(away)

    def _raise_potential(self) -> bool:
        sources, wanted = self.excess > self.mass_tolerance, self.excess < -self.mass_tolerance
        if not (sources.any() and wanted.any()):
            return False
        self._reduced = self.lists.cost - self.v[self.lists.cols]
        reach = self._reach
        while True:
            arcs = self.arcs(reach)
            distance = shortest(arcs, sources)
            ends = wanted & (distance <= reach)  # what is farther may be nearer by way of arcs that are longer
            if reach == np.inf or (ends.any() and (ends | self._lost)[wanted].all()):
                break
            reach = reach * FARTHER if 0 < reach < self._largest else np.inf
        if reach == np.inf:
            ends &= np.isfinite(distance)
            self._lost = wanted & ~ends
        if not ends.any():
            return False
        last = distance[ends].max()
        self.v += np.minimum(distance, last) - last
        self._reduced = self.lists.cost - self.v[self.lists.cols]
        self._reach = min(reach, 2 * float(last))
        return True

    def _flow(self, limit: float) -> bool:
        arcs = self.arcs(limit)
        level = levels(arcs, self.excess > self.mass_tolerance)
        ends = np.flatnonzero((self.excess < -self.mass_tolerance) & (level < len(level)))
        ways = _Ways(arcs, level, self.arc_tolerance)
        for end in ends[level[ends].argsort(kind="stable")].tolist():
            while self.excess[end] < -self.mass_tolerance and (path := ways.path(end, self.cell)):
                self._send(path, ways)
                if self.excess[ways.tail[path[0]]] <= self.mass_tolerance:
                    ways.close(ways.tail[path[0]])
        self._settle()
        return len(ends) > 0

    def _send(self, path: list[int], ways: _Ways) -> None:
        """Send what the last cell of a path lacks and the first has too much; what cannot go on stays on the way."""
        first, last = ways.tail[path[0]], ways.head[path[-1]]
        amount = float(min(self.excess[first], -self.excess[last]))
        for arc in path:
            i, j = ways.tail[arc], ways.head[arc]
            left = amount
            while left > self.mass_tolerance and (place := ways.place(arc, self.cell)) is not None:
                row, entry = ways.row[place], ways.entry[place]
                held = float(self.mass[row])
                if held - left <= self.mass_tolerance:  # crumbs of rounding would travel for ever
                    part = held
                    self.cell[row], self.own[row] = j, self.lists.cost[entry]
                else:
                    part = left
                    self.mass[row] = held - part
                    self.parts.append((int(self.sample[row]), j, entry, part))
                self._left -= part * ways.length[place]
                left -= part
            amount -= left
            self.excess[i] -= amount
            self.excess[j] += amount
            self._walked += amount
        self._sent += amount

    def _settle(self) -> None:
        """Make rows of parts that have been split off, and one of those rows of a sample that are in one cell."""
        k = len(self.counts)
        if self.parts:
            sample, cell, entry, mass = (np.array(column) for column in zip(*self.parts, strict=True))
            self.sample, self.cell = np.append(self.sample, sample), np.append(self.cell, cell)
            self.own, self.mass = np.append(self.own, self.lists.cost[entry]), np.append(self.mass, mass)
            self.parts.clear()
        if len(self.sample) == k:
            return
        rows = np.append(np.unique(self.sample[k:]), np.arange(k, len(self.sample)))
        key = self.sample[rows] * len(self.v) + self.cell[rows]
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        mass = np.bincount(group, self.mass[rows])
        self.mass[rows] = 0.0
        self.mass[rows[first]] = mass
        kept = np.append(np.arange(k), k + np.flatnonzero(self.mass[k:]))
        self.sample, self.cell = self.sample[kept], self.cell[kept]
        self.own, self.mass = self.own[kept], self.mass[kept]

    def _restore_slackness(self) -> None:
        """Also where it lists no other cell."""
        reduced = self.lists.cost - self.v[self.lists.cols]
        least = np.minimum.reduceat(reduced, self.lists.offsets[:-1])
        near = np.flatnonzero(reduced <= np.repeat(least + self.arc_tolerance, self.counts))
        home = near[np.searchsorted(near, self.lists.offsets[:-1])]  # of each sample, its first entry among those
        astray = np.flatnonzero(self.own - self.v[self.cell] > least[self.sample] + self.arc_tolerance)
        entry = home[self.sample[astray]]
        np.subtract.at(self.excess, self.cell[astray], self.mass[astray])
        self.cell[astray], self.own[astray] = self.lists.cols[entry], self.lists.cost[entry]
        np.add.at(self.excess, self.cell[astray], self.mass[astray])
        self._settle()

    def _entries(self) -> tuple[Ints, Ints, Floats]:
        alive = self.mass > 0
        return self.sample[alive], self.cell[alive], self.mass[alive]


def shortest(arcs: _Arcs, sources: NDArray[np.bool_]) -> Floats:
    """Distance of every cell from the sources (n,), infinite where no way leads, (n,)."""
    n = len(sources)
    distance = np.where(sources, 0.0, np.inf)
    order = np.argsort(arcs.head.astype(np.min_scalar_type(n)), kind="stable")  # 16 bits are sorted 10 times faster
    head, tail, length = arcs.head[order], arcs.tail[order], arcs.length[order]
    segments = np.flatnonzero(np.diff(head, prepend=-1))
    heads = head[segments]
    while len(head):
        nearest = np.minimum.reduceat(distance[tail] + length, segments)
        better = nearest < distance[heads]
        if not better.any():
            break
        distance[heads[better]] = nearest[better]
    return distance


def levels(arcs: _Arcs, sources: NDArray[np.bool_]) -> Ints:
    """Number of arcs from the nearest of the sources (n,) to each cell, (n,); n where none lead."""
    n = len(sources)
    level = np.where(sources, 0, n)
    for steps in range(n):
        reached = arcs.head[level[arcs.tail] == steps]
        reached = reached[level[reached] == n]
        if not len(reached):
            break
        level[reached] = steps + 1
    return level


def ranked(key: Ints, length: Floats, tie: Ints, arc_tolerance: float) -> Ints:
    """The order by key, then by length, and among those that are as long but for rounding by `tie`: (f,) each."""
    order = np.lexsort((length, key))
    apart = (np.diff(key[order], prepend=-1) > 0) | (np.diff(length[order], prepend=0.0) > arc_tolerance)
    return order[np.lexsort((tie[order], np.cumsum(apart)))]


class _Ways:
    """Those arcs that lead a level higher, by their heads.

    All rows that could leave one cell for another are one arc here, the cheapest first, and of the arcs to a cell the
    shortest come first. Of those that are as long but for rounding, which is not to choose, the first do.

    Args:
        arcs: free ones.
        level: (n,) of the cells.
        arc_tolerance: size of rounding.

    Attributes:
        tail, head: cells of each arc.
        row, entry, length: of each place, as in `_Arcs`.
    """

    def __init__(self, arcs: _Arcs, level: Ints, arc_tolerance: float) -> None:
        n = len(level)
        arcs = arcs.picked(np.flatnonzero(level[arcs.head] == level[arcs.tail] + 1))
        arcs = arcs.picked(ranked(arcs.head * n + arcs.tail, arcs.length, arcs.row, arc_tolerance))
        first = np.flatnonzero(np.diff(arcs.head * n + arcs.tail, prepend=-1))
        stop = np.append(first[1:], len(arcs.head))
        tail, head = arcs.tail[first], arcs.head[first]
        order = ranked(head, arcs.length[first], tail, arc_tolerance)
        self.tail: list[int] = tail[order].tolist()
        self.head: list[int] = head[order].tolist()
        self._place: list[int] = first[order].tolist()  # of each arc, its cheapest row that has not left
        self._stop: list[int] = stop[order].tolist()
        bounds = np.searchsorted(head[order], np.arange(n + 1)).tolist()
        self._next, self._last = bounds[:-1], bounds[1:]  # of the arcs to each cell
        self.row: list[int] = arcs.row.tolist()
        self.entry: list[int] = arcs.entry.tolist()
        self.length: list[float] = arcs.length.tolist()
        self._level: list[int] = level.tolist()

    def close(self, cell: int) -> None:
        """Let no way lead through a cell any more."""
        self._level[cell] = len(self._level)

    def path(self, end: int, cell: Ints) -> list[int]:
        """Arcs of a way to a cell from one with an excess, or none; cells to which none leads are closed.

        `cell` is where each row is now.
        """
        path: list[int] = []
        j = end
        while self._level[j]:
            arc = self._next[j]
            while arc < self._last[j] and not self._open(arc, cell):
                arc += 1
            self._next[j] = arc
            if arc < self._last[j]:
                path.append(arc)
                j = self.tail[arc]
            else:
                self.close(j)
                if not path:
                    return path
                j = self.head[path.pop()]
        return path[::-1]

    def _open(self, arc: int, cell: Ints) -> bool:
        return self._level[self.tail[arc]] < len(self._level) and self.place(arc, cell) is not None

    def place(self, arc: int, cell: Ints) -> int | None:
        """Where the cheapest row is that may still leave over an arc, or None."""
        tail, stop = self.tail[arc], self._stop[arc]
        place = self._place[arc]
        while place < stop and cell[self.row[place]] != tail:
            place += 1
        self._place[arc] = place
        return place if place < stop else None
