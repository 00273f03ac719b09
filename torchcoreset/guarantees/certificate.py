"""`Certificate`: an interval for W_p, and the estimates that it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..html import card, draw_interval
from ..tensors import described
from ..transport import as_cost

ASYMPTOTIC = {
    "clt": "the confidence holds in the limit of many samples (central limit theorem, finite variance)",
    "bernstein": "nothing: the confidence holds for every number of samples, if the bound on the cost is true",
}
UNSEEN = ", and no weight of the population is larger than the largest among the rows"
OF_DATA = "the unit of the data"


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """lower <= W_p(nu, mu) <= upper, at a stated confidence, for points nu and the distribution mu that was sampled.

    Attributes:
        lower, upper: the interval for W_p, rooted, in the unit of the data; both ends hold together. `distance` is
            the estimate on this scale, `cost_lower` and `cost_upper` are the interval on that of `dual` and `value`.
        p: power of the cost.
        confidence: of the interval.
        dual: estimate from below, of E f_v(Y) <= W_p^p, not rooted.
        value: estimate from above, the cost of a feasible plan on the fresh samples, not rooted.
        standard_error: of `dual`, not rooted; `value` fluctuates by the same amount.
        samples: fresh samples that the interval comes from.
        effective_samples: effective sample size (sum w)^2 / sum w^2 (Kish 1965); `samples` where rows have no weights.
        potential_samples: other samples, that the potential comes from.
        method: "clt" or "bernstein" (then Hoeffding's inequality above).
        asymptotic: which part of the confidence holds only in the limit of many samples, in words.
        tail_share: part of the variance that is due to a single sample, in [0, 1]. If it is large, the tails dominate,
            and the interval may be too short.
        concentration: share of the cost in the costliest tenth of the cells, in [0, 1]; 0.1 if all cost the same.
        potential: (n,) the potential v.
        cell_mass: (n,) mass of its cells in the fresh samples.
        moved: mass that the plan moved out of its cell.
        unit: of the interval, in words: "the unit of the data", or those of `build_coreset(scale=...)`.
        trim: share of the distribution that the points need not be near; the interval is for the rest.
    """

    lower: float
    upper: float
    p: float
    confidence: float
    dual: float
    value: float
    standard_error: float
    samples: int
    effective_samples: float = math.nan  # in certificates that an earlier version has pickled
    potential_samples: int
    method: str
    asymptotic: str
    tail_share: float
    concentration: float
    potential: Tensor
    cell_mass: Tensor
    moved: float
    unit: str = OF_DATA
    trim: float = 0.0

    @property
    def gap(self) -> float:
        """(value - dual) / value: the suboptimality of potential and plan, without sampling errors."""
        return max(self.value - self.dual, 0.0) / self.value if self.value > 0 else 0.0

    @property
    def distance(self) -> float:
        """Estimate of W_p from above, rooted: that of `value`, between `lower` and `upper`."""
        return as_cost(self.p).root(max(self.value, 0.0))

    @property
    def cost_lower(self) -> float:
        """The lower end of the interval for W_p^p, on the scale of `dual` and `value`."""
        return as_cost(self.p).of_length(self.lower)

    @property
    def cost_upper(self) -> float:
        """The upper end of the interval for W_p^p, on the scale of `dual` and `value`."""
        return as_cost(self.p).of_length(self.upper)

    @property
    def relative_width(self) -> float:
        """(upper - lower) / upper."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    def __repr__(self) -> str:
        equivalent = f" (worth {self.effective_samples:.0f})" if self.effective_samples < 0.999 * self.samples else ""
        unit = "" if self.unit == OF_DATA else f" {self.unit}"
        interval = f"{self.lower:.6g} <= W_{self.p:g} <= {self.upper:.6g}{unit}"
        samples = f"samples={self.samples}{equivalent}"
        trimmed = f"trim={self.trim:g}" if self.trim else ""
        return described(self, interval, f"confidence={self.confidence:g}", samples, trimmed, gap=".1e", method="")

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, and the interval."""
        name = f"W_{self.p:g}"
        numbers = {
            name: f"{self.lower:.6g} to {self.upper:.6g}, in {self.unit}",
            "estimate": f"{self.distance:.6g}",
            "confidence": f"{self.confidence:g} ({self.method})",
            "samples": f"{self.samples:,}, and {self.potential_samples:,} for the potential",
            "gap": f"{self.gap:.1e}",
        }
        if self.trim:
            numbers["without"] = f"the farthest {self.trim:.3g}"
        return card("Certificate", numbers, draw_interval(self.lower, self.upper, name))
