"""How a potential must change with the points, so that the cells stay where they are.

    x (n, d) points      dx (n, d) their motion      v (n,) potential      W (n, n) mass per cost between two cells
    D (n, n) distances      t (n, n) part of the way from x_i to x_j at which their cells meet

Cells i and j meet where |z - x_i|^p - v_i = |z - x_j|^p - v_j. That boundary stays if v_i - v_j changes as the two
costs do, dc_ij - dc_ji with dc_ij = grad_{x_i} |z_ij - x_i|^p . dx_i; all pairs at once, weighted by the curvature that
joins them, give a linear system with the curvature itself: H dv = sum_j W_ij (dc_ij - dc_ji). Where on a boundary its
samples lie is not remembered: z_ij is taken on the line from x_i to x_j, where the faces of cells are met on average.

On the line this is exact to first order, and so is a shift of all points for p = 2 if the boundaries' samples lie
around those lines. What is left over, the steps on batches correct.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..cost import pairwise_exact


@dataclass(frozen=True)
class Boundaries:
    """What the right hand side of the system needs, at the points where it was computed.

    Attributes:
        coupling: (n, n) A_ij = p W_ij (t_ij D_ij)^(p-1) / D_ij, so that dc_ij W_ij = -A_ij (x_j - x_i) . dx_i.
        pull: (n, d) sum_j A_ij (x_j - x_i).
    """

    coupling: Tensor
    pull: Tensor


def boundaries_of(curvature: Tensor, v: Tensor, x: Tensor, p: float) -> Boundaries:
    """The boundaries between the cells of v, for a curvature (n, n) with the Gram matrix over eta off the diagonal."""
    # From differences: far from the origin the root of a square that cancels is wrong, and on the diagonal it is not 0.
    # Points that coincide have no boundary that moves; the diagonal is none either.
    apart = pairwise_exact(x, x, 1)
    coupling = torch.where(apart > 0, p * curvature, 0.0)
    apart.masked_fill_(apart == 0, 1.0)
    if p != 1:  # at p = 1 the rate does not depend on where on the way a boundary lies
        # Exact for p = 2, and else to first order about the middle.
        way = (v[:, None] - v).mul_(2 ** (p - 2) / p).div_(apart**p).add_(0.5).clamp_(0, 1)
        coupling.mul_(way if p == 2 else way.mul_(apart).pow_(p - 1))
    if p != 2:
        coupling.div_(apart)
    offset = x - x.mean(0)
    return Boundaries(coupling, coupling @ offset - coupling.sum(1, keepdim=True) * offset)


def boundary_drift(boundaries: Boundaries, x: Tensor, dx: Tensor) -> Tensor:
    """Right hand side (n,) of H dv = ..., for points x that move by dx."""
    # The matrix on the right takes a third of the time that its transpose on the left takes (n = 500, d = 16).
    flows = (dx.t() @ boundaries.coupling).t()
    across = torch.addcmul(x * flows, boundaries.pull, dx, value=-1).sum(1)
    return across.addmv_(boundaries.coupling.t(), torch.linalg.vecdot(x, dx), alpha=-1)
