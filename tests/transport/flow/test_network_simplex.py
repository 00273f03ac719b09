"""The network simplex: optimal plans and potentials of whatever samples and lists it is given."""

import threading
import time

import numpy as np
import ot
import pytest

from tests.data import seeds
from tests.transport.flow.flows import (
    KINDS,
    WEIGHTS,
    assert_feasible,
    crowded,
    dual_of,
    full,
    instance,
    listed,
    points_of,
    solved,
    start,
    value_of,
)  # fmt: skip
from torchcoreset.transport import compiled
from torchcoreset.transport.flow import CandidateArcs, balance, nearest_cells

in_time = pytest.mark.timeout(10)  # pivots must not run in circles


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(12, quick=4))
@in_time
def test_plan_and_potential_are_optimal(seed: int, weights: str) -> None:
    cost, a, b = instance(seed, weights)
    optimum = ot.emd2(a, b, cost)
    for costs in (cost, full(cost)):
        result = balance(costs, *start(cost, a, b))
        assert_feasible(result, a, b)
        assert value_of(result, cost) == pytest.approx(optimum, rel=1e-10, abs=1e-12)
        assert dual_of(result.potential, cost, a, b) == pytest.approx(optimum, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("weights", ["equal", "skew"])
@pytest.mark.parametrize("kind", KINDS)
@in_time
def test_no_kind_of_data_is_an_exception(kind: str, weights: str, p: float) -> None:
    for seed in range(20):
        cost, a, b = instance(seed, weights, kind, p)
        result = solved(cost, a, b)
        assert_feasible(result, a, b)
        value = value_of(result, cost)
        # bounds that meet need no other solver, and POT's is true to about 1e-9 where costs span many powers of ten
        assert dual_of(result.potential, cost, a, b) == pytest.approx(value, rel=1e-11, abs=1e-15 * cost.max())


@in_time
def test_samples_send_what_they_have_beside_a_heavy_one() -> None:
    """It takes part in most pivots, whose rounding exceeded what light samples have."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(150, 2)), rng.normal(size=(600, 2))
    a, b = np.full(600, 1e-9), rng.dirichlet(np.full(150, 0.3))
    a[5] = 1
    a /= a.sum()
    cost = ((y[:, None] - x) ** 2).sum(2)
    for costs in (cost, full(cost)):
        result = balance(costs, *start(cost, a, b))
        np.testing.assert_allclose(np.bincount(result.rows, result.mass, 600), a, rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@in_time
def test_cells_of_many_samples_are_balanced_too(kind: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, y, weights = points_of(kind, 6, rng), points_of(kind, 300, rng), (rng.random(300) ** 4, rng.random(6))
        cost, (a, b) = ((y[:, None] - x) ** 2).sum(2), (w / w.sum() for w in weights)
        by_samples = balance(full(cost), *start(cost, a, b))  # pairs of cells are priced on all costs, not on lists
        lost = np.where(np.arange(6) == seed % 6, 2 * cost.max(), 0.0)  # one cell holds every sample
        for v in (None, lost):
            result = balance(cost, *start(cost, a, b, v))
            assert_feasible(result, a, b)
            assert value_of(result, cost) == pytest.approx(value_of(by_samples, cost), rel=1e-11)
            assert dual_of(result.potential, cost, a, b) == pytest.approx(value_of(result, cost), rel=1e-11)


@pytest.mark.parametrize("kind", ["smooth", "repeated", "far groups"])
@pytest.mark.parametrize(("n", "m"), [(4, 1200), (1024, 2100), (128, 16500)])
@in_time
def test_every_way_of_pricing_finds_the_optimum(n: int, m: int, kind: str) -> None:
    # cells of so many samples that pairs keep several; more costs than caches hold; and most of the samples in one cell
    rng = np.random.default_rng(0)
    x, y, b = points_of(kind, n, rng), points_of(kind, m, rng), rng.random(n) + 0.1
    cost = ((y[:, None] - x) ** 2).sum(2)
    a, b = np.full(m, 1 / m), b / b.sum()
    v = np.where(np.arange(n) == 1, cost.mean() if m > n * 4 else 0.0, 0.0)
    result = balance(cost, *start(cost, a, b, v))
    assert_feasible(result, a, b)
    assert dual_of(result.potential, cost, a, b) == pytest.approx(value_of(result, cost), rel=1e-11)


@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_a_potential_is_improved_from_where_it_is(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    v = 0.3 * np.random.default_rng(seed).normal(size=len(b))
    result = balance(full(cost), *start(cost, a, b, v))
    assert_feasible(result, a, b)
    optimum = ot.emd2(a, b, cost)
    assert value_of(result, cost) == pytest.approx(optimum, rel=1e-10)
    assert dual_of(result.potential, cost, a, b) == pytest.approx(optimum, rel=1e-10)


def test_a_good_start_saves_pivots() -> None:
    cost, a, b = crowded(0)
    cold = solved(cost, a, b)
    warm = balance(cost, *start(cost, a, b, cold.potential + 1e-3))
    assert 0 < warm.pivots < cold.pivots / 5


@pytest.mark.parametrize("seed", seeds(8, quick=4))
@in_time
def test_short_lists_give_the_optimum_of_what_they_allow(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    allowed = np.random.default_rng(seed).random(cost.shape) < 0.7
    allowed[np.arange(len(a)), cost.argmin(1)] = True
    allowed[:, 0] = allowed[0] = True
    dear = np.where(allowed, cost, 1e6)
    optimum = ot.emd2(a, b, dear)
    for costs in (listed(cost, allowed), np.where(allowed, cost, np.inf)):
        result = balance(costs, *start(cost, a, b))
        assert allowed[result.rows, result.cols].all()
        if optimum < 1e2:  # else not all mass has a place on the lists
            assert_feasible(result, a, b)
            assert value_of(result, cost) == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize("seed", seeds(4, quick=1))
@in_time
def test_full_and_short_lists_that_hold_all_that_is_used_agree(seed: int) -> None:
    cost, a, b = crowded(seed, "random")
    whole = balance(full(cost), *start(cost, a, b))
    allowed = cost <= np.sort(cost, 1)[:, 14:15]
    allowed[whole.rows, whole.cols] = True
    short = balance(listed(cost, allowed), *start(cost, a, b))
    assert_feasible(short, a, b)
    assert value_of(short, cost) == pytest.approx(value_of(whole, cost), rel=1e-10)


def test_a_sample_is_split_between_cells() -> None:
    cost, b = np.array([[0.0, 1.0, 3.0]]), np.array([0.5, 0.3, 0.2])
    result = solved(cost, np.ones(1), b)
    held = dict(zip(result.cols.tolist(), result.mass.tolist(), strict=True))
    assert held == pytest.approx({0: 0.5, 1: 0.3, 2: 0.2})
    assert result.rows.tolist() == [0, 0, 0]


def test_balanced_cells_stay_as_they_are() -> None:
    cost, v = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.1, 0.0])
    for costs in (cost, full(cost)):
        result = balance(costs, np.array([0, 1]), np.full(2, 0.5), np.zeros(2), v)
        assert result.pivots == 0
        assert result.potential.tolist() == [0.1, 0.0]
        assert list(zip(result.rows, result.cols, result.mass, strict=True)) == [(0, 0, 0.5), (1, 1, 0.5)]


@in_time
@pytest.mark.parametrize("cols", [[0, 1], [1]])
def test_what_finds_no_path_stays(cols: list[int]) -> None:
    # the only boundary sample is in cell 1, so the excess of cell 0 cannot leave it
    lists = CandidateArcs(np.array([0, len(cols)]), np.array(cols), np.ones(len(cols)))
    result = balance(lists, np.array([1]), np.array([0.1]), np.array([0.3, -0.3]), np.zeros(2))
    assert (result.rows.tolist(), result.cols.tolist(), result.mass.tolist()) == ([0], [1], [0.1])
    assert result.potential.tolist() == [0.0, 0.0]


@in_time
def test_what_finds_no_path_does_not_stop_the_rest() -> None:
    # cells 0 and 1 list each other, 2 and 3 list nobody but themselves
    allowed = np.eye(4, dtype=bool)
    allowed[0, 1] = True
    cost, excess = 1 - np.eye(4), np.array([0.1, -0.1, 0.1, -0.1])
    result = balance(listed(cost, allowed), np.arange(4), np.full(4, 0.25), excess, np.zeros(4))
    np.testing.assert_allclose(np.bincount(result.cols, result.mass), [0.15, 0.35, 0.25, 0.25], atol=1e-15)


@in_time
def test_a_bottleneck_of_next_to_nothing_does_not_stop_the_rest() -> None:
    # the cheapest way from 0 to 2 leads through cell 1, which holds next to nothing
    cost = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    a, b = np.array([1.0 - 1e-13, 1e-13, 0.0]), np.array([0.5, 1e-13, 0.5 - 1e-13])
    for costs in (cost, full(cost)):
        result = balance(costs, np.arange(3), a, a - b, np.zeros(3))
        np.testing.assert_allclose(np.bincount(result.cols, result.mass, 3), b, atol=1e-11)


@in_time
@pytest.mark.parametrize("n", [3, 100, 1000])
def test_a_long_chain_of_moves(n: int) -> None:
    # a chain with two points in one place at its end
    x = np.append(np.arange(n - 1.0), n - 2.0)
    cost = np.abs(x[:, None] - x)
    mass, excess = np.full(n, 1 / n), np.zeros(n)
    excess[0], excess[-1] = 0.5 / n, -0.5 / n
    result = balance(listed(cost, cost <= 1), np.arange(n), mass, excess, np.zeros(n))
    np.testing.assert_allclose(np.bincount(result.cols, result.mass, n), mass - excess, atol=1e-15)
    assert value_of(result, cost) == pytest.approx(0.5 / n * (n - 2), rel=1e-12)


@in_time
def test_ties_do_not_make_it_run_in_circles() -> None:
    # all costs are 0 or 1, and every vertex is degenerate
    rng = np.random.default_rng(0)
    for n, m in ((30, 30), (30, 300), (100, 50)):
        cost = rng.integers(0, 2, size=(m, n)).astype(float)
        a, b = np.full(m, 1 / m), np.full(n, 1 / n)
        result = solved(cost, a, b)
        assert_feasible(result, a, b)
        assert value_of(result, cost) == pytest.approx(dual_of(result.potential, cost, a, b), abs=1e-12)


def test_inputs_are_not_written_to() -> None:
    cost, a, b = instance(5, "random")
    lists, arrays = full(cost), start(cost, a, b)
    everything = (cost, *arrays, lists.offsets, lists.cols, lists.cost)
    before = [array.copy() for array in everything]
    balance(cost, *arrays)
    balance(lists, *arrays)
    for array, copy in zip(everything, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("seed", range(4))
def test_costs_in_any_layout_give_the_same_plan(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    arrays = start(cost, a, b)
    plain = balance(cost, *arrays)
    narrow = tuple(array.astype(np.int32) if array.dtype == np.int64 else array for array in arrays)
    wide = np.repeat(cost, 2, 1)[:, ::2]
    for other in (balance(np.asfortranarray(cost), *arrays), balance(wide, *narrow)):
        for name in ("rows", "cols", "mass", "potential"):
            np.testing.assert_array_equal(getattr(other, name), getattr(plain, name))


@pytest.mark.parametrize("n", [1, 2, 7, 64, 129])
def test_the_nearest_cell_is_the_first_of_the_least(n: int) -> None:
    rng = np.random.default_rng(n)
    cost, v = rng.integers(0, 5, size=(50, n)).astype(float), rng.integers(0, 3, size=n).astype(float)
    cell, reduced = nearest_cells(cost, v)
    np.testing.assert_array_equal(cell, (cost - v).argmin(1))
    np.testing.assert_array_equal(reduced, (cost - v).min(1))


def test_other_threads_run_meanwhile() -> None:
    cost, a, b = crowded(0)
    cost = np.tile(cost, (20, 1))
    arguments = start(cost, np.tile(a, 20) / 20, b)
    beats, stop = [], threading.Event()

    def beat() -> None:
        while not stop.wait(0.001):
            beats.append(time.perf_counter())

    thread = threading.Thread(target=beat)
    thread.start()
    began = time.perf_counter()
    balance(cost, *arguments)
    ended = time.perf_counter()
    stop.set()
    thread.join()
    assert any(began < at < ended for at in beats)


def test_without_its_compiled_part_the_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"transport._compiled is not there: .* pip install \."):
        compiled._library.__wrapped__()
