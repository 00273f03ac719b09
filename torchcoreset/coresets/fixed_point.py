"""Algorithm 2: solve the transport, move every point to the centre of its cell, repeat.

    x (n, d) points      T(x) centres of the cells of x      F(x) = W_p^p(x, samples)

F(T(x)) <= F(x), because the old plan is still feasible and T(x) is the best place for it. Plain repetition crawls
once cells are nearly in place, so steps are extrapolated (Anderson 1965) from the last few residuals T(x) - x, and
a step that raised F is taken back to the best T(x) seen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..transport.problem import make_problem
from ..transport.result import Transport
from ..transport.solve import solve
from .cells import cell_centres

MEMORY = 5  # residuals that an extrapolation uses


class FixedPoint:
    """The iteration on one fixed set of samples.

    Args:
        points: (n, d) start.
        weights: (n,) weights of the points.
        samples: (m, d).
        sample_weights: (m,) or None.
        p: power of the cost.
        tolerance: relative gap of each transport.
        engine: of each transport.
    """

    def __init__(
        self,
        points: Tensor,
        weights: Tensor,
        samples: Tensor,
        sample_weights: Tensor | None,
        p: float,
        tolerance: float,
        engine: str = "auto",
    ) -> None:
        self.points = points
        self.weights, self.samples, self.sample_weights = weights, samples, sample_weights
        self.p, self.tolerance, self.engine = p, tolerance, engine
        self.potential: Tensor | None = None
        self.best: tuple[float, Tensor] | None = None  # lowest value, and the centres that go with it
        self._images: list[Tensor] = []
        self._residuals: list[Tensor] = []

    def evaluate(self) -> Transport:
        """Transport at the present points."""
        problem = make_problem(self.points, self.samples, self.p, self.weights, self.sample_weights)
        result = solve(
            problem, tolerance=self.tolerance, exact=False, start=self.potential, max_steps=100, engine=self.engine
        )
        self.potential = result.potential
        return result

    def move(self, result: Transport) -> None:
        """Next points, from the transport at the present ones."""
        centres = cell_centres(self.points, self.samples, result.plan, self.p)
        if self.best is not None and result.value > self.best[0]:
            self.points = self.best[1]
            self._images.clear()
            self._residuals.clear()
            self.best = None
            return
        self.best = (result.value, centres)
        self._images.append(centres.double())
        self._residuals.append((centres - self.points).double())
        del self._images[: -MEMORY - 1], self._residuals[: -MEMORY - 1]
        self.points = self._extrapolated().to(self.points.dtype)

    def finish(self) -> Tensor:
        """The centres of the best cells: no worse than any points evaluated."""
        return self.points if self.best is None else self.best[1]

    def _extrapolated(self) -> Tensor:
        """The combination of past images whose residuals cancel best, weights summing to 1."""
        image, residual = self._images[-1], self._residuals[-1]
        if len(self._residuals) < 2:
            return image
        scale = self.weights.double().sqrt()[:, None]  # a point counts by its mass
        changes = torch.stack([((residual - old) * scale).flatten() for old in self._residuals[:-1]], 1)
        gram = changes.t() @ changes
        mean = gram.diagonal().mean()
        if not bool(mean > torch.finfo(torch.float64).tiny):
            return image
        gram.diagonal().add_(1e-8 * mean)
        coefficients = torch.linalg.solve(gram, changes.t() @ (residual * scale).flatten())
        for coefficient, old in zip(coefficients, self._images[:-1], strict=True):
            image = image - coefficient * (self._images[-1] - old)
        return image
