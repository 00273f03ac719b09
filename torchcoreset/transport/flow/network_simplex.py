"""Min-cost flow from the cells that hold too much mass to those that lack some: the network simplex, compiled.

    i, j cells (n)      k samples      e entries: sample, candidate point, cost      v (n,) potential

Each cell has an excess: its mass less the weight of its point. A sample may leave its cell for another point at the
price c_j - c_i. The plan that moves the excess at the least price, and the potential that proves it, are those of a
transport problem of the samples given; `network_simplex.c` solves it, and says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import call, function

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MANY_WRONG = 0.05  # of all mass, in wrong cells of a potential, beyond which those of an earlier plan are mostly nearer
MASS_TOLERANCE = 1e-12  # mean point weights: mass below it is rounding, and not moved
ARGUMENTS = {
    "network_simplex": "nn" + 4 * "*" + "xx" + 7 * "*" + ">n",
    "solve_pairs": "nnn" + 3 * "*" + "xx" + 13 * "*" + ">n",
    "nearest_cells": "nn" + 4 * "*",
    "cheapest_moves": "nn**nn***",
}


@dataclass(frozen=True)
class CandidateArcs:
    """Where samples may go: of each a list of points, its own among them."""

    offsets: Ints  # (k + 1,) where the entries of each sample begin
    cols: Ints  # (e,) candidate points
    cost: Floats  # (e,) their costs


@dataclass(frozen=True)
class Balanced:
    """Where the mass of the given samples ended up."""

    # Entries of the plan, of these samples alone; no pair of a sample and a cell occurs twice
    rows: Ints
    cols: Ints
    mass: Floats
    potential: Floats  # (n,) of the plan: no sample has a better place among its candidates
    pivots: int


def balance(cost: Floats | CandidateArcs, cell: Ints, mass: Floats, excess: Floats, v: Floats) -> Balanced:
    """Move excess mass to the cells that lack it at the least cost; excess that finds no path stays where it is.

    Args:
        cost: (k, n) costs of the samples at all points, infinite where they may not go; or those of candidates.
        cell, mass: (k,) of each sample its cell and its mass. The nearer to the best the cells are, the faster.
        excess: (n,) mass of each cell over the weight of its point; sums to zero.
        v: (n,) potential at which the cells are about the nearest.
    """
    k, n = len(cell), len(v)
    offsets: Ints | None = None
    cols: Ints | None = None
    if isinstance(cost, CandidateArcs):
        offsets, cols, costs = _ints(cost.offsets), _ints(cost.cols), _floats(cost.cost)
        own = np.flatnonzero(cols == np.repeat(cell, np.diff(offsets)))  # one entry of each sample
        home_cost = costs[own]
    else:
        costs = _floats(cost)
        home_cost = costs[np.arange(k), cell]
    home, home_mass, potential = _ints(cell).copy(), np.empty(k), _floats(v).copy()
    link, link_mass = np.empty(n, dtype=np.int64), np.empty(n)
    pivots = _call(
        "network_simplex", n, k, costs, offsets, cols, _floats(excess), MASS_TOLERANCE / n, 0.0,
        _floats(mass), home, home_mass, home_cost, link, link_mass, potential,
    )  # fmt: skip
    if pivots < 0:
        raise MemoryError(f"no memory to balance {k} samples among {n} cells")
    hangs = np.flatnonzero(link >= 0)  # cells that share a sample with its home
    rows: Ints = np.append(np.arange(k), link[hangs])
    points: Ints = np.append(home, hangs)
    masses: Floats = np.append(home_mass, link_mass[hangs])
    held = np.flatnonzero(masses > 0)
    return Balanced(rows[held], points[held], masses[held], potential, int(pivots))


def nearest_cells(cost: Floats, v: Floats) -> tuple[Ints, Floats]:
    """Of each sample (k,) the point nearest in c - v, and c - v there; of costs (k, n) and a potential (n,)."""
    k, n = cost.shape
    cell, reduced = np.empty(k, dtype=np.int64), np.empty(k)
    _call("nearest_cells", n, k, _floats(cost), _floats(v), cell, reduced)
    return cell, reduced


@dataclass(frozen=True)
class SolvedPairs:
    """Plans and potentials of B problems of one shape, on the costs of all pairs of k samples and n points."""

    pivots: Ints  # (B,)
    sizes: Ints  # (B,) entries of each plan; samples, points and masses of all, one plan after the other:
    rows: Ints
    cols: Ints
    mass: Floats
    value: Floats  # (B,) costs of the plans
    wrong: Floats  # (B,) largest error of the mass that a point receives, where mass has found no path
    potential: Floats  # (B, n), b @ potential = 0
    # The cells of that potential
    cell: Ints  # (B, k) the point nearest to each sample in c - v
    reduced: Floats  # (B, k) c - v there
    cell_cost: Floats  # (B, k) c there
    cell_mass: Floats  # (B, n)


def solve_pairs(cost: Floats, a: Floats, b: Floats, v: Floats, earlier: Ints | None = None) -> SolvedPairs:
    """Solve B problems, one after the other in one call, from the cells of potentials v, or from earlier cells.

    Args:
        cost: (B, k, n) of the samples at all points.
        a, b: (B, k) and (B, n) masses of samples and points, each row of sum 1.
        v: (B, n) potentials to start from.
            Zero is taken where less mass is in wrong cells there.
        earlier: (B, k) cells of plans of nearby points, to start from where more than MANY_WRONG is in wrong ones.
            Without them, or where they do not fit, flows on parts of the samples come first, if these are many.
    """
    count, k, n = cost.shape
    most, potential = count * (k + n), _floats(v).copy()
    pivots, sizes = np.empty(count, np.int64), np.empty(count, np.int64)
    rows, cols = np.empty(most, np.int64), np.empty(most, np.int64)
    mass, value, wrong, cell_mass = np.empty(most), np.empty(count), np.empty(count), np.empty((count, n))
    cell, reduced, cell_cost = np.empty((count, k), np.int64), np.empty((count, k)), np.empty((count, k))
    failed = _call(
        "solve_pairs", count, n, k, _floats(cost), _floats(a), _floats(b), MASS_TOLERANCE / n, MANY_WRONG,
        None if earlier is None else _ints(earlier), potential,
        pivots, sizes, rows, cols, mass, value, wrong, cell, reduced, cell_cost, cell_mass,
    )  # fmt: skip
    if failed:
        raise MemoryError(f"no memory to balance {k} samples among {n} cells")
    used = int(sizes.sum())
    entries = rows[:used], cols[:used], mass[:used]
    return SolvedPairs(pivots, sizes, *entries, value, wrong, potential, cell, reduced, cell_cost, cell_mass)


class CheapestMoves:
    """Of each pair of cells the samples that leave the first for the second at the least price."""

    def __init__(self, n: int, each: int) -> None:
        self._each = each
        self._price, self._dearest = np.full((n, n, each), np.inf), np.full((n, n), np.inf)
        self._sample = np.full((n, n, each), -1, dtype=np.int64)
        self._seen = 0

    def see(self, cost: Floats, cell: Ints) -> None:
        """Take in the next samples: their costs (k, n) and cells (k,)."""
        k, n = cost.shape
        _call(
            "cheapest_moves", n, k, _floats(cost), _ints(cell), self._seen, self._each,
            self._price, self._sample, self._dearest,
        )  # fmt: skip
        self._seen += k

    def samples(self) -> Ints:
        """The numbers of all samples of some pair, ascending."""
        found = np.unique(self._sample)
        return found[found >= 0]


def _call(name: str, *arguments: Any) -> Any:
    return call(function(name, ARGUMENTS[name]), *arguments)


def _floats(array: Floats) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float64)


def _ints(array: Ints) -> Ints:
    return np.ascontiguousarray(array, dtype=np.int64)
