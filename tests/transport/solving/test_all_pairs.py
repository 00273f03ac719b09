"""A flow on all pairs: from which cells it starts, and where it is made along lists."""

from typing import Any

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from tests.transport.solving.problems import SETTINGS, problem_of
from torchcoreset.transport.passes import make_engine
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solving import all_pairs, rounds
from torchcoreset.transport.solving.all_pairs import balance_all_pairs, line_potential
from torchcoreset.transport.solving.state import SolveState


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("p", [1, 2, 3])
def test_rows_about_a_line_begin_with_their_order(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (0.0, 1e-3, 0.3):
        x, y = (normal(count, 3, seed=count) * torch.tensor([1.0, width, width]) for count in (100, 1500))
        begun = SolveState(make_problem(x, y, p), SETTINGS)
        v = line_potential(begun.problem)
        found = tc.transport(x, y, p, exact=True)
        assert begun.evaluate(v).dual > 0.7 * found.value
        with monkeypatch.context() as patch:
            patch.setattr(all_pairs, "LINE_PAIRS", len(x) * len(y) + 1)
            assert line_potential(begun.problem) is None
            assert tc.transport(x, y, p, exact=True).value == pytest.approx(found.value, rel=1e-9)


def test_rows_that_vary_in_several_directions_do_not() -> None:
    assert line_potential(make_problem(normal(100, 2), normal(1500, 2, seed=1))) is None
    same = torch.ones(1500, 2, dtype=torch.float64)
    assert tc.transport(normal(100, 2), same).gap <= 1e-6, "rows without any direction are no error"


def test_a_lost_start_is_given_up_for_zero() -> None:
    x, y = normal(40, 3), normal(2000, 3, seed=1)
    lost = torch.where(torch.arange(40) == 7, 1e3, 0.0).double()
    begun = SolveState(make_problem(x, y, 2), SETTINGS)
    assert balance_all_pairs(begun, lost)
    assert begun.value == pytest.approx(tc.transport(x, y, exact=True).value, rel=1e-9)


def test_a_flow_begins_where_less_mass_is_in_wrong_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(20, 3), normal(20_000, 3, seed=1)
    x, y = (torch.where(rows[:, :1] > 0, rows + 40, rows) for rows in (x, y))
    # As high as what it costs to cross between the groups, but most samples of each are in one cell.
    guess = tc.transport(x, y).potential
    guess[x[:, 0].argmin()] += 3
    guess[x[:, 0].argmax()] += 3
    problem = make_problem(x, y)
    zero, higher = (make_engine(problem, "auto").hard(v) for v in (torch.zeros_like(guess), guess))
    assert higher.dual > zero.dual
    assert (higher.mass - problem.b).abs().sum() > (zero.mass - problem.b).abs().sum()
    pivots, of = [], all_pairs.solve_pairs
    monkeypatch.setattr(all_pairs, "solve_pairs", lambda *args: pivots.append(found := of(*args)) or found)
    for start in (guess, None):
        assert balance_all_pairs(SolveState(problem, SETTINGS), start)
    assert pivots[0].pivots == pivots[1].pivots


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("kind", ["smooth", "clusters", "offset"])
@pytest.mark.parametrize("m", [500, 3600])
def test_a_warm_solve_is_over_lists_only_where_there_are_many_pairs(
    kind: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, b, a = problem_of(kind, 300, m, 1)
    exact = tc.transport(x, y, 2, b, a, exact=True)
    start = tc.transport(x + 1e-3, y, 2, b, a).potential

    def counted(*arguments: Any) -> Tensor:
        listed.append(True)
        return balance(*arguments)

    balance, listed = all_pairs.balance_boundary, []
    for module in (all_pairs, rounds):
        monkeypatch.setattr(module, "balance_boundary", counted)
    found = tc.transport(x, y, 2, b, a, start=start)
    assert bool(listed) == (len(x) * m >= all_pairs.LISTED_PAIRS)
    assert found.lower <= exact.value * (1 + 1e-9)
    assert exact.value * (1 - 1e-9) <= found.value <= exact.value * (1 + 1e-3)
