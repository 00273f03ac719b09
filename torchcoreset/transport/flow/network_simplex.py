"""Min-cost flow from the cells that hold too much mass to those that lack some: the network simplex, compiled.

    i, j cells (n)      k samples      e entries: sample, candidate point, cost      v (n,) potential

Each cell has an excess: its mass less the weight of its point. A sample may leave its cell for another point at the
price c_j - c_i. The plan that moves the excess at the least price, and the potential that proves it, are those of a
transport problem of the samples given; `network_simplex.c` solves it, and says how.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import call, function

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MASS_TOLERANCE = 1e-12  # mean point weights: mass below it is rounding, and not moved


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
        offsets, cols, costs = as_ints(cost.offsets), as_ints(cost.cols), as_floats(cost.cost)
        own = np.flatnonzero(cols == np.repeat(cell, np.diff(offsets)))  # one entry of each sample
        home_cost = costs[own]
    else:
        costs = as_floats(cost)
        home_cost = costs[np.arange(k), cell]
    home, home_mass, potential = as_ints(cell).copy(), np.empty(k), as_floats(v).copy()
    link, link_mass = np.empty(n, dtype=np.int64), np.empty(n)
    simplex = function("network_simplex", "nn****xx*******>n")
    pivots = call(
        simplex, n, k, costs, offsets, cols, as_floats(excess), MASS_TOLERANCE / n, 0.0,
        as_floats(mass), home, home_mass, home_cost, link, link_mass, potential,
    )  # fmt: skip
    if pivots < 0:
        raise MemoryError(f"no memory to balance {k} samples among {n} cells")
    hangs = np.flatnonzero(link >= 0)  # cells that share a sample with its home
    rows: Ints = np.append(np.arange(k), link[hangs])
    points: Ints = np.append(home, hangs)
    masses: Floats = np.append(home_mass, link_mass[hangs])
    held = np.flatnonzero(masses > 0)
    return Balanced(rows[held], points[held], masses[held], potential, int(pivots))


def as_floats(array: Floats) -> Floats:
    """The array as the compiled part reads it."""
    return np.ascontiguousarray(array, dtype=np.float64)


def as_ints(array: Ints) -> Ints:
    """The same of whole numbers."""
    return np.ascontiguousarray(array, dtype=np.int64)
