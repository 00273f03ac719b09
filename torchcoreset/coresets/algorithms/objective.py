"""The objective of the outer algorithms: W_p^p between weighted points and samples, as a function of the points.

The weights of the points are fixed, or chosen by each transport; a share of the samples may stay unmatched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...transport import Cost, Transport, as_cost, is_choice, solve
from ...transport.ranks import Ranks, solve_on, totals_of
from .cells import cell_centres

MOST_PASSES = 100  # over the samples in one transport; beyond them it is returned as it is, with its gap


@dataclass(frozen=True)
class Objective:
    """W_p^p(points, samples) for points of these weights."""

    weights: Any  # (n,) of the points, sum 1; or "free" or bounds (low, high), as in `transport`
    p: float | Cost  # power of the cost, or the cost
    engine: str = "auto"  # of each pass over the samples, as in `transport`
    ranks: Ranks | None = None  # those that hold the samples together; None if they are all here
    trim: float = 0.0  # share of the samples that stays unmatched
    # To the nearest places (n, d) where points may lie, from any; None where they may lie anywhere.
    feasible: Callable[[Tensor], Tensor] | None = None

    @property
    def chosen(self) -> bool:
        """Whether each transport chooses the weights of the points."""
        return is_choice(self.weights)

    def transport(
        self,
        points: Tensor,
        samples: Tensor,
        sample_weights: Tensor | None = None,
        *,
        tolerance: float,
        start: Tensor | None = None,
        accept_near_optimal: bool = False,
    ) -> Transport:
        """Transport between points (n, d) and samples (m, d) to a relative gap, from a potential (n,) or None."""
        run = partial(
            solve, tolerance=tolerance, exact=False, start=start, max_steps=MOST_PASSES,
            accept_near_optimal=accept_near_optimal,
        )  # fmt: skip
        _, found = solve_on(
            self.ranks, "build_coreset", run, points, samples, self.p, self.weights, sample_weights,
            trim=self.trim, engine=self.engine, state=start,
        )  # fmt: skip
        return found

    def centres(self, points: Tensor, samples: Tensor, found: Transport) -> Tensor:
        """The points (n, d) that minimise the cost of this plan.

        Points to which the plan gives no weight move to the samples of highest cost, where each of them lowers the
        value.
        """
        centres = cell_centres(points, samples, found.plan, self.p, totals_of(self.ranks), self.feasible)
        idle = (found.weights == 0).nonzero()[:, 0] if self.chosen else ()
        if not len(idle):
            return centres
        rows, cols, mass = found.plan.rows, found.plan.cols, found.plan.mass
        costs = mass * as_cost(self.p).at(samples, points, rows, cols)
        dearest = costs.topk(min(len(idle), len(costs)))
        rows = rows[dearest.indices[dearest.values > 0]]
        centres[idle[: len(rows)]] = samples[rows].to(centres)
        return centres

    def past_centres(self, points: Tensor, centres: Tensor, found: Transport, relaxation: float) -> Tensor:
        """Points (n, d) that go `relaxation` times the way to the centres, float64; those without weight once."""
        x, centres = points.double(), centres.double()
        moved = torch.where((found.weights > 0)[:, None], torch.lerp(x, centres, relaxation), centres)
        return moved if self.feasible is None else self.feasible(moved)
