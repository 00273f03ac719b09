"""`optimality_bound`: the best bound that the number of rows allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Generator, Tensor

from ...modes import solver_modes
from ...names import BoundMethod as Method
from ...sources import Pushforward, Scale, Scaling, Source, as_source, make_generator, permutation, scaled
from ...tensors import check_count, check_finite, check_name, normalised, span
from ...transport import Cost, as_cost, as_marginals, is_choice
from ...transport.costs import Metric, as_metric, check_euclidean, is_rowwise
from ..bounds import clt
from ..certificate import OF_DATA
from ..certify import check_confidence
from .free import given_bound, weighted_bound
from .line import line_bound
from .pairs import PASSES, nearest_mass, shift_bound
from .population import halves, pair_moments, warn_of_tails
from .result import OptimalityBound
from .rows import UNIT, Rows, distinct_rows
from .semidefinite import STEPS, semidefinite_bound

FEW = 1500  # distinct rows up to which "auto" takes the semidefinite bound, within ten seconds
WORK = 30 * 1000**3  # steps of it times rows^3 within that time
PART = 1000  # distinct rows of a block of it; of more than twice as many, blocks are made
REFINED = 1 << 27  # pairs of rows up to which the shift is improved; beyond, it is as the first pass leaves it
PAIRS = 1 << 30  # pairs of rows up to which "auto" compares all; beyond, it takes blocks
BLOCK = 4096  # distinct rows of a block
ROWS_A_POINT = 40  # or so many a point: with fewer, points of free weights come too near to the rows of a block

Bound = tuple[float, float]  # of W_p^p, and what was subtracted for rounding


@dataclass(frozen=True)
class Weights:
    """What is known of the weights of the points."""

    words: str
    size: int  # points that have weight
    low: float  # least share of a point, in equal ones
    high: float  # largest
    given: Tensor | None = None  # (n,) float64, sum 1, positive

    @property
    def equal(self) -> bool:
        return self.low == self.high

    @property
    def least(self) -> float:
        """Mass that each point has at least."""
        return self.low / self.size if self.given is None else float(self.given.min())


def optimality_bound(
    source: Any,
    size: int,
    p: float = 2,
    *,
    weights: Any = None,
    sample_weights: Any = None,
    scale: Scale | None = None,
    method: Method = "auto",
    confidence: float | None = None,
    samples: int = 10_000,
    seed: int | Generator = 0,
    cost: Any = None,
) -> OptimalityBound:
    """A lower bound on W_p between any n points and the rows of a table.

    A build ends in a local optimum. This bound limits how far that can be from the global one. For points of equal
    weight, a row costs at least as much as its mean cost to the mass 1/n nearest to it:

        W_p^p  >=  sum_k a_k (n/2) min { sum_l q_l |y_k - y_l|^p : 0 <= q <= a, sum q = 1/n }    for 1 <= p <= 2,

    with n 2^(1-p) in place of n/2 for p > 2. "shift" and "semidefinite" are sharper, and hold for the same p. For p = 2
    half the mean square between two samples of a cell is what its mean costs; for other p this is not sharp.

    All rows are used, none are sampled. Costs are computed in float64, and rounding errors are subtracted.
    With a `confidence`, the bound is for the distribution that the rows come from, by a U-statistic.

    Args:
        source: a table that `as_source` reads: tensor, array, DataFrame, dataset, loader of known length, file. All
            its rows are held in memory. Equal rows count once, with their weights added up.
        size: number of points n.
        p: power of the distance, p >= 1.
        weights: of the points. None for equal ones; "free" for any, so that it bounds k-means; a tuple (low, high) for
            any between low/n and high/n, 0 <= low <= 1 <= high; or (n,) fixed weights.
        sample_weights: (rows,) weights of the rows, as for `build_coreset`.
        scale: units of the columns for the distance, as in `build_coreset`.
        method: "semidefinite" (the sharpest; rows^3 work and rows^2 memory; in blocks of 1000 rows, weights free,
            beyond 2000), "shift" (all pairs of rows, a block at a time), "pairs" (the same, once), "blocks" ("shift"
            with free weights in random blocks of 4096 rows, averaged, which bounds the whole), "line" (exact, for
            one column, equal weights and p of 1 or 2). "auto" takes the first that is affordable: "line",
            "semidefinite" up to 1500 distinct rows, "shift" up to 32768, and else "blocks".
        confidence: None bounds the distance to the rows of a table. A probability in (0, 1), such as 0.95, bounds the
            distance to the distribution that a source samples from, at that confidence, in the limit of many samples:
            for equal weights, or weights of a positive least share, and rows without weights of their own.
        samples: with a confidence, most rows to draw; one half gives the functions that are averaged over the other.
        seed: of the blocks, and of the samples.
        cost: the distance, as in `build_coreset`; one of coordinates, which leaves out the globe and functions. The
            bound is for points anywhere among coordinates, and so for those that are rows.

    Returns:
        `OptimalityBound`: `lower`, `distance`, and `within`, which compares a build with it.

    Raises:
        TypeError, ValueError: invalid arguments or rows, with the name of the argument; a source without an end, of
            which only a sample could be bounded; a method that does not apply.

    Time in processor seconds, one thread, 16 columns, n = 50: "semidefinite" 1 for 500 rows, 7 for 1000, 6 for 1500 (in
    fewer steps), 30 for 1800 if asked for; "shift" 0.1 for 1000 rows, 7 for 10,000, 28 for 30,000, and up to half more
    for n = 10; "pairs" a quarter to a half of that; "blocks" 40 for each 100,000 rows.

    The bound is weak where cells have to combine mass of separated clusters: it does not take into account that points
    cannot be divided in proportion to the masses of the clusters. There `within` is large however good the points are.

    Example:
        >>> import torch, torchcoreset as tc
        >>> rows = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
        >>> result, bound = tc.build_coreset(rows, 10, seed=0), tc.optimality_bound(rows, 10)
        >>> bound.distance <= result.distance, bound.within(result) < 0.1
        (True, True)

    Source: "semidefinite" is the relaxation of Peng and Wei (2007) with a bound on its entries; proofs are on the
        documentation's page on mathematics.
    """
    size = check_count(size, "size")
    power = as_cost(p)
    check_name(method, "method", get_args(Method))
    asked = read_weights(weights, size)
    read = as_source(source, sample_weights)
    cost = read.metric if cost is None and scale is None else cost
    scaling, metric = None if scale is None else Scaling.of(read, scale), _metric_of(cost, scale, confidence)
    generator = make_generator(seed)
    if confidence is None:
        rows, count = read_rows(scaled(read, scaling), power, generator, metric)
        distinct = len(rows)
        with solver_modes():
            (lower, allowance), used = bound_for_rows(method, rows, asked, generator)
    else:
        check_confidence(confidence)
        if method != "auto":
            raise ValueError(f"method: got {method!r} with a confidence; expected 'auto'. Leave one of them out.")
        samples = check_count(samples, "samples")
        seen = scaled(read, scaling) if metric is None else Pushforward(read, metric.coordinates)
        (lower, allowance), count = bound_for_all(seen, power, asked, confidence, samples, generator)
        used, distinct = "population", count
    return OptimalityBound(
        lower=max(lower, 0.0),
        size=size,
        p=power.p,
        weights=asked.words,
        method=used,
        samples=count,
        distinct=distinct,
        allowance=allowance,
        confidence=confidence,
        unit=metric.unit if metric is not None else OF_DATA if scaling is None else scaling.words,
    )


def _metric_of(cost: Any, scale: Any, confidence: float | None) -> Metric | None:
    """The distance of a bound; ValueError for one that it does not hold for."""
    check_euclidean(cost, "optimality_bound")
    if cost is not None and scale is not None:
        raise ValueError("scale: given with a cost; expected one of them. Weigh the columns in the cost.")
    if cost is not None and confidence is not None and not is_rowwise(cost):
        raise ValueError(
            f"cost: got {cost!r} with a confidence; expected a distance whose coordinates are those of each row alone. "
            "Leave the confidence out, for a bound for the rows of the table."
        )
    return as_metric(cost)


def read_weights(weights: Any, size: int) -> Weights:
    """What `weights` says of points."""
    choice = as_marginals(weights, size, "weights")
    if choice is not None:
        low, high = size * float(choice.low[0]), size * float(choice.high[0])
        return Weights("free" if choice.free else f"between {low:g} and {high:g} equal shares", size, low, high)
    if weights is None or is_choice(weights):  # of one point, or between bounds that leave no choice
        return Weights("equal", size, 1.0, 1.0)
    b = normalised(weights, size, "weights")
    b = b[b > 0]
    if bool((b == b[0]).all()):
        return Weights("equal" if len(b) == size else "given", len(b), 1.0, 1.0)
    return Weights("given", len(b), 0.0, math.inf, b / b.sum())


def read_rows(source: Source, cost: Cost, generator: Generator, metric: Metric | None = None) -> tuple[Rows, int]:
    """The distinct rows of a source, in the coordinates of a metric, and how many there were."""
    if source.size is None:
        raise ValueError(
            f"source: got {source!r}, whose rows are not known before they are read; expected a table, which the bound "
            "speaks of. Collect rows in a tensor first, or give a confidence=0.95 for the distribution behind them."
        )
    y, a = source.materialize(None, generator)
    check_finite(y, "source")
    if metric is not None:
        y = metric.fitted(y).coordinates(y, "source")
    rows = distinct_rows(y, a, cost)
    # Squares and costs of numbers of this size are finite, and are not lost below the least ones.
    small, large = cost.range(torch.float64, y.shape[1])
    size, spread = span(rows.centred)
    if size > large or 0 < spread < small:
        raise ValueError(
            f"source: got rows that spread over {spread:.3g}; expected between {small:.1g} and {large:.1g}, between "
            f"which float64 holds costs |y - x|^{cost.p:g}. Rescale the rows, or give `scale`."
        )
    return rows, len(y) if a is None else int((a > 0).sum())


def choose(method: Method, rows: Rows, asked: Weights) -> Method:
    """The method itself, checked, or the first that these rows can afford."""
    on_line = rows.y.shape[1] == 1 and asked.equal and (rows.cost.mean_is_best or rows.cost.median_is_best)
    if method == "line" and not on_line:
        raise ValueError(
            f"method: got 'line' for {rows.y.shape[1]} columns, weights {asked.words} and p = {rows.cost.p:g}; "
            "expected one column, equal weights and p of 1 or 2. Take 'auto'."
        )
    if method != "auto":
        return method
    if on_line:
        return "line"
    if len(rows) <= FEW:
        return "semidefinite"
    return "shift" if len(rows) ** 2 <= PAIRS else "blocks"


def bound_for_all(
    source: Source, cost: Cost, asked: Weights, confidence: float, samples: int, generator: Generator
) -> tuple[Bound, int]:
    """The bound for the distribution behind a source, what the confidence took of it, and how many rows it is from."""
    if not asked.least > 0:
        raise ValueError(
            f"weights: got {asked.words} weights with a confidence; expected equal ones, or bounds (low, high) with a "
            "positive low, which limit how small a cell may be."
        )
    fit, fresh = halves(source, samples, generator)
    with solver_modes():
        moments = pair_moments(fit, fresh, cost, asked.least)
    warn_of_tails(moments)
    error = clt(moments, 1 - confidence, above=False)
    return (moments.mean - error, error), moments.count


def bound_for_rows(method: Method, rows: Rows, asked: Weights, generator: Generator) -> tuple[Bound, str]:
    """The bound that a method finds, and its name; that of the shift where this is sharper than a semidefinite one."""
    steps = min(STEPS, max(1, WORK // len(rows) ** 3)) if method == "auto" else STEPS
    method = choose(method, rows, asked)
    if method == "line":
        return line_bound(rows, asked.size), method
    if method == "pairs":
        return at_shift(rows, asked, rows.y.new_zeros(len(rows))), method
    if method == "blocks":
        most = min(max(BLOCK, ROWS_A_POINT * asked.size), math.isqrt(PAIRS))
        return in_blocks(rows, most, generator, lambda part: shifted(part, free(asked.size))[0]), method
    found, w = shifted(rows, asked)
    if method == "shift":
        return found, method
    if len(rows) > 2 * PART:  # what bounds each block with free weights bounds the whole; other bounds do not
        sharper = in_blocks(rows, PART, generator, lambda part: semidefinite(part, free(asked.size), steps))
    else:
        sharper = semidefinite_bound(rows, asked.size, asked.least, w, found[0], steps)
    return (sharper, method) if sharper[0] >= found[0] else (found, "shift")


def free(size: int) -> Weights:
    """Points of any weights."""
    return Weights("free", size, 0.0, math.inf)


def shifted(rows: Rows, asked: Weights) -> tuple[Bound, Tensor]:
    """The bound of all pairs of rows at a shift (m,), and that."""
    nearest, w = shift_bound(rows, 1 / asked.size, PASSES if len(rows) ** 2 <= REFINED else 2)
    return ((nearest.lower, nearest.allowance) if asked.equal else at_shift(rows, asked, w)), w


def semidefinite(rows: Rows, asked: Weights, steps: int) -> Bound:
    """The semidefinite bound, from the shift of all pairs on."""
    found, w = shifted(rows, asked)
    return max(found, semidefinite_bound(rows, asked.size, asked.least, w, found[0], steps))


def at_shift(rows: Rows, asked: Weights, w: Tensor) -> Bound:
    """The best bound from all pairs of rows at the shift w (m,)."""
    nearest = nearest_mass(rows, asked.least, w) if asked.least > 0 else None
    found = [] if nearest is None else [(nearest.lower, nearest.allowance)]
    if asked.given is not None:
        found.append(given_bound(rows, asked.given.to(w.device), w))
    if not asked.equal:
        found.append(weighted_bound(rows, asked.size, asked.low, asked.high, w))
    return max(found)


def in_blocks(rows: Rows, most: int, generator: Generator, bound: Callable[[Rows], Bound]) -> Bound:
    """The mean of bounds on random blocks of at most so many rows, each for points of any weights.

    Points and a plan for all rows are, on the rows of a block, points and a plan for these, with whatever weights.
    """
    order = permutation(len(rows), generator).to(rows.a.device)
    total = error = 0.0
    for part in order.tensor_split(math.ceil(len(rows) / most)):
        lower, allowance = bound(rows.picked(part))
        mass = float(rows.a[part].sum())
        total += mass * max(lower, 0.0)
        error += mass * allowance
    rounding = UNIT * rows.roundoffs * total
    return total - rounding, error + rounding
