"""Labels from a plan: a sample that the plan splits goes whole to one of its points.

    rows samples that are split, cols points, mass of each entry      need (n,) mass that points still lack

If the split samples weigh the same, every point can get its mass to within one sample: the shares are a fractional
flow, and so there is an integral one between their floors and ceilings. Samples first go to the point that lacks most.
Then augmenting paths move them until no point is off by a whole sample.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NEARLY = 1 - 1e-6  # of a sample: rounding is not to look like one


def whole_labels(
    rows: Ints, cols: Ints, mass: Floats, shape: tuple[int, int], indifferent: NDArray[np.bool_] | None = None
) -> Ints:
    """The point of each sample, (m,), from the entries of a plan (m, n); -1 of samples that do not occur in it.

    Where all samples with less mass than others are `indifferent` (m,), they stay unmatched in part: each goes to a
    point or nowhere, so that as many stay unmatched as there is mass.
    """
    m, n = shape
    if indifferent is not None:
        total = np.bincount(rows, mass, m)
        part = np.flatnonzero((total > 0) & (total < NEARLY * total.max()))
        if len(part) and indifferent[part].all():  # else they are lighter
            rows, cols = np.append(rows, part), np.append(cols, np.full(len(part), n))
            mass = np.append(mass, total.max() - total[part])
            labels = whole_labels(rows, cols, mass, (m, n + 1))
            return np.where(labels == n, -1, labels)
    labels = np.full(m, -1, dtype=np.int64)
    labels[rows] = cols
    split = np.bincount(rows, minlength=m)[rows] > 1
    if split.any():
        numbers, row = np.unique(rows[split], return_inverse=True)
        labels[numbers] = _Rounding(row, cols[split], mass[split], n).labels()
    return labels


class _Rounding:
    def __init__(self, row: Ints, cols: Ints, mass: Floats, n: int) -> None:
        self.total = np.bincount(row, mass)
        self.need = np.bincount(cols, mass, n)
        order = np.lexsort((-mass, row))  # where as much is lacking, the largest share decides
        self.choices = np.split(cols[order], np.cumsum(np.bincount(row))[:-1])
        self.label = np.zeros(len(self.total), dtype=np.int64)

    def labels(self) -> Ints:
        for k in np.argsort(-self.total, kind="stable").tolist():
            choices = self.choices[k]
            self.label[k] = choices[self.need[choices].argmax()]
            self.need[self.label[k]] -= self.total[k]
        unit = float(self.total.max())
        if unit > 0 and self.total.min() > NEARLY * unit:
            self._even_out(unit)
        return self.label

    def _even_out(self, unit: float) -> None:
        for _ in range(2 * len(self.label)):
            worst = int(np.abs(self.need).argmax())
            if abs(self.need[worst]) < NEARLY * unit:
                return
            few, many = np.flatnonzero(self.need > 0), np.flatnonzero(self.need < 0)
            path = self._path([worst], few) if self.need[worst] < 0 else self._path(many.tolist(), np.array([worst]))
            for k, target in path:
                self.need[self.label[k]] += unit
                self.need[target] -= unit
                self.label[k] = target
            if not path:
                return

    def _path(self, starts: Iterable[int], goals: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Samples and the points they change to, so that a start has one less and a goal one more; the shortest way."""
        held: dict[int, list[int]] = {}
        for k, point in enumerate(self.label.tolist()):
            held.setdefault(point, []).append(k)
        wanted, came = set(goals.tolist()), dict.fromkeys(starts, (-1, -1))
        waiting = deque(came)
        while waiting:
            point = waiting.popleft()
            if point in wanted:
                path = []
                while came[point][0] >= 0:
                    before, k = came[point]
                    path.append((k, point))
                    point = before
                return path
            for k in held.get(point, ()):
                for target in self.choices[k].tolist():
                    if target not in came:
                        came[target] = (point, k)
                        waiting.append(target)
        return []
