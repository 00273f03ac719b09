"""The Sinkhorn divergence: entropic transport less the self terms, without which the points collapse.

    x (n, d) points, b (n,)      y (m, d) samples, a (m,)      eta = p blur^p

    S = OT_eta(x, y) - OT_eta(x, x) / 2 - OT_eta(y, y) / 2      OT_eta = min_pi sum pi c + eta KL(pi | a x b)

The first term is solved by a backend, the others by `self_entropic`. The third does not depend on the points: it is
computed once for the same samples, or left out. By the envelope theorem the derivatives are those of the three
semi-duals at their potentials; their error is of the order of the marginal errors, that of the value of their squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..deterministic import column_medians
from ..errors import ConvergenceWarning, warn_user
from ..names import Backend
from ..tensors import described
from ..transport import Problem, Status, as_cost, check_start, distances, make_problem, weighted_median, within_range
from ..transport.costs import term_key
from ..transport.entropic import ENGINES, Entropic, geomloss_entropic, self_entropic, solve_entropic
from ..transport.passes import EngineName
from . import options
from .envelope import Derivatives, Inputs, Needed, Solved, attach
from .memory import CachedSelfTerm
from .options import DivergenceSettings, Measures
from .wasserstein import as_pair, by_coordinates

RELATIVE_BLUR = 0.05  # of the scale of the samples, where no blur is given
MAX_STEPS = 100  # passes of "newton"; beyond them a plan is returned as it is, with its marginal error
SCALING = 0.9  # ratio of successive blurs of geomloss
# Marginal errors that each backend is expected to reach; beyond them is a warning. geomloss stops when its schedule is
# over: with scaling=0.9, 2 to 8 % of the mass is then at the wrong point where the blur is below the points' spacing,
# and gradients err by 10 to 40 %.
TOLERANCES = {"geomloss": 1e-1, "newton": 1e-3}


LEAST_ETA = 1e-12  # of the typical cost, and most of it is the inverse; float64 rounds costs to 1e-16 of it: ValueError
MOST_ETA = 1e8  # of the mean cost: there a divergence is within 1e-8 of its limit, and a larger blur is taken for this


@dataclass(frozen=True, repr=False)
class SinkhornResult:
    """The result of a Sinkhorn divergence.

    Attributes:
        value: the divergence with the chosen terms; no root is taken.
        transport_value: OT_eta between points and samples alone, a lower bound within the error of its plan.
        potential: (n,) float64 potential of OT_eta at the points, centred.
        transform: (m,) float64 potential of OT_eta at the samples.
        marginal_error: largest total variation distance, in [0, 1], between a plan's column sums and the weights, over
            the plans that were solved in this call.
        blur: the length from which eta is computed.
        eta: the regularisation, p blur^p.
        diameter: diameter of points and samples without the farthest thousandth of their mass, accurate to a few per
            cent; 0 if all samples coincide.
        steps: passes over all samples, n x m each.
        status: why the solver stopped.
    """

    value: float
    transport_value: float
    potential: Tensor
    transform: Tensor
    marginal_error: float
    blur: float
    eta: float
    diameter: float
    steps: int
    status: Status

    def __repr__(self) -> str:
        sizes = f"{len(self.potential)} points, {len(self.transform)} samples"
        return described(self, sizes, value=".6g", blur=".3g", marginal_error=".1e", steps="", status="")


def sinkhorn_divergence(
    points: Any,
    samples: Any,
    p: float = 2,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    blur: float | None = None,
    relative_blur: float | None = None,
    debias: bool = True,
    constant: bool = True,
    backend: Backend = "geomloss",
    tolerance: float | None = None,
    scaling: float | None = None,
    max_steps: int | None = None,
    engine: EngineName = "auto",
    cost: Any = None,
) -> Tensor:
    """Sinkhorn divergence between weighted points and weighted samples, on the scale of W_p^p.

        S = OT_eta(x, y) - OT_eta(x, x) / 2 - OT_eta(y, y) / 2,   OT_eta = min_pi sum pi |y - x|^p + eta KL(pi | a x b)

    with eta = p blur^p. It tends to W_p^p for small blur, and to `energy_distance` of the same p for large blur. No
    root is taken, and the cost is the full power: the value is p times that of geomloss' SamplesLoss, whose cost is
    |x - y|^p / p, at the same blur. Near zero the value may be slightly negative, by the error of its terms: clamp it
    before taking a root.

    Args:
        points: (n, d) floating, or (n,) when d = 1.
        samples: (m, d), or (m,) when d = 1, of any real dtype, on the same device.
        p: power of the distance: 1 or 2, and with backend="newton" any p >= 1.
        point_weights, sample_weights: (n,) and (m,), non-negative, any positive sum; equal if None.
        blur: length below which structure is blurred, as in geomloss.
        relative_blur: the blur as a fraction of the scale of the samples, which is the weighted median of their
            distances to their spatial median; 0.05 if neither is given.
        debias: subtract the self terms of points and samples. Without them the value is OT_eta, whose minimiser has the
            fewer distinct points, the larger blur is.
        constant: include the term of the samples with themselves, which takes m x m work: some seconds for m = 10,000
            and a hundred times that for 100,000. Without it the value is too large by a constant; the gradients in the
            points are the same.
        backend: "geomloss", an annealed Sinkhorn iteration that stops at the end of its schedule, or "newton", which
            iterates to convergence and is faster and more accurate for n up to a few thousand.
        tolerance: marginal error, in (0, 1), above which a warning is given, and at which "newton" stops; by default
            1e-3 for "newton" and 1e-1 for "geomloss", whose default schedule ends at 1e-3 to 8e-2, with errors of up to
            40 % in the gradients.
        scaling: for "geomloss": ratio of successive blurs in (0, 1); 0.9 if None. 0.99 takes ten times longer and still
            does not converge if blur is small.
        max_steps: for "newton": maximum number of passes; 100 if None.
        engine: "auto", "dense" or "keops", and with "newton" also "compiled" and "triton", for the passes between
            points and samples. In geomloss "dense" and "keops" are called tensorized and online; "auto" uses KeOps from
            25 million costs on, if it is installed and d <= 100.
        cost: a Euclidean distance of other coordinates, one of `tc.costs` such as `Mahalanobis`; None for the Euclidean
            distance of the data.

    Returns:
        0-d tensor in the dtype of the points, float32 for half precision. The marginal error is in `CoresetLoss.last`.

    Raises:
        ValueError: invalid inputs, or an option that the backend would ignore; the message names the argument.
        ImportError: the chosen backend or engine is not installed.
        RuntimeError: a second derivative was asked for, or the engine cannot compile; the message says what to do.

    Warns:
        ConvergenceWarning: a plan's marginal error exceeds the tolerance.
        UserWarning: the blur exceeds the diameter of the data.

    Gradient: in points, samples and both weights, by the envelope theorem; accurate to the marginal error. A blur given
    as `relative_blur` is held fixed. With constant=False the gradients in the samples and their weights lack the
    derivative of the omitted term.

    Example:
        >>> import torch, torchcoreset as tc
        >>> x, y = torch.tensor([0.0, 10.0]), torch.tensor([0.0, 1.0, 2.0, 3.0])
        >>> round(tc.sinkhorn_divergence(x, y, blur=0.05, backend="newton").item(), 2)
        28.5

    Source: Genevay, Peyre, Cuturi (2018); Feydy, Sejourne, Vialard, Amari, Trouve, Peyre (2019).
    """
    settings = SinkhornSettings(
        p=p, blur=blur, relative_blur=relative_blur, debias=debias, constant=constant, backend=backend,
        tolerance=tolerance, scaling=scaling, max_steps=max_steps, engine=engine, cost=cost,
    )  # fmt: skip
    return settings.value((points, samples, point_weights, sample_weights))


@dataclass(frozen=True, kw_only=True)
class SinkhornSettings(DivergenceSettings[SinkhornResult]):
    """How a Sinkhorn divergence is computed; arguments as in `sinkhorn_divergence`."""

    p: options.CostPower = 2
    blur: options.Blur | None = None
    relative_blur: options.RelativeBlur | None = None
    debias: bool = True
    constant: bool = True
    backend: Backend = "geomloss"
    tolerance: options.Tolerance | None = None
    scaling: options.Scaling | None = None
    max_steps: options.MaxSteps | None = None
    engine: EngineName = "auto"
    cost: options.CostChoice = None

    def __post_init__(self) -> None:
        super().__post_init__()
        options.check_one_blur(self.blur, self.relative_blur)
        if not self.constant and not self.debias:
            raise ValueError(
                "constant: got False with debias=False, which has no term of the samples with themselves. Leave it out."
            )
        ignored = "scaling" if self.backend == "newton" else "max_steps"
        if getattr(self, ignored) is not None:
            raise ValueError(
                f"{ignored}: given with backend={self.backend!r}, which has no use for it. Leave it out, or choose "
                "the other backend."
            )
        if self.backend == "geomloss":
            if as_cost(self.p).geomloss is None:
                raise ValueError(f"p: got {self.p!r}; geomloss has 1 and 2. Use backend='newton' for other powers.")
            if self.engine not in ENGINES:
                raise ValueError(
                    f"engine: got {self.engine!r}; geomloss has {', '.join(map(repr, ENGINES))}. "
                    "Choose one of them, or backend='newton'."
                )

    def curvature(self, measures: Measures, result: SinkhornResult) -> Tensor:
        """The curvature of the cost at its mean: a scale for steps; for p = 2 that of the transport at its plan."""
        cost, mean = as_cost(self.p), result.transform.new_tensor(max(result.transport_value, 0.0))
        slope = float(cost.slope(mean))
        return torch.full((len(measures[0]),), slope or 1.0, dtype=torch.float64, device=measures[0].device)

    def resolved(self, samples: Tensor, sample_weights: Tensor | None) -> SinkhornSettings:
        """The settings with the blur as a length, relative to the scale of these samples."""
        relative = RELATIVE_BLUR if self.relative_blur is None else self.relative_blur
        return self if self.blur is not None else options.with_blur(self, relative, samples, sample_weights)

    @property
    def allowed(self) -> float:
        """The marginal error up to which a plan counts as converged."""
        return TOLERANCES[self.backend] if self.tolerance is None else self.tolerance

    def evaluate(
        self, measures: Measures, start: Tensor | None = None, memory: CachedSelfTerm | None = None
    ) -> tuple[Tensor, SinkhornResult]:
        """The value with its gradients, and the `SinkhornResult`."""
        _, samples, _, sample_weights = measures
        remembered = memory or CachedSelfTerm()

        def solve(x: Tensor, y: Tensor, b: Tensor | None, a: Tensor | None) -> Solved:
            problem = within_range(make_problem(x, y, self.p, b, a))
            relative = RELATIVE_BLUR if self.relative_blur is None else self.relative_blur
            blur = options.blur_length(problem, self.blur, relative)
            terms = _Terms(self, problem, blur, start)
            value = terms.cross.value
            if terms.points is not None:
                value -= terms.points.value / 2
            if self.debias and self.constant:
                key = (*terms.key, term_key(self.cost))
                value -= remembered.value(samples, sample_weights, key, lambda: terms.samples.value) / 2
            return Solved(value, terms.result(value), terms.derivatives)

        points, rows, *weights = as_pair("sinkhorn_divergence", *measures)
        points, rows = by_coordinates(self.cost, "sinkhorn_divergence", points, rows)
        value, result = attach("sinkhorn_divergence", solve, points, rows, *weights)
        return value, result

    def report(self, result: SinkhornResult) -> None:
        """Warn if a marginal error exceeds the tolerance, or the blur the diameter of the data."""
        options.warn_if_beyond(result.blur, result.diameter, "sinkhorn_divergence")
        if result.status is Status.CONVERGED:
            return
        remedy = (
            "Use backend='newton', or a scaling closer to 1." if self.backend == "geomloss" else result.status.remedy
        )
        message = (
            f"sinkhorn_divergence ({self.backend}) stopped with {result.marginal_error:.1e} of the mass at the wrong "
            f"points after {result.steps} passes; {self.allowed:.1e} was asked for. Gradients err by more than that. "
            f"{remedy}"
        )
        warn_user(ConvergenceWarning(message, result))


class _Terms:
    """The entropic plans of one call; that of the samples with themselves is computed when it is first needed."""

    def __init__(self, settings: SinkhornSettings, problem: Problem, blur: float, start: Tensor | None) -> None:
        self._settings, self._problem, self._blur = settings, problem, blur
        self._resolved = _resolved(problem, blur)
        self._eta = problem.cost.smoothing(self._resolved)
        self.key = (problem.cost, self._eta, settings.allowed, problem.x.dtype)
        self.cross = self._solve_cross(start)
        self.points = self._own(problem.x, problem.b) if settings.debias else None

    @cached_property
    def samples(self) -> Entropic:
        """The samples with themselves."""
        return self._own(self._problem.y, self._problem.a)

    def derivatives(self, inputs: Inputs, needed: Needed) -> Derivatives:
        """The derivatives of the divergence, from the plans."""
        settings, cross, points = self._settings, self.cross, self.points
        in_points, in_samples = cross.position_gradients(needed[0], needed[1])
        at_points, at_samples = cross.optimal_potential(), cross.transform
        if points is not None:
            if in_points is not None:
                in_points = in_points - _own_gradient(points)
            at_points = at_points - (points.optimal_potential() + points.transform) / 2
        if settings.debias and settings.constant:
            if in_samples is not None:
                in_samples = in_samples - _own_gradient(self.samples)
            if needed[3]:
                at_samples = at_samples - (self.samples.optimal_potential() + self.samples.transform) / 2
        return in_points, in_samples, at_points, at_samples

    def result(self, value: float) -> SinkhornResult:
        """The result for the caller."""
        solved = [self.cross, self.points, self.__dict__.get("samples")]
        plans = [plan for plan in solved if plan is not None]
        statuses = [plan.status for plan in plans if plan.status is not Status.CONVERGED]
        return SinkhornResult(
            value=value,
            transport_value=self.cross.value,
            potential=self.cross.potential,
            transform=self.cross.transform,
            marginal_error=max(plan.marginal_error for plan in plans),
            blur=self._blur,
            eta=self._eta,
            diameter=options.extent(self._problem),
            steps=self.cross.steps,
            status=statuses[0] if statuses else Status.CONVERGED,
        )

    def _solve_cross(self, start: Tensor | None) -> Entropic:
        settings, problem = self._settings, self._problem
        if settings.backend == "geomloss":
            return geomloss_entropic(
                problem,
                self._resolved,
                scaling=SCALING if settings.scaling is None else settings.scaling,
                tolerance=settings.allowed,
                engine=settings.engine,
            )
        return solve_entropic(
            problem,
            self._eta,
            tolerance=settings.allowed,
            start=None if start is None else check_start(start, problem),
            max_steps=settings.max_steps or MAX_STEPS,
            engine=settings.engine,
        )

    def _own(self, rows: Tensor, weights: Tensor) -> Entropic:
        tolerance = min(self._settings.allowed, TOLERANCES["newton"])
        return self_entropic(rows, weights, self._problem.cost, self._eta, tolerance=tolerance, max_steps=MAX_STEPS)


def _resolved(problem: Problem, blur: float) -> float:
    """The blur to compute with: the given one, or a smaller one where a larger makes no difference.

    Raises:
        ValueError: float64 does not hold eta = p blur^p beside the costs.
    """
    centre = column_medians(problem.x).double()
    typical = [
        weighted_median(distances(rows, centre).square(), weights)
        for rows, weights in ((problem.x, problem.b), (problem.y, problem.a))
    ]
    length = float(sum(typical)) ** 0.5  # medians: one outlier must not set the scale of all others
    cost, mean = problem.cost, problem.spread**0.5
    least, most = length * cost.blur(LEAST_ETA), mean * cost.blur(1 / LEAST_ETA)
    if blur < least or (blur > most > 0 and not options.coincide(problem)):
        raise ValueError(
            f"blur: got a length of {blur:.3g} for data whose mean cost is about {cost.of_length(length):.3g}, outliers"
            f" aside; expected {least:.0e} to {most:.0e}, so that eta = p blur^p is {LEAST_ETA:.0e} to "
            f"{1 / LEAST_ETA:.0e} of that cost. Give blur in the unit of the data, or use the limits of the "
            "divergence, wasserstein and energy_distance."
        )
    # When the costs approach zero in a converging loop, eta is reduced with them: float64 rounds to 1e-16 of eta.
    return min(blur, mean * cost.blur(MOST_ETA)) if mean > 0 else blur


def _own_gradient(plan: Entropic) -> Tensor:
    """Derivative of OT_eta(x, x) / 2 in x, where x is both the points and the samples."""
    as_points, as_samples = plan.position_gradients(True, True)
    assert as_points is not None
    assert as_samples is not None
    return (as_points + as_samples) / 2
