"""Flows on the costs of all pairs of samples and points, compiled: from the nearest cells, or from those of a plan.

B problems of k samples and n points
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..compiled import call, function
from .network_simplex import MASS_TOLERANCE, Floats, Ints, as_floats, as_ints

MANY_WRONG = 0.05  # of all mass, in wrong cells of a potential, beyond which those of an earlier plan are mostly nearer


def nearest_cells(cost: Floats, v: Floats) -> tuple[Ints, Floats]:
    """Of each sample (k,) the point nearest in c - v, and c - v there; of costs (k, n) and a potential (n,)."""
    k, n = cost.shape
    cell, reduced = np.empty(k, dtype=np.int64), np.empty(k)
    call(function("nearest_cells", "nn****"), n, k, as_floats(cost), as_floats(v), cell, reduced)
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
    most, potential = count * (k + n), as_floats(v).copy()
    pivots, sizes = np.empty(count, np.int64), np.empty(count, np.int64)
    rows, cols = np.empty(most, np.int64), np.empty(most, np.int64)
    mass, value, wrong, cell_mass = np.empty(most), np.empty(count), np.empty(count), np.empty((count, n))
    cell, reduced, cell_cost = np.empty((count, k), np.int64), np.empty((count, k)), np.empty((count, k))
    solve = function("solve_pairs", "nnn***xx*************>n")
    failed = call(
        solve, count, n, k, as_floats(cost), as_floats(a), as_floats(b), MASS_TOLERANCE / n, MANY_WRONG,
        None if earlier is None else as_ints(earlier), potential,
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
        call(
            function("cheapest_moves", "nn**nn***"), n, k, as_floats(cost), as_ints(cell), self._seen, self._each,
            self._price, self._sample, self._dearest,
        )  # fmt: skip
        self._seen += k

    def samples(self) -> Ints:
        """The numbers of all samples of some pair, ascending."""
        found = np.unique(self._sample)
        return found[found >= 0]
