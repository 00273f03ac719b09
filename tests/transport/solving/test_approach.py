"""Newton from a start or from zero: what is annealed, corrected and given up."""

import statistics
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from tests.transport.solving.problems import hard_problem
from torchcoreset.transport.dual.hessian import Curvature, LimitedMemory
from torchcoreset.transport.passes.cells import LaguerreCells
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solving import approach
from torchcoreset.transport.solving.state import Settings, SolveState

pytestmark = pytest.mark.usefixtures("by_approach")


@pytest.mark.parametrize(("noise", "is_far"), [(0.1, False), (0.5, True)])
def test_a_start_with_a_tenth_of_the_mass_in_wrong_cells_is_far(
    noise: float, is_far: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few samples a point there are, ten here: such starts are annealed, not corrected."""
    x, y = normal(100, 4), 2 * normal(1000, 4, seed=1)
    best = tc.transport(x, y)
    start = best.potential + noise * normal(100, seed=2)
    found = DenseEngine(make_problem(x, y, 2)).hard(start)
    assert (0.1 < float((found.mass - 0.01).abs().sum()) / 2 < 0.3) == is_far
    annealed = []
    eps_scaling = approach.dual.eps_scaling
    monkeypatch.setattr(approach.dual, "eps_scaling", lambda *given: annealed.append(given) or eps_scaling(*given))
    assert tc.transport(x, y, start=start).value == pytest.approx(best.value, rel=2e-3)
    assert bool(annealed) == is_far


def test_a_lost_start_is_approached_from_zero_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # with heavy tails, where corrections leave much in wrong cells, all of it was done twice
    begin, approached = approach.approach, []
    settings = Settings(1e-3, False, 100, "auto", False)
    state, start = SolveState(make_problem(*hard_problem()), settings), 100 * normal(100, seed=5).double()
    state.needs_float64(start)
    monkeypatch.setattr(approach, "approach", lambda state, given: approached.append(given) or begin(state, given))
    monkeypatch.setattr(approach, "correct", lambda *_, **__: state.first)
    approach.ascend(state, start)
    assert approached == [start]


def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The potentials that a solver evaluates from now on."""
    evaluate, tried = SolveState.evaluate, []

    def recorded(self: SolveState, v: Tensor, near: LaguerreCells | None = None) -> LaguerreCells:
        tried.append(v)
        return evaluate(self, v, near)

    monkeypatch.setattr(SolveState, "evaluate", recorded)
    return tried


def test_few_corrections_do_where_clusters_exchange_few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    # with the curvature of a subsample as it is, it takes 42; which samples cross decides on a seed or two
    tried, counts = evaluated(monkeypatch), []
    for seed in range(5):
        tried.clear()
        centres = 6 * normal(5, 8, seed=seed)
        y = normal(10_000, 8, seed=seed + 1) + centres[torch.arange(10_000) % 5]
        result = tc.transport(y[:30], y, tolerance=1e-4)
        assert result.status is tc.Status.CONVERGED
        counts.append(len(tried))
    assert statistics.median(counts) <= 15


def test_a_correction_that_failed_is_tried_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    class Downhill(Curvature):
        eta = 0.1

        def solution(self, g: Tensor, damping: float = 0.0) -> Tensor:
            return -0.5 * g / g.abs().max()  # 5 eta, far less than it is trusted

    tried = evaluated(monkeypatch)
    monkeypatch.setattr(LimitedMemory, "learn", lambda self, step, change: None)
    problem = make_problem(*hard_problem())
    state = SolveState(problem, Settings(1e-4, False, 100, "auto", False))
    first = state.evaluate(torch.zeros_like(problem.b))
    assert approach.correct(state, first, Downhill()) is first
    lengths = [float((v - first.potential).abs().max()) for v in tried[1:]]
    assert len(lengths) >= 2
    assert all(after < before / 4 for before, after in pairwise(lengths))
