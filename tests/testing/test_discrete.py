"""The discrete problems and the monotone coupling, against the network simplex of POT."""

import math

import numpy as np
import ot
import pytest
import torch

from torchcoreset.testing import DISCRETE_PROBLEMS, E1, DiscreteProblem, line_transport

every_problem = pytest.mark.parametrize("problem", DISCRETE_PROBLEMS, ids=lambda problem: problem.name)
every_line_problem = pytest.mark.parametrize(
    "problem", [q for q in DISCRETE_PROBLEMS if q.points.shape[1] == 1], ids=lambda problem: problem.name
)
every_power = pytest.mark.parametrize("p", [1, 2])


def normalised(weights: torch.Tensor) -> torch.Tensor:
    return weights / weights.sum()


def simplex_plan(problem: DiscreteProblem, p: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An optimal plan (m, n) by the network simplex, and the cost (m, n)."""
    cost = torch.cdist(problem.samples, problem.points, compute_mode="donot_use_mm_for_euclid_dist") ** p
    weights = normalised(problem.sample_weights).numpy(), normalised(problem.point_weights).numpy()
    return torch.from_numpy(ot.emd(*weights, cost.numpy())), cost


def random_line(n: int, m: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unsorted points and samples with weights of any sum."""
    generator = torch.Generator().manual_seed(seed)

    def normal(count: int) -> torch.Tensor:
        return torch.randn(count, 1, dtype=torch.float64, generator=generator)

    return normal(n), 2 * normal(m) + 1, 3 * normal(n)[:, 0].square(), normal(m)[:, 0].square()


def dual_value(
    points: torch.Tensor, samples: torch.Tensor, v: torch.Tensor, p: float, b: torch.Tensor, a: torch.Tensor
) -> float:
    cost = (samples - points.T).abs() ** p
    return float(normalised(a) @ (cost - v).min(dim=1).values + normalised(b) @ v)


@every_problem
@every_power
def test_values_are_optimal(problem: DiscreteProblem, p: int) -> None:
    plan, cost = simplex_plan(problem, p)
    assert problem.values[p] == pytest.approx(float((plan * cost).sum()), rel=1e-12, abs=1e-12)


@every_problem
@every_power
def test_gradients_are_those_of_the_optimal_plan(problem: DiscreteProblem, p: int) -> None:
    plan, _ = simplex_plan(problem, p)
    difference = problem.points - problem.samples[:, None]  # (m, n, d)
    if p == 2:
        slope = 2 * difference
    else:
        slope = torch.nn.functional.normalize(difference, dim=-1)  # zero stays zero
    expected = (plan.unsqueeze(-1) * slope).sum(0)
    torch.testing.assert_close(problem.gradients[p], expected, rtol=1e-12, atol=1e-12)


@every_line_problem
@every_power
def test_gradients_are_central_differences(problem: DiscreteProblem, p: int) -> None:
    # piecewise linear or quadratic in each point, with symmetric kinks, so central differences are exact
    step = 1e-2

    def value(points: torch.Tensor) -> float:
        return line_transport(points, problem.samples, p, problem.point_weights, problem.sample_weights).value

    for i in range(len(problem.points)):
        shift = torch.zeros_like(problem.points)
        shift[i] = step
        slope = (value(problem.points + shift) - value(problem.points - shift)) / (2 * step)
        expected = float(problem.gradients[p][i])
        # the last digits of the value and of the points limit the difference
        rounding = 1e-15 * (problem.values[p] / step + abs(expected * float(problem.points.max())) / step)
        assert slope == pytest.approx(expected, abs=1e-9 + rounding)


@every_line_problem
@every_power
def test_the_coupling_solves_the_problems(problem: DiscreteProblem, p: int) -> None:
    weights = problem.point_weights, problem.sample_weights
    result = line_transport(problem.points, problem.samples, p, *weights)
    assert result.value == pytest.approx(problem.values[p], rel=1e-14, abs=1e-14)
    dual = dual_value(problem.points, problem.samples, result.potential, p, *weights)
    assert dual == pytest.approx(problem.values[p], rel=1e-14, abs=1e-13)


@every_problem
def test_shapes_and_dtypes_fit(problem: DiscreteProblem) -> None:
    (n, d), m = problem.points.shape, len(problem.samples)
    assert problem.samples.shape == (m, d)
    assert problem.point_weights.shape == (n,)
    assert problem.sample_weights.shape == (m,)
    assert {g.shape for g in problem.gradients.values()} == {(n, d)}
    tensors = problem.points, problem.samples, problem.point_weights, problem.sample_weights
    assert all(t.dtype == torch.float64 for t in (*tensors, *problem.gradients.values()))
    assert all(torch.equal(t, t.float().double()) for t in (problem.points, problem.samples))


def test_names_are_unique() -> None:
    assert len({problem.name for problem in DISCRETE_PROBLEMS}) == len(DISCRETE_PROBLEMS)


def test_a_missing_dual_shows_on_e1() -> None:
    for p, expected in [(1, 1.5), (2, 3.5)]:
        assert float((E1.samples - E1.points.T).abs().pow(p).min(dim=1).values.mean()) == expected


def test_the_optimum_of_e1() -> None:
    optimum = torch.tensor([[0.5], [2.5]])
    assert line_transport(optimum, E1.samples, p=2).value == 0.25
    assert line_transport(optimum, E1.samples, p=1).value == 0.5


def test_the_potential_range_of_e1() -> None:
    # any difference v_0 - v_1 in [-80, -60] is optimal; ours is the middle
    v = line_transport(E1.points, E1.samples, p=2).potential
    assert (v[0] - v[1]).item() == -70


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 7), (6, 1), (4, 9), (12, 5), (20, 60)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_coupling_agrees_with_the_simplex(p: float, n: int, m: int, seed: int) -> None:
    x, y, b, a = random_line(n, m, seed)
    result = line_transport(x, y, p, b, a)
    cost = (y - x.T).abs() ** p
    expected = ot.emd2(normalised(a).numpy(), normalised(b).numpy(), cost.numpy())
    assert result.value == pytest.approx(expected, rel=1e-11)
    torch.testing.assert_close(result.plan.sum(0), normalised(b))
    torch.testing.assert_close(result.plan.sum(1), normalised(a))
    assert float(result.plan.min()) >= 0
    assert float((result.plan * cost).sum()) == pytest.approx(result.value, rel=1e-13)
    assert dual_value(x, y, result.potential, p, b, a) == pytest.approx(result.value, rel=1e-12)
    assert float(normalised(b) @ result.potential) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("p", "metric"), [(1, "cityblock"), (2, "sqeuclidean")])
def test_the_coupling_agrees_with_pots_one_dimensional_solver(p: int, metric: str) -> None:
    x, y, b, a = random_line(15, 200, seed=4)
    weights = normalised(a).numpy(), normalised(b).numpy()
    expected = ot.emd2_1d(y[:, 0].numpy(), x[:, 0].numpy(), *weights, metric=metric)
    assert line_transport(x, y, p, b, a).value == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("n", "m"), [(3, 3), (7, 49), (10, 1000), (6, 4)])
def test_uniform_weights_whose_levels_meet(p: int, n: int, m: int) -> None:
    x, y, _, _ = random_line(n, m, seed=5)
    result = line_transport(x, y, p)
    uniform = torch.ones(n), torch.ones(m)
    explicit = line_transport(x, y, p, *uniform)
    cost = (y - x.T).abs() ** p
    expected = ot.emd2([], [], cost.numpy())
    assert result.value == pytest.approx(expected, rel=1e-12)
    dual = dual_value(x, y, result.potential, p, *(w.double() for w in uniform))
    assert dual == pytest.approx(result.value, rel=1e-12)
    torch.testing.assert_close(explicit.plan, result.plan)
    torch.testing.assert_close(explicit.potential, result.potential)


def test_zero_weights_and_ties_keep_the_dual_optimal() -> None:
    x = torch.tensor([[1.0], [1.0], [4.0], [-2.0], [9.0]], dtype=torch.float64)
    y = torch.tensor([[0.0], [0.0], [5.0], [5.0], [-7.0]], dtype=torch.float64)
    b = torch.tensor([0.2, 0.3, 0.0, 0.5, 0.0], dtype=torch.float64)
    a = torch.tensor([0.25, 0.25, 0.5, 0.0, 0.0], dtype=torch.float64)
    for p in (1, 1.5, 2):
        result = line_transport(x, y, p, b, a)
        cost = (y - x.T).abs() ** p
        assert result.value == pytest.approx(ot.emd2(a.numpy(), b.numpy(), cost.numpy()), rel=1e-13)
        assert dual_value(x, y, result.potential, p, b, a) == pytest.approx(result.value, rel=1e-13)


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_translation_scale_permutation_and_splitting(p: float) -> None:
    x, y, b, a = random_line(6, 11, seed=6)
    result = line_transport(x, y, p, b, a)
    moved = line_transport(3 * x + 5, 3 * y + 5, p, b, a)
    assert moved.value == pytest.approx(3**p * result.value, rel=1e-12)
    order, rows = torch.randperm(6, generator=torch.Generator().manual_seed(0)), torch.arange(10, -1, -1)
    shuffled = line_transport(x[order], y[rows], p, b[order], a[rows])
    torch.testing.assert_close(shuffled.potential, result.potential[order])
    torch.testing.assert_close(shuffled.plan, result.plan[rows][:, order])
    split = line_transport(x, torch.cat([y, y[:1]]), p, b, torch.cat([a[:1] / 4, a[1:], 3 * a[:1] / 4]))
    assert split.value == pytest.approx(result.value, rel=1e-12)
    torch.testing.assert_close(split.potential, result.potential)


def test_many_samples_approach_the_distribution() -> None:
    x = torch.tensor([[0.9], [0.3]])
    y = torch.from_numpy((np.arange(10_000) + 0.5) / 10_000).unsqueeze(-1)
    assert line_transport(x, y, p=2).value == pytest.approx(1 / 48 + (0.05**2 + 0.15**2) / 2, abs=1e-8)


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, math.nan], [1.0, math.inf], [0.0, 0.0]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    x = torch.zeros(2, 1)
    with pytest.raises(ValueError, match="point_weights: got a negative, infinite or NaN weight, or zeros only"):
        line_transport(x, x, 2, point_weights=torch.tensor(weights))
    with pytest.raises(ValueError, match="sample_weights: got a negative"):
        line_transport(x, x, 2, sample_weights=torch.tensor(weights))


def test_other_shapes_and_powers_are_refused() -> None:
    x = torch.zeros(2, 1)
    with pytest.raises(ValueError, match=r"point_weights: got shape \(3,\); expected \(2,\)"):
        line_transport(x, x, 2, point_weights=torch.ones(3))
    with pytest.raises(ValueError, match=r"samples: got shape \(2, 2\); expected \(n, 1\)"):
        line_transport(x, torch.zeros(2, 2), 2)
    for p in (0.5, math.nan):
        with pytest.raises(ValueError, match="expected p >= 1"):
            line_transport(x, x, p)
