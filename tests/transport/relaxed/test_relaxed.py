"""Weights that the plan chooses, and mass that stays unmatched, beside a linear program and closed forms."""

import math

import pytest
import torch

import torchcoreset as tc
from tests.data import normal, seeded, seeds
from tests.transport.test_direct import KINDS, problem_of
from torchcoreset.testing import NORMAL, relaxed_value
from torchcoreset.transport.marginals import as_marginals
from torchcoreset.transport.relaxed import solve

CHOICES = ("free", (0.5, 2.0), (0.0, 1.3), (0.7, math.inf), None)


def bounds_of(weights: object, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Least and largest weights of n points."""
    low, high = (0.0, math.inf) if weights == "free" else (1.0, 1.0) if weights is None else weights
    return torch.full((n,), low / n, dtype=torch.float64), torch.full((n,), min(high / n, 1.0), dtype=torch.float64)


def check_plan(found: tc.Transport, weights: object, a: torch.Tensor, trim: float) -> None:
    """The marginals of the plan are what they may be."""
    m, n = found.plan.shape
    low, high = bounds_of(weights, n)
    received = found.plan.column_sums()
    sent = torch.zeros(m, dtype=torch.float64).index_add_(0, found.plan.rows, found.plan.mass)
    assert received.sum().item() == pytest.approx(1, abs=1e-10)
    assert bool((received >= low - 1e-11).all())
    assert bool((received <= high + 1e-11).all())
    assert bool((sent <= a / (1 - trim) + 1e-11).all())
    torch.testing.assert_close(found.weights, received, rtol=0, atol=1e-10)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("trim", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("weights", CHOICES, ids=str)
def test_small_problems_beside_a_linear_program(weights: object, trim: float, p: float) -> None:
    for seed, kind in enumerate(KINDS):
        x, y, _, a = problem_of(kind, 6, 40, seed)
        shift = y.median(0).values if kind == "offset" else 0.0  # the program has no digits to spare
        a = torch.ones(len(y)).double() if a is None else a
        found = tc.transport(x, y, p, weights, a, trim=trim, exact=True)
        low, high = bounds_of(weights, len(x))
        optimum = relaxed_value(x - shift, y - shift, p, low, high, a, trim)
        assert found.value == pytest.approx(optimum, rel=1e-6, abs=1e-12), kind
        assert found.lower <= optimum * (1 + 1e-6)
        assert found.gap <= 1e-9
        check_plan(found, weights, a / a.sum(), trim)


@pytest.mark.parametrize("weights", CHOICES, ids=str)
@pytest.mark.parametrize("kind", ["smooth", "clusters", "tails", "repeated", "offset", "integers"])
def test_large_problems_converge(kind: str, weights: object) -> None:
    for trim in (0.0, 0.02):
        x, y, _, _ = problem_of(kind, 60, 12_000, 3)
        a = torch.full((len(y),), 1 / len(y), dtype=torch.float64)
        found = tc.transport(x, y, 2, weights, trim=trim, tolerance=1e-4)
        assert found.status.value == "converged"
        assert found.gap <= 1e-4
        check_plan(found, weights, a, trim)
        again = tc.transport(x + 1e-3 * normal(*x.shape), y, 2, weights, trim=trim, start=found.potential)
        assert again.value == pytest.approx(found.value, rel=0.01)


def test_more_choice_never_costs_more() -> None:
    x, y = normal(20, 3), 2 * normal(500, 3, seed=1)
    values = [tc.transport(x, y, 2, w, exact=True).value for w in (None, (0.9, 1.1), (0.5, 2.0), (0.1, 10.0), "free")]
    assert values == sorted(values, reverse=True)
    trimmed = [(1 - s) * tc.transport(x, y, 2, trim=s, exact=True).value for s in (0.0, 0.01, 0.1, 0.5, 0.9)]
    assert trimmed == sorted(trimmed, reverse=True)


def test_bounds_that_leave_no_choice_are_equal_weights() -> None:
    x, y = normal(20, 3), normal(500, 3, seed=1)
    assert tc.transport(x, y, 2, (1, 1)).value == tc.transport(x, y).value
    assert tc.transport(x[:1], y, 2, "free").value == pytest.approx(tc.transport(x[:1], y).value)
    wide, free = tc.transport(x, y, 2, (0.0, 20.0)), tc.transport(x, y, 2, "free")
    assert wide.value == pytest.approx(free.value, rel=1e-12)


def test_free_weights_are_those_of_the_nearest_points() -> None:
    x, y = normal(7, 2), normal(300, 2, seed=1)
    found = tc.transport(x, y, 2, "free")
    nearest = torch.cdist(y, x).argmin(1)
    assert found.assignment.tolist() == nearest.tolist()
    torch.testing.assert_close(found.weights, torch.bincount(nearest, minlength=7).double() / 300)
    assert found.gap == 0
    assert found.potential.abs().max() == 0


def test_the_best_quantizer_of_a_normal_distribution() -> None:
    points, weights = NORMAL.quantizer(10, p=2)
    found = tc.transport(points, NORMAL.quantile_sample(200_000), 2, "free")
    assert found.value == pytest.approx(NORMAL.quantizer_value(10, p=2), rel=1e-3)
    torch.testing.assert_close(found.weights, weights, rtol=0, atol=1e-4)


def test_the_farthest_stay_unmatched() -> None:
    y = torch.cat((normal(99, 2), torch.full((1, 2), 1e6).double()))
    x = normal(5, 2, seed=2)
    found = tc.transport(x, y, 2, trim=0.01)
    assert found.assignment[-1] == -1
    assert bool((found.assignment[:-1] >= 0).all())
    assert found.value == pytest.approx(tc.transport(x, y[:-1], exact=True).value, rel=1e-3)
    assert found.transform[-1] == 0


def test_a_sample_may_stay_in_part() -> None:
    found = tc.transport(torch.tensor([[0.0]]), torch.tensor([[1.0], [2.0]]), 1, trim=0.25)
    assert found.value == pytest.approx(2 / 3 * 1 + 1 / 3 * 2)
    assert found.plan.to_sparse().to_dense()[:, 0].tolist() == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize("weights", CHOICES, ids=str)
def test_scale_shift_and_order_change_nothing(weights: object) -> None:
    x, y = normal(10, 2), 2 * normal(400, 2, seed=1)
    value = tc.transport(x, y, 3, weights, trim=0.05, exact=True).value
    order = torch.randperm(400, generator=seeded())
    assert tc.transport(x.flip(0), y[order], 3, weights, trim=0.05, exact=True).value == pytest.approx(value, rel=1e-9)
    moved = tc.transport(4 * x + 1024, 4 * y + 1024, 3, weights, trim=0.05, exact=True).value
    assert moved == pytest.approx(64 * value, rel=1e-9)
    half = tc.transport(x.float(), y.float(), 3, weights, trim=0.05).value
    assert half == pytest.approx(value, rel=1e-2)


@pytest.mark.parametrize("weights", [None, (0.5, 2.0)], ids=str)
@pytest.mark.parametrize("seed", seeds(4, quick=1))
def test_from_any_start(weights: object, seed: int) -> None:
    x, y = normal(40, 2, seed=seed), normal(3000, 2, seed=seed + 50)
    cold = tc.transport(x, y, 2, weights, trim=0.02, exact=True)
    for start in (cold.potential, cold.potential + 3, 0 * cold.potential, 10 * normal(40, seed=seed)):
        found = tc.transport(x, y, 2, weights, trim=0.02, start=start, exact=True)
        assert found.value == pytest.approx(cold.value, rel=1e-9)


def test_where_no_flow_keeps_the_marginals_a_rough_plan_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(self: object, engine: object, cells: solve.RelaxedCells, offered: object) -> tuple[torch.Tensor, None]:
        return cells.potential, None

    monkeypatch.setattr(solve._Solver, "_flow", lost)
    x, y = normal(10, 2), normal(400, 2, seed=1)
    for weights in (None, (0.5, 2.0)):
        with pytest.warns(tc.ConvergenceWarning):
            found = tc.transport(x, y, 2, weights, trim=0.1)
        check_plan(found, weights, torch.full((400,), 1 / 400, dtype=torch.float64), 0.1)
        assert found.lower < found.value


def test_the_knapsack_of_the_dual() -> None:
    marginals = as_marginals((0.5, 2.0), 4, "weights")
    assert marginals is not None
    height, level = marginals.cheapest(torch.tensor([3.0, 1.0, 2.0, 0.0]).double())
    # The cheapest point is filled to 2 / 4, and the next takes what is left above the least weights: 1 / 4.
    assert (height, level) == (0.5 * 0 + 0.25 * 1 + 0.125 * 2 + 0.125 * 3, 1.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("equal", "point_weights: got 'equal'; expected 'free', bounds"),
        ((2.0, 3.0), r"point_weights: got the bounds \(2.0, 3.0\); expected 0 <= low <= 1 <= high"),
        ((0.2, 0.8), "For weights of two points pass a list"),
        ((math.nan, 2.0), "expected 0 <= low"),
        ((-1, 2), "expected 0 <= low"),
    ],
)
def test_choices_that_cannot_be(weights: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.transport(normal(3, 2), normal(9, 2), 2, weights)


@pytest.mark.parametrize("trim", [-0.1, 1, 1.5, math.nan, None, "0.1", True])
def test_shares_that_cannot_be(trim: object) -> None:
    with pytest.raises(ValueError, match=r"trim: got .*; expected a share in \[0, 1\)"):
        tc.transport(normal(3, 2), normal(9, 2), 2, trim=trim)


def test_no_batch_chooses() -> None:
    x, y = normal(2, 3, 2), normal(2, 9, 2)
    with pytest.raises(ValueError, match="point_weights: got 'free' with a batch"):
        tc.transport(x, y, 2, "free")
    with pytest.raises(ValueError, match=r"trim: got 0.1 with a batch"):
        tc.wasserstein(x, y, trim=0.1)


@pytest.mark.parametrize("place", ["one place", "anywhere"])
@pytest.mark.parametrize("weights", CHOICES, ids=str)
def test_outliers_of_exactly_the_mass_that_stays_unmatched(weights: object, place: str) -> None:
    """Then any height of the potential between the largest cost of the others and theirs is optimal: the least is."""
    y = normal(1980, 2)
    far = 1e6 * (torch.ones(20, 2, dtype=torch.float64) if place == "one place" else normal(20, 2, seed=1))
    for seed in range(2):
        x = y[torch.randperm(1980, generator=seeded(seed))[: 10 + 20 * seed]]
        found = tc.transport(x, torch.cat((y, far)), 2, weights, trim=0.01, tolerance=1e-6)
        assert found.gap <= 1e-6
        assert found.value == pytest.approx(tc.transport(x, y, 2, weights, tolerance=1e-6).value, rel=2e-6)
        assert bool((found.plan.rows < 1980).all())
        assert float(found.potential.abs().max()) < 1e3


@pytest.mark.parametrize("weights", [None, "free"], ids=str)
def test_a_sample_that_is_nearly_all_is_matched_in_part(weights: object) -> None:
    """The first level left it unmatched, and with it all that was to be moved: the lower bound stayed near zero."""
    x, y = torch.zeros(1, 4, dtype=torch.float64), 1e-5 * normal(20, 4, seed=1).double()
    y[5] += 30
    a = torch.full((20,), 1e-9, dtype=torch.float64).index_fill_(0, torch.tensor([5]), 1.0)
    found = tc.transport(x, y, 2, weights, a, trim=0.1)
    assert found.status is tc.Status.CONVERGED
    low, high = bounds_of(weights, 1)
    assert found.value == pytest.approx(relaxed_value(x, y, 2, low, high, a, 0.1), rel=1e-3)


def test_points_lighter_than_a_part_of_a_sample_keep_their_mass() -> None:
    """Parts of less than 1e-9 of a sample were dropped as rounding, and the plan with them."""
    x, y = normal(20, 3).double(), 3 + normal(80, 3, seed=1).double()
    b = 10 ** torch.linspace(-12, 0, 20, dtype=torch.float64)
    found = tc.transport(x, y, 2, b, trim=0.1)
    assert found.status is tc.Status.CONVERGED
    torch.testing.assert_close(found.plan.column_sums(), b / b.sum(), rtol=0, atol=1e-12)
