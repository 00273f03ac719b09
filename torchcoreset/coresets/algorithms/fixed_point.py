"""Algorithm 2: solve the transport, move every point to the centre of its cell, repeat.

    x (n, d) points      T(x) centres of the cells of x      F(x) = W_p^p(x, samples)

F(T(x)) <= F(x), because the old plan is still feasible, and T(x) is optimal for it. The plain iteration is slow near
convergence, so the step is over-relaxed: x + RELAXATION (T(x) - x). For p = 2 F still decreases,
F(x + w (T(x) - x)) <= F(x) - w (2 - w) sum_i b_i |T_i(x) - x_i|^2; for other p a step that raises F is rejected, and
the iteration returns to the best T(x) so far.

Differs from the paper in the over-relaxation, in keeping the best points, and in solving early transports only as
accurately as the decrease of F requires.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...transport import Transport
from .objective import OnSamples

# Multiple of the step to the centres, in (0, 2) to descend. Measured on tables and in the plane: lower after 10 steps
# than 1 and Anderson extrapolation; 1.8 begins far higher.
RELAXATION = 1.5
LOOSEST = 1e-2  # relative gap of the first transports; no later one has a larger gap
SHARE = 0.2  # of the last fall of F: the gap that the next transport may have


@dataclass(frozen=True)
class State:
    """Between two steps."""

    points: Tensor  # (n, d) where F is evaluated next
    accuracy: float  # relative gap of the next transport
    result: Tensor  # (n, d) centres of the cells with the lowest F: no worse than any points evaluated, but for the gap
    lowest: float = math.inf  # F at the points that these cells belong to
    value: float = math.nan  # F at the last points, NaN before the first
    potential: Tensor | None = None  # (n,) from which the next transport starts; None starts cold
    cells: Tensor | None = None  # (m,) to which point the last plan sent each sample, if the next one starts from that

    def record(self) -> dict[str, Any]:
        """The whole state, for a run that is resumed later."""
        return dict(vars(self))

    def resumed(self, record: Mapping[str, Any]) -> State:
        """The state of a record."""
        return State(**record)


def init(points: Tensor, tolerance: float, potential: Tensor | None = None) -> State:
    """Before the first step, at points (n, d); `tolerance` is the relative gap of the most accurate transports.

    The first transport starts from `potential` (n,), such as that on fewer samples.
    """
    return State(points, max(LOOSEST, tolerance), points, potential=potential)


def step(state: State, on: OnSamples, tolerance: float) -> tuple[State, Transport]:
    """One transport to the samples, and the points past the centres of its cells."""
    x = state.points
    found = on.transport(  # a plan that is not quite as good as asked for has centres too
        x, tolerance=state.accuracy, start=state.potential, earlier=state.cells, accept_near_optimal=True
    )
    centres = on.centres(x, found)
    improved = found.value <= state.lowest
    lowest, best = (found.value, centres) if improved else (state.lowest, state.result)
    rose = found.lower > lowest  # beyond what the gap leaves open
    moved = best if rose else on.objective.past_centres(x, centres, found, RELAXATION).to(x.dtype)
    accuracy = _accuracy(state, found.value, tolerance)
    return State(moved, accuracy, best, lowest, found.value, found.potential, on.cells(found)), found


def _accuracy(state: State, value: float, tolerance: float) -> float:
    """Relative gap of the next transport: small against what the last step gained."""
    if math.isnan(state.value) or not value > 0:
        return state.accuracy
    return max(tolerance, min(state.accuracy, SHARE * abs(state.value - value) / value))
