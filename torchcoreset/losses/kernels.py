"""Kernels, and their sums over blocks of samples in float64: means, and derivatives of the mean.

x (n, d) points, b (n,)      y (m, d) samples, a (m,)      k kernel      c cost that it is a function of
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..transport import DISTANCE, Cost, Problem, as_cost
from ..transport.entropic import cost_blocks, displacement_sums

KernelFunction = Callable[[Tensor, Tensor], Tensor]
NEAREST = 1e-10  # in spreads of the data; smaller distances are clamped to it, which keeps 1 / r finite
FUNCTION_ELEMENTS = 1 << 20  # entries of a block of a kernel function, whose graph is kept for the derivative


class Kernel(ABC):
    """A symmetric kernel between rows, computed from a cost."""

    @property
    def cost(self) -> Cost:
        return as_cost(2)

    @abstractmethod
    def blocks(self, problem: Problem) -> Iterator[tuple[slice, Tensor]]:
        """Values between blocks of samples and all points: the rows, and (rows, n)."""

    @abstractmethod
    def gradients(self, problem: Problem, in_points: bool, in_samples: bool) -> tuple[Tensor | None, Tensor | None]:
        """Derivatives of sum_ik b_i a_k k(x_i, y_k) in x (n, d) and y (m, d); None where not asked for."""

    def curvature(self, problem: Problem) -> Tensor:
        """(n,) q of a majorant of half the squared discrepancy: F(x + h) <= F(x) + <F', h> + sum_i b_i q_i |h_i|^2 / 2.

        Raises:
            NotImplementedError: the kernel is a user's function, which has none; builds reject such kernels before.
        """
        raise NotImplementedError(f"{type(self).__name__} has no majorant; expected the Gaussian or Laplace kernel.")

    def means(self, problem: Problem) -> tuple[Tensor, Tensor]:
        """sum_k a_k k(x_i, y_k) for every point, (n,), and sum_i b_i k(x_i, y_k) for every sample, (m,)."""
        at_points, at_samples = torch.zeros_like(problem.b), torch.empty_like(problem.a)
        for rows, values in self.blocks(problem):
            at_points += problem.a[rows] @ values
            at_samples[rows] = values @ problem.b
        return at_points, at_samples


@dataclass(frozen=True)
class Radial(Kernel):
    """A kernel that depends on the distance, convex and decreasing in its square."""

    @abstractmethod
    def of(self, cost: Tensor) -> Tensor:
        """k from c."""

    @abstractmethod
    def weight(self, cost: Tensor) -> Tensor | float:
        """s in grad_x k = s (x - y), from c."""

    @property
    @abstractmethod
    def convexity(self) -> float:
        """L >= 0 for which k(z) - L |z|^2 / 2 is concave in the difference z of two rows."""

    def blocks(self, problem: Problem) -> Iterator[tuple[slice, Tensor]]:
        for rows, cost in cost_blocks(problem):
            yield rows, self.of(cost)

    def curvature(self, problem: Problem) -> Tensor:
        # -k is concave in the square of the distance to a sample: its tangent there is a majorant, of curvature |s|.
        # k between points is below its own tangent plus L |h_i - h_j|^2 / 2 <= L (|h_i|^2 + |h_j|^2).
        nearest = float(self.cost.of_length(NEAREST * problem.spread**0.5))
        total = torch.zeros_like(problem.b)
        for rows, cost in cost_blocks(problem):
            weight = self.weight(cost.clamp_(min=nearest))
            total -= problem.a[rows] @ (weight if isinstance(weight, Tensor) else torch.full_like(cost, weight))
        return total + 2 * self.convexity

    def gradients(self, problem: Problem, in_points: bool, in_samples: bool) -> tuple[Tensor | None, Tensor | None]:
        def weights(rows: slice, cost: Tensor) -> Tensor:
            return self.weight(cost) * (problem.a[rows, None] * problem.b)

        return displacement_sums(problem, weights, in_points, in_samples)


@dataclass(frozen=True)
class Power(Radial):
    """-|x - y|^power, conditionally positive definite for powers below 2."""

    power: float

    @property
    def cost(self) -> Cost:
        return as_cost(self.power)

    @property
    def convexity(self) -> float:
        return 0.0

    def of(self, cost: Tensor) -> Tensor:
        return cost.neg_()

    def weight(self, cost: Tensor) -> Tensor | float:
        return -self.cost.slope(cost)


@dataclass(frozen=True)
class Gaussian(Radial):
    """exp(-|x - y|^2 / (2 blur^2))."""

    blur: float

    @property
    def convexity(self) -> float:
        return 2 * math.exp(-1.5) / self.blur**2  # along z, at |z| = sqrt(3) blur

    def of(self, cost: Tensor) -> Tensor:
        return cost.mul_(-0.5 / self.blur**2).exp_()

    def weight(self, cost: Tensor) -> Tensor | float:
        return self.of(cost).mul_(-1 / self.blur**2)


@dataclass(frozen=True)
class Laplace(Radial):
    """exp(-|x - y| / blur)."""

    blur: float

    @property
    def cost(self) -> Cost:
        return DISTANCE

    @property
    def convexity(self) -> float:
        return 1 / self.blur**2  # along z, next to 0

    def of(self, cost: Tensor) -> Tensor:
        return cost.mul_(-1 / self.blur).exp_()

    def weight(self, cost: Tensor) -> Tensor | float:
        steepness = self.cost.slope(cost)
        return self.of(cost).mul_(-1 / self.blur).mul_(steepness)


@dataclass(frozen=True)
class Function(Kernel):
    """A user's kernel, a function of two tensors, differentiated by autograd."""

    function: KernelFunction

    def blocks(self, problem: Problem) -> Iterator[tuple[slice, Tensor]]:
        height = max(1, FUNCTION_ELEMENTS // len(problem.x))
        for start in range(0, len(problem.y), height):
            rows = slice(start, start + height)
            yield rows, self._values(problem.y[rows], problem.x)

    def gradients(self, problem: Problem, in_points: bool, in_samples: bool) -> tuple[Tensor | None, Tensor | None]:
        in_x = torch.zeros_like(problem.x) if in_points else None
        in_y = torch.empty_like(problem.y) if in_samples else None
        height = max(1, FUNCTION_ELEMENTS // len(problem.x))
        for start in range(0, len(problem.y), height):
            rows = slice(start, start + height)
            with torch.enable_grad():
                x, y = problem.x.detach().requires_grad_(), problem.y[rows].detach().requires_grad_()
                total = problem.a[rows] @ self._values(y, x) @ problem.b
                of_x, of_y = torch.autograd.grad(total, (x, y), allow_unused=True, materialize_grads=True)
            if in_x is not None:
                in_x += of_x
            if in_y is not None:
                in_y[rows] = of_y
        return in_x, in_y

    def _values(self, y: Tensor, x: Tensor) -> Tensor:
        values = self.function(y, x)
        if not isinstance(values, Tensor) or values.shape != (len(y), len(x)):
            got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                f"kernel: gave {got} for rows of shapes {tuple(y.shape)} and {tuple(x.shape)}; expected a tensor of "
                f"shape {(len(y), len(x))}, one value for each pair."
            )
        return values.double()


def within(rows: Tensor, weights: Tensor, cost: Cost) -> Problem:
    """The problem between a weighted set and itself."""
    return Problem(x=rows, b=weights, y=rows, a=weights, equal=False, cost=cost)
