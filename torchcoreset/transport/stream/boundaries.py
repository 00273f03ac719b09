"""How a potential changes with the points, so that the cells stay where they are.

    x (n, d) points      dx (n, d) their motion      v (n,) potential      W (n, n) mass per cost between two cells

Cells i and j meet where c(z, x_i) - v_i = c(z, x_j) - v_j. That boundary stays if v_i - v_j changes as the costs do, by
dc_ij - dc_ji with dc_ij = grad_{x_i} c(z_ij, x_i) . dx_i. All pairs, weighted by the curvature between them, give a
linear system with the curvature itself: H dv = sum_j W_ij (dc_ij - dc_ji). Where on a boundary its samples lie is not
remembered: z_ij is taken on the line from x_i to x_j. This is exact to first order on the line, and for a shift of all
points if p = 2 and the samples of each boundary lie around that line. Steps on batches correct the rest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..compiled import call, function
from ..costs import DISTANCE, Cost

COLUMNS = 6  # of products that paired.c sums at once


def boundaries_of(curvature: Tensor, v: Tensor, x: Tensor, cost: Cost) -> tuple[Tensor, Tensor]:
    """A (n, n) of `Cost.boundary_coupling`, so that dc_ij W_ij = -A_ij (x_j - x_i) . dx_i, and sum_j A_ij (x_j - x_i).

    For the cells of v, and a curvature (n, n) with the Gram matrix over eta off the diagonal.
    """
    # From differences: far from the origin the root of a square that cancels is wrong, and on the diagonal it is not 0.
    # Points that coincide have no boundary that moves; the diagonal is none either.
    coupling = cost.boundary_coupling(curvature, v, DISTANCE.pairwise_exact(x, x))
    offset = x - x.mean(0)
    return coupling, coupling @ offset - coupling.sum(1, keepdim=True) * offset


def boundary_drift(coupling: Tensor, across: Tensor, x: Tensor, dx: Tensor) -> Tensor:
    """Right hand side (n,) of H dv = ..., for points x that move by dx, from what `boundaries_of` gave at x."""
    if x.is_cpu:
        (n, d), of_points = x.shape, function("boundary_drift", "nn" + 6 * "*")
        drift, room = x.new_empty(n), x.new_empty(n * (d + 1 + COLUMNS))
        call(of_points, n, d, *(table.contiguous() for table in (coupling, across, x, dx)), room, drift)
        return drift
    # The matrix on the right takes a third of the time that its transpose on the left takes (n = 500, d = 16).
    flows = (dx.t() @ coupling).t()
    drift = torch.addcmul(x * flows, across, dx, value=-1).sum(1)
    return drift.addmv_(coupling.t(), torch.linalg.vecdot(x, dx), alpha=-1)
