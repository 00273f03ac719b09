"""Residual arcs along lists of candidates, made from the rows whenever they are asked for.

    k samples      i, j cells (n)      r rows      e entries: sample, candidate point, cost      v (n,) potential

With thousands of points the n x n arcs between cells are nearly all too dear to be used, and too many to be kept. Here
an arc exists only where a sample of one cell lists the other point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .arcs import ROUNDING, Arcs, Bools, Floats, Ints

FIRST_REACH = 1 / 64  # largest prices: arcs beyond are left out of shortest paths, as long as these reach the sinks
MORE_REACH = 4.0  # times as long are the arcs that are tried where those so far reach too few sinks


@dataclass(frozen=True)
class ArcLists:
    """Candidates of samples, which include the cell of each."""

    offsets: Ints  # (k + 1,) where the entries of each sample begin
    cols: Ints  # (e,) candidate points
    cost: Floats  # (e,) their costs


@dataclass(frozen=True)
class _RowArcs:
    """Arcs, one for each row that could leave."""

    row: Ints  # (f,) which row
    entry: Ints  # (f,) of a list: where that may go
    tail: Ints  # (f,) its cell
    head: Ints  # (f,) the other cell
    length: Floats  # (f,) reduced cost, not negative

    def picked(self, index: Ints) -> _RowArcs:
        """Some of these."""
        return _RowArcs(self.row[index], self.entry[index], self.tail[index], self.head[index], self.length[index])


class ListArcs(Arcs):
    """Arcs of samples with lists of candidates; cell and mass as for `Arcs`."""

    def __init__(self, lists: ArcLists, cell: Ints, mass: Floats, v: Floats, tolerance: float) -> None:
        self._lists, self._counts = lists, np.diff(lists.offsets)
        self._owner = np.repeat(np.arange(len(cell)), self._counts)
        own_entry, own = np.flatnonzero(lists.cols == cell[self._owner]), np.zeros(len(cell))
        own[self._owner[own_entry]] = lists.cost[own_entry]
        super().__init__(cell, mass, own, len(v))
        prices = lists.cost - np.repeat(own, self._counts)
        self._largest = float(np.abs(prices).max(initial=0.0)) + float(np.ptp(v))
        self.tolerance = max(tolerance, ROUNDING * self._largest)
        self._reach = FIRST_REACH * self._largest  # arcs no longer than this are tried first for shortest paths
        self._at, self._kept = v, lists.cost - v[lists.cols]
        self._lost: Bools = np.zeros(len(v), dtype=bool)  # sinks to which no arcs led, however long

    def _reduced(self, v: Floats) -> Floats:
        """(e,) c - v, kept for as long as the potential is the same array."""
        if self._at is not v:
            self._at, self._kept = v, self._lists.cost - v[self._lists.cols]
        return self._kept

    def _arcs(self, v: Floats, reduced: Floats, limit: float) -> _RowArcs:
        """All arcs up to `limit` long. One that hardly any mass could take would block a path, and is left out."""
        k, offsets = len(self._counts), self._lists.offsets
        base = np.where(self.mass > self.mass_tolerance, self.own - v[self.cell], -np.inf)
        length = reduced - np.repeat(base[:k], self._counts)
        entry = np.flatnonzero(length <= limit)
        row, length = self._owner[entry], length[entry]
        parts = k + np.flatnonzero(self.mass[k:] > self.mass_tolerance)  # rows split off
        if len(parts):
            count = self._counts[self.sample[parts]]
            of_part = np.repeat(parts, count)
            more = np.arange(len(of_part)) + np.repeat(offsets[self.sample[parts]] - (np.cumsum(count) - count), count)
            more_length = reduced[more] - base[of_part]
            short = more_length <= limit
            row, entry = np.append(row, of_part[short]), np.append(entry, more[short])
            length = np.append(length, more_length[short])
        tail, head = self.cell[row], self._lists.cols[entry]
        away = np.flatnonzero((tail != head) & np.isfinite(length))
        return _RowArcs(row, entry, tail, head, np.maximum(length, 0.0)).picked(away)

    def distances(self, v: Floats, sources: Bools, sinks: Bools) -> Floats:
        """Bellman-Ford over arcs up to a length, and longer ones where those lead to too few sinks."""
        reduced, reach = self._reduced(v), self._reach
        while True:
            distance = shortest(self._arcs(v, reduced, reach), sources)
            distance[distance > reach] = np.inf  # what is farther may be nearer by way of arcs that are longer
            ends = sinks & np.isfinite(distance)
            if reach == np.inf or (ends.any() and (ends | self._lost)[sinks].all()):
                break
            reach = reach * MORE_REACH if 0 < reach < self._largest else np.inf
        if reach == np.inf:
            self._lost = sinks & ~ends
        if ends.any():
            self._reach = min(reach, 2 * float(distance[ends].max()))
        return distance

    def admit(self, v: Floats, limit: float) -> None:
        self._admitted = self._arcs(v, self._reduced(v), limit)

    def heads(self, tails: Bools) -> Bools:
        reached = np.zeros(len(tails), dtype=bool)
        reached[self._admitted.head[tails[self._admitted.tail]]] = True
        return reached

    def layer(self, level: Ints) -> None:
        """All rows that could leave one cell for another become one arc here, the shortest first."""
        n, arcs = len(level), self._admitted
        arcs = arcs.picked(np.flatnonzero(level[arcs.head] == level[arcs.tail] + 1))
        arcs = arcs.picked(ranked(arcs.head * n + arcs.tail, arcs.length, arcs.row, self.tolerance))
        first = np.flatnonzero(np.diff(arcs.head * n + arcs.tail, prepend=-1))
        stop = np.append(first[1:], len(arcs.head))
        tail, head = arcs.tail[first], arcs.head[first]
        order = ranked(head, arcs.length[first], tail, self.tolerance)
        self._tail: list[int] = tail[order].tolist()
        self._place: list[int] = first[order].tolist()  # of each arc, its shortest row that has not left
        self._stop: list[int] = stop[order].tolist()
        bounds = np.searchsorted(head[order], np.arange(n + 1)).tolist()
        self._next, self._last = bounds[:-1], bounds[1:]  # of the arcs to each cell
        self._rows: list[int] = arcs.row.tolist()
        self._costs: list[float] = self._lists.cost[arcs.entry].tolist()
        self._level = level

    def tail(self, j: int) -> int | None:
        for arc in range(self._next[j], self._last[j]):
            tail = self._tail[arc]
            if self._level[tail] < len(self._level) and next(self._left(arc), None) is not None:
                self._next[j] = arc
                return tail
        self._next[j] = self._last[j]
        return None

    def _left(self, arc: int) -> Iterator[int]:
        """Places of the rows of an arc that have not left."""
        tail = self._tail[arc]
        for place in range(self._place[arc], self._stop[arc]):
            if self.cell[self._rows[place]] == tail:
                self._place[arc] = place
                yield place
        self._place[arc] = self._stop[arc]

    def leaving(self, i: int, j: int) -> Iterator[tuple[int, float]]:
        return ((self._rows[place], self._costs[place]) for place in self._left(self._next[j]))

    def nearest(self, v: Floats) -> tuple[Ints, Floats]:
        """The first of those that are nearest but for rounding."""
        reduced, first = self._reduced(v), self._lists.offsets[:-1]
        least = np.minimum.reduceat(reduced, first)
        near = np.flatnonzero(reduced <= np.repeat(least + self.tolerance, self._counts))
        entry = near[np.searchsorted(near, first)]
        return self._lists.cols[entry], self._lists.cost[entry]


def shortest(arcs: _RowArcs, sources: Bools) -> Floats:
    """Distance of every cell from the sources (n,), infinite where no path leads, (n,) (Bellman-Ford).

    No reduced cost is negative, so that few sweeps are needed.
    """
    n = len(sources)
    distance = np.where(sources, 0.0, np.inf)
    narrow = np.min_scalar_type(n)  # 16 bits are sorted 10 times faster
    order = np.argsort(arcs.tail.astype(narrow), kind="stable")
    order = order[np.argsort(arcs.head[order].astype(narrow), kind="stable")]
    head, tail = arcs.head[order], arcs.tail[order]
    pairs = np.flatnonzero(np.diff(head * n + tail, prepend=-1))  # the shortest of them is enough
    head, tail, length = head[pairs], tail[pairs], np.minimum.reduceat(arcs.length[order], pairs)
    segments = np.flatnonzero(np.diff(head, prepend=-1))
    heads = head[segments]
    while len(head):
        nearest = np.minimum.reduceat(distance[tail] + length, segments)
        better = nearest < distance[heads]
        if not better.any():
            break
        distance[heads[better]] = nearest[better]
    return distance


def ranked(key: Ints, length: Floats, tie: Ints, tolerance: float) -> Ints:
    """The order by key, then by length, and among those that are as long but for rounding by `tie`: (f,) each."""
    order = np.lexsort((length, key))
    apart = (np.diff(key[order], prepend=-1) > 0) | (np.diff(length[order], prepend=0.0) > tolerance)
    return order if apart.all() else order[np.lexsort((tie[order], np.cumsum(apart)))]
