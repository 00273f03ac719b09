"""What the outer algorithms minimise: W_p^p between weighted points and samples, as a function of the points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from ...transport import Coupling, Transport, solve
from ...transport.ranks import Ranks, solve_on, totals_of
from .cells import cell_centres

MOST_PASSES = 100  # over the samples in one transport; beyond them it is returned as it is, with its gap


@dataclass(frozen=True)
class Objective:
    """W_p^p(points, samples) for points of fixed weights."""

    weights: Tensor  # (n,) of the points, sum 1
    p: float  # power of the cost
    engine: str = "auto"  # of each pass over the samples, as in `transport`
    ranks: Ranks | None = None  # those that hold the samples together; None if they are all here

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
            engine=self.engine, state=start,
        )  # fmt: skip
        return found

    def centres(self, points: Tensor, samples: Tensor, plan: Coupling) -> Tensor:
        """Where the cost of this plan is lowest, (n, d)."""
        return cell_centres(points, samples, plan, self.p, totals_of(self.ranks))
