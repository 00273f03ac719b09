"""Solves between points that move and samples that stay: what is known of the samples is found once.

It depends on the samples alone, and not on points that came before: a build that is resumed finds the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..tensors import check_finite
from .costs import Cost
from .passes import EngineChoice
from .problem import as_table, is_small, make_problem, offset_of, with_offset
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
    _kind: Any = field(default=None, init=False)  # shape, dtype and device of points
    _held: Distinct | None = field(default=None, init=False)  # the problem of some points of that kind
    _shift: Tensor | None = field(default=None, init=False)  # (d,) what was subtracted from points and samples there

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
        problem = self._moved(points)
        if problem is None:
            problem = distinct(
                make_problem(points, self.samples, self.p, self.point_weights, self.sample_weights, trim=self.trim)
            )
        return solve(
            problem, tolerance=tolerance, exact=False, start=start, max_steps=max_steps, engine=self.engine,
            accept_near_optimal=accept_near_optimal, earlier=earlier,
        )  # fmt: skip

    def _moved(self, points: Tensor) -> Distinct | None:
        """The held problem with these points; None where they do not fit into it without rounding."""
        x, y = as_table(points, "points"), as_table(self.samples, "samples")
        if x.shape[1] != y.shape[1]:
            return None
        if self._kind != (x.shape, x.dtype, x.device):
            self._hold(x, y)
        assert self._held is not None  # just now, or before
        if self._held.problem.x.dtype != x.dtype:
            return None
        largest = max(self._held.problem.largest, check_finite(x, "points"))
        if 2 * largest > torch.finfo(x.dtype).max:  # differences may overflow
            return None
        if self._shift is None:
            return self._held.with_points(x.clone(), largest)  # a parameter may be stepped while the problem is kept
        moved = x - self._shift
        # Where points are larger than the offset the second difference shows what was rounded, else the first sum.
        exact = torch.equal(moved + self._shift, x) and torch.equal(x - moved, self._shift.expand_as(x))
        return self._held.with_points(moved, largest) if exact else None

    def _hold(self, x: Tensor, y: Tensor) -> None:
        """Make the problem of means of three samples, which have as many digits, in place of points (n, d)."""
        n, m = len(x), len(y)
        first = torch.arange(n, device=y.device) * m // n
        some = sum((y[(first + k * m // 3) % m].to(x) / 3 for k in range(3)), torch.zeros_like(x))
        problem = make_problem(some, y, self.p, self.point_weights, self.sample_weights, trim=self.trim)
        shift = offset_of(problem, some)
        if bool(shift.any()) and is_small(shift, y):  # it would leave digits of its own in most points
            problem, shift = with_offset(problem, some), torch.zeros_like(shift)
        self._held, self._shift = distinct(problem), shift if bool(shift.any()) else None
        self._kind = (x.shape, x.dtype, x.device)
