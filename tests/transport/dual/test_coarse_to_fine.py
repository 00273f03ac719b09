"""The potential to begin with: of fewer points, carried over to all by the samples."""

import math
from functools import partial

import pytest
import torch

from tests.data import normal
from torchcoreset.transport.dual import coarse_to_fine as multiscale
from torchcoreset.transport.dual.coarse_to_fine import (
    COARSE,
    FEWER,
    LEAST_SAMPLES,
    coarse_potential,
    coarse_sample,
    first_potential,
    merged,
)
from torchcoreset.transport.dual.newton import LOOSE, TIGHT, relative_error
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.problem import make_problem

FEWEST = 12  # here

every_power = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])


@pytest.fixture(autouse=True)
def small_problems_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiscale, "FEWEST", FEWEST)


def some_engine(
    p: float = 2.0, n: int = 200, m: int = 6000, *, weighted: bool = False, repeats: int = 1
) -> DenseEngine:
    generator = torch.Generator().manual_seed(0)
    draw = partial(normal, generator=generator)
    x, y = draw(n // repeats, 2).repeat(repeats, 1), 2 * draw(m, 2) + 1
    weights = (draw(n).abs() + 0.1, draw(m).abs() + 0.1) if weighted else (None, None)
    return DenseEngine(make_problem(x, y, p, *weights))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [96, 200, 1001])
def test_merged_points_carry_the_weights_of_all(n: int, weighted: bool) -> None:
    engine = some_engine(n=n, weighted=weighted)
    coarser = merged(engine)
    problem = engine.problem
    assert float(coarser.b.sum()) == pytest.approx(1, abs=1e-14)
    assert float(coarser.b.min()) > 0
    assert FEWEST <= len(coarser.x) == n // FEWER
    assert coarser.y is problem.y
    assert coarser.a is problem.a
    nearest = torch.cdist(problem.x, coarser.x).argmin(1)
    torch.testing.assert_close(coarser.b, torch.bincount(nearest, problem.b, len(coarser.x)))
    assert bool((coarser.x[:, None] == problem.x).all(2).any(1).all()), "they are some of the points"


def test_points_that_coincide_leave_no_empty_ones() -> None:
    coarser = merged(some_engine(n=200, repeats=20))
    assert float(coarser.b.min()) > 0
    assert float(coarser.b.sum()) == pytest.approx(1, abs=1e-14)
    assert len(coarser.x) <= 10


def test_few_points_begin_at_zero() -> None:
    engine = some_engine(n=FEWER * FEWEST - 1)
    v, eta = first_potential(engine, 1e-9)
    assert torch.equal(v, torch.zeros_like(v))
    assert eta >= float(engine.problem.a @ engine.hard(v).cost)


def test_points_all_in_one_place_have_a_smoothing() -> None:
    engine = DenseEngine(make_problem(torch.ones(3, 2), torch.ones(9, 2)))
    assert first_potential(engine, 1e-9)[1] > 0


@every_power
@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_potential_nearly_gives_every_point_its_mass(p: float, weighted: bool) -> None:
    engine = some_engine(p, weighted=weighted)
    v, eta = first_potential(engine, 1e-6)
    assert v.shape == (200,)
    b = engine.problem.b
    mass, before = engine.soft(v, eta).mass, engine.soft(torch.zeros_like(v), eta).mass
    assert float((mass / b).max()) < 5
    assert float((mass / b).min()) > 0.05  # of a point outside of all those that the coarser problem has kept
    assert float((mass / b).log().abs().quantile(0.9)) < math.log(3)
    assert float((mass - b).abs().sum()) < 0.5 * float((before - b).abs().sum())


@pytest.mark.parametrize(("m", "error"), [(6000, LOOSE), (COARSE * 200, 2 * TIGHT)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_coarse_potential_is_right_for_its_sample(weighted: bool, m: int, error: float) -> None:
    # nearly, where more samples follow
    engine = some_engine(weighted=weighted, m=m)
    v, soft, eta = coarse_potential(engine, 1e-6)
    sample = coarse_sample(engine)
    again = sample.soft(v, eta)
    assert relative_error(again.mass - engine.problem.b, engine.problem.b) <= error
    assert again.dual == pytest.approx(soft.dual, rel=1e-3)
    assert float((engine.hard(v).mass - engine.problem.b).abs().sum()) / 2 < 0.3


def test_the_sample_grows_with_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(coarse_sample(some_engine(n=10)).problem.y) == LEAST_SAMPLES
    assert len(coarse_sample(some_engine(n=200)).problem.y) == COARSE * 200
    monkeypatch.setattr(multiscale, "MANY", 3000)
    assert len(coarse_sample(some_engine(n=200)).problem.y) == 3000
    monkeypatch.setattr(multiscale, "MANY", 100)
    assert len(coarse_sample(some_engine(n=200)).problem.y) == COARSE * 100
    monkeypatch.undo()
    engine = some_engine(n=200, m=COARSE * 200)
    assert coarse_sample(engine) is engine


def test_equal_calls_give_equal_bits() -> None:
    state = torch.get_rng_state()
    (v, soft, eta), (again, soft_again, eta_again) = (coarse_potential(some_engine(), 1e-6) for _ in range(2))
    assert torch.equal(v, again)
    assert torch.equal(soft.mass, soft_again.mass)
    assert eta == eta_again
    assert torch.equal(torch.get_rng_state(), state)


def test_the_work_is_small() -> None:
    engine = some_engine(m=100_000)
    coarse_potential(engine, 1e-6)
    assert engine.meter.spent < 3
