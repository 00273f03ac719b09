"""Hard and soft passes, against brute force and against autograd of the smoothed semi-dual."""

from functools import partial

import pytest
import torch
from torch import Tensor

from tests.data import normal
from torchcoreset.transport.passes import cells as cells_module
from torchcoreset.transport.passes import dense as dense_module
from torchcoreset.transport.passes import engine
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.passes.engine import shuffled
from torchcoreset.transport.problem import Problem, make_problem

every_power = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])


def some_problem(p: float, n: int = 6, m: int = 80, seed: int = 0) -> tuple[Problem, Tensor]:
    """A weighted problem in float64, and a potential."""
    generator = torch.Generator().manual_seed(seed)
    draw = partial(normal, generator=generator)
    weights = draw(n).square() + 0.1, draw(m).square() + 0.01
    return make_problem(draw(n, 3), 2 * draw(m, 3), p, *weights), 0.5 * draw(n)


def cost(problem: Problem) -> Tensor:
    """(m, n), from differences."""
    return (problem.y[:, None] - problem.x).norm(dim=2) ** problem.cost.p


def smoothed_dual(problem: Problem, v: Tensor, eta: float) -> Tensor:
    softmin = -eta * ((v - cost(problem)) / eta + problem.b.log()).logsumexp(1)
    return problem.a @ softmin + problem.b @ v


@every_power
def test_the_hard_pass_finds_the_cells(p: float) -> None:
    problem, v = some_problem(p)
    result = DenseEngine(problem).hard(v)
    two = (cost(problem) - v).topk(2, largest=False)
    cell = two.indices[:, 0]
    assert torch.equal(result.cell, cell)
    torch.testing.assert_close(result.cost, cost(problem)[torch.arange(80), cell], rtol=1e-13, atol=0)
    torch.testing.assert_close(result.margin, two.values[:, 1] - two.values[:, 0], rtol=1e-10, atol=1e-12)
    mass = torch.stack([problem.a[cell == i].sum() for i in range(6)])
    torch.testing.assert_close(result.mass, mass, rtol=1e-13, atol=0)
    assert result.dual == pytest.approx(float(problem.a @ two.values[:, 0] + problem.b @ v), rel=1e-13)


def test_counts_of_equal_samples_are_exact() -> None:
    x = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    mass = DenseEngine(make_problem(x, x.repeat(7, 1))).hard(torch.zeros(3, dtype=torch.float64)).mass
    assert mass.tolist() == [7 / 21] * 3


@every_power
@pytest.mark.parametrize("n", [1, 6, 40])
@pytest.mark.parametrize(("picked", "risen"), [(50, cells_module.RISEN_PAIRS), (cells_module.PICKED, 1)])
def test_cells_follow_a_potential_that_moves(
    p: float, n: int, picked: int, risen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells_module, "PICKED", picked)
    monkeypatch.setattr(cells_module, "RISEN_PAIRS", risen)
    # by little, by next to nothing, by much at one point only, by an offset, and not at all
    problem, v = some_problem(p, n, 500)
    whole, made = DenseEngine(problem), make_engine(problem, "auto")  # which is compiled for p = 1 and 2
    cells = made.hard(v)
    one = torch.zeros_like(v)
    one[0] = 3.0
    small = 0.05 * some_problem(p, n, 1, seed=1)[1]
    for step in (small, 1e-9 * v, one, torch.ones_like(v), torch.zeros_like(v)):
        v = v + step
        expected, cells = whole.hard(v), made.hard(v, cells)
        assert torch.equal(cells.cell, expected.cell)
        assert torch.equal(cells.mass, expected.mass)
        assert cells.dual == pytest.approx(expected.dual, rel=1e-13)
        assert cells.mean == pytest.approx(expected.mean, rel=1e-13)
        torch.testing.assert_close(cells.cost, expected.cost, rtol=1e-13, atol=0)
        assert bool((cells.margin <= expected.margin + 1e-12).all())
        assert bool((cells.margin > -1e-12).all())
        assert torch.equal(cells.potential, v)
    assert made.meter.spent < whole.meter.spent


def test_few_points_that_rise_alone_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, v = some_problem(2.0, 40, 500)
    rise = 0.002 * v
    rise[:3] = torch.tensor([2.0, 1.0, 3.0])
    spent = []
    for pairs in (cells_module.RISEN_PAIRS, 1):
        monkeypatch.setattr(cells_module, "RISEN_PAIRS", pairs)
        made = DenseEngine(problem)
        cells = made.hard(v)
        before = made.meter.spent
        assert torch.equal(made.hard(v + rise, cells).cell, DenseEngine(problem).hard(v + rise).cell)
        spent.append(made.meter.spent - before)
    assert spent[0] > 0.8
    assert spent[1] < 0.5


def test_one_point_has_infinite_slack() -> None:
    problem, _ = some_problem(2.0, n=1)
    assert DenseEngine(problem).hard(torch.zeros(1, dtype=torch.float64)).margin.isinf().all()


@every_power
@pytest.mark.parametrize("eta", [3.0, 0.3])
def test_the_soft_pass_is_the_smoothed_semi_dual_with_its_derivatives(
    p: float, eta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, v = some_problem(p)
    dense = DenseEngine(problem)
    hessian = torch.autograd.functional.hessian(lambda u: smoothed_dual(problem, u, eta), v)
    off_diagonal = ~torch.eye(6, dtype=torch.bool)
    rough = dense.soft(v, eta).gram  # without the samples that are decided but for DECIDED
    assert float((rough / eta - hessian)[off_diagonal].abs().max()) <= dense_module.DECIDED / eta

    monkeypatch.setattr(dense_module, "DECIDED", -1.0)
    soft = dense.soft(v, eta)
    assert soft.dual == pytest.approx(float(smoothed_dual(problem, v, eta)), rel=1e-11)
    gradient = torch.autograd.functional.jacobian(lambda u: smoothed_dual(problem, u, eta), v)
    torch.testing.assert_close(problem.b - soft.mass, gradient, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(-(soft.mass.diag() - soft.gram) / eta, hessian, rtol=1e-9, atol=1e-11)
    share = ((v - cost(problem)) / eta + problem.b.log()).softmax(1)
    assert soft.softness == pytest.approx(float(problem.a @ (1 - share.amax(1))), abs=1e-11)


@every_power
def test_the_smoothed_semi_dual_closes_in_on_the_hard_one_from_above(p: float) -> None:
    problem, v = some_problem(p)
    dense = DenseEngine(problem)
    hard = dense.hard(v).dual
    for eta in (1.0, 0.1, 0.01, 0.001):
        excess = dense.soft(v, eta).dual - hard
        assert -1e-12 <= excess <= eta * float(-problem.b.min().log()) + 1e-12


@every_power
def test_chunks_change_nothing(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, v = some_problem(p)
    whole = DenseEngine(problem)
    monkeypatch.setitem(engine.CHUNK_ELEMENTS, "cpu", 1)
    parts = DenseEngine(problem)
    hard, hard_parts = whole.hard(v), parts.hard(v)
    assert torch.equal(hard.cell, hard_parts.cell)
    torch.testing.assert_close(hard.margin, hard_parts.margin)
    assert hard_parts.dual == pytest.approx(hard.dual, rel=1e-13)
    soft, soft_parts = whole.soft(v, 0.5), parts.soft(v, 0.5)
    assert soft_parts.dual == pytest.approx(soft.dual, rel=1e-12)
    torch.testing.assert_close(soft.mass, soft_parts.mass)
    torch.testing.assert_close(soft.gram, soft_parts.gram)


def test_a_subsample_carries_the_weights_of_its_samples() -> None:
    problem, _ = some_problem(2.0)
    part = DenseEngine(problem).subsample(20).problem
    assert part.y.shape == (20, 3)
    assert float(part.a.sum()) == pytest.approx(1)
    rows = (part.y[:, None] == problem.y).all(2).nonzero()[:, 1]
    torch.testing.assert_close(part.a, problem.a[rows] / problem.a[rows].sum())


def test_a_common_offset_of_the_potential_does_not_move_the_cells() -> None:
    # float32 rounds 1e6 to 1/16: the offset has to be taken out before the cast
    problem, v = some_problem(2.0)
    problem = make_problem(problem.x.float(), problem.y.float(), 2)
    dense = DenseEngine(problem)
    assert torch.equal(dense.hard(v + 1e6).cell, dense.hard(v).cell)
    assert dense.soft(v + 1e6, 0.5).mass.tolist() == pytest.approx(dense.soft(v, 0.5).mass.tolist(), rel=1e-5)


@pytest.mark.parametrize("m", [1000, 10**9])
def test_subsamples_are_distinct_and_repeatable(m: int) -> None:
    chosen = shuffled(m, 60)
    assert len(torch.unique(chosen)) == 60
    assert int(chosen.min()) >= 0
    assert m / 2 < int(chosen.max()) < m
    shuffled.cache_clear()
    assert torch.equal(chosen, shuffled(m, 60))
