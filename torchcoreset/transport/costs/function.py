"""The p-th power of a user's own distance, computed pair by pair by a function of rows.

f(y, x) for y (..., d) and x (..., d), which broadcast: distances (...)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .cost import Cost, Number

Distance = Callable[[Tensor, Tensor], Tensor]
ELEMENTS = 1 << 22  # numbers of a block of pairs of rows: 32 MiB in float64


class FunctionPower(Cost):
    """f(y, x)^p; nothing is known of f but its values and, where autograd finds them, its gradients."""

    def __init__(self, p: float, distance: Distance) -> None:
        super().__init__(
            p,
            mean_is_best=False,
            median_is_best=False,
            steeper_than_square=p > 2,
            sorts_on_line=False,
            amplifies_rounding=False,
            omits_square=False,
            by_products=False,
            kernel=None,
            lazy=False,
            geomloss=None,
        )
        object.__setattr__(self, "distance", distance)

    distance: Distance

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionPower) and self.p == other.p and self.distance is other.distance

    def __hash__(self) -> int:
        return hash((self.p, id(self.distance)))

    def __repr__(self) -> str:
        return f"FunctionPower(p={self.p:g}, distance={getattr(self.distance, '__name__', self.distance)!s})"

    @property
    def metric(self) -> Cost:
        return FunctionPower(1.0, self.distance)

    def pairwise(self, y: Tensor, x: Tensor) -> Tensor:
        return self.pairwise_exact(y, x).to(torch.promote_types(y.dtype, x.dtype))

    def pairwise_exact(self, y: Tensor, x: Tensor) -> Tensor:
        y, x = y.double(), x.double()
        block = max(1, ELEMENTS // x.numel())
        return torch.cat([self._costs(some[:, None], x[None], (len(some), len(x))) for some in torch.split(y, block)])

    def pairwise_exact_of_points(self, x: Tensor, y: Tensor) -> Tensor:
        return self.pairwise_exact(y, x).t().contiguous()  # f need not be symmetric

    def pairwise_below(self, y: Tensor, x: Tensor) -> Tensor:
        return self.pairwise_exact(y, x)

    @property
    def spread_share(self) -> float:
        raise NotImplementedError("Bounds that need the triangle inequality are refused for functions by name.")

    def reduced(self, rows: Tensor, cols: Tensor, x2: Tensor, y2: Tensor | None, v: Tensor) -> Tensor:
        points_are_rows = v.dim() > 1
        if points_are_rows:
            return self.pairwise_exact_of_points(rows, cols).sub_(v)
        return self.pairwise_exact(rows, cols).sub_(v)

    def keops(self, rows: Any, cols: Any) -> Any:
        raise NotImplementedError("KeOps is refused for such costs by name before it is asked.")

    def paired(self, y: Tensor, x: Tensor) -> Tensor:
        return self._costs(y.double(), x.double(), (len(y),))

    def paired_gradient(self, y: Tensor, x: Tensor) -> Tensor:
        return self.paired_gradients(y, x)[0]

    def paired_gradients(self, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y, x = y.double(), x.double()
        with torch.enable_grad():
            y, x = y.detach().requires_grad_(), x.detach().requires_grad_()
            found = self.distance(y, x)
            if not found.requires_grad:
                raise ValueError(
                    f"cost: {self.name} gives distances without a gradient; expected differentiable torch operations. "
                    "Take rows=True, or `transport`, which need none."
                )
            power = found if self.p == 1 else found.pow(self.p)
            in_x, in_y = torch.autograd.grad(power.sum(), (x, y), allow_unused=True, materialize_grads=True)
        # Where rows coincide the root of zero has no gradient; zero is a subgradient of a distance.
        zero = (found.detach() == 0)[:, None]
        return in_x.masked_fill(zero & ~in_x.isfinite(), 0.0), in_y.masked_fill(zero & ~in_y.isfinite(), 0.0)

    def assigned(
        self, y: Tensor, x: Tensor, a: Tensor, cell: Tensor, block: int, *, each: float | None
    ) -> tuple[Tensor, Tensor]:
        points = x.double().index_select(0, cell)
        gradient = torch.zeros_like(x, dtype=torch.float64)
        gradient.index_add_(0, cell, self.paired_gradient(y, points) * a[:, None])
        return self.paired(y, points), gradient

    def slope(self, cost: Tensor) -> Tensor | float:
        raise NotImplementedError("The gradient of a function is no multiple of the difference.")

    def point_density(self, dimension: int) -> float:
        return dimension / (dimension + self.p)

    def weight(self, distance: Tensor) -> Tensor:
        return torch.ones_like(distance)

    def weight_from_cost(self, cost: Tensor) -> Tensor:
        return torch.ones_like(cost)

    def centre_step(self, displacement: Tensor, total: Tensor, at_point: Tensor) -> Tensor:
        """Towards the mean; a step that raises the cost is shortened by those who take it."""
        return displacement / total.where(total > 0, 1.0)[:, None]

    def step_factor(self, size: Tensor) -> Tensor:
        return size.pow(2 - self.p) / self.p

    def boundary_coupling(self, curvature: Tensor, v: Tensor, apart: Tensor) -> Tensor:
        raise NotImplementedError("Streams refuse such costs by name.")

    def roundoffs(self, d: int) -> float:
        return (d + 8) * max(self.p, 1.0)

    def expansion_error(self, reach: Number, height: Number, norm: Number, d: int, u: float) -> Number:
        """That of a cost computed as it is, in float64: relative to the cost."""
        return 2.0**-53 * (self.roundoffs(d) * reach + 3 * height)

    def expansion_limit(self, mean: float, part: float, d: int, u: float) -> float:
        return float("inf")

    def range(self, dtype: torch.dtype, d: int) -> tuple[float, float]:
        return 0.0, float("inf")

    @property
    def name(self) -> str:
        """What messages call the function."""
        return str(getattr(self.distance, "__name__", type(self.distance).__name__))

    def _costs(self, y: Tensor, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The powers of f, of this shape, float64; ValueError for what is no distance."""
        found = self.distance(y, x)
        if not isinstance(found, Tensor) or found.shape != shape:
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(
                f"cost: {self.name} gave {got} for rows of shapes {tuple(y.shape)} and {tuple(x.shape)}; expected "
                f"distances of shape {shape}: a function of two tensors of rows (..., d), which broadcast, such as "
                "lambda y, x: (y - x).abs().sum(-1)."
            )
        found = found.detach().double()
        if not bool((found >= 0).all()) or not bool(found.isfinite().all()):
            odd = found[~((found >= 0) & found.isfinite())]
            raise ValueError(
                f"cost: {self.name} gave {float(odd[0]):g}; expected finite distances >= 0. Roots of squares that "
                "rounding makes negative need clamp(min=0)."
            )
        return found if self.p == 1 else found.pow(self.p)
