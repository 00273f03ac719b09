"""|y - x|^p, by expanded squares and from differences.

x (n, d) points, v (n,) potential      y (m, d) samples      u unit roundoff
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..compiled import TYPES, call, function
from .cost import Cost, Number

LANES = 16  # points that paired.c takes at once


class EuclideanPower(Cost):
    """|y - x|^p, the full power of the Euclidean distance, p >= 1."""

    def __init__(self, p: float) -> None:
        main = int(p) if p in (1, 2) else None
        super().__init__(
            p,
            mean_is_best=p == 2,
            median_is_best=p == 1,
            steeper_than_square=p > 2,
            sorts_on_line=True,  # convex in y - x: to uncross pairs never costs more (Santambrogio 2015, theorem 2.9)
            amplifies_rounding=p < 2,
            omits_square=p == 2,
            by_products=True,
            kernel=(main or 0, p / 2),
            lazy=True,
            geomloss=main,
        )

    @property
    def metric(self) -> Cost:
        return DISTANCE

    def pairwise(self, y: Tensor, x: Tensor) -> Tensor:
        square = torch.addmm((x * x).sum(1), y, x.t(), alpha=-2).add_(squares_of(y)[:, None]).clamp_(min=0)
        return self._from_square_(square)

    def pairwise_exact(self, y: Tensor, x: Tensor) -> Tensor:
        return self._from_square_(squares_between(y, x).to(torch.promote_types(y.dtype, x.dtype)))

    def pairwise_below(self, y: Tensor, x: Tensor) -> Tensor:
        y, x = y.double(), x.double()
        # Squares err by (d + 8) u (|y| + |x|)^2 at most, see `expansion_error`, and that is <= 2 (|y|^2 + |x|^2).
        kept = 1 - (y.shape[1] + 8) * torch.finfo(torch.float64).eps
        square = torch.addmm((x * x).sum(1).mul_(kept), y, x.t(), alpha=-2)
        square.add_((y * y).sum(1, keepdim=True).mul_(kept)).clamp_(min=0)
        return self._from_square_(square)

    @property
    def spread_share(self) -> float:
        """1/2 for p <= 2 and 2^(1-p) beyond: f -> f(X) - f(X') between L^1, L^2 and L^inf (Riesz-Thorin)."""
        return float(0.5 ** max(1.0, self.p - 1))

    def reduced(self, rows: Tensor, cols: Tensor, x2: Tensor, y2: Tensor | None, v: Tensor) -> Tensor:
        if y2 is None:
            return torch.addmm(x2 - v, rows, cols.t(), alpha=-2)
        square = torch.addmm(x2, rows, cols.t(), alpha=-2).add_(y2).clamp_(min=0)
        return self._from_square_(square).sub_(v)

    def keops(self, rows: Any, cols: Any) -> Any:
        square = rows.sqdist(cols)  # measured: 2.5 times faster than -2 <y, x>, which would do for p = 2
        if self.p == 2:
            return square
        # KeOps' own power is computed in float32 whatever the dtype (2.3). The logarithm of 0 is -inf, its exp 0.
        return square.sqrt() if self.p == 1 else (square.log() * (self.p / 2)).exp()

    def paired(self, y: Tensor, x: Tensor) -> Tensor:
        difference = y - x.double()  # exact in float64, and y is not copied to it
        return self._from_square_(difference.square_().sum(1))

    def at(self, y: Tensor, x: Tensor, rows: Tensor | None, cols: Tensor) -> Tensor:
        if not y.is_cpu or y.dtype not in TYPES:
            return super().at(y, x, rows, cols)
        square = torch.empty(len(cols), dtype=torch.float64, device=y.device)
        of_pairs = function(f"squares_{TYPES[y.dtype]}", "nn*****")
        indices = (None if rows is None else rows.contiguous(), cols.contiguous())
        call(of_pairs, len(cols), y.shape[1], y.contiguous(), x.double().contiguous(), *indices, square)
        return self._from_square_(square)

    def paired_gradient(self, y: Tensor, x: Tensor) -> Tensor:
        difference = x.double() - y.double()
        if self.omits_square:
            return difference.mul_(2)
        return difference.mul_(self._slope_from_square(difference.square().sum(1))[:, None])

    def assigned(
        self, y: Tensor, x: Tensor, a: Tensor, cell: Tensor, block: int, *, each: float | None
    ) -> tuple[Tensor, Tensor]:
        if len(y) > block:
            blocks = zip(*(torch.split(rows, block) for rows in (y, a, cell)), strict=True)
            found = [self.assigned(rows, x, weights, cells, block, each=each) for rows, weights, cells in blocks]
            return torch.cat([costs for costs, _ in found]), torch.stack([gradient for _, gradient in found]).sum(0)
        points = x.double()
        difference = points.index_select(0, cell).sub_(y)
        square = torch.linalg.vecdot(difference, difference)
        gradient = torch.zeros_like(points)
        if self.omits_square and each is not None:
            gradient.index_add_(0, cell, difference).mul_(2 * each)
        else:
            weight = a * (2 if self.omits_square else self._slope_from_square(square))
            gradient.index_add_(0, cell, difference.mul_(weight[:, None]))
        return self._from_square_(square), gradient

    def slope(self, cost: Tensor) -> Tensor | float:
        p = self.p
        if p == 2:
            return 2.0
        power = cost.pow(1 - 2 / p) if p > 2 else cost.clamp(min=torch.finfo(cost.dtype).tiny).pow_(1 - 2 / p)
        return torch.where(cost > 0, power.mul_(p), 0.0)

    def point_density(self, dimension: int) -> float:
        return dimension / (dimension + self.p)

    def weight(self, distance: Tensor) -> Tensor:
        apart = distance > 0
        return torch.where(apart, distance.where(apart, 1.0).pow(self.p - 2), 0.0)

    def weight_from_cost(self, cost: Tensor) -> Tensor:
        apart = cost > 0
        return torch.where(apart, cost.where(apart, 1.0).pow((self.p - 2) / self.p), 0.0)

    def centre_step(self, displacement: Tensor, total: Tensor, at_point: Tensor) -> Tensor:
        """Weiszfeld's, with the correction of Vardi and Zhang (2000) where a point lies on a sample.

        Shortened by 1/(p-1) for p > 2, where the plain step overshoots.
        """
        p = self.p
        step = displacement / total.where(total > 0, 1.0)[:, None]
        if p < 2:  # mass on the point itself holds it back: for p = 1 altogether, if it is stronger than the others
            strength = displacement.square().sum(1).sqrt_()
            held = at_point / strength.where(strength > 0, torch.inf)
            if p == 1:
                step *= (1 - held).clamp_(min=0)[:, None]
            else:  # as far as the minimum of at_point t^p - p strength t
                length = step.square().sum(1).sqrt_()
                reach = held.where(held > 0, 1.0).pow(-1 / (p - 1))
                step *= torch.where(held > 0, (reach / length.where(length > 0, 1.0)).clamp(max=1), 1.0)[:, None]
        return step / max(1.0, p - 1)

    def step_factor(self, size: Tensor) -> Tensor:
        return size.pow(2 - self.p) / self.p

    def boundary_coupling(self, curvature: Tensor, v: Tensor, apart: Tensor) -> Tensor:
        """A_ij = p W_ij (t_ij D_ij)^(p-1) / D_ij, where cells meet at t_ij of the way, D_ij, from x_i to x_j.

        Exact for p = 2, and else to first order about the middle; for p = 1 it does not depend on t.
        """
        p = self.p
        coupling = torch.where(apart > 0, p * curvature, 0.0)
        apart.masked_fill_(apart == 0, 1.0)
        if p != 1:
            way = (v[:, None] - v).mul_(2 ** (p - 2) / p).div_(apart**p).add_(0.5).clamp_(0, 1)
            coupling.mul_(way if p == 2 else way.mul_(apart).pow_(p - 1))
        return coupling if p == 2 else coupling.div_(apart)

    def roundoffs(self, d: int) -> float:
        return (d + 8) * max(self.p / 2, 1.0)

    def expansion_error(self, reach: Number, height: Number, norm: Number, d: int, u: float) -> Number:
        """With E = (d + 8) u (2 |y| + r^(1/p))^2 in the square |y|^2 - 2 <y, x> + |x|^2,

            (p/2) (r^(2/p) + E)^(p/2 - 1) E  for p >= 2, E^(p/2) for p < 2, of its power,
            + 16 u r                         of taking that power; 128 u r where engines take it by exp and log,
            + 3 u max(|f|, max v)            of subtracting v.

        Source: Higham (2002), Accuracy and stability of numerical algorithms, section 3.1, for inner products of length
        d in any order.
        """
        p = self.p
        length = reach if p == 1 else reach ** (1 / p)
        square = self._square_error(length, (d + 8) * u * (2 * norm + length) ** 2)
        if p == 2:
            power = square
        elif p < 2:
            power = square ** (p / 2)
        else:
            power = (p / 2) * (length**2 + square) ** (p / 2 - 1) * square
        return power + u * ((16 if p in (1, 2) else 128) * reach + 3 * height)

    def _square_error(self, length: Number, error: Number) -> Number:
        """E of the square of a distance up to this length, from that of the expanded square."""
        return error

    def expansion_limit(self, mean: float, part: float, d: int, u: float) -> float:
        # The error is that of the square of a typical distance, and so p / 2 times that of its power.
        return float(part * max(mean, 0.0) ** (2 / self.p) / (2 * self.p * (d + 8) * u))

    def _slope_from_square(self, square: Tensor) -> Tensor:
        """p |x - y|^(p-2), and 0 where that is 0/0."""
        least = torch.finfo(torch.float64).tiny
        return torch.where(square > 0, self.p * square.sqrt().clamp_(min=least).pow_(self.p - 2), 0.0)

    def _from_square_(self, square: Tensor) -> Tensor:
        """Turn squared distances into costs, in place."""
        if self.p == 2:
            return square
        return square.sqrt_() if self.p == 1 else square.pow_(self.p / 2)


DISTANCE = EuclideanPower(1.0)


def squares_of(y: Tensor) -> Tensor:
    """Squares of the norms of rows (m, d), (m,) in their dtype."""
    if not y.is_cpu or y.dtype not in TYPES or y.requires_grad:
        return y.square().sum(1)
    squares = y.new_empty(len(y))  # without a copy of all rows: a third of the time (measured)
    call(function(f"norms_{TYPES[y.dtype]}", "nn**"), *y.shape, y.contiguous(), squares)
    return squares


def squares_between(y: Tensor, x: Tensor) -> Tensor:
    """Squares of all distances between rows of y (..., m, d) and of x (..., n, d), from differences: (..., m, n).

    They are float64 on the CPU, where one takes no longer than a product would.
    """
    if not y.is_cpu or y.dtype not in TYPES:
        wide = torch.promote_types(y.dtype, x.dtype)
        return torch.cdist(y.to(wide), x.to(wide), compute_mode="donot_use_mm_for_euclid_dist").square_()
    (m, d), n = y.shape[-2:], x.shape[-2]
    square = torch.empty(*y.shape[:-1], n, dtype=torch.float64, device=y.device)
    between = function(f"squares_between_{TYPES[y.dtype]}", "nnnn****")
    room = square.new_empty(d * LANES)
    call(between, math.prod(y.shape[:-2]), m, n, d, y.contiguous(), x.double().contiguous(), room, square)
    return square
