"""The public solver, against exact oracles, the network simplex of POT, duality and invariance."""

import functools
import importlib
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal, seeded, seeds
from tests.processes import run
from tests.transport.solving.problems import hard_problem, set_balance
from torchcoreset.testing import DISCRETE_PROBLEMS, E1, LINE_PROBLEMS, line_transport
from torchcoreset.transport.flow import Balanced, CandidateArcs, Floats
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solve import solve_dual
from torchcoreset.transport.solving import balance as balance_module

pytestmark = pytest.mark.usefixtures("by_approach")

every_power = pytest.mark.parametrize("p", [1, 1.5, 2, 3])
# `make test-quick` takes two of them.
two_powers_or_all = pytest.mark.parametrize("p", [1, 2, *(pytest.param(p, marks=pytest.mark.slow) for p in (1.5, 3))])
either_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def cost_matrix(x: Tensor, y: Tensor, p: float) -> Tensor:
    """(m, n), float64, from differences."""
    return torch.cdist(y.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist") ** p


def normalised(weights: Tensor | None, count: int) -> Tensor:
    w = torch.ones(count, dtype=torch.float64) if weights is None else weights.double()
    return w / w.sum()


@pytest.mark.parametrize("problem", DISCRETE_PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("exact", [False, True])
@either_dtype
def test_problems_solved_by_hand(problem, p: int, exact: bool, dtype: torch.dtype) -> None:
    weights = problem.point_weights, problem.sample_weights
    result = tc.transport(problem.points.to(dtype), problem.samples.to(dtype), p, *weights, exact=exact)
    rel = 1e-9 if exact else 1e-3
    expected = problem.values[p]
    assert result.value == pytest.approx(expected, rel=rel, abs=1e-9)
    assert result.lower <= expected * (1 + 1e-6) + 1e-9
    assert expected <= result.value * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("problem", LINE_PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("p", [1, 2])
def test_the_potential_is_that_of_the_whole_distribution(problem, p: int) -> None:
    # 20,000 quantiles stand for the distribution: their cell boundaries lie within one of theirs
    points, samples = problem.optimal_points(8, p), problem.quantile_sample(20_000)
    result = tc.transport(points, samples, p, exact=True)
    torch.testing.assert_close(result.potential, problem.potential(points, p), rtol=0, atol=2e-3)
    assert result.value == pytest.approx(problem.value(points, p), rel=5e-3)  # the quantiles cut the tails


@every_power
@pytest.mark.parametrize("seed", range(5))
def test_weighted_problems_on_the_line(p: float, seed: int) -> None:
    x, y = normal(9, 1, seed=seed), 2 * normal(70, 1, seed=seed + 100)
    weights = normal(9, seed=seed + 200).square(), normal(70, seed=seed + 300).square()
    oracle = line_transport(x, y, p, *weights)
    result = tc.transport(x, y, p, *weights, exact=True)
    assert result.value == pytest.approx(oracle.value, rel=1e-9)
    if p > 1:  # for p = 1 many plans are optimal
        torch.testing.assert_close(result.plan.to_sparse().to_dense(), oracle.plan, rtol=0, atol=1e-12)
        torch.testing.assert_close(result.potential, oracle.potential, rtol=1e-8, atol=1e-8)


@dataclass(frozen=True, kw_only=True)
class Instance:
    points: Tensor
    samples: Tensor
    p: float
    point_weights: Tensor | None
    sample_weights: Tensor | None

    @property
    def arguments(self) -> tuple:
        return self.points, self.samples, self.p, self.point_weights, self.sample_weights

    @property
    def masses(self) -> tuple[Tensor, Tensor]:
        return normalised(self.sample_weights, len(self.samples)), normalised(self.point_weights, len(self.points))

    def rounding(self, eps: float) -> float:
        """Rounding error of a cost: of its own digits and of those of the coordinates."""
        centre = self.points.double().median(0).values
        far = max(float((t.double() - centre).norm(dim=1).max()) for t in (self.points, self.samples))
        eps = max(eps, 1e-14)  # the simplex sums thousands of terms
        return 40 * eps * far ** (self.p - 1) * (far + float(self.points.abs().max()))


KINDS = ("normal", "grid", "duplicates", "equal", "clusters", "far", "shifted")
WEIGHTS = ("none", "random", "skewed", "zeros", "counts")
SIZES = (  # dimension, points, samples
    (1, 1, 1), (1, 300, 200), (1, 20, 5000), (2, 1, 5000), (2, 300, 1000), (2, 100, 3000), (2, 60, 5), (3, 7, 1000),
    (3, 300, 30), (16, 20, 2000), (16, 100, 1), (64, 60, 200), (64, 2, 30), (784, 20, 200), (784, 7, 1000),
)  # fmt: skip


def weights_of(kind: str, count: int, seed: int) -> Tensor | None:
    u = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    match kind:
        case "none":
            return None
        case "skewed":
            return u**8 + 1e-9
        case "zeros":
            u[::3] = 0
            u[-1] = 1
        case "counts":
            return (4 * u).ceil().clamp(min=1).long()
    return u


@functools.cache
def instance(seed: int) -> tuple[Instance, float]:
    """A seeded problem, and its value by the network simplex."""
    d, n, m = SIZES[seed % len(SIZES)]
    kind = KINDS[seed % len(KINDS)]
    x, y = normal(n, d, seed=seed), 2 * normal(m, d, seed=seed + 1000) + 0.5
    generator = torch.Generator().manual_seed(seed)
    match kind:
        case "grid":
            x, y = (2 * x).round(), y.round()
        case "duplicates":
            x, y = (t[torch.randint(0, len(t), (len(t),), generator=generator)] for t in (x, y))
        case "equal":
            y = y[:1].repeat(m, 1)
        case "clusters":
            y = 1e-3 * y + 10 * torch.randint(0, 3, (m, 1), generator=generator)
        case "far":
            x = x + 100
        case "shifted":
            x, y = x + 1000, y + 1000
    dtype = torch.float64 if seed % 2 else torch.float32
    problem = Instance(
        points=x.to(dtype),
        samples=y.to(dtype),
        p=1 + seed // 2 % 2,
        point_weights=weights_of(WEIGHTS[seed // 3 % 5], n, seed),
        sample_weights=weights_of(WEIGHTS[seed // 7 % 5], m, seed + 1),
    )
    a, b = (w.numpy() for w in problem.masses)
    cost = cost_matrix(problem.points, problem.samples, problem.p).numpy()
    return problem, float(ot.emd2(a, b, cost, numItermax=10**7))


every_instance = pytest.mark.parametrize("seed", seeds(50, quick=len(SIZES), slow={4}))
# none of these problems takes a second where all goes well
in_time = pytest.mark.timeout(30)


def check_consistent(problem: Instance, result: tc.Transport, eps: float) -> None:
    """Plan, potential and bounds belong to the problem and to each other."""
    a, b = problem.masses
    cost = cost_matrix(problem.points, problem.samples, problem.p)
    rounding = problem.rounding(eps)
    plan = result.plan
    assert float(plan.mass.min()) >= 0
    torch.testing.assert_close(torch.bincount(plan.rows, plan.mass, len(a)), a, rtol=0, atol=1e-9)
    torch.testing.assert_close(plan.column_sums(), b, rtol=0, atol=1e-9)
    assert float(plan.mass @ cost[plan.rows, plan.cols]) == pytest.approx(result.value, rel=1e-9, abs=rounding)
    scale = float(cost.max())
    assert float(b @ result.potential) == pytest.approx(0, abs=1e-9 * scale)
    transform = (cost - result.potential).min(1).values
    torch.testing.assert_close(result.transform, transform, rtol=0, atol=rounding + 1e-10 * scale)
    assert float(a @ transform) == pytest.approx(result.lower, abs=rounding + 1e-10 * scale)


@every_instance
@in_time
def test_bounds_hold_the_optimum(seed: int) -> None:
    problem, optimum = instance(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.ConvergenceWarning)
        result = tc.transport(*problem.arguments)
    eps = torch.finfo(problem.points.dtype).eps
    rounding = problem.rounding(eps)
    assert result.lower - rounding <= optimum <= result.value + rounding
    assert result.value - optimum <= result.gap * result.value + rounding
    assert result.gap <= 1e-3 or result.status is tc.Status.STALLED
    assert result.gap <= 1e-3 or problem.points.dtype == torch.float32  # in float64 nothing excuses a wide gap
    check_consistent(problem, result, eps)


@every_instance
@in_time
def test_exact_is_exact(seed: int) -> None:
    problem, optimum = instance(seed)
    result = tc.transport(*problem.arguments, exact=True)
    rounding = problem.rounding(torch.finfo(torch.float64).eps)
    assert result.value == pytest.approx(optimum, rel=1e-8, abs=rounding)
    assert result.gap <= 1e-9
    assert result.status is tc.Status.CONVERGED
    check_consistent(problem, result, torch.finfo(torch.float64).eps)
    # complementary slackness: mass travels only where the dual inequality is tight
    plan = result.plan
    cost = cost_matrix(problem.points, problem.samples, problem.p)
    reduced = (cost - result.potential - result.transform[:, None])[plan.rows, plan.cols]
    assert float(plan.mass @ reduced.abs()) <= 2e-9 * result.value + 10 * rounding


def test_points_of_tiny_weight_leave_digits_for_the_others() -> None:
    # a cell that hardly any sample wants has no curvature: its potential must not run away with everyone's digits
    x, y = normal(7, 784, seed=37).mul(2).round(), (2 * normal(200, 784, seed=38) + 0.5).round()
    b = torch.tensor([0.63, 0.27, 0.28, 6e-6, 0.8, 1e-9, 3e-3])
    problem = Instance(points=x.float(), samples=y.float(), p=1, point_weights=b, sample_weights=None)
    result = tc.transport(*problem.arguments)
    check_consistent(problem, result, torch.finfo(torch.float32).eps)


@pytest.mark.parametrize(("n", "m"), [(60, 5), (100, 30), (300, 30)])
@in_time
def test_many_points_of_very_different_weights(n: int, m: int) -> None:
    # mass passes through cells that hold almost none
    x, y, b = normal(n, 2), normal(m, 2, seed=1), weights_of("skewed", n, 2)
    optimum = ot.emd2(np.full(m, 1 / m), (b / b.sum()).numpy(), cost_matrix(x, y, 1).numpy())
    assert tc.transport(x, y, 1, b, exact=True).value == pytest.approx(optimum, rel=1e-8)


def test_a_warm_start_saves_steps() -> None:
    x, y = hard_problem()
    cold = tc.transport(x, y)
    warm = tc.transport(x, y, start=cold.potential)
    assert warm.steps < cold.steps
    assert warm.steps <= 5
    assert warm.gap <= 1e-3


def test_a_start_from_elsewhere_does_no_harm() -> None:
    x, y = hard_problem()
    value = tc.transport(x, y, exact=True).value
    assert tc.transport(x, y, exact=True, start=100 * normal(100, seed=5)).value == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("max_steps", [5, 20, 100])
@pytest.mark.parametrize("m", [500, 20_000])
def test_max_steps_bounds_the_passes(max_steps: int, m: int) -> None:
    x, y = normal(100, 4), 2 * normal(m, 4, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.ConvergenceWarning)
        assert tc.transport(x, y, tolerance=1e-9, max_steps=max_steps).steps <= max_steps


def test_too_few_steps_warn_and_give_the_result() -> None:
    with pytest.warns(tc.ConvergenceWarning, match=r"max_steps.*relative gap.*1\.0e-06 was asked for") as caught:
        result = tc.transport(*hard_problem(), tolerance=1e-6, max_steps=1)
    assert result.status is tc.Status.MAX_STEPS
    assert caught[0].message.result is result
    assert caught[0].filename == __file__
    # One balancing may already find the best plan, whose cost the two add up in another order.
    assert result.lower <= tc.transport(*hard_problem(), exact=True).value <= result.value * (1 + 1e-12)


def test_an_exact_solve_that_fails_is_an_error_with_the_result() -> None:
    with pytest.raises(tc.ConvergenceError, match="Allow more steps") as caught:
        tc.transport(*hard_problem(), exact=True, max_steps=1)
    assert caught.value.result.status is tc.Status.MAX_STEPS
    assert caught.value.result.gap > 1e-9


@pytest.mark.parametrize("p", [1, 2])
def test_bounds_are_true_where_float32_runs_out_of_digits(p: int) -> None:
    # two clusters 2e4 apart: in float32 the rounding of one cost, about 50, drowns the cost of the plan, about 1
    x, y = normal(40, 2, dtype=torch.float32), normal(3000, 2, seed=1, dtype=torch.float32)
    x[20:] += 2e4
    y[1500:] += 2e4
    optimum = tc.transport(x, y, p, exact=True).value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.ConvergenceWarning)
        result = tc.transport(x, y, p)
    assert result.lower <= optimum * (1 + 1e-3)
    assert optimum <= result.value * (1 + 1e-3)
    assert result.value - optimum <= (result.gap + 1e-3) * result.value


BAD_INPUTS = {
    "dimensions": (
        {"samples": torch.ones(4, 3)},
        r"samples: got shape \(4, 3\) with points of shape \(3, 2\).*flatten",
    ),
    "device": ({"samples": torch.ones(4, 2, device="meta")}, "samples: got device meta with points on cpu"),
    "images": ({"samples": torch.ones(4, 1, 2, 2)}, r"samples: got shape \(4, 1, 2, 2\).*flatten\(1\)"),
    "batched images": ({"points": torch.ones(2, 1, 3, 2)}, r"points: got shape \(2, 1, 3, 2\).*flatten\(1\)"),
    "one number": ({"points": torch.tensor(1.0)}, r"points: got shape \(\).*batch of rows"),
    "no samples": ({"samples": torch.ones(0, 2)}, r"samples: got shape \(0, 2\).*at least one row"),
    "no points": ({"points": torch.ones(0, 2)}, r"points: got shape \(0, 2\).*at least one row"),
    "no columns": (
        {"points": torch.ones(3, 0), "samples": torch.ones(4, 0)},
        "at least one row and one column",
    ),
    "complex": ({"points": torch.ones(3, 2, dtype=torch.complex64)}, "points: got dtype torch.complex64"),
    "nan sample": (
        {"samples": torch.tensor([[0, 0], [0, math.nan]])},
        "samples: 1 of 2 rows.*first is row 1",
    ),
    "inf sample": ({"samples": torch.tensor([[math.inf, 0.0]])}, "samples: 1 of 1 rows.*first is row 0"),
    "opposite infinities": ({"samples": torch.tensor([[math.inf, -math.inf]])}, "samples: 1 of 1 rows"),
    "nan point": ({"points": torch.full((3, 2), math.nan)}, "points: 3 of 3 rows"),
    "power too small": ({"p": 0.5}, "p: got 0.5; expected a number >= 1"),
    "infinite power": ({"p": math.inf}, "p: got inf"),
    "nan power": ({"p": math.nan}, "p: got nan"),
    "boolean power": ({"p": True}, "p: got True"),
    "power by name": ({"p": "2"}, "p: got '2'"),
    "point weights shape": (
        {"point_weights": torch.ones(2)},
        r"point_weights: got shape \(2,\); expected \(3,\)",
    ),
    "sample weights shape": ({"sample_weights": torch.ones(4, 1)}, r"sample_weights: got shape \(4, 1\)"),
    "negative": ({"sample_weights": [1, -1, 1, 1]}, "sample_weights: 1 of 4 weights are negative"),
    "nan weight": ({"point_weights": [1, math.nan, 1]}, "point_weights: 1 of 3 weights are negative, NaN"),
    "infinite weight": ({"point_weights": [math.inf, 1, 1]}, "point_weights: 1 of 3 weights"),
    "zero weights": ({"sample_weights": torch.zeros(4)}, "sample_weights: all 4 weights are zero"),
    "no tolerance": ({"tolerance": 0}, r"tolerance: got 0; expected a relative gap in \(0, 1\)"),
    "nan tolerance": ({"tolerance": math.nan}, "tolerance: got nan"),
    "wide tolerance": ({"tolerance": 1.0}, "tolerance: got 1.0"),
    "exact by name": ({"exact": "no"}, "exact: got 'no'; expected True or False"),
    "exact by number": ({"exact": 1e-9}, "exact: got 1e-09; expected True or False"),
    "no steps": ({"max_steps": 0}, "max_steps: got 0; expected a positive integer"),
    "fractional steps": ({"max_steps": 1.5}, "max_steps: got 1.5"),
    "short start": ({"start": torch.zeros(2)}, r"start: got shape \(2,\); expected 3 finite numbers"),
    "nan start": ({"start": torch.full((3,), math.nan)}, r"start: got shape \(3,\) with NaN or inf; expected 3 fin"),
    "large power": ({"p": 1000}, "p: got 1000; expected less: float64 cannot hold"),
}


@pytest.mark.parametrize(("changes", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS.keys())
def test_unusable_inputs_are_named(changes: dict, message: str) -> None:
    arguments = {"points": torch.zeros(3, 2), "samples": torch.ones(4, 2)} | changes
    with pytest.raises(ValueError, match=message):
        tc.transport(**arguments)


def test_inputs_are_not_written_to() -> None:
    inputs = normal(5, 2), normal(40, 2, seed=1), 2, normal(5, seed=2).abs(), normal(40, seed=3).abs()
    before = [t.clone() if isinstance(t, Tensor) else t for t in inputs]
    start = normal(5, seed=4)
    start_before = start.clone()
    for exact in (False, True):
        tc.transport(*inputs, exact=exact, start=start)
    assert torch.equal(start, start_before)
    for value, copy in zip(inputs, before, strict=True):
        assert torch.equal(value, copy) if isinstance(value, Tensor) else value == copy


@pytest.mark.parametrize("form", [Tensor.tolist, Tensor.numpy, Tensor.long, Tensor.half, Tensor.bfloat16])
def test_other_types_of_numbers(form) -> None:
    x, y = E1.points, E1.samples
    assert tc.transport(form(x), form(y)).value == 28.5
    assert tc.transport(form(x), form(y), 2, form(torch.ones(2)), form(torch.ones(4))).value == 28.5


def test_a_vector_is_a_column() -> None:
    assert tc.transport(E1.points[:, 0], E1.samples[:, 0], p=1).value == 4.0


def test_a_graph_is_left_alone() -> None:
    x = E1.points.clone().requires_grad_()
    result = tc.transport(x, E1.samples, point_weights=torch.ones(2, requires_grad=True))
    assert not result.potential.requires_grad
    assert x.grad is None


def test_half_precision_is_computed_in_float32() -> None:
    x, y = torch.zeros(1, 784, dtype=torch.half), torch.full((4, 784), 300.0, dtype=torch.half)
    assert tc.transport(x, y).value == pytest.approx(70_560_000, rel=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_a_point_of_weight_zero_has_the_potential_of_its_first_mass(p: int) -> None:
    x, y = normal(6, 2), normal(80, 2, seed=1)
    b, a = (
        torch.tensor([0.0, 1.0, 2.0, 0.0, 1.5, 0.7], dtype=torch.float64),
        normal(80, seed=2).square() + 0.01,
    )
    result = tc.transport(x, y, p, b, a, exact=True)
    assert result.plan.column_sums()[[0, 3]].tolist() == [0.0, 0.0]
    cost = cost_matrix(x, y, p)
    assert torch.equal(result.cell_mass[[0, 3]], torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close((cost - result.potential).min(1).values, result.transform, rtol=0, atol=1e-9)
    for i in (0, 3):
        step = 1e-5
        more = b / b.sum() * (1 - step)
        more[i] += step
        slope = (tc.transport(x, y, p, more, a, exact=True).value - result.value) / step
        assert slope == pytest.approx(float(result.potential[i]), abs=1e-4)


def test_samples_of_weight_zero_change_nothing() -> None:
    x, y, a = normal(6, 2), normal(80, 2, seed=1), normal(80, seed=2).square()
    a[::4] = 0
    result = tc.transport(x, y, sample_weights=a, exact=True)
    kept = tc.transport(x, y[a > 0], sample_weights=a[a > 0], exact=True)
    assert result.value == pytest.approx(kept.value, rel=1e-9)
    assert len(result.transform) == len(result.assignment) == 80


def weighted(p: float) -> tuple:
    return (
        normal(8, 3),
        2 * normal(150, 3, seed=1),
        p,
        normal(8, seed=2).abs() + 0.1,
        normal(150, seed=3).abs() + 0.01,
    )


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_translation_changes_nothing_in_float32(p: int, offset: float) -> None:
    x, y = (normal(8, 3) * 4).round().float(), (normal(150, 3, seed=1) * 8).round().float()
    here, there = tc.transport(x, y, p), tc.transport(x + offset, y + offset, p)
    assert there.value == here.value
    assert torch.equal(there.potential, here.potential)
    assert torch.equal(there.assignment, here.assignment)


@every_power
def test_rotation_changes_nothing(p: float) -> None:
    x, y, *rest = weighted(p)
    turn = torch.linalg.qr(normal(3, 3, seed=4)).Q
    here, there = tc.transport(x, y, *rest, exact=True), tc.transport(x @ turn, y @ turn, *rest, exact=True)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    torch.testing.assert_close(there.potential, here.potential, rtol=1e-8, atol=1e-8)


@every_power
@pytest.mark.parametrize("scale", [1e-6, 3.0, 1e6])
def test_scaling_scales_with_the_power(p: float, scale: float) -> None:
    x, y, *rest = weighted(p)
    here, there = tc.transport(x, y, *rest, exact=True), tc.transport(scale * x, scale * y, *rest, exact=True)
    assert there.value / scale**p == pytest.approx(here.value, rel=1e-9)
    torch.testing.assert_close(there.potential / scale**p, here.potential, rtol=1e-8, atol=1e-8)


@every_power
def test_the_order_of_points_and_samples_does_not_matter(p: float) -> None:
    x, y, _, b, a = weighted(p)
    rows, cols = (torch.randperm(k, generator=torch.Generator().manual_seed(k)) for k in (150, 8))
    here, there = (
        tc.transport(x, y, p, b, a, exact=True),
        tc.transport(x[cols], y[rows], p, b[cols], a[rows], exact=True),
    )
    assert there.value == pytest.approx(here.value, rel=1e-9)
    torch.testing.assert_close(there.potential, here.potential[cols], rtol=1e-8, atol=1e-8)


@every_power
def test_a_sample_may_be_split_into_halves(p: float) -> None:
    x, y, _, b, a = weighted(p)
    halves = torch.cat((a[:50], a[50:] / 2, a[50:] / 2))
    here = tc.transport(x, y, p, b, a, exact=True)
    there = tc.transport(x, torch.cat((y, y[50:])), p, b, halves, exact=True)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    torch.testing.assert_close(there.potential, here.potential, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("exact", [False, True])
def test_equal_calls_give_equal_bits(exact: bool) -> None:
    x, y = normal(100, 4, dtype=torch.float32), normal(20_000, 4, seed=1, dtype=torch.float32)
    state = torch.get_rng_state()
    first, second = tc.transport(x, y, exact=exact), tc.transport(x, y, exact=exact)
    assert torch.equal(torch.get_rng_state(), state)
    assert (first.value, first.lower, first.steps) == (second.value, second.lower, second.steps)
    assert torch.equal(first.potential, second.potential)
    assert torch.equal(first.plan.cols, second.plan.cols)


PEAK = """
import sys, torch, torchcoreset as tc
n, m, d = map(int, sys.argv[1:])
memory = lambda name: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
tc.transport(torch.zeros(2, 2).fill_diagonal_(1), torch.rand(64, 2))
generator = torch.Generator().manual_seed(0)
x, y = (torch.randn(k, d, generator=generator) for k in (n, m))
before = memory("VmRSS")
tc.transport(x, y)
print((memory("VmHWM") - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("process_memory")
@pytest.mark.parametrize(("n", "m", "d"), [(64, 4096, 784), (64, 500_000, 2)])
def test_no_block_of_all_pairs_is_made(n: int, m: int, d: int) -> None:
    # n m d floats would be 822 MB, and n m floats 128 MB beside the masks and copies that come with them
    assert float(run(PEAK, str(n), str(m), str(d))) < 300


LIST_KINDS = ("normal", "clusters", "duplicates", "ties")
LIST_SIZES = ((2, 40, 3000), (3, 80, 1000), (8, 120, 500))  # dimension, points, samples


@pytest.fixture
def many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few points count as many: soft passes over lists, sparse overlaps, and balancing over lists."""
    monkeypatch.setattr(balance_module, "DENSE_BALANCE", 8)
    monkeypatch.setattr(balance_module, "MOST_DENSE", 8)
    for name in ("dense", "gram"):
        monkeypatch.setattr(importlib.import_module(f"torchcoreset.transport.passes.{name}"), "DENSE_POINTS", 8)
    monkeypatch.setattr(importlib.import_module("torchcoreset.transport.passes.dense"), "SPARSE_FROM", 8)
    monkeypatch.setattr(importlib.import_module("torchcoreset.transport.dual.coarse_to_fine"), "FEWEST", 12)

    def over_lists(cost: Floats | CandidateArcs, *arguments: Any) -> Balanced:
        assert isinstance(cost, CandidateArcs), "balanced without lists"
        return balance(cost, *arguments)

    balance = balance_module.balance
    set_balance(monkeypatch, over_lists)


@functools.cache
def list_instance(kind: str, p: float) -> tuple[Instance, float]:
    """A seeded problem for the lists, and its value by the network simplex."""
    seed = LIST_KINDS.index(kind) + int(2 * p)
    d, n, m = LIST_SIZES[seed % len(LIST_SIZES)]
    x, y = normal(n, d, seed=seed), 2 * normal(m, d, seed=seed + 1000) + 0.5
    match kind:
        case "clusters":
            y = 0.3 * y + 2 * (torch.arange(m) % 3)[:, None]
        case "duplicates":
            x[: n // 4], y[m // 2 :] = x[-(n // 4) :], y[: m // 2]
        case "ties":
            x, y = (4 * x).round(), (4 * y).round()
    weighted = seed % 2 == 0
    b, a = (weights_of("random", count, count) + 0.05 if weighted else None for count in (n, m))
    problem = Instance(points=x, samples=y, p=p, point_weights=b, sample_weights=a)
    masses = (w.numpy() for w in problem.masses)
    return problem, float(ot.emd2(*masses, cost_matrix(x, y, p).numpy(), numItermax=10**7))


@pytest.mark.usefixtures("many_points")
@pytest.mark.parametrize("kind", LIST_KINDS)
@two_powers_or_all
@in_time
def test_bounds_of_many_points_hold_the_optimum(kind: str, p: float) -> None:
    problem, optimum = list_instance(kind, p)
    result = tc.transport(*problem.arguments)
    rounding = problem.rounding(1e-14)
    assert result.lower - rounding <= optimum <= result.value + rounding
    assert result.value - optimum <= result.gap * result.value + rounding
    assert result.gap <= 1e-3
    assert result.status is tc.Status.CONVERGED
    check_consistent(problem, result, 1e-15)


@pytest.mark.usefixtures("many_points")
@pytest.mark.parametrize("kind", LIST_KINDS)
@two_powers_or_all
@in_time
def test_exact_is_exact_for_many_points(kind: str, p: float) -> None:
    problem, optimum = list_instance(kind, p)
    result = tc.transport(*problem.arguments, exact=True)
    assert result.value == pytest.approx(optimum, rel=1e-8)
    assert result.gap <= 1e-9
    check_consistent(problem, result, 1e-15)


@pytest.mark.parametrize("kind", LIST_KINDS)
@two_powers_or_all
@in_time
def test_exact_is_exact_by_way_of_lists(kind: str, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists where a potential is near, all costs where they did not do."""
    monkeypatch.setattr(balance_module, "DENSE_BALANCE", 8)
    problem, optimum = list_instance(kind, p)
    result = tc.transport(*problem.arguments, exact=True)
    assert result.value == pytest.approx(optimum, rel=1e-8)
    assert result.gap <= 1e-9
    check_consistent(problem, result, 1e-15)


@pytest.mark.usefixtures("many_points")
@in_time
def test_many_points_that_all_have_a_twin() -> None:
    x, y = normal(40, 2).repeat(2, 1), 2 * normal(1000, 2, seed=1)
    optimum = tc.transport(x[:40], y, exact=True).value
    assert tc.transport(x, y, exact=True).value == pytest.approx(optimum, rel=1e-8)


@pytest.mark.usefixtures("many_points")
def test_many_points_in_float32() -> None:
    problem, optimum = list_instance("normal", 2)
    x, y, *rest = problem.arguments
    result = tc.transport(x.float(), y.float(), *rest)
    assert result.lower <= optimum * (1 + 1e-5)
    assert optimum <= result.value * (1 + 1e-5)
    assert result.gap <= 1e-3


@pytest.mark.usefixtures("many_points")
@pytest.mark.parametrize("kind", ["duplicates", "ties"])
@in_time
def test_bounds_of_many_points_of_very_different_weights_are_true(kind: str) -> None:
    # lists may be too short to bring all mass where it belongs: then the gap says so
    x, y = normal(60, 2), 2 * normal(700, 2, seed=1)
    if kind == "duplicates":
        x[30:], y[350:] = x[:30], y[:350]
    else:
        x, y = (2 * x).round(), y.round()
    b, a = weights_of("skewed", 60, 2), weights_of("skewed", 700, 3)
    problem = Instance(points=x, samples=y, p=2, point_weights=b, sample_weights=a)
    optimum = float(ot.emd2(*(w.numpy() for w in problem.masses), cost_matrix(x, y, 2).numpy()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.ConvergenceWarning)
        result = tc.transport(*problem.arguments)
    rounding = problem.rounding(1e-14)
    assert result.lower - rounding <= optimum <= result.value + rounding
    assert result.gap <= 1e-3 or result.status is tc.Status.STALLED
    check_consistent(problem, result, 1e-15)


@pytest.mark.usefixtures("many_points")
def test_a_warm_start_saves_steps_with_many_points() -> None:
    x, y = normal(100, 4), 2 * normal(3000, 4, seed=1)
    cold = tc.transport(x, y)
    warm = tc.transport(x, y, start=cold.potential)
    assert warm.steps < cold.steps
    assert warm.gap <= 1e-3
    lost = tc.transport(x, y, start=100 * normal(100, seed=5))
    assert lost.value == pytest.approx(cold.value, rel=2e-3)


@pytest.mark.usefixtures("many_points")
def test_equal_calls_with_many_points_give_equal_bits() -> None:
    x, y = normal(100, 4, dtype=torch.float32), normal(2000, 4, seed=1, dtype=torch.float32)
    first, second = tc.transport(x, y), tc.transport(x, y)
    assert (first.value, first.lower, first.steps) == (second.value, second.lower, second.steps)
    assert torch.equal(first.potential, second.potential)


@pytest.mark.usefixtures("many_points")
@pytest.mark.parametrize("max_steps", [5, 20])
def test_max_steps_bounds_the_passes_with_many_points(max_steps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.ConvergenceWarning)
        result = tc.transport(normal(100, 4), 2 * normal(800, 4, seed=1), tolerance=1e-9, max_steps=max_steps)
    assert result.steps <= max_steps


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("p", [1, 2])
def test_the_dual_alone_is_nearly_the_best(p: int, dimension: int) -> None:
    x, y = normal(30, dimension), normal(3000, dimension, seed=1)
    b = torch.rand(30, generator=torch.Generator().manual_seed(2))
    b[4] = 0
    problem = make_problem(x, y, p, b)
    found = solve_dual(problem, tolerance=1e-3, start=None, max_steps=100)
    exact = tc.transport(x, y, p, b, exact=True)
    assert exact.value * (1 - 1e-3) <= found.lower <= exact.value * (1 + 1e-12)
    assert float(b.double() @ found.potential) == pytest.approx(0, abs=1e-12)
    reduced = cost_matrix(x, y, p) - found.potential
    assert torch.allclose(reduced.amin(1), found.transform, atol=1e-9)


def test_the_dual_alone_where_every_sample_lies_on_a_point() -> None:
    """Nine of ten samples at 0, points of equal weight at 0 and 1: 0.4 travel by 1."""
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    y = torch.cat((torch.zeros(9, 2), x[1:]))
    assert solve_dual(make_problem(x, y, 2), tolerance=1e-3, start=None, max_steps=100).lower == pytest.approx(0.4)


@pytest.mark.parametrize("light", [0.0, 1e-16])
def test_every_sample_on_the_line_has_a_point(light: float) -> None:
    """One without weight goes where its neighbours go."""
    samples, weights = [0.0, 1.0, 2.0, 3.0, 4.0], torch.tensor([1.0, light, 1.0, 1.0, light], dtype=torch.float64)
    result = tc.transport([10.0, 0.0], samples, sample_weights=weights)
    assert sorted(set(result.plan.rows.tolist())) == [0, 1, 2, 3, 4]
    assert result.assignment[[0, 1, 3, 4]].tolist() == [1, 1, 0, 0]
    assert result.assignment[2] in (0, 1)  # which is split


def test_autocast_and_inference_mode_stay_outside() -> None:
    """A cell that half precision takes for the nearest one would put the lower bound too high."""
    x, y = normal(20, 3).float(), normal(3000, 3, seed=1).float()
    plain = tc.transport(x, y)
    with torch.autocast("cpu"), torch.inference_mode():
        found = tc.transport(x, y)
        certified = tc.certify(x, y, seed=0)
        built = tc.build_coreset(y, 5, restarts=2, steps=5)
    assert torch.equal(found.potential, plain.potential)
    assert (found.value, found.lower) == (plain.value, plain.lower)
    assert not found.potential.is_inference()
    assert certified.lower == tc.certify(x, y, seed=0).lower
    assert built.transport.value == tc.build_coreset(y, 5, restarts=2, steps=5).transport.value


@functools.cache
def at_scale_one(p: float, n: int) -> tuple[Tensor, tc.Transport]:
    """Samples, and the transport of the first n of them to all."""
    y = torch.randn(1000, 3, generator=seeded())
    return y, tc.transport(y[:n], y, p)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("n", [10, 300])
@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e-17, 1e13, 1e17, 1e30])
def test_float32_whose_squares_it_cannot_hold(p: float, n: int, scale: float) -> None:
    y, here = at_scale_one(p, n)
    there = tc.transport(scale * y[:n], scale * y, p)
    assert there.gap <= 1e-3
    assert there.value / scale**p == pytest.approx(here.value, rel=1e-3)
    assert there.lower / scale**p <= here.value * (1 + 1e-5)


@functools.cache
def certified_at_scale_one(n: int) -> tuple[Tensor, tc.Certificate]:
    y = torch.randn(2000, 3, generator=seeded())
    return y, tc.certify(y[:n], y, samples=1500, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 50, 300])
@pytest.mark.parametrize("scale", [1e-25, 1e20])
def test_other_doors_know_what_float32_cannot_hold(n: int, scale: float) -> None:
    y, here = certified_at_scale_one(n)
    there = tc.certify(scale * y[:n], scale * y, samples=1500, seed=0)
    assert (there.lower / scale, there.upper / scale) == pytest.approx((here.lower, here.upper), rel=1e-2)
    stream = tc.CoresetLoss(online=True)
    if scale < 1:  # the value is so small that float32 makes it 0
        assert stream(scale * y[:n], scale * y).item() == 0
    else:
        with pytest.raises(ValueError, match=r"which torch\.float32 cannot hold"):
            stream(scale * y[:n], scale * y)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_what_float64_cannot_hold_is_refused(scale: float, generator: torch.Generator) -> None:
    y = scale * torch.randn(100, 3, generator=generator, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^points, samples: got numbers of up to .* Divide both by their scale"):
        tc.transport(y[:10], y)
