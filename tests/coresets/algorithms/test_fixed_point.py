"""Algorithm 2: it descends, longer steps pay, and the best is kept."""

import dataclasses
import importlib
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.benchmarks.problems import separated
from tests.data import normal
from torchcoreset.coresets.algorithms import Objective, fixed_point
from torchcoreset.coresets.algorithms.descend import settled
from torchcoreset.coresets.history import Step
from torchcoreset.transport import direct
from torchcoreset.transport.flow import SolvedPairs

objective_module = importlib.import_module("torchcoreset.coresets.algorithms.objective")


def run(steps: int, p: float, *, n: int = 8, m: int = 300, seed: int = 0, tolerance: float = 1e-6, weights=None):
    y = normal(m, 2, seed=seed)
    b = equal(n) if weights is None else weights
    objective, results = Objective(b, p), []
    state = fixed_point.init(y[:n].clone(), tolerance)
    for _ in range(steps):
        state, result = fixed_point.step(state, objective.on(y), tolerance)
        results.append(result)
    return state, results, y


def equal(n: int) -> Tensor:
    return torch.full((n,), 1 / n, dtype=torch.float64)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_plain_repetition_never_rises_by_more_than_the_gap(p: float, tolerance: float, monkeypatch) -> None:
    monkeypatch.setattr(fixed_point, "RELAXATION", 1.0)
    _, results, _ = run(12, p, m=200, tolerance=tolerance)
    for before, after in itertools.pairwise(results):
        assert after.lower <= before.value * (1 + 1e-9)
        assert after.value <= before.value / (1 - after.gap) * (1 + 1e-9)
    assert results[-1].value < 0.9 * results[0].value


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 3])
def test_longer_steps_are_lower_after_ten_of_them_than_plain_repetition(p: float, monkeypatch) -> None:
    def reached() -> float:
        return sum(min(r.value for r in run(10, p, n=10, m=500, seed=s, tolerance=1e-4)[1]) for s in range(3))

    relaxed = reached()
    monkeypatch.setattr(fixed_point, "RELAXATION", 1.0)
    assert relaxed < reached()


@pytest.mark.parametrize("seed", range(4))
def test_longer_steps_descend_for_p_2(seed: int) -> None:
    _, results, _ = run(12, 2, seed=seed)
    for before, after in itertools.pairwise(results):
        assert after.lower <= before.value * (1 + 1e-9)


def test_a_step_that_rose_is_taken_back_to_the_best_centres() -> None:
    state, _, y = run(3, 2)
    far = dataclasses.replace(state, points=y[-8:] + 5)
    assert torch.equal(fixed_point.step(far, Objective(equal(8), 2).on(y), 1e-6)[0].points, state.result)


def test_transports_get_more_accurate_as_the_value_settles() -> None:
    state, results, y = run(1, 2, tolerance=1e-6)
    assert state.accuracy == fixed_point.LOOSEST
    accuracies = []
    for _ in range(15):
        state, _ = fixed_point.step(state, Objective(equal(8), 2).on(y), 1e-6)
        accuracies.append(state.accuracy)
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[-1] < 1e-3
    assert results[0].gap <= fixed_point.LOOSEST


def test_a_potential_on_fewer_samples_starts_the_first_transport() -> None:
    state, _, _ = run(10, 2, m=2000)
    objective, again = Objective(equal(8), 2), normal(8000, 2, seed=5)
    warm, cold = (
        fixed_point.step(fixed_point.init(state.result, 1e-3, start), objective.on(again), 1e-3)[1]
        for start in (state.potential, None)
    )
    assert warm.steps <= cold.steps
    assert warm.value == pytest.approx(cold.value, rel=2e-2)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 7, 20])
def test_the_end_is_no_worse_than_anything_evaluated(p: float, steps: int) -> None:
    state, results, y = run(steps, p, m=200)
    final = tc.transport(state.result, y, p, tolerance=1e-6)
    assert final.value <= min(r.value for r in results) * (1 + 1e-5)


def test_p2_ends_where_points_are_means_of_their_cells() -> None:
    state, _, y = run(30, 2, n=5, m=300, seed=1)
    x = state.result
    matrix = tc.transport(x, y, 2, exact=True).plan.to_sparse().to_dense()
    torch.testing.assert_close(matrix.t() @ y / matrix.sum(0)[:, None], x, rtol=0, atol=2e-3)


def test_a_point_without_weight_stays() -> None:
    state, _, y = run(10, 2, n=4, weights=torch.tensor([0.0, 1.0, 1.0, 2.0]).double() / 4)
    assert torch.equal(state.result[0], y[0])
    assert not torch.equal(state.result[1:], y[1:4])


def test_at_the_optimum_nothing_moves() -> None:
    x = torch.tensor([[0.5], [2.5]])
    state = fixed_point.init(x, 1e-6)
    for _ in range(8):
        state, result = fixed_point.step(state, Objective(equal(2), 2).on(torch.arange(4.0)[:, None]), 1e-6)
        assert result.value == 0.25
        assert torch.equal(state.points, x)
    assert torch.equal(state.result, x)


def test_a_step_starts_from_the_cells_of_the_last_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer samples leave them than those of the last potential, most of which may be in wrong ones."""
    of, pivots = direct.solve_pairs, [0]
    y = separated(20, 8000, 8, distance=20)(0)[1]

    def counted(*arguments: Any) -> SolvedPairs:
        found = of(*arguments)
        pivots[-1] += int(found.pivots.sum())
        return found

    monkeypatch.setattr(direct, "solve_pairs", counted)
    value = tc.build_coreset(y, 20, restarts=1).transport.value
    pivots.append(0)
    monkeypatch.setattr(objective_module, "may_start_from_cells", lambda *_: False)
    without = tc.build_coreset(y, 20, restarts=1).transport.value
    assert value == pytest.approx(without, rel=1e-3)
    assert pivots[0] < 0.9 * pivots[1]


@pytest.mark.parametrize(("values", "settles"), [
    ([5, 4, 3, 2, 1.5], False),
    ([2, 1.1, 1.01, 1.001], False),  # the last fall is too long
    ([2, 1.1, 1.00101, 1.001004, 1.001002], True),
    ([2, 1.001009, 1.001006, 1.001003], False),  # not half of the one before
    ([2, 1.1, 1.00101, 1.001006, 1.001007], False),  # it has risen
    ([2, 1, 1, 1], True),
    ([2, 1.0005, 1.0004, 1.0003, 1.0002, 1.0001, 1], True),
    ([2, 1.0006, 1.0004, 1.0003, 1.0002, 1.0001, 1], False),
    ([1, 0], True),
    ([], False),
])  # fmt: skip
def test_a_value_settles(values: list[float], settles: bool) -> None:
    history = [Step(i, value, value, 0.0, 100, 0.0) for i, value in enumerate(values)]
    assert settled(history, 1e-3, 1e-3) == settles
    if len(values) > 1 and values[-1] > 0:
        assert not settled([*history[:-1], dataclasses.replace(history[-1], samples=99)], 1e-3, 1e-3)
