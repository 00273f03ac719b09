"""Moving the excess over lists: with full lists what `balance` does, with shorter ones no less than is possible."""

import numpy as np
import ot
import pytest

from tests.data import seeds
from tests.transport.flow.flows import ROUNDING, WEIGHTS, assert_feasible, instance
from torchcoreset.transport.flow.list_arcs import ArcLists
from torchcoreset.transport.flow.min_cost_flow import Balanced, balance

in_time = pytest.mark.timeout(10)  # paths must not run in circles, nor rounds go on that move nothing


def listed(cost: np.ndarray, allowed: np.ndarray) -> ArcLists:
    """Lists of the allowed (m, n) pairs."""
    rows, cols = np.nonzero(allowed)
    return ArcLists(np.searchsorted(rows, np.arange(len(cost) + 1)), cols, cost[rows, cols])


def full(cost: np.ndarray) -> ArcLists:
    return listed(cost, np.ones(cost.shape, dtype=bool))


def start(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """Cells, masses, excess and potential to begin with."""
    cell = cost.argmin(1)
    return cell, a, np.bincount(cell, a, len(b)) - b, np.zeros(len(b))


def value_of(result: Balanced, cost: np.ndarray) -> float:
    return float(result.mass @ cost[result.rows, result.cols])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(12, quick=4))
@in_time
def test_full_lists_give_the_optimum(seed: int, weights: str) -> None:
    cost, a, b = instance(seed, weights)
    result = balance(full(cost), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[0.0])
    assert_feasible(result, a, b)
    value = value_of(result, cost)
    other = balance(cost, *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[0.0])
    assert value == pytest.approx(value_of(other, cost), rel=1e-10, abs=1e-12)
    assert value == pytest.approx(ot.emd2(a, b, cost), rel=1e-10, abs=1e-12)
    v = result.potential
    assert a @ (cost - v).min(1) + b @ v == pytest.approx(value, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_a_potential_is_improved_from_where_it_is(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    v = 0.3 * np.random.default_rng(seed).normal(size=len(b))
    cell = (cost - v).argmin(1)
    excess = np.bincount(cell, a, len(b)) - b
    result = balance(full(cost), cell, a, excess, v, arc_tolerance=ROUNDING, suboptimality=[0.0])
    assert_feasible(result, a, b)
    optimum = ot.emd2(a, b, cost)
    assert value_of(result, cost) == pytest.approx(optimum, rel=1e-10)
    u = result.potential
    assert a @ (cost - u).min(1) + b @ u == pytest.approx(optimum, rel=1e-10)


@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_short_lists_give_the_optimum_of_what_they_allow(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    allowed = np.random.default_rng(seed).random(cost.shape) < 0.7
    allowed[np.arange(len(a)), cost.argmin(1)] = True
    allowed[:, 0] = allowed[0] = True
    result = balance(listed(cost, allowed), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[0.0])
    assert allowed[result.rows, result.cols].all()
    dear = np.where(allowed, cost, 1e6)
    optimum = ot.emd2(a, b, dear)
    if optimum < 1e2:  # else not all mass has a place on the lists
        assert_feasible(result, a, b)
        assert value_of(result, cost) == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_a_tolerance_gives_feasible_plans_above_the_optimum(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    exact, loose, hasty = (
        balance(full(cost), *start(cost, a, b), arc_tolerance=arc_tolerance, suboptimality=[budget])
        for arc_tolerance, budget in ((ROUNDING, 0.0), (0.2, 0.0), (1e-3, 0.01))
    )
    for result in (loose, hasty):
        assert_feasible(result, a, b)
        assert value_of(result, cost) >= value_of(exact, cost) - 1e-12
    # every hop of mass pays at most the arc tolerance more than it must, and no path is longer than there are cells
    assert value_of(loose, cost) <= value_of(exact, cost) + 0.2 * len(b)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_an_optimal_plan_is_reached_by_way_of_suboptimal_ones(seed: int, weights: str) -> None:
    cost, a, b = instance(seed, weights)
    result = balance(full(cost), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[0.3, 0.03, 0.0])
    assert_feasible(result, a, b)
    assert value_of(result, cost) == pytest.approx(ot.emd2(a, b, cost), rel=1e-10, abs=1e-12)


def crowded(seed: int, weights: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Many small samples, and points of which a few get far too much: costs (m, n), sample and point weights."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(25, 2)), 0.5 * rng.normal(size=(300, 2))
    a, b = (np.ones(300), np.ones(25)) if weights == "equal" else (rng.random(300), rng.random(25))
    return ((y[:, None] - x) ** 2).sum(2), a / a.sum(), b / b.sum()


@pytest.mark.parametrize("budget", [0.0, 1e-3, 1e-2, 1e-1])
@pytest.mark.parametrize("weights", ["equal", "random"])
@pytest.mark.parametrize("seed", seeds(4, quick=1))
@in_time
def test_the_loss_keeps_to_the_budget(seed: int, weights: str, budget: float) -> None:
    cost, a, b = crowded(seed, weights)
    result = balance(full(cost), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[budget])
    assert_feasible(result, a, b)
    v = result.potential
    gap = value_of(result, cost) - (a @ (cost - v).min(1) + b @ v)
    assert -1e-12 <= gap <= 1.1 * budget + 1e-12


def test_a_budget_saves_rounds() -> None:
    cost, a, b = crowded(0, "equal")
    exact, loose = (
        balance(full(cost), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[budget])
        for budget in (0.0, 1e-2)
    )
    assert 0 < loose.rounds < exact.rounds / 2


@pytest.mark.parametrize("seed", seeds(4, quick=1))
@in_time
def test_full_and_short_lists_that_hold_all_that_is_used_agree(seed: int) -> None:
    cost, a, b = crowded(seed, "random")
    whole = balance(full(cost), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[0.0])
    allowed = cost <= np.sort(cost, 1)[:, 14:15]
    allowed[whole.rows, whole.cols] = True
    short = balance(listed(cost, allowed), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[0.1, 0.0])
    assert_feasible(short, a, b)
    assert value_of(short, cost) == pytest.approx(value_of(whole, cost), rel=1e-10)


@pytest.mark.parametrize("budget", [0.0, 1e-2])
@pytest.mark.parametrize("seed", seeds(4, quick=1))
@in_time
def test_rounding_does_not_choose_among_ways_that_are_equally_long(seed: int, budget: float) -> None:
    # on a grid nearly all ways are as long as others; processes that round differently must agree on what moves
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 6, size=(30, 2)), rng.integers(0, 6, size=(400, 2))
    cost = ((y[:, None] - x) ** 2).sum(2).astype(float)
    a, b = np.full(400, 1 / 400), np.full(30, 1 / 30)
    first, *others = (
        balance(full(noisy), *start(cost, a, b), arc_tolerance=1e-9, suboptimality=[budget])
        for noisy in (cost, *(cost + 1e-13 * rng.normal(size=cost.shape) for _ in range(3)))
    )
    for other in others:
        np.testing.assert_allclose(other.potential, first.potential, atol=1e-9)
        np.testing.assert_array_equal(
            np.bincount(other.cols, minlength=len(b)), np.bincount(first.cols, minlength=len(b))
        )


def test_a_sample_has_one_entry_a_cell() -> None:
    cost, a, b = crowded(1, "random")
    result = balance(full(cost), *start(cost, a, b), arc_tolerance=ROUNDING, suboptimality=[0.1, 0.0])
    assert len(np.unique(result.rows * len(b) + result.cols)) == len(result.rows)


def test_a_sample_is_split_between_cells() -> None:
    cost, b = np.array([[0.0, 1.0, 3.0]]), np.array([0.5, 0.3, 0.2])
    result = balance(full(cost), *start(cost, np.ones(1), b), arc_tolerance=ROUNDING, suboptimality=[0.0])
    held = dict(zip(result.cols.tolist(), result.mass.tolist(), strict=True))
    assert held == pytest.approx({0: 0.5, 1: 0.3, 2: 0.2})
    assert result.rows.tolist() == [0, 0, 0]


def test_balanced_cells_stay_as_they_are() -> None:
    cost, v = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.1, 0.0])
    result = balance(
        full(cost), np.array([0, 1]), np.full(2, 0.5), np.zeros(2), v, arc_tolerance=ROUNDING, suboptimality=[0.0]
    )
    assert result.rounds == 0
    assert result.potential.tolist() == [0.1, 0.0]
    assert list(zip(result.rows, result.cols, result.mass, strict=True)) == [(0, 0, 0.5), (1, 1, 0.5)]


@in_time
@pytest.mark.parametrize("budget", [0.0, 0.01])
@pytest.mark.parametrize("cols", [[0, 1], [1]])
def test_what_finds_no_path_stays(cols: list[int], budget: float) -> None:
    # the only boundary sample is in cell 1, so the excess of cell 0 cannot leave it
    lists = ArcLists(np.array([0, len(cols)]), np.array(cols), np.ones(len(cols)))
    result = balance(
        lists,
        np.array([1]),
        np.array([0.1]),
        np.array([0.3, -0.3]),
        np.zeros(2),
        arc_tolerance=ROUNDING,
        suboptimality=[budget],
    )
    assert (result.rows.tolist(), result.cols.tolist(), result.mass.tolist()) == ([0], [1], [0.1])
    assert result.potential.tolist() == [0.0, 0.0]


@in_time
def test_what_finds_no_path_does_not_stop_the_rest() -> None:
    # cells 0 and 1 list each other, 2 and 3 list nobody but themselves
    allowed = np.eye(4, dtype=bool)
    allowed[0, 1] = True
    cost, excess = 1 - np.eye(4), np.array([0.1, -0.1, 0.1, -0.1])
    result = balance(
        listed(cost, allowed),
        np.arange(4),
        np.full(4, 0.25),
        excess,
        np.zeros(4),
        arc_tolerance=ROUNDING,
        suboptimality=[0.0],
    )
    np.testing.assert_allclose(np.bincount(result.cols, result.mass), [0.15, 0.35, 0.25, 0.25], atol=1e-15)


@in_time
@pytest.mark.parametrize("budget", [0.0, 0.01])
def test_a_bottleneck_of_next_to_nothing_does_not_stop_the_rest(budget: float) -> None:
    # the cheapest way from 0 to 2 leads through cell 1, which holds next to nothing
    cost = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    a, b = np.array([1.0 - 1e-13, 1e-13, 0.0]), np.array([0.5, 1e-13, 0.5 - 1e-13])
    result = balance(full(cost), np.arange(3), a, a - b, np.zeros(3), arc_tolerance=ROUNDING, suboptimality=[budget])
    np.testing.assert_allclose(np.bincount(result.cols, result.mass, 3), b, atol=1e-11)


@in_time
@pytest.mark.parametrize("n", [3, 100, 1000])
def test_no_path_runs_in_circles_between_points_that_coincide(n: int) -> None:
    # a chain so long that its length rounds away any toll, and at its end two points in one place
    x = np.append(np.arange(n - 1.0), n - 2.0)
    cost = np.abs(x[:, None] - x)
    mass, excess = np.full(n, 1 / n), np.zeros(n)
    excess[0], excess[-1] = 0.5 / n, -0.5 / n
    result = balance(
        listed(cost, cost <= 1),
        np.arange(n),
        mass,
        excess,
        np.zeros(n),
        arc_tolerance=ROUNDING,
        suboptimality=[0.0],
    )
    np.testing.assert_allclose(np.bincount(result.cols, result.mass, n), mass - excess, atol=1e-15)
    assert value_of(result, cost) == pytest.approx(0.5 / n * (n - 2), rel=1e-12)


def test_inputs_are_not_written_to() -> None:
    cost, a, b = instance(5, "random")
    lists, arrays = full(cost), start(cost, a, b)
    everything = (*arrays, lists.offsets, lists.cols, lists.cost)
    before = [array.copy() for array in everything]
    balance(lists, *arrays, arc_tolerance=ROUNDING, suboptimality=[0.0])
    for array, copy in zip(everything, before, strict=True):
        np.testing.assert_array_equal(array, copy)
