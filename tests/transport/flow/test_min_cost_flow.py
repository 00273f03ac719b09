"""Moving the excess: feasible always, optimal when nothing is allowed to travel at more than the least cost."""

import numpy as np
import ot
import pytest

from tests.data import seeds
from tests.transport.flow.flows import ROUNDING, WEIGHTS, assert_feasible, instance
from torchcoreset.transport.flow import dense_arcs
from torchcoreset.transport.flow.dense_arcs import DenseArcs
from torchcoreset.transport.flow.min_cost_flow import balance
from torchcoreset.transport.flow.north_west_corner import north_west_corner

in_time = pytest.mark.timeout(10)  # a round that moves nothing must not be the first of endless ones


def start(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arguments of `balance` at the potential zero."""
    cell = cost.argmin(1)
    return cost, cell, a, np.bincount(cell, a, len(b)) - b, np.zeros(len(b))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(12, quick=4))
@in_time
def test_balancing_is_optimal(seed: int, weights: str) -> None:
    cost, a, b = instance(seed, weights)
    result = balance(*start(a, b, cost), arc_tolerance=ROUNDING, suboptimality=[0.0])
    assert_feasible(result, a, b)
    value = result.mass @ cost[result.rows, result.cols]
    assert value == pytest.approx(ot.emd2(a, b, cost), rel=1e-10, abs=1e-12)
    v = result.potential
    assert a @ (cost - v).min(1) + b @ v == pytest.approx(value, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_a_tolerance_gives_feasible_plans_above_the_optimum(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    exact, loose, hasty = (
        balance(*start(a, b, cost), arc_tolerance=arc_tolerance, suboptimality=[budget])
        for arc_tolerance, budget in ((ROUNDING, 0.0), (0.2, 0.0), (1e-3, 0.01))
    )
    values = [plan.mass @ cost[plan.rows, plan.cols] for plan in (exact, loose, hasty)]
    assert values[0] <= min(values[1:]) + 1e-12
    for result in (loose, hasty):
        assert_feasible(result, a, b)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_an_optimal_plan_is_reached_by_way_of_suboptimal_ones(seed: int, weights: str) -> None:
    cost, a, b = instance(seed, weights)
    result = balance(*start(a, b, cost), arc_tolerance=ROUNDING, suboptimality=[0.3, 0.03, 0.0])
    assert_feasible(result, a, b)
    assert result.mass @ cost[result.rows, result.cols] == pytest.approx(ot.emd2(a, b, cost), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
@in_time
def test_an_excess_within_its_tolerance_stays(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    arguments = start(a, b, cost)
    excess = float(arguments[3].clip(min=0).sum())
    for excess_tolerance in (0.0, 0.3 * excess, excess):
        result = balance(*arguments, arc_tolerance=ROUNDING, suboptimality=[0.0], excess_tolerance=excess_tolerance)
        np.testing.assert_allclose(np.bincount(result.rows, result.mass, len(a)), a, atol=1e-12)
        left = float((np.bincount(result.cols, result.mass, len(b)) - b).clip(min=0).sum())
        assert left <= excess_tolerance + 1e-11
    np.testing.assert_array_equal(np.bincount(result.cols, result.mass, len(b)), np.bincount(arguments[1], a, len(b)))


def crowded(seed: int) -> tuple[np.ndarray, ...]:
    """Many small samples, and points of which a few get far too much: costs (m, n), sample and point weights."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(40, 2)), 0.5 * rng.normal(size=(600, 2))
    return ((y[:, None] - x) ** 2).sum(2), np.full(600, 1 / 600), np.full(40, 1 / 40)


@pytest.mark.parametrize("budget", [0.0, 1e-3, 1e-2, 1e-1])
@pytest.mark.parametrize("seed", seeds(4, quick=1))
@in_time
def test_the_loss_keeps_to_the_budget(seed: int, budget: float) -> None:
    cost, a, b = crowded(seed)
    result = balance(*start(a, b, cost), arc_tolerance=ROUNDING, suboptimality=[budget])
    assert_feasible(result, a, b)
    v = result.potential
    gap = result.mass @ cost[result.rows, result.cols] - (a @ (cost - v).min(1) + b @ v)
    assert -1e-12 <= gap <= 1.1 * budget + 1e-12


def test_a_budget_saves_rounds() -> None:
    cost, a, b = crowded(0)
    exact, loose = (
        balance(*start(a, b, cost), arc_tolerance=ROUNDING, suboptimality=[budget]) for budget in (0.0, 1e-2)
    )
    assert 0 < loose.rounds < exact.rounds / 2


def test_balanced_cells_stay_as_they_are() -> None:
    cost, v = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.1, 0.0])
    result = balance(
        cost, np.array([0, 1]), np.full(2, 0.5), np.zeros(2), v, arc_tolerance=ROUNDING, suboptimality=[0.0]
    )
    assert result.rounds == 0
    assert result.potential.tolist() == [0.1, 0.0]
    assert list(zip(result.rows, result.cols, result.mass, strict=True)) == [(0, 0, 0.5), (1, 1, 0.5)]


@in_time
@pytest.mark.parametrize("budget", [0.0, 0.01])
def test_what_finds_no_path_stays(budget: float) -> None:
    # the only boundary sample is in cell 1, so the excess of cell 0 cannot leave it
    result = balance(
        np.ones((1, 2)), np.array([1]), np.array([0.1]), np.array([0.3, -0.3]), np.zeros(2),
        arc_tolerance=ROUNDING, suboptimality=[budget],
    )  # fmt: skip
    assert (result.rows.tolist(), result.cols.tolist(), result.mass.tolist()) == ([0], [1], [0.1])


@in_time
@pytest.mark.parametrize("budget", [0.0, 0.01])
def test_a_bottleneck_of_next_to_nothing_does_not_stop_the_rest(budget: float) -> None:
    # the cheapest way from 0 to 2 leads through cell 1, which holds next to nothing
    cost = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    a, b = np.array([1.0 - 1e-13, 1e-13, 0.0]), np.array([0.5, 1e-13, 0.5 - 1e-13])
    cell = np.arange(3)
    result = balance(cost, cell, a, a - b, np.zeros(3), arc_tolerance=ROUNDING, suboptimality=[budget])
    assert_feasible(result, a, b)


@in_time
def test_inputs_are_not_written_to() -> None:
    cost, a, b = instance(5, "random")
    arrays = start(a, b, cost)
    before = [array.copy() for array in arrays]
    balance(*arrays, arc_tolerance=ROUNDING, suboptimality=[0.0])
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("seed", range(10))
def test_the_north_west_corner_rule_is_feasible(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    rows, cols = np.arange(len(a)), cost.argmin(1)
    excess = np.bincount(cols, a, len(b)) - b
    rows, cols, mass = north_west_corner(rows, cols, a, excess)
    assert mass.min() >= 0
    np.testing.assert_allclose(np.bincount(rows, mass, len(a)), a, atol=1e-14)
    np.testing.assert_allclose(np.bincount(cols, mass, len(b)), b, atol=1e-14)


def test_arcs_cost_what_the_cheapest_of_a_cell_pays() -> None:
    cost = np.array([[0.0, 3.0, 5.0], [0.0, 1.0, 9.0], [1.0, 1.5, 2.0]])
    cell = np.array([1, 0, 0])  # and nobody in cell 2
    arcs = DenseArcs(cost, cell, np.full(3, 1 / 3), np.zeros(3), ROUNDING)
    np.testing.assert_array_equal(arcs.arc, [[np.inf, 0.5, 1.0], [-3.0, np.inf, 2.0], [np.inf] * 3])


@pytest.mark.parametrize("budgets", [[0.0], [1e-2, 0.0]])
@in_time
def test_costs_held_by_cells_give_the_same_plan(budgets: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    cost, a, b = crowded(0)
    by_samples = balance(*start(a, b, cost), arc_tolerance=ROUNDING, suboptimality=budgets)
    monkeypatch.setattr(dense_arcs, "MANY", 0)
    by_cells = balance(*start(a, b, cost), arc_tolerance=ROUNDING, suboptimality=budgets)
    for name in ("rows", "cols", "mass", "potential"):
        np.testing.assert_array_equal(getattr(by_cells, name), getattr(by_samples, name))
