"""From nearly balanced cells to a feasible plan: surplus mass moved along shortest augmenting paths.

    i, j cells (n)      k samples      r_ij least c_kj - c_ki over the samples k of cell i      v (n,) potential

After Newton every sample lies in the cell of its nearest point in c - v, and each cell holds almost the mass of its
point. What is left over travels over the graph whose nodes are the n cells: the arc from i to j costs the least that
a sample of cell i pays for leaving to j, r_ij + v_i - v_j >= 0. Moving mass along the shortest path from a cell with
surplus to a cell with a deficit, and adding min(distance, distance of the end) to v, keeps all arcs non-negative
(successive shortest paths: Ahuja, Magnanti, Orlin, Network Flows, 1993, section 9.7). When no surplus is left, plan
and potential are both optimal. A sample may be split, so weights need not be equal.

Only samples near a boundary ever move. The caller passes those, with their costs to all points in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DUST = 1e-12  # of the mean point weight: mass below it is rounding, and not moved


@dataclass(frozen=True)
class Balanced:
    """Where the mass of the given samples ended up.

    Attributes:
        rows, cols, mass: entries of the plan restricted to the given samples.
        potential: (n,) updated potential.
        rounds: how often shortest paths were sought.
    """

    rows: Ints
    cols: Ints
    mass: Floats
    potential: Floats
    rounds: int


class _Cell:
    """The movable samples of one cell: their masses, and what each would pay for leaving to every other cell."""

    def __init__(self, index: int, rows: Ints, mass: Floats, price: Floats) -> None:
        self.index = index
        self.count = len(rows)
        self.rows = rows.tolist()
        self.mass = mass.tolist()
        self.price = price  # (capacity, n), of which the first `count` rows are in use
        self.place = {k: place for place, k in enumerate(self.rows)}

    def add(self, k: int, mass: float, cost: Floats) -> None:
        """Take in mass of sample k, whose costs to all points are given."""
        place = self.place.get(k)
        if place is not None:
            self.mass[place] += mass
            return
        if self.count == len(self.price):
            grown = np.empty((2 * self.count + 8, len(cost)))
            grown[: self.count] = self.price
            self.price = grown
        self.price[self.count] = cost - cost[self.index]
        self.place[k] = self.count
        self.rows.append(k)
        self.mass.append(mass)
        self.count += 1

    def remove(self, place: int) -> None:
        """Forget the sample at a place; the last one moves there."""
        last = self.count - 1
        del self.place[self.rows[place]]
        if place != last:
            self.price[place] = self.price[last]
            self.rows[place], self.mass[place] = self.rows[last], self.mass[last]
            self.place[self.rows[place]] = place
        self.rows.pop()
        self.mass.pop()
        self.count = last

    def arcs(self) -> Floats:
        """(n,) the least price for leaving to each cell; infinite to itself."""
        arcs: Floats = self.price[: self.count].min(0) if self.count else np.full(self.price.shape[1], np.inf)
        arcs[self.index] = np.inf
        return arcs

    def leaving(self, target: int, limit: float) -> list[int]:
        """Places of the samples that leave to `target` for at most `limit`, cheapest first."""
        price = self.price[: self.count, target]
        chosen = np.flatnonzero(price <= limit)
        return chosen[price[chosen].argsort(kind="stable")].tolist() if len(chosen) > 1 else chosen.tolist()


def balance(
    cost: Floats, cell: Ints, mass: Floats, surplus: Floats, v: Floats, *, allowance: float, budget: float
) -> Balanced:
    """Move surplus mass to the cells that lack it, along cheapest paths.

    Args:
        cost: (k, n) costs of the movable samples to all points.
        cell: (k,) their cells, nearest in cost - v.
        mass: (k,) their masses.
        surplus: (n,) mass of each cell over the weight of its point; sums to zero.
        v: (n,) potential.
        allowance: samples within this cost of the cheapest travel together; at rounding the result is optimal.
        budget: mass times cost that may be wasted. The smaller the surplus that is left, the dearer its samples may be,
            budget / surplus, which bounds the rounds.

    Returns:
        The new plan of these samples and the new potential. Surplus that found no path stays where it is.
    """
    n = len(v)
    cells = _make_cells(cost, cell, mass, n)
    arc = np.stack([c.arcs() for c in cells])
    v, surplus = v.copy(), surplus.copy()
    dust = DUST / n
    largest = float(np.abs(arc[np.isfinite(arc)]).max(initial=0.0)) + float(np.abs(v - np.median(v)).max())
    toll = 16 * np.finfo(np.float64).eps * largest
    rounds = 0
    # Each round uses up a surplus, a deficit, or a sample on some arc, so this many are never needed.
    while rounds < 20 * (n + len(cell)):
        ends, previous = _shortest_forest(arc, v, surplus > dust, surplus < -dust, toll)
        if not ends:
            break
        allowance = max(allowance, budget / float(surplus[surplus > dust].sum()))
        for end in ends:
            path = _path(previous, end)
            if surplus[path[0]] <= dust:
                continue
            hops = list(pairwise(path))
            # Earlier paths of this round may have used up what was cheap on an arc.
            if end != ends[0] and any(arc[i, j] + v[i] - v[j] > allowance for i, j in hops):
                continue
            leaving = [cells[i].leaving(j, arc[i, j] + allowance) for i, j in hops]
            held = [sum(cells[i].mass[place] for place in places) for (i, _), places in zip(hops, leaving, strict=True)]
            amount = float(min(surplus[path[0]], -surplus[end], *held))
            for (i, j), places in zip(hops, leaving, strict=True):
                _move(cells[i], cells[j], places, amount, cost, dust)
            for i in path:
                arc[i] = cells[i].arcs()
            surplus[path[0]] -= amount
            surplus[end] += amount
        rounds += 1
    rows = np.fromiter((k for c in cells for k in c.rows), dtype=np.int64)
    cols = np.repeat(np.arange(n), [c.count for c in cells])
    masses = np.fromiter((mass for c in cells for mass in c.mass), dtype=np.float64)
    return Balanced(rows, cols, masses, v, rounds)


def _make_cells(cost: Floats, cell: Ints, mass: Floats, n: int) -> list[_Cell]:
    order = np.argsort(cell, kind="stable")
    bounds = np.searchsorted(cell[order], np.arange(n + 1))
    cells = []
    for i in range(n):
        rows = order[bounds[i] : bounds[i + 1]]
        block = cost[rows]
        cells.append(_Cell(i, rows, mass[rows], block - block[:, i, None]))
    return cells


def _move(source: _Cell, target: _Cell, places: list[int], amount: float, cost: Floats, dust: float) -> None:
    """Move `amount` of mass, taking the samples at `places` in that order and splitting the last."""
    emptied = []
    for place in places:
        k, held = source.rows[place], source.mass[place]
        take = held if held - amount <= dust else amount  # crumbs of rounding would travel for ever
        target.add(k, take, cost[k])
        source.mass[place] = held - take
        if take >= held:
            emptied.append(place)
        amount -= take
        if amount <= dust:
            break
    for place in sorted(emptied, reverse=True):
        source.remove(place)


def _shortest_forest(
    arc: Floats, v: Floats, sources: NDArray[np.bool_], wanted: NDArray[np.bool_], toll: float
) -> tuple[list[int], Ints]:
    """Dijkstra from all sources at once to the wanted cells; raises v so that all arcs stay non-negative.

    Every arc also costs the toll, of the size of rounding: where a sample may go directly or by way of a third cell
    at the same price, it goes directly. By way of a cell that holds next to nothing, it would trickle.

    Returns:
        The wanted cells that were reached, nearest first, and the cell before each on its path (-1 at a source).
        Every arc on such a path now costs nothing.
    """
    n = len(v)
    previous = np.full(n, -1)
    roots = np.flatnonzero(sources)
    ends: list[int] = []
    number = int(wanted.sum())
    if not len(roots) or not number:
        return ends, previous
    first = arc[roots] + v[roots, None]
    nearest = first.argmin(0)
    opened = np.maximum(first[nearest, np.arange(n)] - v, 0.0)
    previous[:] = roots[nearest]
    previous[roots] = -1
    opened[roots] = np.inf
    remaining = v.copy()  # -inf once settled, so that no arc leads back
    remaining[roots] = -np.inf
    settled, distances = roots.tolist(), [0.0] * len(roots)
    through, better = np.empty(n), np.empty(n, dtype=bool)
    while len(ends) < number:
        i = int(opened.argmin())
        distance = float(opened[i])
        if distance == np.inf:
            break
        settled.append(i)
        distances.append(distance)
        if wanted[i]:
            ends.append(i)
        np.subtract(arc[i], remaining, out=through)
        through += v[i] + distance + toll
        opened[i], remaining[i] = np.inf, -np.inf
        np.maximum(through, distance, out=through)
        through[i] = np.inf
        np.less(through, opened, out=better)
        np.copyto(opened, through, where=better)
        np.copyto(previous, i, where=better)
    v[settled] += np.array(distances) - distances[-1]
    return ends, previous


def _path(previous: Ints, end: int) -> list[int]:
    path = [end]
    while (before := int(previous[path[-1]])) >= 0:
        path.append(before)
    return path[::-1]


def spread(rows: Ints, cols: Ints, mass: Floats, surplus: Floats) -> tuple[Ints, Ints, Floats]:
    """Move whatever surplus is left to whichever cell lacks it (north-west corner rule); always feasible, not optimal.

    Args:
        rows, cols, mass: (entries,) a plan.
        surplus: (n,) its column sums minus the point weights.

    Returns:
        Entries of a plan whose column sums are the point weights.
    """
    order = np.argsort(cols, kind="stable")
    rows, cols, mass = rows[order], cols[order], mass[order]
    before = np.cumsum(mass) - mass
    first = np.searchsorted(cols, np.arange(len(surplus)))
    before -= before[np.minimum(first, len(cols) - 1)][cols]  # mass of the same cell in earlier entries
    leaving = np.clip(np.maximum(surplus, 0.0)[cols] - before, 0.0, mass)
    movers = np.flatnonzero(leaving > 0)
    takers = np.flatnonzero(surplus < 0)
    sent, wanted = np.cumsum(leaving[movers]), np.cumsum(-surplus[takers])
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
