"""Distinct columns for rows at the least total cost: the linear assignment problem, by shortest augmenting paths.

    c_ij cost (n, m), n <= m      u_i, w_j duals, u_i + w_j <= c_ij, with equality where i is assigned to j

Costs are computed one row at a time and never stored: most rows get their cheapest column, and only rows whose
cheapest column is taken need a path.

Source: Jonker, Volgenant (1987); in the form of Crouse (2016), which takes n < m.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def assign(costs_of: Callable[[int], Floats], n: int, m: int) -> Ints:
    """The column (n,) of each row, all different, with the least sum of costs.

    Args:
        costs_of: from a row to its costs (m,), infinite where it may not go; asked more than once for some rows.
        n, m: numbers of rows and columns; some n columns can be reached.
    """
    u, w = np.zeros(n), np.zeros(m)
    column, row = np.full(n, -1, dtype=np.int64), np.full(m, -1, dtype=np.int64)
    waiting = []
    for i in range(n):
        costs = costs_of(i)
        j = int(costs.argmin())
        u[i] = costs[j]
        if row[j] < 0:
            column[i], row[j] = j, i
        else:
            waiting.append(i)
    for i in waiting:
        _augment(i, costs_of, u, w, column, row)
    return column


def _augment(start: int, costs_of: Callable[[int], Floats], u: Floats, w: Floats, column: Ints, row: Ints) -> None:
    """Assign one more row along a shortest path of reduced costs (Dijkstra); all arrays are written to."""
    m = len(w)
    reached, before = np.full(m, np.inf), np.full(m, -1, dtype=np.int64)
    done = np.zeros(m, dtype=bool)
    visited, i, length = [], start, 0.0
    while True:
        visited.append(i)
        through = length + costs_of(i) - u[i] - w
        shorter = ~done & (through < reached)
        reached[shorter], before[shorter] = through[shorter], i
        j = int(np.where(done, np.inf, reached).argmin())
        length = reached[j]
        done[j] = True
        if row[j] < 0:
            break
        i = int(row[j])
    u[start] += length
    for i in visited[1:]:
        u[i] += length - reached[column[i]]
    w[done] -= length - reached[done]
    while True:
        i = int(before[j])
        column[i], row[j], j = j, i, int(column[i])
        if i == start:
            return
