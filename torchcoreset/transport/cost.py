"""The cost of moving mass: c(y, x) = |y - x|^p, the full power of the Euclidean distance, p >= 1.

    x (n, d) points      y (m, d) samples      p (float) power

Two forms, because they err differently. `pairwise` expands the square, so that a matrix product does the work:
fast, with an absolute error of about eps (|x|^2 + |y|^2), good enough to find which point is nearest.
`paired` takes differences first, in float64: exact to rounding, m x d work, used for every value we report.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise(y: Tensor, x: Tensor, p: float) -> Tensor:
    """Costs between all rows of y (m, d) and of x (n, d), shape (m, n), by one matrix product."""
    square = torch.addmm((x * x).sum(1), y, x.t(), alpha=-2).add_((y * y).sum(1, keepdim=True)).clamp_(min=0)
    return from_square_(square, p)


def pairwise_exact(y: Tensor, x: Tensor, p: float) -> Tensor:
    """The same from differences, for small blocks: slower, and right for points that nearly coincide.

    A square that cancels to rounding has a root a million times larger: 1e-8 instead of 1e-16 in float64.
    """
    distance = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist")
    return distance if p == 1 else distance.pow_(p)


def paired(y: Tensor, x: Tensor, p: float) -> Tensor:
    """Costs between matching rows of y (k, d) and x (k, d), shape (k,), float64, from exact differences."""
    difference = y.double() - x.double()
    return from_square_(difference.square_().sum(1), p)


def paired_gradient(y: Tensor, x: Tensor, p: float) -> Tensor:
    """Gradient in x of the costs between matching rows, p |x - y|^(p-2) (x - y), shape (k, d), float64.

    Where x = y the zero subgradient is taken; p = 1 would give 0/0 there.
    """
    difference = x.double() - y.double()
    return difference.mul_(_slope(difference.square().sum(1), p)[:, None]) if p != 2 else difference.mul_(2)


def assigned(
    y: Tensor, x: Tensor, a: Tensor, cell: Tensor, p: float, block: int, *, each: float | None
) -> tuple[Tensor, Tensor]:
    """Costs (m,) of samples y (m, d) at the points x (n, d) of their cells (m,), and the gradient (n, d) of a @ costs.

    Both float64, from one difference: `paired` and `paired_gradient` at once, in blocks of samples. Where `each` weight
    is the same, a quadratic cost needs it only once its differences have been added up.
    """
    if len(y) > block:
        blocks = zip(*(torch.split(rows, block) for rows in (y, a, cell)), strict=True)
        found = [assigned(rows, x, weights, cells, p, block, each=each) for rows, weights, cells in blocks]
        return torch.cat([costs for costs, _ in found]), torch.stack([gradient for _, gradient in found]).sum(0)
    points = x.double()
    difference = points.index_select(0, cell).sub_(y)
    square = torch.linalg.vecdot(difference, difference)
    gradient = torch.zeros_like(points)
    if p == 2 and each is not None:
        gradient.index_add_(0, cell, difference).mul_(2 * each)
    else:
        weight = a * (2 if p == 2 else _slope(square, p))
        gradient.index_add_(0, cell, difference.mul_(weight[:, None]))
    return from_square_(square, p), gradient


def _slope(square: Tensor, p: float) -> Tensor:
    """p |x - y|^(p-2) from squared distances, and 0 where that is 0."""
    least = torch.finfo(torch.float64).tiny
    return torch.where(square > 0, p * square.sqrt().clamp_(min=least).pow_(p - 2), 0.0)


def from_square_(square: Tensor, p: float) -> Tensor:
    """Turn squared distances into costs, in place."""
    if p == 2:
        return square
    return square.sqrt_() if p == 1 else square.pow_(p / 2)
