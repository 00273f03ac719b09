"""`Cost`: the p-th power of a distance, and all that follows from which it is: slopes, best places, units, rounding.

    x (n, d) points, v (n,) potential      y (m, d) samples      c(y, x) cost      u unit roundoff

Only the files of this room look at p: others ask the cost.

Values come in two forms, because they err differently. `pairwise` expands the square, so that a matrix product does
the work: fast, with an absolute error of about u (|x|^2 + |y|^2), good enough to find which point is nearest.
`paired` takes differences first, in float64: exact to rounding, m x d work, used for every value we report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

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
    # Whether matrix products give all costs, from squares that a common shift of points and samples leaves alone. If
    # not they are computed pair by pair, in float64.
    by_products: bool = follows()
    # Form of fused kernels, and exponent of the square in form 0: 2 for squares, 1 for distances, 0 for other powers.
    kernel: tuple[int, float] | None = follows()
    lazy: bool = follows()  # whether KeOps can compute it
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

    def pairwise_exact_of_points(self, x: Tensor, y: Tensor) -> Tensor:
        """The transpose of `pairwise_exact`, (n, m), contiguous."""
        return self.pairwise_exact(x, y)

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

    def at(self, y: Tensor, x: Tensor, rows: Tensor | None, cols: Tensor) -> Tensor:
        """Costs between y[rows], or all of y, and x[cols], (k,), as `paired` gives them; in blocks that caches hold."""
        block = max(16, PAIRED // y.shape[1])
        # Rows are picked four times faster by index_select than by indexing (measured, 16 columns).
        some = y.split(block) if rows is None else (y.index_select(0, part) for part in rows.split(block))  # type: ignore[no-untyped-call]
        others = (x.index_select(0, part) for part in cols.split(block))  # type: ignore[no-untyped-call]
        return torch.cat([self.paired(*pair) for pair in zip(some, others, strict=True)])

    @abstractmethod
    def paired_gradient(self, y: Tensor, x: Tensor) -> Tensor:
        """Gradient in x of the costs between matching rows, (k, d) float64; the zero subgradient where x = y."""

    def paired_gradients(self, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """The same in x and in y."""
        push = self.paired_gradient(y, x)
        return push, -push

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
