"""The public call, `transport`: reads its arguments, solves what they describe, and reports a gap that stayed open."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..errors import ConvergenceError, ConvergenceWarning, warn_user
from ..modes import solver_modes
from ..tensors import check_count, check_flag, is_real, weighted_points
from .batched import TransportBatch, is_batch, make_problems, refuse_choices, refuse_group
from .costs import Cost, check_euclidean, measured
from .passes import EngineName, check_engine
from .problem import as_tables, make_problem
from .ranks import as_ranks, solve_on, told_to
from .result import Status, Transport
from .solve import solve, solve_batch

EXACT_GAP = 1e-9


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
