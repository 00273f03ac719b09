"""Where groups of points share no samples: the potential by which excess leaves, which no curvature tells."""

import ot
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.transport.dual import newton as newton_module
from torchcoreset.transport.dual import start as untangle_module
from torchcoreset.transport.dual.hessian import LEAST_DEGREE, Factorised
from torchcoreset.transport.dual.newton import LOOSE, newton_steps, relative_error
from torchcoreset.transport.dual.start import flow_start
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.problem import Problem, make_problem


def islands(n: int = 40, m: int = 2000, distance: float = 30) -> tuple[Tensor, Tensor]:
    """Points of which half are on an island, far away, that has a tenth of the samples; float64."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(count, 2, dtype=torch.float64, generator=generator) for count in (n, m))
    x[n // 2 :] += distance
    y[m - m // 10 :] += distance
    return x, y


def excess(problem: Problem, v: Tensor) -> float:
    """Mass that is in the wrong cells."""
    return float((DenseEngine(problem).hard(v).mass - problem.b).abs().sum()) / 2


@pytest.mark.parametrize("p", [1, 2])
def test_cells_hold_about_what_they_should(p: int) -> None:
    problem = make_problem(*islands(), p)
    v = torch.zeros_like(problem.b)
    assert excess(problem, v) > 0.4
    assert excess(problem, flow_start(problem, v)) < (0.15 if p == 2 else 0.3)


def test_a_part_of_the_samples_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untangle_module, "ELEMENTS", 40 * 500)
    problem = make_problem(*islands(), 2)
    v = torch.zeros_like(problem.b)
    assert excess(problem, flow_start(problem, v)) < 0.15
    assert torch.equal(v, torch.zeros_like(v))


def test_newton_asks_for_it_where_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(problem: Problem, v: Tensor) -> Tensor:
        calls.append(v)
        return flow_start(problem, v)

    monkeypatch.setattr(newton_module, "flow_start", counted)
    problem = make_problem(*islands(), 2)
    b = problem.b
    _, soft = newton_steps(DenseEngine(problem), torch.zeros_like(b), 0.03, LOOSE)
    assert calls
    assert relative_error(b - soft.mass, b) <= LOOSE


def test_a_flow_that_knows_less_than_the_steps_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # as with 2,000 points and 4 samples for each, where it undid what the steps had gained, at every stage
    asked = []

    def worse(problem: Problem, v: Tensor) -> Tensor:
        asked.append(v)
        return v + 100 * torch.arange(len(v)).fmod(2)

    monkeypatch.setattr(newton_module, "FLOW_ABOVE", 0.0)
    problem = make_problem(*islands(distance=3), 2)
    found = []
    for start in (lambda _, v: v, worse):
        monkeypatch.setattr(newton_module, "flow_start", start)
        found.append(newton_steps(DenseEngine(problem), torch.zeros_like(problem.b), 0.3, 1e-12)[0])
    assert asked
    assert torch.equal(*found)


@pytest.mark.parametrize("distance", [30, 1000])
def test_islands_are_solved(distance: float) -> None:
    x, y = islands(distance=distance)
    result = tc.transport(x, y)
    exact = ot.emd2([], [], ot.dist(y.numpy(), x.numpy()), numItermax=10**7)
    assert result.lower <= exact * (1 + 1e-12)
    assert exact <= result.value * (1 + 1e-12)
    assert result.status is tc.Status.CONVERGED


def test_points_apart_do_not_hold_back_the_others() -> None:
    # a group that shares nothing with the rest holds too much: the rest should still move as it would alone
    n, alone = 30, 3
    gram = torch.diag(torch.full((n - 1,), 0.01, dtype=torch.float64), 1)
    gram[n - alone - 1, n - alone] = 0
    gram = gram + gram.t()
    g = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 1e-4
    g[: n - alone] -= g[: n - alone].mean()
    g[n - alone :] -= g[n - alone :].mean()
    rest = slice(0, n - alone)
    moves = []
    for extra in (0.0, 1e-3):
        h = g.clone()
        h[rest] -= extra / (n - alone)
        h[n - alone :] += extra / alone
        direction = Factorised(gram, 1.0, LEAST_DEGREE * torch.full_like(g, 1 / n)).solve(h, 5.0)
        moves.append(direction[rest] - direction[rest].median())
    assert float(moves[0].abs().max()) > 0.01
    torch.testing.assert_close(moves[1], moves[0], rtol=0.3, atol=0.01)
