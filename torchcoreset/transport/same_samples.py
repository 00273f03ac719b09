"""Solves between points that move and samples that stay: what is known of the samples is found once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..tensors import check_finite
from .costs import Cost
from .passes import EngineChoice
from .problem import as_table, make_problem, offset_of
from .reductions import Distinct, distinct
from .result import Transport
from .solve import solve


@dataclass
class SameSamples:
    """Samples (m, d) in a problem of which only the points move; arguments as in `make_problem`.

    They are not to be written to.
    """

    samples: Tensor
    p: float | Cost
    point_weights: Any = None
    sample_weights: Tensor | None = None
    trim: float = 0.0
    engine: EngineChoice = "auto"
    _last: Distinct | None = field(default=None, init=False)
    _shift: Tensor | None = field(default=None, init=False)  # (d,) what was subtracted from points and samples

    def solve(
        self,
        points: Tensor,
        *,
        tolerance: float,
        max_steps: int,
        start: Tensor | None = None,
        earlier: Tensor | None = None,
        accept_near_optimal: bool = False,
    ) -> Transport:
        """The transport between points (n, d) and the samples; as in `solve`."""
        problem = self._moved(points) or self._made(points)
        return solve(
            problem, tolerance=tolerance, exact=False, start=start, max_steps=max_steps, engine=self.engine,
            accept_near_optimal=accept_near_optimal, earlier=earlier,
        )  # fmt: skip

    def _made(self, points: Tensor) -> Distinct:
        problem = make_problem(points, self.samples, self.p, self.point_weights, self.sample_weights, trim=self.trim)
        shift = offset_of(problem, points)
        self._last, self._shift = distinct(problem), shift if bool(shift.any()) else None
        return self._last

    def _moved(self, points: Tensor) -> Distinct | None:
        """The last problem with these points; None where they do not fit into it without rounding."""
        last, shift, x = self._last, self._shift, as_table(points, "points")
        if last is None:
            return None
        held = last.problem.x
        if (x.shape, x.dtype, x.device) != (held.shape, held.dtype, held.device):
            return None
        largest = max(last.problem.largest, check_finite(x, "points"))
        if 2 * largest > torch.finfo(x.dtype).max:  # differences may overflow
            return None
        if shift is None:
            return last.with_points(x.clone(), largest)  # a parameter may be stepped while the problem is kept
        moved = x - shift
        return last.with_points(moved, largest) if torch.equal(moved + shift, x) else None
