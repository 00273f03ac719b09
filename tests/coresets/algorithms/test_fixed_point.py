"""Algorithm 2: it descends, longer steps pay, and the best is kept."""

import itertools

import pytest
import torch

import torchcoreset as tc
from tests.data import normal
from torchcoreset.coresets.algorithms import fixed_point
from torchcoreset.coresets.algorithms.fixed_point import FixedPoint


def run(steps: int, p: float, *, n: int = 8, m: int = 300, seed: int = 0, tolerance: float = 1e-6, weights=None):
    y = normal(m, 2, seed=seed)
    b = torch.full((n,), 1 / n, dtype=torch.float64) if weights is None else weights
    descent = FixedPoint(y[:n].clone(), b, y, None, p, tolerance)
    results = []
    for _ in range(steps):
        results.append(descent.evaluate())
        descent.move(results[-1])
    return descent, results, y


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
        return sum(min(r.value for r in run(10, p, n=10, m=500, seed=s, tolerance=1e-4)[1]) for s in range(6))

    relaxed = reached()
    monkeypatch.setattr(fixed_point, "RELAXATION", 1.0)
    assert relaxed < reached()


@pytest.mark.parametrize("seed", range(4))
def test_longer_steps_descend_for_p_2(seed: int) -> None:
    _, results, _ = run(12, 2, seed=seed)
    for before, after in itertools.pairwise(results):
        assert after.lower <= before.value * (1 + 1e-9)


def test_a_step_that_rose_is_taken_back_to_the_best_centres() -> None:
    descent, _, y = run(3, 2)
    assert descent.best is not None
    centres = descent.best[1]
    descent.points = y[-8:] + 5
    descent.move(descent.evaluate())
    assert torch.equal(descent.points, centres)


def test_transports_get_more_accurate_as_the_value_settles() -> None:
    descent, results, _ = run(1, 2, tolerance=1e-6)
    assert descent.accuracy == fixed_point.LOOSEST
    accuracies = []
    for _ in range(15):
        descent.move(descent.evaluate())
        accuracies.append(descent.accuracy)
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[-1] < 1e-3
    assert results[0].gap <= fixed_point.LOOSEST


def test_a_potential_on_fewer_samples_starts_the_first_transport() -> None:
    descent, _, _ = run(10, 2, m=2000)
    b, again = descent.weights, normal(8000, 2, seed=5)
    warm = FixedPoint(descent.finish(), b, again, None, 2, 1e-3, potential=descent.potential).evaluate()
    cold = FixedPoint(descent.finish(), b, again, None, 2, 1e-3).evaluate()
    assert warm.steps <= cold.steps
    assert warm.value == pytest.approx(cold.value, rel=2e-2)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 7, 20])
def test_the_end_is_no_worse_than_anything_evaluated(p: float, steps: int) -> None:
    descent, results, y = run(steps, p, m=200)
    final = tc.transport(descent.finish(), y, p, tolerance=1e-6)
    assert final.value <= min(r.value for r in results) * (1 + 1e-5)


def test_p2_ends_where_points_are_means_of_their_cells() -> None:
    descent, _, y = run(30, 2, n=5, m=300, seed=1)
    x = descent.finish()
    matrix = tc.transport(x, y, 2, exact=True).plan.to_sparse().to_dense()
    torch.testing.assert_close(matrix.t() @ y / matrix.sum(0)[:, None], x, rtol=0, atol=2e-3)


def test_a_point_without_weight_stays() -> None:
    descent, _, y = run(10, 2, n=4, weights=torch.tensor([0.0, 1.0, 1.0, 2.0]).double() / 4)
    assert torch.equal(descent.finish()[0], y[0])
    assert not torch.equal(descent.finish()[1:], y[1:4])


def test_at_the_optimum_nothing_moves() -> None:
    x = torch.tensor([[0.5], [2.5]])
    descent = FixedPoint(x, torch.full((2,), 0.5).double(), torch.arange(4.0)[:, None], None, 2, 1e-6)
    for _ in range(8):
        result = descent.evaluate()
        descent.move(result)
        assert result.value == 0.25
        assert torch.equal(descent.points, x)
    assert torch.equal(descent.finish(), x)
