"""The plan while mass moves, and the residual arcs that it gives.

    k samples      i, j cells (n)      r rows: parts of samples, each in one cell      v (n,) potential

A row of a sample in cell i gives an arc from i to each cell j where the sample may go: its price is c_j - c_i, where c
are the costs of the sample, its reduced cost c_j - v_j - (c_i - v_i), and its capacity the mass of the row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MASS_TOLERANCE = 1e-12  # mean point weights: mass below it is rounding, and not moved
ROUNDING = 16 * np.finfo(np.float64).eps  # largest prices: arcs whose lengths differ by less are equally long


class Arcs(ABC):
    """Rows of the plan; a subclass stores the arcs, whose tails are `n` cells.

    The first k rows are the samples given, each in its cell, with its mass and its `own` cost there. Arcs of a reduced
    cost up to `tolerance` count as free: what was asked for, and no less than rounding. Rows without mass are not in
    use.
    """

    tolerance: float

    def __init__(self, cell: Ints, mass: Floats, own: Floats, n: int) -> None:
        self.mass_tolerance = MASS_TOLERANCE / n
        self.sample: Ints = np.arange(len(cell))
        self.cell, self.own, self.mass = cell.copy(), own, mass.copy()
        self._used = len(cell)
        self._rows_of: dict[int, dict[int, int]] = {}  # of each sample that has moved, the row in each of its cells

    def move(self, row: int, j: int, cost: float, part: float) -> int | None:
        """Move part of the mass of a row to cell j, where its sample costs `cost`; the row that is new in j.

        None if a row of the same sample there has taken the mass.
        """
        sample, i, held = int(self.sample[row]), int(self.cell[row]), float(self.mass[row])
        rows = self._rows_of.setdefault(sample, {i: row})
        self.mass[row] = held - part
        if part >= held:
            self.cell[row] = -1
            del rows[i]
        there = rows.get(j)
        if there is not None:
            self.mass[there] += part
            return None
        there = rows[j] = row if part >= held else self._spare()
        self.sample[there], self.cell[there], self.own[there], self.mass[there] = sample, j, cost, part
        return there

    def _spare(self) -> int:
        """The number of a row that is not in use."""
        if self._used == len(self.mass):
            self.sample, self.cell = (np.append(array, array) for array in (self.sample, self.cell))
            self.own, self.mass = (np.append(array, np.zeros_like(array)) for array in (self.own, self.mass))
        self._used += 1
        return self._used - 1

    @abstractmethod
    def distances(self, v: Floats, sources: Bools, sinks: Bools) -> Floats:
        """Shortest distances (n,) from the sources, as far as the last sink that can be reached; infinite beyond."""

    @abstractmethod
    def admit(self, v: Floats, limit: float) -> None:
        """Make the arcs of a reduced cost up to a limit admissible, and no others."""

    @abstractmethod
    def heads(self, tails: Bools) -> Bools:
        """The cells (n,) to which admissible arcs lead from these (n,)."""

    @abstractmethod
    def layer(self, level: Ints) -> None:
        """Keep the admissible arcs that lead one level up; a cell whose level is set to n afterwards is closed."""

    @abstractmethod
    def tail(self, j: int) -> int | None:
        """The cell from which the shortest admissible arc leads to j, if any; rounding does not choose."""

    @abstractmethod
    def leaving(self, i: int, j: int) -> Iterator[tuple[int, float]]:
        """The rows that may leave i over the admissible arc to j, shortest first, and their costs in j."""

    @abstractmethod
    def nearest(self, v: Floats) -> tuple[Ints, Floats]:
        """Of each sample (k,) the cell that is nearest in c - v, and its cost there."""

    def update(self, i: int, j: int, rows: list[int], new: list[int]) -> None:  # noqa: B027
        """Learn that mass of some rows has moved from i to j, where some are new: for stores that keep arcs."""

    def regroup(self, cells: Ints) -> None:  # noqa: B027
        """Learn that any rows may have moved from and to some cells."""
