"""Bounds of the distance between a merged coreset and the data that its parts represent.

    nu_k coreset of the part mu_k, W_p(nu_k, mu_k) <= e_k                m_k masses, sum 1
    nu = sum_k m_k nu_k the union of the points, mu = sum_k m_k mu_k     nu' the merged coreset, built from nu

Plans between nu_k and mu_k, weighted with m_k, add up to a plan between nu and mu, so that

    W_p^p(nu, mu) <= sum_k m_k W_p^p(nu_k, mu_k) <= sum_k m_k e_k^p.                                              (1)

By the triangle inequality, |W_p(nu', mu) - W_p(nu', nu)| <= W_p(nu, mu).                                         (2)

For p = 2 the squares add up instead, as far as points are the means of the mass that they represent. Let y have the
distribution mu, x nu, coupled by plans as in (1), and z nu', coupled to x by another plan, y and z independent given x.
Then

    E|y - z|^2 = E|y - x|^2 + E|x - z|^2 + 2 E<r(x), x - z>,     r(x) = E[y | x] - x,                              (3)

so that W_2^2(nu', mu) <= e^2 + W^2 + 2 s W, with e from (1), W^2 the cost of the second plan, and s = (E|r(x)|^2)^(1/2)
the bias of the first one. s <= e, and with s = e, where it is not known, (3) is (2). The bias of the coupling of y and
z is at most s + s', with that of the second plan, s' (Jensen, Minkowski); that of the parts together is
(sum_k m_k s_k^2)^(1/2).

Equality in (1) holds where an optimal plan moves no mass from one part to another, as between parts far apart. Bounds
of confidence 1 - delta_k hold together with confidence 1 - sum_k delta_k (Bonferroni), independent or not. Merging
merged coresets is (1) to (3) again; (1) alone is associative: sum_k m_k sum_l m_kl e_kl^p has one value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ...sources import Scaling, in_words
from ...tensors import described
from ...transport import Cost, distances

ROUNDING = 1e-14  # total variation between weights; smaller differences are rounding of float64 and count as none
Of = Literal["samples", "rows", "population", "given", "merged"]


@dataclass(frozen=True)
class PartBound:
    """The bound of one part.

    Attributes:
        share: the mass m_k of the part; the shares of all parts sum to 1.
        upper: e_k, an upper bound of W_p between the coreset of the part and the data that it represents.
        confidence: probability with which `upper` holds; 1 if it is certain.
        of: the data that the coreset represents: the "samples" of its build, the "rows" given with it, the "population"
            of a certificate, the data of "merged" coresets, or "given" for a bound that is a number.
        bias: for p = 2 an upper bound of the root mean square distance between the points and the means of the mass
            that they represent; `upper` if it is not known.
        merged: the `MergeBound` of a part that was merged itself, with its terms.
    """

    share: float
    upper: float
    confidence: float
    of: Of
    bias: float
    merged: MergeBound | None = None


@dataclass(frozen=True, repr=False)
class MergeBound:
    """Bounds lower <= W_p(nu', mu) <= upper of the distance between a merged coreset nu' and the data mu of all parts.

    upper = mixture + merging + rounding, for p = 2 upper = (mixture^2 + merging^2 + 2 mixture_bias merging)^(1/2) +
    rounding, and lower = merging_least - mixture - rounding, or 0.

    Attributes:
        lower, upper: the bounds of W_p (the p-th root), in the unit of the data, or of `scaling`.
        p: power of the cost.
        confidence: probability with which they hold; 1 if the bounds of all parts are certain.
        mixture: (sum_k m_k e_k^p)^(1/p), an upper bound of W_p between the union of the points and mu.
        merging: upper bound of W_p between the merged coreset and the union; 0 if the coreset is the union.
        merging_least: lower bound of the same distance.
        rounding: upper bound of the distance that rounding the weights to the dtype of the points adds; 0 in float64.
        mixture_bias: for p = 2 an upper bound of the root mean square distance between the points of the union and the
            means of the mass that they represent; `mixture` if it is not known.
        bias: the same for the points of the merged coreset.
        parts: one `PartBound` for each part that has mass, in the order of the parts.
        scaling: the units of distances; None for those of the data.
    """

    lower: float
    upper: float
    p: float
    confidence: float
    mixture: float
    merging: float
    merging_least: float
    rounding: float
    mixture_bias: float
    bias: float
    parts: tuple[PartBound, ...]
    scaling: Scaling | None = None

    def __repr__(self) -> str:
        least = f"{self.lower:.6g} <= " if self.lower > 0 else ""
        interval = f"{least}W_{self.p:g} <= {self.upper:.6g}{in_words(self.scaling)}"
        terms = f"{len(self.parts)} part{'' if len(self.parts) == 1 else 's'} {self.mixture:.4g}"
        if self.merging > 0:
            terms += f", merging {self.merging:.4g}"
        if self.rounding > 0:
            terms += f", rounding {self.rounding:.2g}"
        return described(self, interval, terms, confidence="g")


def bound_of(
    parts: Sequence[PartBound],
    cost: Cost,
    merging: tuple[float, float] = (0.0, 0.0),
    merging_bias: float = 0.0,
    rounding: float = 0.0,
    scaling: Scaling | None = None,
) -> MergeBound:
    """The bound of a merged coreset, from those of its parts.

    Args:
        parts: the bounds of all parts that have mass; their shares sum to 1.
        merging: lower and upper bound of W_p between the merged coreset and the union.
        merging_bias: bias of the plan between them.
        rounding: upper bound of the distance that rounded weights add.
    """
    least, most = merging
    shares = [part.share for part in parts]
    mixture = mean_length(shares, [part.upper for part in parts], cost)
    bias = min(mean_length(shares, [part.bias for part in parts], cost), mixture)
    together = _root_of_squares(mixture, most, bias) if cost.mean_is_best else mixture + most
    upper = together + rounding
    return MergeBound(
        lower=max(least - mixture - rounding, 0.0),
        upper=upper,
        p=cost.p,
        confidence=max(1 - sum(1 - part.confidence for part in parts), 0.0),
        mixture=mixture,
        merging=most,
        merging_least=least,
        rounding=rounding,
        mixture_bias=bias,
        bias=min(bias + merging_bias + rounding, upper),
        parts=tuple(parts),
        scaling=scaling,
    )


def _root_of_squares(first: float, second: float, bias: float) -> float:
    """(first^2 + second^2 + 2 bias second)^(1/2)."""
    unit = max(first, second)  # so that squares neither overflow nor underflow
    if unit == 0:
        return 0.0
    a, b, c = first / unit, second / unit, bias / unit
    return unit * math.sqrt(a * a + b * b + 2 * c * b)


def mean_length(shares: Sequence[float], lengths: Sequence[float], cost: Cost) -> float:
    """The length whose cost is the mean of the costs of these lengths."""
    longest = max(lengths, default=0.0)
    if longest == 0:
        return 0.0
    pairs = zip(shares, lengths, strict=True)
    # In units of the longest, so that powers neither overflow nor underflow.
    return longest * cost.root(sum(share * cost.of_length(length / longest) for share, length in pairs))


def rounding(points: Tensor, weights: Tensor, exact: Tensor, cost: Cost) -> float:
    """Upper bound of W_p between points (n, d) with rounded weights (n,) and with the exact ones (n,), of sum 1."""
    w = weights.double()
    variation = float((w / w.sum() - exact).abs().sum()) / 2
    if variation <= ROUNDING:
        return 0.0
    x = points.double()
    centre = (x.amin(0) + x.amax(0)) / 2
    # The mass that differs moves at most twice as far as the farthest point is from the centre.
    return 2 * float(distances(x, centre).max()) * cost.root(variation)
