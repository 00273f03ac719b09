"""The potential that goes with points when they move: what lies between two cells stays between them.

    x (n, d) points, v (n,) their potential      x' (n, d) where they go      y (m, d) samples      c cost

Sample k on the boundary of the cells i and j has c_ki - v_i = c_kj - v_j, and is there for x' if

    v'_i - v'_j = v_i - v_j + (c'_ki - c_ki) - (c'_kj - c_kj).

v' solves this by least squares over the samples nearest to a boundary. A transport from v' begins where one from v
arrives after several passes, above all between clusters, where Newton's method sees no curvature.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...deterministic import column_medians
from ...tensors import normalised
from ...transport import Cost
from ...transport.passes import chunk_elements, lowest_in_rows

LOOKED_AT = 100  # samples a point among which those near a boundary are sought
NEAR = 16  # of them a point: 4 are too few, 64 no better (measured on clusters, tables and normal rows)
MOST = 2048  # points beyond which n x n equations take longer than the passes they save
RIDGE = 1e-6  # in samples: points without a boundary keep their potential


def carried(x: Tensor, v: Tensor, moved: Tensor, samples: Tensor, sample_weights: Any, b: Tensor, cost: Cost) -> Tensor:
    """The potential (n,) of `moved` (n, d) from v (n,) at x, or v where the semi-dual of some samples is no lower.

    Samples (m, d) have weights (m,), equal if None; b (n,) are those of the points.
    """
    n = len(x)
    if not 1 < n <= MOST:
        return v
    every = max(1, len(samples) // (LOOKED_AT * n))
    y = samples[::every]
    a = normalised(None if sample_weights is None else sample_weights[::every], len(y), "sample_weights", y.device)
    shift = column_medians(x)
    y, before, after = y.to(x) - shift, x - shift, moved.to(x) - shift
    first, second, margin = two_nearest(before, v, y, cost)
    near = margin.topk(min(NEAR * n, len(y)), largest=False).indices
    i, j, y_near = first[near], second[near], y[near]
    change = [cost.paired(y_near, after[cell]) - cost.paired(y_near, before[cell]) for cell in (i, j)]
    equations = RIDGE * torch.eye(n, dtype=v.dtype, device=v.device)
    weight = a[near] * len(a)
    for rows, cols, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
        equations.index_put_((rows, cols), sign * weight, accumulate=True)
    right = weight * (change[0] - change[1])
    right = torch.zeros_like(v).index_add_(0, i, right).index_add_(0, j, right, alpha=-1)
    factor, failed = torch.linalg.cholesky_ex(equations)
    if bool(failed):
        return v
    candidate = v + torch.cholesky_solve(right[:, None], factor)[:, 0]
    old, new = float(b @ v), float(b @ candidate)
    for mass, block in zip(*(torch.split(rows, rows_of_block(y.device, n)) for rows in (a, y)), strict=True):
        table = cost.pairwise(after, block)
        old += float(mass @ (table - v[:, None].to(table)).amin(0).double())
        new += float(mass @ table.sub_(candidate[:, None].to(table)).amin(0).double())
    return candidate if new > old else v


def rows_of_block(device: torch.device, n: int) -> int:
    """Samples whose costs to n points stay in cache."""
    return max(16, chunk_elements(device) // n)


def two_nearest(x: Tensor, v: Tensor, y: Tensor, cost: Cost) -> tuple[Tensor, Tensor, Tensor]:
    """The two points nearest in c - v to each sample (m, d), (m,) int64 each, and by how much they differ, (m,)."""
    found = []
    for block in torch.split(y, rows_of_block(y.device, len(x))):
        table = cost.pairwise(block, x) - v.to(x)
        lowest, first = lowest_in_rows(table)
        second, other = lowest_in_rows(table.scatter_(1, first[:, None], torch.inf))
        found.append((first, other, second - lowest))
    first, other, margin = (torch.cat(parts) for parts in zip(*found, strict=True))
    return first, other, margin
