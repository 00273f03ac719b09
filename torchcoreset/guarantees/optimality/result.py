"""`OptimalityBound`: a lower bound on the distance of any points of a size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from ...tensors import described, is_real
from ...transport import as_cost
from ..certificate import OF_DATA

SLIP = 1e-6  # relative; a distance that is below the bound by more than this and its rounding is another one


@dataclass(frozen=True, kw_only=True, repr=False)
class OptimalityBound:
    """W_p^p >= lower, for all points of this number and weights, and these rows, or the distribution behind them.

    Attributes:
        lower: the bound on W_p^p, not rooted; 0 if nothing was proved.
        size: number of points n.
        p: power of the cost.
        weights: of the points: "equal", "free", "given", or "between 0.5 and 2 equal shares".
        method: how it was found: "line" (exact), "semidefinite", "shift", "pairs", "blocks" or "population".
        samples: number of rows that it is for, or that the bound for the distribution was computed on.
        distinct: different rows with weight among them.
        allowance: amount subtracted from W_p^p for rounding, or for the confidence.
        confidence: of a bound for the distribution behind the rows; None for one for these rows.
        unit: of the distance, in words.
    """

    lower: float
    size: int
    p: float
    weights: str
    method: str
    samples: int
    distinct: int
    allowance: float
    confidence: float | None = None
    unit: str = OF_DATA

    @property
    def distance(self) -> float:
        """The bound on W_p, rooted, in the unit of the data."""
        return as_cost(self.p).root(self.lower)

    def within(self, found: Any) -> float:
        """Upper bound of the relative excess over the best distance: W_p / bound - 1, inf where the bound is 0.

        Args:
            found: W_p, rooted, of points of this size and weights to the same rows; or the result of the build that
                found them, whose size, power and unit are compared, and whether its weights are equal. To a bound for
                the distribution compare `Certificate.upper`.

        Raises:
            TypeError, ValueError: not a distance, or one of other points, or below the bound.
        """
        distance = float(found) if is_real(found) else self._distance_of(found)
        if not 0 <= distance < math.inf:
            raise ValueError(f"found: got a distance of {distance!r}; expected a finite number >= 0.")
        if distance < self.distance * (1 - SLIP):
            raise ValueError(
                f"found: got a distance of {distance:.6g}, and no {self.size} points of such weights are nearer than "
                f"{self.distance:.6g} to these rows; expected W_p, rooted, of points to the same rows in the same unit."
            )
        if self.lower > 0:
            return max(distance / self.distance - 1, 0.0)
        return 0.0 if distance == 0 else math.inf

    def _distance_of(self, found: Any) -> float:
        if self.confidence is not None:
            raise TypeError(
                f"found: got {type(found).__name__} for a bound on the distance to a distribution; expected that "
                "distance. Certify the points on fresh rows, and give `upper` of the certificate."
            )
        coreset = getattr(found, "coreset", None)
        if coreset is None or not hasattr(found, "distance"):
            raise TypeError(
                f"found: got {type(found).__name__}; expected a distance W_{self.p:g} or the result of build_coreset."
            )
        if as_cost(found.p) != as_cost(self.p) or coreset.size != self.size:
            raise ValueError(
                f"found: got {coreset.size} points for W_{found.p:g}, and the bound is one for {self.size} points and "
                f"W_{self.p:g}; expected the same. Ask for a bound with that size and p."
            )
        if getattr(found, "trim", 0.0):
            raise ValueError(
                f"found: got a distance that leaves a share of {found.trim:g} of the mass out; expected one to all "
                "rows, which the bound is for. Measure the points with tc.transport(points, rows)."
            )
        scaling, metric = getattr(coreset, "scaling", None), getattr(coreset, "cost", None)
        unit = metric.unit if metric is not None else OF_DATA if scaling is None else scaling.words
        if unit != self.unit:
            raise ValueError(
                f"found: got a distance in {unit}, and the bound is in {self.unit}; expected one unit. Give both the "
                "same `scale` or `cost`."
            )
        even = torch.full_like(coreset.weights, 1 / coreset.size)
        if self.weights == "equal" and not torch.allclose(coreset.weights, even, rtol=1e-6, atol=0.0):
            raise ValueError(
                "found: got points of unequal weights for a bound on points of equal weight; expected equal ones. Ask "
                "for a bound with these weights, or with weights='free'."
            )
        return float(found.distance)

    def __repr__(self) -> str:
        unit = "" if self.unit == OF_DATA else f" {self.unit}"
        rows = f"samples={self.samples}" + (f" ({self.distinct} distinct)" if self.distinct < self.samples else "")
        confidence = "" if self.confidence is None else f"confidence={self.confidence:g}"
        return described(
            self, f"W_{self.p:g} >= {self.distance:.6g}{unit}", f"size={self.size}", f"weights={self.weights}", rows,
            confidence, method="",
        )  # fmt: skip
