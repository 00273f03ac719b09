"""Optimal transport between points and samples: `transport`, and the choice of the arithmetic that a problem needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import ConvergenceError, ConvergenceWarning, warn_user
from ..modes import solver_modes
from ..tensors import check_count, check_flag, is_real, real_tensor, weighted_points
from .batched import ProblemBatch, TransportBatch, check_starts, is_batch, make_problems, refuse_choices, refuse_group
from .costs import Cost, check_euclidean, measured
from .direct import Tables, solve_at_once
from .passes import Engine, EngineChoice, EngineName, check_engine
from .problem import Problem, as_float64, as_tables, make_problem, within_range
from .ranks import as_ranks, solve_on, told_to
from .reductions import (
    Distinct,
    Group,
    c_transform,
    distinct,
    extend,
    far_groups,
    group_problem,
    median_spread,
    near_places,
    places_of,
    restrict,
)
from .relaxed import solve_relaxed
from .result import Coupling, Status, Transport
from .solving import (
    BLUNT,
    Settings,
    SolveState,
    ascend,
    find_transport,
    is_small,
    one_call_error,
    plan_cost,
    solve_directly,
)

EXACT_GAP = 1e-9
# Distance of points that are one at first, in tolerances, and in the lesser of the length that costs what the nearest
# point costs and of the points' median spread: squares of such lengths change by a tenth of the tolerance.
NEAR = 0.05
NEAR_TOLERANCE = 1e-4  # beyond which no tolerance makes points one: next to far outliers all others would be near
FLOAT64 = 1 << 28  # coordinates times points up to which a direct solve is in float64: some 50 ms (one core)

Found = TypeVar("Found")


def transport(
    points: Any,
    samples: Any,
    p: float = 2,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    trim: float = 0.0,
    tolerance: float = 1e-3,
    exact: bool = False,
    start: Tensor | None = None,
    max_steps: int = 100,
    engine: EngineName = "auto",
    group: Any = None,
    cost: Any = None,
) -> Transport | Any:  # Any stands for TransportBatch, so that code that has one pair need not ask which it got
    """Optimal transport between weighted points and weighted samples, with a certified gap.

    Solves max_v sum_k a_k min_i [|y_k - x_i|^p - v_i] + sum_i b_i v_i, the semi-dual of

        W_p^p = min { sum_ki pi_ki |y_k - x_i|^p : pi >= 0, row sums a, column sums b },

    and returns a potential v (a lower bound) together with a feasible plan pi (an upper bound).

    Args:
        points: (n, d), or (n,) when d = 1; for a batch of pairs (B, n, d). Float32 and float64 are computed in their
            own precision, half precision in float32, and float32 points in float64 if float64 samples need it.
        samples: (m, d), or (m,) when d = 1, of any real dtype; for a batch (B, m, d). In a batch either points or
            samples may be a single cloud that all pairs share. Points and samples may also be a coreset, or a result
            that holds one, which is used with its weights. From 2,000 samples on, equal samples are merged for the
            solve, and so are equal points if their weights are fixed.
        p: power of the Euclidean distance, p >= 1.
        point_weights, sample_weights: (n,) and (m,), non-negative, any positive sum; equal if None. For a batch (B, n)
            and (B, m), or as for one pair if all pairs share them. The weights of points may be chosen by the plan:
            "free" sends every sample to its nearest point, and a tuple (low, high) with 0 <= low <= 1 <= high keeps
            each weight between low / n and high / n.
        trim: share s of the mass of the samples, in [0, 1), that stays unmatched, namely the mass that costs most. The
            plan moves the rest, scaled to 1: its row sums are at most a / (1 - s), and the value is the cost of the
            mass that it moves.
        tolerance: relative gap (value - lower) / value at which the solver stops, in (0, 1). The default 1e-3 is far
            below the sampling error of most applications.
        exact: solve in float64 to a gap of 1e-9; `tolerance` is then ignored. The gap includes a bound on rounding
            errors: see "Rounding" on the mathematics page of the documentation.
        start: (n,) potential to start from, such as that of an earlier solve with nearby points; for a batch (B, n).
        max_steps: maximum number of passes over all samples, for each pair. If it ends the solve early, the plan is
            rough: the bounds are valid, but far apart, as the gap says.
        engine: implementation of the passes over the samples: "compiled" (CPUs, for the Euclidean distance and its
            square), "dense" (matrix products in blocks), "keops", "triton" (CUDA), or "auto" for the one that is
            fastest for this problem and device. Results agree to rounding.
        group: None if `samples` are all samples. With "world" or a `torch.distributed.ProcessGroup` they are this
            rank's part, and every rank calls with the same points. The result is that of the union, with the `plan` and
            `transform` of this rank's samples; the masses of the plan are shares of the union's. Not for a batch.
        cost: the distance that is raised to the power p: one of `tc.costs`, or a function of two tensors of rows; None
            for the Euclidean one. A group needs a Euclidean distance of coordinates, such as `Mahalanobis`.

    Returns:
        `Transport`: bounds, gap, potential, plan, weights, and the status, which says why the solver stopped. For a
        batch `TransportBatch`: the same with a leading dimension B; index it for the `Transport` of a pair.

    Raises:
        ValueError: invalid inputs; the message names the argument.
        ImportError, RuntimeError: the chosen engine is not installed or cannot compile; the message says what to do.
        RankError: another rank failed, has other points or settings, or did not call within the group's timeout.
        ConvergenceError: an exact solve did not reach its gap; `result` holds the best result.

    Warns:
        ConvergenceWarning: the tolerance was not reached; the result says by how much.

    Example:
        >>> import torch, torchcoreset as tc
        >>> plan = tc.transport(torch.tensor([0.0, 10.0]), torch.tensor([0.0, 1.0, 2.0, 3.0]), p=2)
        >>> plan.value, plan.assignment.tolist()
        (28.5, [0, 0, 1, 1])
        >>> clouds = torch.tensor([[[0.0], [1.0], [2.0], [3.0]], [[8.0], [9.0], [10.0], [11.0]]])
        >>> batch = tc.transport(torch.tensor([[0.0], [10.0]]), clouds, p=2)  # one coreset, two clouds
        >>> batch.value.tolist(), batch[1].assignment.tolist()
        ([28.5, 36.5], [0, 0, 1, 1])
        >>> free = tc.transport(torch.tensor([0.0, 10.0]), torch.tensor([0.0, 1.0, 2.0, 13.0]), 2, "free")
        >>> free.value, free.weights.tolist()
        (3.5, [0.75, 0.25])

    Source: semi-dual and cells: Aurenhammer, Hoffmann, Aronov (1998); Claici, Genevay, Solomon (2020), section 4. Mass
        that stays unmatched: Caffarelli, McCann (2010).
    """
    ranks = as_ranks(group)
    with told_to(ranks, "transport"):
        check_tolerance(tolerance)
        check_flag(exact, "exact")
        check_count(max_steps, "max_steps")
        check_engine(engine)
        points, point_weights = _with_weights(points, point_weights, "points", "point_weights", cost)
        samples, sample_weights = _with_weights(samples, sample_weights, "samples", "sample_weights", cost)
        batched = is_batch(points, samples)
        if group is not None:
            check_euclidean(cost, "a group")
        if batched:
            refuse_group(group)
            refuse_choices(point_weights, trim)
    dtype = torch.float64 if exact else None
    gap = EXACT_GAP if exact else tolerance
    run = partial(solve, tolerance=gap, exact=exact, max_steps=max_steps)
    power: float | Cost = p
    with solver_modes():
        if cost is not None:
            with told_to(ranks, "transport"):
                power, points, samples = measured(cost, p, *as_tables(points, samples, most=3))
        if batched:
            problems = make_problems(points, samples, power, point_weights, sample_weights, dtype=dtype)
            result: Transport | TransportBatch = solve_batch(
                problems, tolerance=gap, exact=exact, start=start, max_steps=max_steps, engine=engine
            )
        elif ranks is None:
            problem = make_problem(points, samples, power, point_weights, sample_weights, trim=trim, dtype=dtype)
            result = run(problem, start=start, engine=engine)
        else:
            settings = {"tolerance": tolerance, "exact": exact, "max_steps": max_steps, "engine": engine}
            _, result = solve_on(
                ranks, "transport", partial(run, start=start), points, samples, power, point_weights, sample_weights,
                trim=trim, engine=engine, dtype=dtype, state=start, settings=settings,
            )  # fmt: skip
    if result.status is not Status.CONVERGED:
        report_unconverged(result, gap, exact=exact)
    return result


def _with_weights(values: Any, weights: Any, name: str, weights_name: str, cost: Any) -> tuple[Any, Any]:
    """Of a coreset its points and weights; anything else as it is."""
    held = None if isinstance(values, Tensor) else weighted_points(values)
    if held is None:
        return values, weights
    if weights is not None:
        raise ValueError(
            f"{weights_name}: given with a {type(values).__name__} as {name}, which has its own; expected None. Pass "
            "the coreset's `.points` for other weights."
        )
    if held.scaling is not None:
        raise ValueError(
            f"{name}: got a coreset whose distances are in {held.scaling.words}; expected one in the data's own units. "
            "Bring both sides to its units with `coreset.scaling.apply`, or pass `.points` and `.weights` for "
            "distances in the data's own."
        )
    if held.cost is not None and cost is None:
        raise ValueError(
            f"{name}: got a coreset for distances by {held.cost!r}; expected the same with cost=coreset.cost, or "
            "`.points` and `.weights` for the Euclidean distance."
        )
    return held.points, held.weights


def report_unconverged(result: Transport | TransportBatch, tolerance: float, *, exact: bool) -> None:
    """Raise for an exact solve, warn for another; of a batch, once."""
    worst, which = result, "transport"
    if isinstance(result, TransportBatch):
        unconverged = sum(pair.status is not Status.CONVERGED for pair in result)
        worst, which = result.worst, f"transport: {unconverged} of {len(result)} pairs did not converge; the worst"
    message = (
        f"{which} stopped ({worst.status.value}) at a relative gap of {worst.gap:.1e} after {worst.steps} passes; "
        f"{tolerance:.1e} was asked for. {worst.status.remedy}"
    )
    if exact:
        raise ConvergenceError(message, result)
    warn_user(ConvergenceWarning(message, result))


def check_tolerance(tolerance: float) -> None:
    """Raise ValueError unless 0 < tolerance < 1."""
    if not is_real(tolerance) or not 0 < tolerance < 1:
        raise ValueError(f"tolerance: got {tolerance!r}; expected a relative gap in (0, 1), such as 1e-3.")


def solve(
    problem: Problem | Distinct,
    *,
    tolerance: float,
    exact: bool,
    start: Tensor | None,
    max_steps: int,
    engine: EngineChoice = "auto",
    accept_near_optimal: bool = False,
    earlier: Tensor | None = None,
) -> Transport:
    """Solve a checked problem, from a potential (n,), and from the cells (m,) of an `earlier` plan of nearby points.

    Balancing gives a plan in its first round, and further rounds are what takes long where that is not as good as was
    asked for. `accept_near_optimal` makes few of them, and none after a plan within ROUGH tolerances.

    Equal samples become one, whose mass is divided among them afterwards, and equal points of fixed weights do. Points
    of weight zero are left out and given their potential. If float32 cannot tell a gap of the tolerance from its own
    rounding, the problem is solved in float64.
    """
    whole = problem if isinstance(problem, Distinct) else distinct(problem)
    inner, repeats = whole.merged, whole.repeats
    start = None if start is None else check_start(start, inner)
    if inner.marginals is not None:
        return whole.expanded(
            solve_relaxed(inner, inner.marginals, tolerance=tolerance, max_steps=max_steps, engine=engine, start=start)
        )
    if earlier is not None and repeats is not None:
        earlier = earlier[repeats.first]
    settings = Settings(tolerance, exact, max_steps, engine, accept_near_optimal)
    return whole.expanded(_solve(inner, settings, start, earlier))


def solve_batch(
    problems: ProblemBatch, *, tolerance: float, exact: bool, start: Any, max_steps: int, engine: EngineName = "auto"
) -> TransportBatch:
    """Solve a batch of checked problems, from potentials (B, n), or (n,) for all, or None; else as `solve`.

    Small problems are solved together; those whose bounds do not meet then, and larger ones, one after the other.
    """
    starts = None if start is None else check_starts(start, problems)
    settings = Settings(tolerance, exact, max_steps, engine, False)
    found: Iterator[Transport | None] = repeat(None, len(problems))
    if problems.rounds_nothing:
        tables = (problems.x, problems.y, problems.b, problems.a)
        found = _solve_at_once(
            problems.cost, tables, max(problems.largest), min(problems.largest), starts, settings, samples_differ=False
        )
    run = partial(solve, tolerance=tolerance, exact=exact, max_steps=max_steps, engine=engine)
    return TransportBatch(
        tuple(
            run(problems.problem(i), start=None if starts is None else starts[i]) if result is None else result
            for i, result in enumerate(found)
        )
    )


def _solve_at_once(
    cost: Cost,
    tables: Tables,
    most: float,
    least: float,
    start: Tensor | None,
    settings: Settings,
    earlier: Tensor | None = None,
    *,
    samples_differ: bool,
) -> Iterator[Transport | None]:
    """The results of problems (B, n, d), (B, m, d), (B, n), (B, m) if they are small; None of all others.

    The largest number of each is between `least` and `most`. `samples_differ` if no two samples are known to be equal.
    """
    x, y, _, _ = tables
    shape = (x.shape[1], y.shape[1], x.shape[2])
    limits = cost.range(torch.float64, x.shape[2])
    error = one_call_error(shape, cost, settings, start is not None, samples_differ and y.is_cpu)
    if not (error and limits[0] <= least and most <= limits[1]):
        return repeat(None, len(x))
    return solve_at_once(cost, tables, start, settings.tolerance, BLUNT, error, earlier)


def _solve(problem: Problem, settings: Settings, start: Tensor | None, earlier: Tensor | None = None) -> Transport:
    if len(problem.y) == problem.count:
        tables = (problem.x[None], problem.y[None], problem.b[None], problem.a[None])
        guess, cells = (None if values is None else values[None] for values in (start, earlier))
        size = problem.largest
        found = next(_solve_at_once(problem.cost, tables, size, size, guess, settings, cells, samples_differ=True))
        if found is not None:
            return found
    places = places_of(problem.x)
    if places is not None:
        return places.expanded(_solve(places.merged(problem), settings, places.start(start)), problem)
    support = problem.b > 0
    if bool(support.all()):
        return _in_enough_digits(problem, settings, start, find_transport, earlier, balanced=True)[0]
    inner = restrict(problem, support)
    result, state = _in_enough_digits(inner, settings, _part(start, support), find_transport, balanced=True)
    return _extended(result, problem, state.engine, support)


@dataclass(frozen=True)
class Dual:
    """A potential that is nearly the best."""

    potential: Tensor  # (n,) float64, centred
    lower: float  # the semi-dual there
    transform: Tensor  # (m,) float64 c-transform min_i(c_ki - v_i)
    gap: float  # relative to the best plan; inf where none was made


def solve_dual(
    problem: Problem, *, tolerance: float, start: Tensor | None, max_steps: int, engine: EngineChoice = "auto"
) -> Dual:
    """The dual side of a checked problem alone, without a plan and so without a proof of how good it is.

    Newton's model expects the semi-dual to be within a tenth of the tolerance of its maximum. Where samples are few,
    it is balancing a plan that takes most of the time of `solve`.
    """
    start = None if start is None else check_start(start, problem)
    whole = distinct(problem)
    found = _solve_dual(whole.merged, Settings(tolerance, False, max_steps, engine, False), start)
    return found if whole.repeats is None else replace(found, transform=found.transform[whole.repeats.of])


def _solve_dual(problem: Problem, settings: Settings, start: Tensor | None) -> Dual:
    places = places_of(problem.x)
    if places is not None:
        found = _solve_dual(places.merged(problem), settings, places.start(start))
        return replace(found, potential=found.potential[places.of])
    support = problem.b > 0
    inner = problem if bool(support.all()) else restrict(problem, support)
    _, state = _in_enough_digits(inner, settings, _part(start, support), _ascend, balanced=False)
    if state.mean == 0:  # every sample lies on a point, and Newton has nothing to say of how to share them
        find_transport(state, None)
    best = state.highest.potential
    shift = inner.b @ best
    transform = state.transform + shift
    potential = extend(best - shift, support, c_transform(problem, transform, ~support))
    return Dual(potential, state.lower, transform, state.gap)


def _ascend(state: SolveState, start: Tensor | None) -> None:
    """Ascend, unless a direct solve has found the best potential."""
    if state.gap > state.tolerance:
        ascend(state, start)


def _in_enough_digits(
    problem: Problem,
    settings: Settings,
    start: Tensor | None,
    run: Callable[[SolveState, Tensor | None], Found],
    earlier: Tensor | None = None,
    *,
    balanced: bool,
) -> tuple[Found, SolveState]:
    """What `run` finds, and the state then: in float64, if the problem's dtype cannot tell a gap of the tolerance.

    Groups that are far apart are solved one by one first, and points that nearly coincide as one; what `run` then finds
    is at least as good. A plan is made of these if `run` asks for one that is `balanced`.
    """
    problem = within_range(problem)
    state = SolveState(problem, settings, earlier)
    if is_small(state, start):
        if problem.y.numel() * len(problem.x) <= FLOAT64:
            state = SolveState(as_float64(problem), settings, earlier)
        if solve_directly(state, start) and not state.below_rounding(state.highest):
            return run(state, start), state
    elif problem.x.dtype != torch.float64 and not state.needs_float64(start):
        _solve_places(state, start, balanced=balanced)
        found = run(state, start)
        if not state.below_rounding(state.highest):
            return found, state
    if state.problem.x.dtype != torch.float64:
        state = SolveState(as_float64(problem), settings, earlier)
        if is_small(state, start) and solve_directly(state, start):
            return run(state, start), state
    state.needs_float64(start)
    groups = far_groups(state.problem, state.mean)
    if groups:
        _solve_groups(state, groups, start, balanced=balanced)
    else:
        _solve_places(state, start, balanced=balanced)
    return run(state, start), state


def _solve_places(state: SolveState, start: Tensor | None, *, balanced: bool) -> None:
    """Give a state the potential, and if it is to be `balanced` the plan, of the problem whose near points are one."""
    problem, settings = state.problem, state.settings
    scale = min(problem.cost.root(state.mean), median_spread(problem.x))
    places = near_places(problem.x, NEAR * min(settings.tolerance, NEAR_TOLERANCE) * scale)
    if places is None:
        return
    merged = places.merged(problem)
    settings = replace(settings, tolerance=settings.tolerance / 2)
    if balanced:
        found = places.expanded(_solve(merged, settings, places.start(start)), problem)
        state.keep_plan(found.plan, plan_cost(state.engine, found.plan))
        state.evaluate(found.potential)
    else:
        state.evaluate(_solve_dual(merged, settings, places.start(start)).potential[places.of])


def _solve_groups(state: SolveState, groups: list[Group], start: Tensor | None, *, balanced: bool) -> None:
    """Give a state the potential that its groups have by themselves, and if they are `balanced` their plan."""
    problem, settings = state.problem, state.settings
    v, plans = torch.zeros_like(problem.b), []
    for points, samples in groups:
        part, guess = group_problem(problem, points, samples), _part(start, points)
        if balanced:
            plan = _solve(part, settings, guess)
            plans.append((samples[plan.plan.rows], points[plan.plan.cols], plan.plan.mass * problem.a[samples].sum()))
            v[points] = plan.potential
        else:
            v[points] = _solve_dual(part, settings, guess).potential
    if plans:
        rows, cols, mass = (torch.cat(columns) for columns in zip(*plans, strict=True))
        whole = Coupling(rows, cols, mass, (len(problem.y), len(problem.x)))
        state.keep_plan(whole, plan_cost(state.engine, whole))
    state.evaluate(v)


def _part(v: Tensor | None, support: Tensor) -> Tensor | None:
    return None if v is None else v[support]


def check_start(start: Tensor, problem: Problem) -> Tensor:
    """The starting potential as float64 on the problem's device, or ValueError."""
    v = real_tensor(start, "start").to(problem.b)
    if v.shape != problem.b.shape or not bool(torch.isfinite(v).all()):
        raise ValueError(
            f"start: got shape {tuple(v.shape)}; expected {len(problem.b)} finite numbers, one for each point. "
            "Pass the potential of an earlier result with as many points, or None."
        )
    return v


def _extended(result: Transport, problem: Problem, engine: Engine, support: Tensor) -> Transport:
    """Put points of weight zero back: no mass, and the highest potential that leaves their cells empty."""
    used = support.nonzero()[:, 0]
    plan = Coupling(result.plan.rows, used[result.plan.cols], result.plan.mass, (len(problem.y), len(problem.x)))
    highest = engine.least(c_transform(problem, result.transform, ~support))
    potential = extend(result.potential, support, highest)
    return replace(
        result, plan=plan, potential=potential, cell_mass=extend(result.cell_mass, support, 0.0), weights=problem.b
    )
