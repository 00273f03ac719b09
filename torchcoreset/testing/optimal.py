"""The least distance that any points have to a few rows, by enumeration.

For given weights of the points the least cost of a plan over all points is concave in the plan: each cell costs the
minimum over its point of something linear. So the optimum is at a vertex of the polytope of plans, where the cells that
share rows form a forest, and a forest is taken apart by shipping, again and again, all that a row or a point has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm

import torch
from torch import Tensor

__all__ = ["best_value"]

MOST = 50_000  # partial plans; beyond, the problem is no tiny one

Cell = tuple[tuple[int, int], ...]  # rows of a cell and the mass from each, whole numbers, so that masses are exact
State = tuple[tuple[int, ...], tuple[tuple[int, Cell], ...]]  # mass left of rows, and of points with their cells


def best_value(
    rows: Tensor, size: int, p: float = 2, *, row_weights: Tensor | None = None, weights: Tensor | None = None
) -> float:
    """The least W_p^p, not rooted, of `size` points to the rows, over all points: a global optimum.

    For tiny problems, of up to some 6 rows and 3 points: all vertices of the polytope of plans are enumerated.

    Arguments:
        rows: (m, d); with d = 1 for p other than 2.
        size: number of points.
        p: power of the cost, p >= 1.
        row_weights: (m,), positive, any sum; None for uniform.
        weights: (size,) of the points, positive, any sum; None for uniform.

    Returns: W_p^p, exact up to rounding of the costs.
    Raises ValueError for rows that are not on the line where p is not 2, and for too many of them.

    >>> best_value(torch.tensor([[0.0], [1.0], [5.0], [6.0]]), 2)
    0.25
    >>> best_value(torch.tensor([[0.0], [1.0], [6.0]]), 2, p=1)  # half of the middle row goes to each point
    1.0
    """
    y = rows.detach().double().reshape(len(rows), -1)
    if p != 2 and y.shape[1] != 1:
        raise ValueError(f"rows: got {y.shape[1]} columns with p={p}; expected one, or p=2")
    a = _whole([1.0] * len(y) if row_weights is None else row_weights.double().tolist())
    b = _whole([1.0] * size if weights is None else weights.double().tolist())
    total = sum(a) * sum(b)
    costs: dict[Cell, float] = {}

    def cost(cell: Cell) -> float:
        if cell not in costs:
            costs[cell] = _cell_cost(y, [(k, part / total) for k, part in cell], p)
        return costs[cell]

    plans = _vertices(tuple(mass * sum(b) for mass in a), tuple(mass * sum(a) for mass in b))
    return min(sum(map(cost, cells)) for cells in plans)


def _whole(weights: list[float]) -> list[int]:
    """Whole numbers in the same ratios."""
    exact = [Fraction(weight) for weight in weights]
    common = lcm(*(weight.denominator for weight in exact))
    return [int(weight * common) for weight in exact]


def _vertices(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[list[Cell]]:
    """The cells of all vertices of the plans between masses a and b, at least once each."""
    waiting: list[State] = [(a, tuple(sorted((mass, ()) for mass in b)))]
    seen = set(waiting)
    while waiting:
        left, points = waiting.pop()
        if len(seen) > MOST:
            raise ValueError(f"rows: got {len(a)} for {len(b)} points; expected fewer, such as 6 for 3")
        if not any(left):
            yield [cell for _, cell in points]
            continue
        for k, mass in enumerate(left):
            for i, (room, cell) in enumerate(points):
                moved = min(mass, room)
                if moved == 0:
                    continue
                grown = (room - moved, tuple(sorted((*cell, (k, moved)))))
                state = (
                    (*left[:k], mass - moved, *left[k + 1 :]),
                    tuple(sorted((*points[:i], grown, *points[i + 1 :]))),  # points of one mass are alike
                )
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)


def _cell_cost(y: Tensor, cell: list[tuple[int, float]], p: float) -> float:
    """The least cost of a point for these parts of rows."""
    if not cell:
        return 0.0
    at = y[[k for k, _ in cell]]
    mass = torch.tensor([part for _, part in cell], dtype=torch.float64, device=y.device)
    if p == 2:
        return float(mass @ (at - mass @ at / mass.sum()).square().sum(1))
    if p == 1:  # a median, which is a row
        return float(((at - at.T).abs() @ mass).min())
    low, high = at.min(), at.max()
    for _ in range(100):  # a convex function of the point, by thirds: (2/3)^100 is less than rounding
        first, second = low + (high - low) / 3, high - (high - low) / 3
        if mass @ (at[:, 0] - first).abs() ** p <= mass @ (at[:, 0] - second).abs() ** p:
            high = second
        else:
            low = first
    return float(mass @ (at[:, 0] - low).abs() ** p)
