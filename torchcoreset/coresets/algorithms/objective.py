"""The objective of the outer algorithms: W_p^p between weighted points and samples, as a function of the points.

The weights of the points are fixed, or chosen by each transport; a share of the samples may stay unmatched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from ...transport import Cost, SameSamples, Transport, as_cost, is_choice, may_start_from_cells, solve
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

    def on(self, samples: Tensor, sample_weights: Tensor | None = None) -> OnSamples:
        """The objective on samples (m, d) of weights (m,), which are not to be written to."""
        return OnSamples(self, samples, sample_weights)

    def past_centres(self, points: Tensor, centres: Tensor, found: Transport, relaxation: float) -> Tensor:
        """Points (n, d) that go `relaxation` times the way to the centres, float64; those without weight once."""
        x, centres = points.double(), centres.double()
        moved = torch.where((found.weights > 0)[:, None], torch.lerp(x, centres, relaxation), centres)
        return moved if self.feasible is None else self.feasible(moved)


@dataclass(frozen=True)
class OnSamples:
    """The objective on one set of samples."""

    objective: Objective
    samples: Tensor  # (m, d)
    sample_weights: Tensor | None  # (m,)

    @cached_property
    def _same(self) -> SameSamples:
        its = self.objective
        return SameSamples(self.samples, its.p, its.weights, self.sample_weights, its.trim, its.engine)

    def transport(
        self,
        points: Tensor,
        *,
        tolerance: float,
        start: Tensor | None = None,
        earlier: Tensor | None = None,
        accept_near_optimal: bool = False,
    ) -> Transport:
        """Transport between points (n, d) and the samples to a relative gap, from a potential (n,) or None.

        `earlier` (m,) is the point to which an earlier plan of nearby points sent each sample.
        """
        its = self.objective
        if its.ranks is None:
            return self._same.solve(
                points, tolerance=tolerance, start=start, max_steps=MOST_PASSES,
                accept_near_optimal=accept_near_optimal, earlier=earlier,
            )  # fmt: skip
        run = partial(
            solve, tolerance=tolerance, exact=False, start=start, max_steps=MOST_PASSES,
            accept_near_optimal=accept_near_optimal,
        )  # fmt: skip
        _, found = solve_on(
            its.ranks, "build_coreset", run, points, self.samples, its.p, its.weights, self.sample_weights,
            trim=its.trim, engine=its.engine, state=start,
        )  # fmt: skip
        return found

    def cells(self, found: Transport) -> Tensor | None:
        """Where a plan has sent each sample, (m,), if the next transport can start from that."""
        can = self.objective.ranks is None and may_start_from_cells(*found.plan.shape)
        return found.plan.cells() if can else None

    def centres(self, points: Tensor, found: Transport) -> Tensor:
        """The points (n, d) that minimise the cost of this plan.

        Points to which the plan gives no weight move to the samples of highest cost, where each of them lowers the
        value.
        """
        its, samples = self.objective, self.samples
        centres = cell_centres(points, samples, found.plan, its.p, totals_of(its.ranks), its.feasible)
        idle = (found.weights == 0).nonzero()[:, 0] if its.chosen else ()
        if not len(idle):
            return centres
        rows, cols, mass = found.plan.rows, found.plan.cols, found.plan.mass
        costs = mass * as_cost(its.p).at(samples, points, rows, cols)
        dearest = costs.topk(min(len(idle), len(costs)))
        rows = rows[dearest.indices[dearest.values > 0]]
        centres[idle[: len(rows)]] = samples[rows].to(centres)
        return centres
