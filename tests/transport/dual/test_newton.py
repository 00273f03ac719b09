"""Newton steps on the smoothed semi-dual, and the schedule of the smoothing."""

from functools import partial

import pytest
import torch

from tests.data import normal
from torchcoreset.transport.dual import newton as newton_module
from torchcoreset.transport.dual.hessian import curvature_of
from torchcoreset.transport.dual.newton import (
    LOOSE,
    SHRINK,
    SINKHORN_FROM,
    TIGHT,
    eps_scaling,
    log_mass_ratio,
    newton_steps,
    next_eta,
    relative_error,
    target_softness,
    tune_eta,
)
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.passes.soft import SmoothedCells
from torchcoreset.transport.problem import make_problem


@pytest.fixture
def dense(generator: torch.Generator) -> DenseEngine:
    """12 weighted points and 600 weighted samples in the plane."""
    draw = partial(normal, generator=generator)
    return DenseEngine(make_problem(draw(12, 2), draw(600, 2), 2, draw(12).abs() + 0.2, draw(600).abs()))


def test_the_direction_solves_the_newton_system(dense: DenseEngine) -> None:
    soft = dense.soft(torch.zeros(12, dtype=torch.float64), 0.5)
    g = dense.problem.b - soft.mass
    direction = curvature_of(soft, 0.5, dense.problem.b).solve(g, 100.0)
    hessian = (soft.mass.diag() - soft.gram) / 0.5
    torch.testing.assert_close(hessian @ direction, g, rtol=0, atol=1e-3 * float(g.abs().max()))
    assert float(direction.mean()) == pytest.approx(0, abs=1e-12)


def test_a_point_that_no_sample_wants_gives_a_finite_direction() -> None:
    gram = torch.zeros(3, 3, dtype=torch.float64)
    gram[:2, :2] = 0.25
    g = torch.tensor([-0.2, -0.1, 0.3], dtype=torch.float64)
    soft = SmoothedCells(0.0, torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64), lambda: gram, 0.5)
    assert curvature_of(soft, 0.1, g.abs()).solve(g, 100.0).isfinite().all()
    assert (
        curvature_of(SmoothedCells(0.0, soft.mass, lambda: torch.zeros_like(gram), 0.0), 0.1, g.abs())
        .solve(g, 100.0)
        .isfinite()
        .all()
    )


def test_relative_error_is_that_of_the_worst_point() -> None:
    g, b = torch.tensor([0.1, -0.05]), torch.tensor([0.9, 0.1])
    assert relative_error(g, b) == pytest.approx(0.5)


def test_climbing_never_lowers_the_dual_and_reaches_its_target(dense: DenseEngine) -> None:
    v = torch.zeros(12, dtype=torch.float64)
    reached, soft = newton_steps(dense, v, 0.3, 1e-6)
    assert soft.dual >= dense.soft(v, 0.3).dual
    assert relative_error(dense.problem.b - soft.mass, dense.problem.b) <= 1e-6
    assert dense.soft(reached, 0.3).dual == soft.dual


def test_what_is_good_enough_needs_no_new_lists(dense: DenseEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    v, soft = newton_steps(dense, torch.zeros(12, dtype=torch.float64), 0.3, LOOSE)
    monkeypatch.setattr(dense, "renew", lambda v, eta: pytest.fail("new lists"))
    assert newton_steps(dense, v, 0.3, LOOSE, soft=soft) == (v, soft)


def test_a_point_that_newton_gives_far_too_much_is_helped_by_sinkhorn(
    dense: DenseEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    b, steps, target = dense.problem.b, [], 1.0
    best, _ = newton_steps(dense, torch.zeros(12, dtype=torch.float64), 0.3, 1e-6)
    least = torch.zeros_like(b)
    least[b.argmin()] = 1

    def too_long(
        engine: DenseEngine, v: torch.Tensor, eta: float, soft: SmoothedCells, enough: float
    ) -> tuple[torch.Tensor, SmoothedCells]:
        steps.append(v)
        v = best + 0.9 * least
        soft = engine.soft(v, eta)
        assert log_mass_ratio(soft.mass, b) > SINKHORN_FROM
        return v, soft

    before = dense.soft(best + 0.29 * least, 0.3)
    assert relative_error(b - before.mass, b) > target
    assert log_mass_ratio(before.mass, b) < SINKHORN_FROM
    monkeypatch.setattr(newton_module, "newton_step", too_long)
    _, soft = newton_steps(dense, best + 0.29 * least, 0.3, target, soft=before)
    assert relative_error(b - soft.mass, b) <= target
    assert len(steps) == 1


def test_annealing_ends_sharp_and_balanced(dense: DenseEngine) -> None:
    _, soft, eta = eps_scaling(dense, torch.zeros(12, dtype=torch.float64), 4.0, least=1e-9)
    assert 0 < eta < 4
    assert soft.softness <= 1.25 * target_softness(dense)
    assert relative_error(dense.problem.b - soft.mass, dense.problem.b) <= TIGHT


def test_settling_adjusts_only_eta(dense: DenseEngine) -> None:
    v, _, eta = eps_scaling(dense, torch.zeros(12, dtype=torch.float64), 4.0, least=1e-9)
    before = v.clone()
    assert 0.1 * eta < tune_eta(dense, v, 4.0, least=1e-9).eta < 10 * eta
    assert tune_eta(dense, v, 4.0, least=2.0).eta == 2.0
    assert torch.equal(v, before)


def test_eta_follows_the_ambiguity_within_bounds() -> None:
    assert next_eta(1.0, 0.02, 0.01) == pytest.approx(0.5, rel=0.02)
    assert next_eta(3.0, 0.75, 0.5) == pytest.approx(1.0)  # odds of 3 and 1
    assert next_eta(1.0, 1.0, 0.01) == 1 / SHRINK
    assert next_eta(1.0, 0.0, 0.1) == SHRINK
