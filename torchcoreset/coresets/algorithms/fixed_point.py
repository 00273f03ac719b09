"""Algorithm 2: solve the transport, move every point to the centre of its cell, repeat.

    x (n, d) points      T(x) centres of the cells of x      F(x) = W_p^p(x, samples)

F(T(x)) <= F(x), because the old plan is still feasible and T(x) is the best place for it. Plain repetition crawls
once cells are nearly in place, so the step is lengthened: x + RELAXATION (T(x) - x). For p = 2 that still descends,
F(x + w (T(x) - x)) <= F(x) - w (2 - w) sum_i b_i |T_i(x) - x_i|^2; for other p a step that raised F is taken back to
the best T(x) seen. Early transports are solved as loosely as the fall of F allows.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ...transport import Transport, solve
from ...transport.ranks import Ranks, solve_on, totals_of
from .cells import cell_centres

# Measured on tables and in the plane: lower after 10 steps than 1 and Anderson extrapolation; 1.8 begins far higher.
RELAXATION = 1.5
LOOSEST = 1e-2  # relative gap of the first transports
SHARE = 0.2  # of the last fall of F, which the gap of the next transport may take up


class FixedPoint:
    """The iteration on one fixed set of samples.

    Args:
        points: (n, d) start.
        weights: (n,) weights of the points.
        samples: (m, d).
        sample_weights: (m,) or None.
        p: power of the cost.
        tolerance: smallest relative gap to which a transport is solved.
        engine: of each transport.
        potential: (n,) to start the first transport from, such as that on fewer samples; None starts cold.
        ranks: those that hold the samples together; None if they are all here.

    Attributes:
        points: where F is evaluated next.
        potential: that of the last transport.
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
        potential: Tensor | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.points = points
        self.weights, self.samples, self.sample_weights = weights, samples, sample_weights
        self.p, self.tolerance, self.engine = p, tolerance, engine
        self.potential = potential
        self.ranks = ranks
        self.accuracy = max(LOOSEST, tolerance)  # of the next transport
        self.best: tuple[float, Tensor] | None = None  # lowest value, and the centres that go with it
        self._last: float | None = None

    def evaluate(self) -> Transport:
        """Transport at the present points."""
        run = partial(  # what a step needs is centres, which a plan that is not as good as hoped has as well
            solve, tolerance=self.accuracy, exact=False, start=self.potential, max_steps=100, accept_near_optimal=True
        )
        _, result = solve_on(
            self.ranks, "build_coreset", run, self.points, self.samples, self.p, self.weights, self.sample_weights,
            engine=self.engine, state=self.potential,
        )  # fmt: skip
        self.potential = result.potential
        return result

    def move(self, result: Transport) -> None:
        """Next points, from the transport at the present ones."""
        centres = cell_centres(self.points, self.samples, result.plan, self.p, totals_of(self.ranks))
        self._tighten(result.value)
        if self.best is None or result.value <= self.best[0]:
            self.best = (result.value, centres)
        if result.lower > self.best[0]:
            self.points = self.best[1]
        else:
            x = self.points.double()
            self.points = torch.lerp(x, centres.double(), RELAXATION).to(self.points.dtype)

    def finish(self) -> Tensor:
        """The centres of the best cells: no worse than any points evaluated, but for the gap."""
        return self.points if self.best is None else self.best[1]

    def _tighten(self, value: float) -> None:
        """Let the gap of the next transport be small against what the last step gained."""
        if self._last is not None and value > 0:
            self.accuracy = max(self.tolerance, min(self.accuracy, SHARE * abs(self._last - value) / value))
        self._last = value
