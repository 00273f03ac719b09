"""The exact Wasserstein loss as a function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ..modes import outside_compile
from ..tensors import real_tensor
from ..transport import EXACT_GAP, Status, Transport, TransportBatch, is_choice, report_unconverged, solve, solve_batch
from ..transport.batched import broadcast, is_batch, make_problems, refuse_choices, refuse_group
from ..transport.costs import Cost, check_euclidean, in_coordinates, measured
from ..transport.passes import EngineName
from ..transport.ranks import as_ranks, solve_on, told_to
from .envelope import Inputs, Solved, attach, solved_by_plan, solved_by_plans
from .memory import CachedSelfTerm
from .options import CostChoice, CostPower, DivergenceSettings, Exact, Group, MaxSteps, Measures, Tolerance, Trim


def wasserstein(
    points: Tensor,
    samples: Tensor,
    p: float = 2,
    point_weights: Tensor | Literal["free"] | tuple[float, float] | None = None,
    sample_weights: Tensor | None = None,
    *,
    trim: float = 0.0,
    tolerance: float = 1e-3,
    exact: bool = False,
    start: Tensor | None = None,
    max_steps: int = 100,
    engine: EngineName = "auto",
    group: Any = None,
    cost: Any = None,
) -> Tensor:
    """W_p^p between weighted points and weighted samples, differentiable in both and in their weights.

        W_p^p = min { sum_ki pi_ki |y_k - x_i|^p : pi >= 0, row sums a, column sums b }

    No p-th root is taken, and the cost is the full power, not |y - x|^p / p: for p = 2 this is twice geomloss' value.

    Args:
        points: (n, d) floating, or (n,) when d = 1; for a batch of pairs (B, n, d).
        samples: (m, d), or (m,) when d = 1, of any real dtype, on the same device; for a batch (B, m, d). In a batch
            either points or samples may be a single cloud that all pairs share.
        p: power, p >= 1.
        point_weights, sample_weights: (n,) and (m,), non-negative, any positive sum; equal if None. For a batch (B, n)
            and (B, m), or as for one pair if all pairs share them. The weights of points may be chosen by the plan:
            "free", or bounds (low, high) in units of 1 / n, as in `transport`.
        trim: share of the mass of the samples, in [0, 1), that stays unmatched, as in `transport`.
        tolerance: relative gap between the value and its lower bound, in (0, 1).
        exact: solve in float64 to a gap of 1e-9.
        start: (n,) potential to start from; for a batch (B, n).
        max_steps: maximum number of passes over the samples of a pair.
        engine: "auto", "compiled", "dense", "keops" or "triton", as in `transport`.
        group: None, "world" or a process group whose ranks hold the samples together: see `CoresetLoss`. Not for
            a batch.
        cost: the distance that is raised to the power p: one of `tc.costs`, or a function of two tensors of rows; None
            for the Euclidean one. A group needs a Euclidean distance of coordinates, such as `Mahalanobis`.

    Returns:
        0-d tensor, or (B,) for a batch, in the dtype of the points, float32 for half precision: an upper bound within
        the tolerance.

    Raises:
        ValueError: invalid inputs; the message names the argument. Nothing is changed.
        RuntimeError: a second derivative was asked for, or the engine asked for cannot compile.
        ImportError: the engine asked for is not installed.
        RankError: another rank failed, has other points or settings, or did not call within the group's timeout.

    Warns:
        ConvergenceWarning: the tolerance was not reached.

    Gradient: in points and samples the gradient of sum pi c at the returned plan; in weights the potentials, projected
    on normalised weights, and none if the plan chooses the weights. Inputs that the pairs of a batch share get the sum
    over the pairs. By the envelope theorem these are the gradients of W_p^p, exact when the gap is 0 and the optimal
    plan is unique. For p = 1 the gradient is zero where a point coincides with a sample (a subgradient). Points that
    coincide divide the samples of their place, as their weights say: their gradients differ, and a step parts them.

    Example:
        >>> import torch, torchcoreset as tc
        >>> x = torch.tensor([0.0, 10.0], requires_grad=True)
        >>> value = tc.wasserstein(x, torch.tensor([0.0, 1.0, 2.0, 3.0]))
        >>> value.backward()
        >>> value.item(), x.grad.tolist()
        (28.5, [-0.5, 7.5])
        >>> clouds = torch.tensor([[[0.0], [1.0], [2.0], [3.0]], [[8.0], [9.0], [10.0], [11.0]]])
        >>> tc.wasserstein(x, clouds).tolist()  # a batch of two, which share the points
        [28.5, 36.5]

    Source: Claici, Genevay, Solomon (2020), section 4, with the factors of the gradients corrected.
    """
    with told_to(as_ranks(group), "wasserstein"):
        settings = WassersteinSettings(
            p=p, trim=trim, tolerance=tolerance, exact=exact, max_steps=max_steps, engine=engine, group=group, cost=cost
        )
    return settings.value((points, samples, point_weights, sample_weights), start)


@dataclass(frozen=True, kw_only=True)
class WassersteinSettings(DivergenceSettings[Transport | TransportBatch]):
    """How the exact loss is computed; arguments as in `wasserstein`."""

    p: CostPower = 2
    trim: Trim = 0.0
    tolerance: Tolerance = 1e-3
    exact: Exact = False
    max_steps: MaxSteps = 100
    engine: EngineName = "auto"
    group: Group = None
    cost: CostChoice = None

    def evaluate(
        self, measures: Measures, start: Tensor | None = None, memory: CachedSelfTerm | None = None
    ) -> tuple[Tensor, Transport | TransportBatch]:
        """The value with its gradients, and its `Transport`, or for a batch its `TransportBatch`."""
        exact, ranks = self.exact, as_ranks(self.group)
        accuracy = EXACT_GAP if exact else self.tolerance
        settings = {"tolerance": self.tolerance, "exact": exact, "max_steps": self.max_steps, "engine": self.engine}
        points, samples, point_weights, sample_weights = measures
        chosen = point_weights if is_choice(point_weights) else None
        with told_to(ranks, "wasserstein"):
            x, y, b, a = as_inputs(points, samples, None if chosen is not None else point_weights, sample_weights)
            if self.group is not None:
                check_euclidean(self.cost, "a group")
            power, x, y = by_cost(self.cost, self.p, x, y)
            inputs = (x, y, b, a)
            batched = is_batch(*inputs[:2])
            if batched:
                refuse_group(self.group)
                refuse_choices(chosen, self.trim)
        if batched:
            return self._evaluate_batch(inputs, power, start)

        def solve_now(x: Tensor, y: Tensor, point_weights: Tensor | None, sample_weights: Tensor | None) -> Solved:
            run = partial(solve, tolerance=accuracy, exact=exact, start=start, max_steps=self.max_steps)
            problem, result = solve_on(
                ranks, "wasserstein", run, x, y, power, point_weights if chosen is None else chosen, sample_weights,
                trim=self.trim, engine=self.engine, dtype=torch.float64 if exact else None, state=start,
                settings=settings,
            )  # fmt: skip
            return solved_by_plan(problem, result, x, y, None if ranks is None else ranks.total)

        return attach("wasserstein", solve_now, *inputs)

    def _evaluate_batch(
        self, inputs: Inputs, power: float | Cost, start: Tensor | None
    ) -> tuple[Tensor, TransportBatch]:
        """The values (B,) of a batch of pairs; autograd sums the gradients of shared inputs over the pairs."""
        accuracy, dtype = (EXACT_GAP, torch.float64) if self.exact else (self.tolerance, None)

        def solve_now(x: Tensor, y: Tensor, point_weights: Tensor | None, sample_weights: Tensor | None) -> Solved:
            problems = make_problems(x, y, power, point_weights, sample_weights, dtype=dtype)
            found = solve_batch(
                problems,
                tolerance=accuracy,
                exact=self.exact,
                start=start,
                max_steps=self.max_steps,
                engine=self.engine,
            )
            return solved_by_plans(problems.cost, found)

        return attach("wasserstein", solve_now, *broadcast(*inputs))

    def report(self, result: Transport | TransportBatch) -> None:
        """Raise an error if an exact solve missed its gap, else warn."""
        if result.status is not Status.CONVERGED:
            accuracy = EXACT_GAP if self.exact else self.tolerance
            report_unconverged(result, accuracy, exact=self.exact)


def as_inputs(points: Any, samples: Any, point_weights: Any, sample_weights: Any) -> Inputs:
    """The arguments of a loss as tensors that keep their place in the graph; ValueError if points do not float."""
    x, y = as_rows(points, "points"), as_rows(samples, "samples")
    if not x.is_floating_point():
        raise ValueError(f"points: got dtype {x.dtype}; expected a floating type. Convert them with .float().")
    return x, y, as_vector(point_weights, "point_weights"), as_vector(sample_weights, "sample_weights")


@outside_compile
def by_cost(cost: Any, p: float, x: Tensor, y: Tensor) -> tuple[float | Cost, Tensor, Tensor]:
    """As `measured`, outside torch.compile, whose graph would break at each check."""
    return measured(cost, p, x, y)


@outside_compile
def by_coordinates(cost: Any, call: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """As `in_coordinates`, outside torch.compile."""
    return in_coordinates(cost, call, x, y)


def as_pair(call: str, points: Any, samples: Any, point_weights: Any, sample_weights: Any) -> Inputs:
    """As `as_inputs`, for a loss, `call`, that takes one pair of clouds and no batch."""
    x, y, *weights = as_inputs(points, samples, point_weights, sample_weights)
    if is_batch(x, y):
        name, rows = ("points", x) if is_batch(x, x) else ("samples", y)
        raise ValueError(
            f"{name}: got shape {tuple(rows.shape)}; expected (rows, dimension): {call} takes one pair of clouds. "
            "Flatten images with .flatten(1); for a batch of clouds, loop over the pairs or use `wasserstein`, which "
            "takes batches."
        )
    return x, y, weights[0], weights[1]


def as_rows(values: Any, name: str) -> Tensor:
    """Rows in their own dtype, by the rule of `tensors`; (rows,) becomes (rows, 1), and a tensor stays in its graph."""
    rows = values if isinstance(values, Tensor) else real_tensor(values, name)
    if rows.dim() == 0:
        raise ValueError(f"{name}: got a single number; expected (rows, dimension). Pass a batch of rows.")
    return rows[:, None] if rows.dim() == 1 else rows


def as_vector(weights: Any, name: str) -> Tensor | None:
    """Weights as a tensor, or None; ValueError for those that are left to a plan, which only `wasserstein` has."""
    if is_choice(weights):
        raise ValueError(
            f"{name}: got {weights!r}; expected one weight for each row, in a list, array or tensor. Only the exact "
            "loss (divergence='wasserstein' without online=True) can let the plan choose the weights of points."
        )
    return weights if weights is None or isinstance(weights, Tensor) else real_tensor(weights, name)
