"""The cost of moving mass, and all that follows from which cost it is: values, slopes, best places, units, rounding.

    x (n, d) points, v (n,) potential      y (m, d) samples      c(y, x) cost      u unit roundoff

`Cost` says what a cost has to give; `EuclideanPower` is |y - x|^p. No other file looks at p: they ask the cost.

Values come in two forms, because they err differently. `pairwise` expands the square, so that a matrix product does
the work: fast, with an absolute error of about u (|x|^2 + |y|^2), good enough to find which point is nearest.
`paired` takes differences first, in float64: exact to rounding, m x d work, used for every value we report.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..tensors import is_real

PAIRED = 1 << 16  # numbers of a block of differences; of many at once each takes ten times as long (measured)

Number = TypeVar("Number", float, Tensor)


def follows() -> Any:
    """A field that follows from the power and the class."""
    return field(repr=False, compare=False)


@dataclass(frozen=True)
class Cost(ABC):
    """The p-th power of a metric, and what is asked of it."""

    p: float
    _: KW_ONLY
    mean_is_best: bool = follows()  # whether the mean of a cell is the best place for its point
    # Whether the geometric median is: mass right on a point then holds it with a finite force.
    median_is_best: bool = follows()
    steeper_than_square: bool = follows()  # whether cost grows faster than the square of the distance
    sorts_on_line: bool = follows()  # whether an optimal plan on the line couples points and samples in order
    amplifies_rounding: bool = follows()  # whether a square that cancels to rounding costs far more than that
    omits_square: bool = follows()  # whether `reduced` leaves out |y|^2, which is the same for all points
    triton: tuple[int, float] = follows()  # form of Triton's kernels, and exponent of the square in form 0
    geomloss: int | None = follows()  # its p in geomloss, which divides it by p; None if geomloss has none

    @property
    @abstractmethod
    def metric(self) -> Cost:
        """The cost whose power this is: the distance."""

    @abstractmethod
    def pairwise(self, y: Tensor, x: Tensor) -> Tensor:
        """Costs between all rows of y (m, d) and of x (n, d), shape (m, n), by one matrix product."""

    @abstractmethod
    def pairwise_exact(self, y: Tensor, x: Tensor) -> Tensor:
        """The same from differences, for small blocks: slower, and right for points that nearly coincide.

        A square that cancels to rounding has a root a million times larger: 1e-8 instead of 1e-16 in float64.
        """

    @abstractmethod
    def pairwise_below(self, y: Tensor, x: Tensor) -> Tensor:
        """The same as `pairwise`, but for a relative `roundoffs` never above the true costs; float64.

        Rows should lie about the origin: what is taken off grows with the squares of their norms.
        """

    @property
    @abstractmethod
    def spread_share(self) -> float:
        """k in E c(X, x) >= k E c(X, X'), which holds for every point x and independent X, X' of one distribution.

        The larger it is, the better: it is what a bound on the cost of a cell makes of the costs between its samples.
        """

    @abstractmethod
    def reduced(self, rows: Tensor, cols: Tensor, x2: Tensor, y2: Tensor | None, v: Tensor) -> Tensor:
        """c - v between all rows (k, d) and columns (l, d), by one matrix product: points and samples, or the reverse.

        `x2` and `v` are the squared norms and the potential of the points, (k, 1) or (l,), and `y2` the squared norms
        of the samples, None where `omits_square`.
        """

    @abstractmethod
    def keops(self, rows: Any, cols: Any) -> Any:
        """Costs between all rows and columns, as lazy tensors of KeOps."""

    @abstractmethod
    def paired(self, y: Tensor, x: Tensor) -> Tensor:
        """Costs between matching rows of y (k, d) and x (k, d), shape (k,), float64, from exact differences."""

    def at(self, y: Tensor, x: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
        """Costs between y[rows] and x[cols], (k,), as `paired` gives them, in blocks that a cache holds."""
        block = max(16, PAIRED // y.shape[1])
        blocks = zip(rows.split(block), cols.split(block), strict=True)  # type: ignore[no-untyped-call]
        # Rows are picked four times faster by index_select than by indexing (measured, 16 columns).
        return torch.cat([self.paired(y.index_select(0, some), x.index_select(0, others)) for some, others in blocks])

    @abstractmethod
    def paired_gradient(self, y: Tensor, x: Tensor) -> Tensor:
        """Gradient in x of the costs between matching rows, (k, d) float64; the zero subgradient where x = y."""

    @abstractmethod
    def assigned(
        self, y: Tensor, x: Tensor, a: Tensor, cell: Tensor, block: int, *, each: float | None
    ) -> tuple[Tensor, Tensor]:
        """Costs (m,) of samples y (m, d) at the points x (n, d) of their cells (m,), and the gradient of a @ costs.

        Both float64, from one difference: `paired` and `paired_gradient` at once, in blocks of samples. Where `each`
        weight is the same, a quadratic cost needs it only once its differences have been added up.
        """

    @abstractmethod
    def slope(self, cost: Tensor) -> Tensor | float:
        """s in grad_x c = s (x - y), from costs; the zero subgradient where x = y."""

    @abstractmethod
    def point_density(self, dimension: int) -> float:
        """The power of the density of mass as which points lie that choose their weights, where there are many."""

    @abstractmethod
    def weight(self, distance: Tensor) -> Tensor:
        """By how much samples at these distances count in the best place of a point; 0 on the point itself."""

    @abstractmethod
    def weight_from_cost(self, cost: Tensor) -> Tensor:
        """The same from costs."""

    @abstractmethod
    def centre_step(self, displacement: Tensor, total: Tensor, at_point: Tensor) -> Tensor:
        """Step (n, d) of every point towards the best place in its cell: there at once where `mean_is_best`.

        `displacement` (n, d) sums weight (y - x) over the samples, and `total` (n,) the weights; a point without any
        stays. `at_point` (n,) is the mass of the samples right on the point.
        """

    @abstractmethod
    def step_factor(self, size: Tensor) -> Tensor:
        """What turns the gradient of a cell of this size, for a mass of 1, into a step of that size."""

    @abstractmethod
    def boundary_coupling(self, curvature: Tensor, v: Tensor, apart: Tensor) -> Tensor:
        """A (n, n) with W_ij grad_{x_i} c(z_ij, x_i) = -A_ij (x_j - x_i), z_ij on the line between the points.

        `curvature` is W, mass per cost between two cells. The distances of points, `apart`, are overwritten; cells of
        points that coincide have A = 0.
        """

    @abstractmethod
    def roundoffs(self, d: int) -> float:
        """Relative error of a cost from differences in d dimensions, in unit roundoffs."""

    @abstractmethod
    def expansion_error(self, reach: Number, height: Number, norm: Number, d: int, u: float) -> Number:
        """By how much c - v from expanded squares may err, for a sample of this norm.

        `reach` is r, the largest cost of a point that could be nearer, and `height` the largest |v| of such a point; d
        is the dimension, u the unit roundoff.
        """

    @abstractmethod
    def expansion_limit(self, mean: float, part: float, d: int, u: float) -> float:
        """Mean square of the norms beyond which expanded squares err by more than a part of a mean cost."""

    def range(self, dtype: torch.dtype, d: int) -> tuple[float, float]:
        """Sizes of the largest number between which a dtype holds squares and costs, and what distinguishes them."""
        limits, power = torch.finfo(dtype), max(self.p, 2)
        # The most is that of two points across from each other.
        return (limits.tiny / limits.eps) ** (1 / power), limits.max ** (1 / power) / (4 * d**0.5)

    def root(self, value: Number) -> Number:
        """The length that costs this."""
        length: Number = value ** (1 / self.p)
        return length

    def of_length(self, length: Number) -> Number:
        """The cost of this length."""
        cost: Number = length**self.p
        return cost

    def of_square(self, square: float) -> float:
        """The cost of a length with this square."""
        return float(square ** (self.p / 2))

    def smoothing(self, blur: float) -> float:
        """The regularisation eta = p blur^p that blurs by this length."""
        return float(self.p * blur**self.p)

    def blur(self, eta: float) -> float:
        """The length by which eta blurs."""
        return float((eta / self.p) ** (1 / self.p))


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
            triton=(main or 0, p / 2),
            geomloss=main,
        )

    @property
    def metric(self) -> Cost:
        return DISTANCE

    def pairwise(self, y: Tensor, x: Tensor) -> Tensor:
        square = torch.addmm((x * x).sum(1), y, x.t(), alpha=-2).add_((y * y).sum(1, keepdim=True)).clamp_(min=0)
        return self._from_square_(square)

    def pairwise_exact(self, y: Tensor, x: Tensor) -> Tensor:
        distance = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist")
        return distance if self.p == 1 else distance.pow_(self.p)

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

    def paired_gradient(self, y: Tensor, x: Tensor) -> Tensor:
        difference = x.double() - y.double()
        if self.p == 2:
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
        if self.p == 2 and each is not None:
            gradient.index_add_(0, cell, difference).mul_(2 * each)
        else:
            weight = a * (2 if self.p == 2 else self._slope_from_square(square))
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
        square = (d + 8) * u * (2 * norm + length) ** 2
        if p == 2:
            power = square
        elif p < 2:
            power = square ** (p / 2)
        else:
            power = (p / 2) * (length**2 + square) ** (p / 2 - 1) * square
        return power + u * ((16 if p in (1, 2) else 128) * reach + 3 * height)

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


def as_cost(p: float | Cost) -> Cost:
    """The cost itself, or the power of the Euclidean distance; ValueError unless that is a finite number >= 1."""
    if isinstance(p, Cost):
        return p
    check_power(p)
    return EuclideanPower(float(p))


def check_power(p: float) -> None:
    """Raise ValueError unless p is a finite number >= 1."""
    if not is_real(p) or not 1 <= p < math.inf:
        raise ValueError(f"p: got {p!r}; expected a number >= 1. The main choices are 1 and 2.")
