"""Entropic transport against a long Sinkhorn iteration in float64, written as plainly as can be."""

import math

import pytest
import torch
from torch import Tensor

from tests.data import normal
from torchcoreset.transport import Status
from torchcoreset.transport.costs import as_cost
from torchcoreset.transport.entropic import evaluation as entropic
from torchcoreset.transport.entropic.evaluation import evaluate
from torchcoreset.transport.entropic.sinkhorn import self_entropic, solve_entropic
from torchcoreset.transport.problem import Problem, as_float64, make_problem

every_power = pytest.mark.parametrize("p", [1, 1.5, 2, 3])


def weighted(n: int = 6, m: int = 40, d: int = 2, p: float = 2) -> Problem:
    return make_problem(normal(n, d), 2 * normal(m, d, seed=1), p, normal(n, seed=2).abs(), normal(m, seed=3).abs())


def long_sinkhorn(problem: Problem, eta: float, steps: int = 20_000) -> tuple[float, Tensor, Tensor]:
    """OT_eta and both potentials, by alternate soft c-transforms until they stand still."""
    cost = torch.cdist(problem.y, problem.x, compute_mode="donot_use_mm_for_euclid_dist") ** problem.cost.p
    v = torch.zeros_like(problem.b)
    for _ in range(steps):
        f = -eta * ((v - cost) / eta + problem.b.log()).logsumexp(1)
        after = -eta * ((f[:, None] - cost) / eta + problem.a.log()[:, None]).logsumexp(0)
        still = float((after - v).abs().max()) <= 1e-14 * eta
        v = after
        if still:
            break
    f = -eta * ((v - cost) / eta + problem.b.log()).logsumexp(1)
    return float(problem.a @ f + problem.b @ v), v - problem.b @ v, f + problem.b @ v


def solved(problem: Problem, eta: float, **changes):
    settings = {"tolerance": 1e-11, "start": None, "max_steps": 500, "engine": "dense"} | changes
    return solve_entropic(problem, eta, **settings)


@every_power
@pytest.mark.parametrize("eta", [0.05, 0.5, 5, 500])
def test_newton_finds_what_a_long_iteration_finds(p: float, eta: float) -> None:
    problem = weighted(p=p)
    value, v, f = long_sinkhorn(problem, eta)
    found = solved(problem, eta)
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(value, rel=1e-10, abs=1e-13 * eta)
    torch.testing.assert_close(found.potential, v, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found.transform, f, rtol=1e-6, atol=1e-7)


@every_power
@pytest.mark.parametrize("eta", [0.05, 0.5, 5, 500])
def test_a_set_with_itself(p: float, eta: float) -> None:
    x, b = normal(12, 2), normal(12, seed=1).abs()
    b /= b.sum()
    cost = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") ** p
    v = torch.zeros_like(b)
    for _ in range(500):  # averaging gains a factor of 2 a step
        v = (v - eta * ((v - cost) / eta + b.log()).logsumexp(1)) / 2
    value, v = 2 * float(b @ v), v - b @ v
    found = self_entropic(x, b, as_cost(p), eta, tolerance=1e-11, max_steps=1000)
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(value, rel=1e-9, abs=1e-12 * eta)
    torch.testing.assert_close(found.potential, v, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found.transform - b @ found.transform, v, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("blur", [1e-3, 1e-2, 0.1, 1, 100])
def test_a_set_with_itself_takes_few_passes_at_any_blur(p: int, blur: float) -> None:
    x = normal(300, 2)
    b = torch.full((300,), 1 / 300, dtype=torch.float64)
    found = self_entropic(x, b, as_cost(p), p * blur**p, tolerance=1e-6, max_steps=100)
    assert found.status is Status.CONVERGED
    assert found.steps <= 12


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("blur", [1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_small_blurs_converge(p: int, blur: float, tolerance: float) -> None:
    problem = make_problem(normal(30, 2), normal(2000, 2, seed=1), p)
    found = solved(problem, p * blur**p, tolerance=tolerance)
    assert found.status is Status.CONVERGED
    assert found.marginal_error <= tolerance


def test_default_steps_are_enough_at_the_default_tolerance() -> None:
    for blur in (1e-3, 1e-2, 0.1, 1):
        problem = make_problem(normal(100, 2), normal(5000, 2, seed=1), 2)
        found = solved(problem, 2 * blur**2, tolerance=1e-3, max_steps=100)
        assert found.status is Status.CONVERGED


def test_the_value_errs_by_the_square_of_the_marginal_error() -> None:
    problem, eta = weighted(), 0.5
    best = solved(problem, eta)
    for error in (1e-1, 1e-2, 1e-3):
        near = evaluate(problem, best.potential + error * normal(6, seed=7), eta)
        assert near.marginal_error > error / 30
        assert 0 <= best.value - near.value <= 5 * error**2


def test_the_derivatives_are_those_of_the_value_at_any_potential() -> None:
    problem, eta, v = weighted(p=1.5), 0.7, normal(6, seed=8)
    x, y = problem.x.clone().requires_grad_(), problem.y.clone().requires_grad_()
    cost = (y[:, None] - x).norm(dim=2) ** 1.5
    f = -eta * ((v - cost) / eta + problem.b.log()).logsumexp(1)
    expected = torch.autograd.grad(problem.a @ f + problem.b @ v, (x, y))
    found = evaluate(problem, v, eta)
    torch.testing.assert_close(found.position_gradients(True, True), expected, rtol=1e-9, atol=1e-12)
    assert found.position_gradients(False, False) == (None, None)


def test_idle_points_have_the_potential_that_their_first_mass_would_have() -> None:
    x, y = normal(5, 2), normal(50, 2, seed=1)
    b = torch.tensor([1.0, 2.0, 0.0, 1.0, 1.0])
    found = solved(make_problem(x, y, 2, b), 0.3)
    _, _, f = long_sinkhorn(make_problem(x[b > 0], y, 2, b[b > 0]), 0.3)
    cost = (y - x[2]).square().sum(1)
    expected = -0.3 * ((f - cost) / 0.3 - math.log(50)).logsumexp(0)
    assert float(found.potential[2]) == pytest.approx(float(expected), abs=1e-8)
    assert found.mass[2] == 0


@pytest.mark.slow
def test_a_good_start_saves_passes_and_a_useless_one_does_no_harm() -> None:
    problem, eta = make_problem(normal(100, 2), normal(5000, 2, seed=1), 2), 0.05
    cold = solved(problem, eta, tolerance=1e-6)
    warm = solved(problem, eta, tolerance=1e-6, start=cold.potential + 3)
    assert warm.steps <= 3 < cold.steps
    for start in (1e30 * torch.eye(100, dtype=torch.float64)[0], 1e3 * normal(100, seed=5)):
        found = solved(problem, eta, tolerance=1e-6, start=start)
        assert found.status is Status.CONVERGED
        assert found.value == pytest.approx(cold.value, rel=1e-9)


def test_a_solve_that_runs_out_of_steps_says_so() -> None:
    found = solved(make_problem(normal(50, 4), normal(5000, 4, seed=1), 2), 0.01, tolerance=1e-9, max_steps=3)
    assert found.status is Status.MAX_STEPS
    assert found.marginal_error > 1e-9
    x, b = normal(50, 2), torch.full((50,), 0.02, dtype=torch.float64)
    assert self_entropic(x, b, as_cost(2), 1.0, tolerance=1e-9, max_steps=2).status is Status.MAX_STEPS


@pytest.mark.parametrize("p", [1, 2])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, p: int) -> None:
    problem = make_problem(normal(7, 3), normal(200, 3, seed=1), p)
    whole = solved(problem, 0.5)
    monkeypatch.setattr(entropic, "chunk_elements", lambda device: 300)
    parts = solved(problem, 0.5)
    assert parts.value == pytest.approx(whole.value, rel=1e-13)
    for one, other in zip(parts.position_gradients(True, True), whole.position_gradients(True, True), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-15)


def test_float32_problems_are_solved_in_float64() -> None:
    problem = make_problem(normal(5, 2).float(), normal(60, 2, seed=1).float(), 2)
    found = solved(problem, 0.1)
    assert found.problem.x.dtype == found.potential.dtype == torch.float64
    assert found.value == pytest.approx(solved(as_float64(problem), 0.1).value, rel=1e-12)


@pytest.mark.slow
@pytest.mark.keops
def test_the_engine_is_used() -> None:
    problem = make_problem(normal(8, 3), normal(300, 3, seed=1), 2)  # d as in ../passes: the formulas are compiled once
    found = solved(problem, 0.5, tolerance=1e-8, engine="keops")
    assert found.value == pytest.approx(solved(problem, 0.5).value, rel=1e-9)
