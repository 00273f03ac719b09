"""How far a merged coreset can be from what its parts stand for.

    nu_k a coreset, mu_k what it stands for, W_p(nu_k, mu_k) <= e_k      m_k masses, sum 1
    nu = sum_k m_k nu_k the union of the points, mu = sum_k m_k mu_k     nu' what is made of nu

Plans between nu_k and mu_k, each with the mass m_k, are together a plan between nu and mu, so that

    W_p^p(nu, mu) <= sum_k m_k W_p^p(nu_k, mu_k) <= sum_k m_k e_k^p.                                              (1)

By the triangle inequality, |W_p(nu', mu) - W_p(nu', nu)| <= W_p(nu, mu).                                         (2)

For p = 2 the squares add up instead, as far as points are the means of what they stand for. Let y be distributed by
mu, x by nu, coupled by plans as in (1), and z by nu', coupled to x by another plan, y and z independent given x. Then

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

ROUNDING = 1e-14  # total variation between weights; up to it they differ as float64 does, which is not counted
Of = Literal["samples", "rows", "population", "given", "merged"]


@dataclass(frozen=True)
class PartBound:
    """What is known of one part.

    Attributes:
        share: its mass m_k, of all parts together 1.
        upper: e_k, W_p between the part and what it stands for is at most this.
        confidence: of this; 1 where it is certain.
        of: what it stands for: "samples" of its build, "rows" that came with it, the "population" that a certificate
            speaks of, what was "merged" into it, or "given" for a number.
        bias: for p = 2 what the points are off the means of what they stand for, at most, as a root mean square;
            `upper` where it is not known.
        merged: the bound with the terms of its own, of a part that was merged itself.
    """

    share: float
    upper: float
    confidence: float
    of: Of
    bias: float
    merged: MergeBound | None = None


@dataclass(frozen=True, repr=False)
class MergeBound:
    """lower <= W_p(nu', mu) <= upper, for a merged coreset nu' and the mixture mu of what its parts stand for.

    upper = mixture + merging + rounding, for p = 2 upper = (mixture^2 + merging^2 + 2 mixture_bias merging)^(1/2) +
    rounding, and lower = merging_least - mixture - rounding, or 0.

    Attributes:
        lower, upper: rooted, in the unit of the data, or of `scaling`.
        p: power of the cost.
        confidence: with which they hold; 1 where all parts are certain.
        mixture: (sum_k m_k e_k^p)^(1/p), which W_p between the union of the points and mu does not exceed.
        merging: W_p between the merged coreset and the union is at most this; 0 if it is the union.
        merging_least: and at least this.
        rounding: what weights may add that were rounded to the dtype of the points; 0 in float64.
        mixture_bias: for p = 2 what the points of the union are off the means of what they stand for, at most, as a
            root mean square; `mixture` where it is not known.
        bias: the same of the merged coreset.
        parts: one `PartBound` for each part that has mass, in their order.
        scaling: the units of distances, if they are not those of the data.
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
    """The bound that follows from those of the parts, whose shares sum to 1.

    Args:
        parts: those that have mass.
        merging: W_p between the merged coreset and the union, at least and at most.
        merging_bias: of the plan between them.
        rounding: W_p that rounded weights may add to it, at most.
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
    unit = max(first, second)  # whose square can neither overflow nor vanish
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
    # In units of the longest, whose power can neither overflow nor vanish.
    return longest * cost.root(sum(share * cost.of_length(length / longest) for share, length in pairs))


def rounding(points: Tensor, weights: Tensor, exact: Tensor, cost: Cost) -> float:
    """At most W_p between points (n, d) with weights (n,) and with those that these were rounded from, of sum 1."""
    w = weights.double()
    variation = float((w / w.sum() - exact).abs().sum()) / 2
    if variation <= ROUNDING:
        return 0.0
    x = points.double()
    centre = (x.amin(0) + x.amax(0)) / 2
    # The mass that differs moves at most twice as far as the farthest point is from the centre.
    return 2 * float(distances(x, centre).max()) * cost.root(variation)
