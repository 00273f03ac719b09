"""`size_for`: how many points a coreset needs for a distance, and the certificate of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Generator

from ..coresets import Coreset, build_coreset
from ..errors import warn_user
from ..guarantees import Certificate, certify, check_confidence, fewest_points
from ..sources import Pushforward, Scale, Scaling, Source, as_source, hold_out, make_generator, scaled
from ..sources.tables import RandomAccessSource
from ..tensors import check_count, described, is_real
from ..transport import check_power, check_trim, is_choice
from ..transport.costs import as_metric, is_rowwise
from .growth import Growth, fit_growth

LADDER = (10, 20, 40)  # sizes that the law is fitted to
RULED_OUT = 2000  # rows, at most, that say which sizes are out of the question: more find few more of them
FEWEST_ROWS = 200  # with fewer nothing is said of that
SPARE = 1.05  # times the points that the fit asks for, since it errs
TAILS = 0.5  # part of the cost in a tenth of the cells; beyond it a warning says that the law may not hold

Tried = list[tuple[int, Certificate]]  # sizes and their certificates, in the order of trying


@dataclass(frozen=True, kw_only=True, repr=False)
class SizeResult:
    """How many points reach epsilon.

    Attributes:
        size: n, the smallest number of points that was tried and certified; None if none was.
        certificate: of those points, or of the best that were tried.
        coreset: the points of `certificate`.
        epsilon: the distance that was asked for.
        growth: the fitted law W = C n^(-1/s); None if the smallest size sufficed.
        tried: sizes and certificates, in the order of trying.
        message: the result in words.
        least: lower bound of the number of points of such weights within epsilon, at the confidence, from rows that
            are not used in builds. None where rows have weights, those of the points are free, or a share is trimmed.
    """

    size: int | None
    certificate: Certificate
    coreset: Coreset
    epsilon: float
    growth: Growth | None
    tried: list[tuple[int, Certificate]]
    message: str
    least: int | None = None

    @property
    def reached(self) -> bool:
        """Whether epsilon was certified."""
        return self.size is not None

    def __repr__(self) -> str:
        return described(self, self.message)


def size_for(
    epsilon: float,
    source: Any,
    p: float = 2,
    *,
    confidence: float = 0.95,
    weights: Any = None,
    trim: float = 0.0,
    scale: Scale | None = None,
    samples: int = 100_000,
    max_size: int = 1000,
    max_builds: int = 8,
    seed: int | Generator = 0,
    cost: Any = None,
) -> SizeResult:
    """How many points it takes to be certified within epsilon of a distribution, W_p <= epsilon.

    Builds and certifies coresets of 10, 20 and 40 points, fits W = C n^(-1/s), builds what the fit proposes and
    certifies it; a proposal that fails, or is more than needed, improves the fit. Each certificate is on samples that
    its build has not seen. Its confidence is raised to 1 - (1 - confidence) / max_builds (Bonferroni), since the one
    that is returned is selected among them.

    Args:
        epsilon: distance, rooted, in the unit of the data, or of `scale`.
        source: a distribution or callable, or a table or dataset: then half of its rows build, and the other half
            certifies, each with its weight.
        p: power of the cost.
        confidence: with which W_p <= epsilon holds for the points that are returned.
        weights: None, "free" or bounds (low, high), as in `build_coreset`: free ones take fewer points.
        trim: share of the distribution that stays unmatched, as in `build_coreset` and `certify`.
        scale: units of the columns for the distance, as in `build_coreset`.
        samples: of each certificate.
        max_size: most points to try.
        max_builds: most coresets to build, at least 1.
        seed: int or generator.
        cost: the distance, as in `build_coreset`.

    Returns:
        `SizeResult`; `size` is None if epsilon was not reached; `message` says why, and what would be needed.

    Raises:
        ValueError: unusable arguments; an iterator, which cannot be read again.

    Warns:
        UserWarning: a tenth of the cells has most of the cost: the tails dominate, and the distance of points of equal
            weight falls slowly.

    Example:
        >>> import torch, torchcoreset as tc
        >>> uniform = torch.distributions.Uniform(0.0, 1.0)
        >>> found = tc.size_for(0.1, uniform, samples=5000)
        >>> found.size, found.certificate.upper < 0.1
        (3, True)

    Source: the law: Graf and Luschgy (2000), theorem 6.2.
    """
    _check(epsilon, p, max_size, max_builds)
    check_count(samples, "samples")
    check_confidence(confidence)
    check_trim(trim)
    if weights is not None and not is_choice(weights):
        raise ValueError(
            "weights: got one for each point, of whose number nothing is known yet; expected None, 'free' or bounds."
        )
    read = as_source(source)
    cost = read.metric if cost is None and scale is None else cost
    build, fresh = _separate(read)
    scaling = read.units if scale is None else Scaling.of(read, scale)
    each, generator = 1 - (1 - confidence) / max_builds, make_generator(seed)
    tried: Tried = []
    coresets: list[Coreset] = []

    def attempt(size: int) -> bool:
        """Build and certify this many points; whether they reach epsilon."""
        # Of a source that has an end, what any build holds: a file may be larger than memory.
        most = None if build.size is not None else max(samples, 200 * size)
        built = build_coreset(
            build,
            size,
            p=p,
            weights=weights,
            trim=trim,
            scale=scaling,
            cost=cost,
            samples=most,
            tolerance=3e-3,
            seed=generator,
            progress=False,
        )
        tried.append((size, certify(built.coreset, fresh, p, each, samples, trim=trim, seed=generator)))
        coresets.append(built.coreset)
        return tried[-1][1].upper <= epsilon

    ladder = [size for size in LADDER if size <= max_size] or [max_size]
    for size in ladder[:max_builds]:
        if attempt(size):
            break
    while len(tried) < max_builds and (proposal := _proposal(tried, epsilon, max_size)) is not None:
        attempt(proposal)
    enough, law = _enough(tried, epsilon), _law(tried)
    # The smallest size that is enough, or else the one with the lowest upper end.
    best = min(range(len(tried)), key=lambda k: tried[k][1].upper if enough is None else tried[k][0] != enough)
    found = tried[best][1]
    _warn_of_tails(found)
    most = max_size if enough is None else enough - 1
    share = 1.0 if weights is None else 0.0 if isinstance(weights, str) else float(weights[0])
    known, metric = not trim and is_rowwise(cost), as_metric(cost)
    measured = fresh if metric is None or not known else Pushforward(fresh, metric.coordinates)
    least = _least(epsilon, measured, scaling, p, most, share if known else 0.0, confidence, generator)
    if enough is None:
        message = _out_of_reach(epsilon, tried[best][0], found, law, max_size)
    else:
        message = f"{enough} points are within {found.upper:.4g} <= {epsilon:g} (W_{p:g}), certified"
    if least is not None and least > 1:
        message += f"; fewer than {least} cannot be"
    return SizeResult(
        size=enough,
        certificate=found,
        coreset=coresets[best],
        epsilon=epsilon,
        growth=law,
        tried=tried,
        message=message,
        least=least,
    )


def _least(
    epsilon: float,
    fresh: Source,
    scaling: Scaling | None,
    p: float,
    most: int,
    share: float,
    confidence: float,
    generator: Generator,
) -> int | None:
    """The fewest points, each of at least this share of an equal one, that may be within epsilon; None if unknown."""
    if most == 0:
        return 1
    if share == 0 or fresh.weighted or (fresh.size is not None and fresh.size < FEWEST_ROWS):
        return None
    return fewest_points(
        epsilon,
        scaled(fresh, scaling),
        p,
        most,
        share=share,
        confidence=confidence,
        samples=RULED_OUT,
        seed=generator,
    )


def _enough(tried: Tried, epsilon: float) -> int | None:
    """The smallest size that reached epsilon."""
    return min((size for size, found in tried if found.upper <= epsilon), default=None)


def _law(tried: Tried) -> Growth | None:
    """The law fitted to the upper ends, which is what has to reach epsilon."""
    found = {size: certificate.upper for size, certificate in tried if certificate.upper > 0}
    return fit_growth(list(found), list(found.values())) if len(found) > 1 else None


def _proposal(tried: Tried, epsilon: float, max_size: int) -> int | None:
    """The size to try next: what the law asks for, between one that is too small and one that is enough."""
    law, enough = _law(tried), _enough(tried, epsilon)
    lacking = max((size for size, found in tried if found.upper > epsilon), default=0)
    if enough is not None and enough - lacking <= max(1, enough // 20):
        return None
    if enough is not None:
        # Without a law halve the interval; with one go where it points, but never outside.
        wanted = (enough + lacking) / 2 if law is None else law.size(epsilon)
        return min(max(math.ceil(wanted), lacking + 1), enough - 1)
    if law is None:
        return 2 * lacking if 2 * lacking <= max_size else None
    wanted = max(law.size(epsilon) * SPARE, lacking * SPARE)
    if wanted > max_size:
        return None if math.isinf(wanted) or lacking >= max_size or wanted > 2 * max_size else max_size
    return max(math.ceil(wanted), lacking + 1)


def _out_of_reach(epsilon: float, size: int, found: Certificate, law: Growth | None, max_size: int) -> str:
    best = f"{epsilon:g} was not reached: {size} points are certified within {found.upper:.4g}"
    wanted = math.inf if law is None else law.size(epsilon)
    if found.lower <= epsilon:
        return f"{best}, but may be as near as {found.lower:.4g}: more samples would tell"
    if law is None or math.isinf(wanted):
        return f"{best}, and the distance does not fall with more points"
    if wanted <= max_size:
        return f"{best}; about {wanted:.0f} points should do: allow more builds (max_builds)"
    return (
        f"{best}; by W = {law.constant:.3g} n^(-1/{law.dimension:.2g}) it takes about {wanted:.3g} points, and "
        f"max_size is {max_size}"
    )


def _warn_of_tails(found: Certificate) -> None:
    if found.concentration > TAILS and len(found.cell_mass) >= 10:
        message = (
            f"source: a tenth of the cells carries {found.concentration:.0%} of the cost: the tails decide, and "
            "points of equal weight reach them slowly, so that more points help less than the fit says. Clip or "
            "transform the tails, use p=1, or give the points weights."
        )
        warn_user(UserWarning(message))


def _separate(source: Source) -> tuple[Source, Source]:
    """Rows to build on and rows to certify on."""
    table = source
    while isinstance(table, Pushforward):
        table = table.source
    if isinstance(table, RandomAccessSource):
        return hold_out(source)
    if source.endless:
        return source, source
    raise ValueError(
        f"source: got {source!r}, which gives the same rows again or none; expected a table or dataset, which can be "
        "split, or a distribution or callable. Collect the rows in a tensor first."
    )


def _check(epsilon: float, p: float, max_size: int, max_builds: int) -> None:
    if not is_real(epsilon) or not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon: got {epsilon!r}; expected a positive distance in the unit of the data.")
    check_power(p)
    check_count(max_size, "max_size")
    check_count(max_builds, "max_builds")
