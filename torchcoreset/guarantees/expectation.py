"""`expectation_error`: the error of a coreset's mean of one function.

    Y_k samples of mu, M of them      x_i, b_i points: nu      T(y) cell of y, W_1 potential      g(y) = f(x_T(y))
    w_k their weights, of one without them; means over samples are sum w f / sum w

The error is E f(Y) - sum_i b_i f(x_i). f - beta g varies little, because y is near its point. E g(Y) is not sum_i b_i
f(x_i): cells of a fitted potential have the masses b only to within its sampling error, which is as large as the errors
to be found. So E g is estimated too, from many more samples, which needs no call of f (double sampling, Neyman 1938):

    estimate = mean over m of (f - beta g) + beta mean over M of g - sum_i b_i f(x_i),        m of the M samples,
    variance = var(f - beta g) (1/m - 1/M) + var(f) / M      (equal weights).

It is unbiased for every fixed beta; beta = cov(f, g) / var(g) comes from the samples of the potential. To first order
its error is a sum of independent numbers, with e = f - beta g, r the distance from the mean, and W_m and W_M sums of
weights:

    w (r_e / W_m + beta r_g / W_M) for the m samples,      w beta r_g / W_M for the others.

The sums of their squares and cubes, those of the others estimated from the m, are the variance and the third moment of
the estimate. The mean of few calls can be quite skewed, so the interval is Hall's (`interval`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from ..modes import solver_modes
from ..sources import make_generator
from ..tensors import check_count, described
from ..transport import DISTANCE, make_problem
from ..transport.passes import EngineName, LaguerreCells, make_engine
from ..transport.ranks import Ranks, agree, as_ranks, fingerprint, told_to
from .bounds import WeightedMoments, hall, size_of
from .certificate import Certificate
from .certify import FEWEST, check_settings, inputs, make_certificate, one_pass
from .evaluation import WHY, Fitted, FreshRows, Rows
from .maps import Map, at_rest, values_of
from .points import Points

PILOT = 1000  # calls of f, at most, to find beta


@dataclass(frozen=True, kw_only=True, repr=False)
class ExpectationError:
    """lower <= |E_mu f - E_nu f| <= upper, at a stated confidence.

    Attributes:
        lower, upper: the interval for the absolute error, in the unit of f.
        error: estimate of E_mu f - E_nu f, with its sign.
        standard_error: its standard deviation.
        expectation: E_nu f, the mean over the coreset.
        confidence: of the interval; it holds in the limit of many samples.
        samples: fresh samples.
        evaluations: of them, those at which f was called.
        beta: factor of the control variate f(x_T).
        variance_ratio: variance of the estimate over that of the plain mean of as many calls of f.
        distance: the `Certificate` of W_1 from the same samples.
        lipschitz_bound: L times distance.upper, above the error of every function with this constant; None without L.
    """

    lower: float
    upper: float
    error: float
    standard_error: float
    expectation: float
    confidence: float
    samples: int
    evaluations: int
    beta: float
    variance_ratio: float
    distance: Certificate
    lipschitz_bound: float | None

    def __repr__(self) -> str:
        interval = f"{self.lower:.6g} <= |E_mu f - E_nu f| <= {self.upper:.6g}"
        shown = {"error": ".6g", "confidence": "g", "evaluations": ""}
        return described(
            self, interval, **shown, **({} if self.lipschitz_bound is None else {"lipschitz_bound": ".6g"})
        )


def expectation_error(
    coreset: Any,
    source: Any,
    f: Map,
    confidence: float = 0.95,
    samples: int = 100_000,
    *,
    evaluations: int | None = None,
    lipschitz: float | None = None,
    seed: int | Generator = 0,
    engine: EngineName = "auto",
    group: Any = None,
) -> ExpectationError:
    """The error |E_mu f - E_nu f| of a coreset's mean of f, with an interval.

    estimate = mean_m(f - beta f(x_T)) + beta mean_M(f(x_T)) - sum_i b_i f(x_i); the documentation's page on
    mathematics derives it.

    Args:
        coreset, source, confidence, seed, engine, group: as for `certify`.
        f: from (k, d) to (k,) numbers; a module is called in evaluation mode and left as it was.
        samples: M, fresh samples, of which only the cells are computed.
        evaluations: m, calls of f on fresh samples, at least 30 and at most `samples`; None for a tenth of them.
            Besides, f is called at the points and at up to 1000 other samples.
        lipschitz: a constant L with |f(s) - f(t)| <= L |s - t|, for the bound L W_1.

    Raises:
        TypeError, ValueError, RankError: as for `certify`; f returns anything but one finite number for each row.

    Example:
        >>> import torch, torchcoreset as tc
        >>> normal = torch.distributions.Normal(0.0, 1.0)
        >>> found = tc.expectation_error(torch.tensor([[-0.8], [0.8]]), normal, lambda y: y.square(), samples=20_000)
        >>> found.lower < 0.36 < found.upper  # E Y^2 = 1, and the points say 0.64
        True

    Source: double sampling: Neyman (1938). L W_1: Kantorovich and Rubinstein (1958).
    """
    ranks = as_ranks(group)
    with told_to(ranks, "expectation_error"):
        check_settings(confidence, samples, engine, lipschitz)
        calls = _calls(evaluations, samples)
    settings = {
        "confidence": confidence, "samples": samples, "evaluations": calls, "lipschitz": lipschitz, "engine": engine
    }  # fmt: skip
    points, read = inputs(ranks, "expectation_error", coreset, source, settings)
    with solver_modes(), at_rest(f):

        def prepare() -> tuple[_DoubleSample, tuple[float]]:
            double = _DoubleSample(f, points, calls, engine)
            return double, (fingerprint(double.at_points),)

        double, _ = agree(ranks, "expectation_error", prepare, same=("f at the points",), why=WHY)
        passed = one_pass(points, read, DISTANCE, samples, make_generator(seed), engine, look=double.start, ranks=ranks)
        if ranks is not None:
            double.join(ranks)
    distance = make_certificate(passed, DISTANCE, confidence, None)
    expectation = float(points.b @ double.at_points)
    found = double.estimate()
    error = found.mean - expectation
    below, above = hall(found.standard_error, found.asymmetry, double.plain.size, (1 - confidence) / 2)
    ends = (error - below, error + above)
    plain = double.plain.standard_error
    return ExpectationError(
        lower=max(ends[0], -ends[1], 0.0),
        upper=max(-ends[0], ends[1]),
        error=error,
        standard_error=found.standard_error,
        expectation=expectation,
        confidence=confidence,
        samples=double.proxy.count,
        evaluations=double.plain.count,
        beta=double.beta,
        variance_ratio=(found.standard_error / plain) ** 2 if plain > 0 else 1.0,
        distance=distance,
        lipschitz_bound=None if lipschitz is None else lipschitz * distance.upper,
    )


def _calls(evaluations: int | None, samples: int) -> int:
    """How often f is called on fresh samples, or ValueError: a few calls show no variance, and no interval."""
    if evaluations is None:
        return min(samples, max(samples // 10, FEWEST))
    check_count(evaluations, "evaluations")
    if not FEWEST <= evaluations <= samples:
        raise ValueError(
            f"evaluations: got {evaluations} with {samples} samples; expected {FEWEST} at least, and at most as many."
        )
    return evaluations


class _Estimate(NamedTuple):
    """An estimate of E f, its standard deviation and its skewness."""

    mean: float
    standard_error: float
    asymmetry: float


class _DoubleSample:
    """Means over the m samples at which f is called, and over all M."""

    def __init__(self, f: Map, points: Points, calls: int, engine: str) -> None:
        self.f, self.points, self.calls, self.engine = f, points, calls, engine
        self.at_points = values_of(f, points.x)
        self.beta = 0.0
        self.plain, self.proxy = WeightedMoments(), WeightedMoments()
        self.called: list[tuple[Tensor, Tensor, Tensor]] = []  # weights, f and g where f was called

    def start(self, fitted: Fitted, fresh: FreshRows) -> Callable[[Rows, LaguerreCells], None]:
        """Find beta on samples that the estimate does not see."""
        self.calls = fresh.share(self.calls)
        rows = fitted.rows.part(slice(PILOT))
        cells = make_engine(make_problem(self.points.x, rows.y, DISTANCE, self.points.b), self.engine).hard(fitted.v)
        self.beta = _regression(values_of(self.f, rows.y), self.at_points[cells.cell], rows.w)
        return self.visit

    def visit(self, rows: Rows, cells: LaguerreCells) -> None:
        """Count in a batch; f is called until the calls are used up."""
        proxy = self.at_points[cells.cell]
        self.proxy.add(proxy, rows.w)
        left = self.calls - self.plain.count
        if left > 0:
            values = values_of(self.f, rows.y[:left])
            self.plain.add(values, rows.w[:left])
            self.called.append((rows.w[:left], values, proxy[:left]))

    def join(self, ranks: Ranks) -> None:
        """Take in the samples of all ranks."""
        self.plain, self.proxy = self.plain.joined(ranks), self.proxy.joined(ranks)
        self.called = ranks.gather(*self._columns())  # type: ignore[assignment]  # as many columns

    def estimate(self) -> _Estimate:
        """That of E f from both sets; the module's docstring has the formulas."""
        w, values, proxy = self._columns()
        m, others = self.plain.count, self.proxy.count - self.plain.count
        w, share = w / w.sum(), self.plain.mass / self.proxy.mass
        residual = values - self.beta * proxy
        first, of_proxy = residual[0], self.beta * share * w * _centred(proxy, w)
        of_called = w * _centred(residual, w) + of_proxy
        unit = max(size_of(of_called), size_of(of_proxy))
        second, third = (
            float((of_called / unit).pow(power).sum() + (others / m) * (of_proxy / unit).pow(power).sum())
            for power in (2, 3)
        )
        return _Estimate(
            float(first + w @ (residual - first)) + self.beta * self.proxy.mean,
            unit * math.sqrt(m / (m - 1) * second),
            third / second**1.5 if second > 0 else 0.0,
        )

    def _columns(self) -> tuple[Tensor, ...]:
        return tuple(torch.cat(parts) for parts in zip(*self.called, strict=True))


def _centred(values: Tensor, share: Tensor) -> Tensor:
    """Values (m,) less their mean: zero to the last digit where all are alike."""
    moved = values - values[0]
    return moved - share @ moved


def _regression(values: Tensor, proxy: Tensor, weights: Tensor) -> float:
    """The factor of the proxy that leaves a weighted mean of the difference its least variance."""
    share = weights / weights.sum()
    square = weights.square()
    unit = size_of(proxy)
    centred, others = _centred(proxy / unit, share), _centred(values / unit, share)
    spread = float(square @ centred.square())
    return float((square * centred) @ others) / spread if spread > 0 else 0.0
