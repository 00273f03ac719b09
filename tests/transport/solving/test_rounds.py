"""Several flows: how many, and on few samples before all of them."""

import numpy as np
import pytest

import torchcoreset as tc
from tests.data import normal
from tests.transport.solving.problems import hard_problem, set_balance
from torchcoreset.transport.flow import Balanced, CandidateArcs, Floats, Ints
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solve import solve
from torchcoreset.transport.solving import balance as balance_module
from torchcoreset.transport.solving import rounds

pytestmark = pytest.mark.usefixtures("by_approach")


def test_a_solve_that_gets_no_further_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    def move_nothing(cost, cell, mass, excess, v) -> Balanced:
        return Balanced(np.arange(len(cell)), cell, mass, v, 0)

    set_balance(monkeypatch, move_nothing)
    with pytest.warns(tc.ConvergenceWarning, match=r"stalled.*both hold: allow a looser gap") as caught:
        result = tc.transport(*hard_problem(), tolerance=1e-9)
    assert caught[0].message.result is result
    assert result.status is tc.Status.STALLED
    assert result.gap > 1e-9


def test_few_rounds_do_roughly_and_one_within_some_tolerances(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def move_nothing(cost, cell, mass, excess, v) -> Balanced:
        calls.append(settings)
        return Balanced(np.arange(len(cell)), cell, mass, v, 0)

    set_balance(monkeypatch, move_nothing)
    problem = make_problem(*hard_problem())
    settings = {"tolerance": 1e-9, "exact": False, "start": None, "max_steps": 100}
    assert solve(problem, **settings, accept_near_optimal=True).status is tc.Status.STALLED
    assert len(calls) == 2
    solve(problem, **settings)
    assert len(calls) > 4
    calls.clear()
    monkeypatch.setattr(rounds, "ROUGH", 1e9)
    assert solve(problem, **settings, accept_near_optimal=True).status is tc.Status.STALLED
    assert len(calls) == 1
    solve(problem, **settings)
    assert len(calls) > 3


def test_all_costs_are_asked_where_lists_led_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(300, 4), normal(6000, 4, seed=1)

    def blind(cost: Floats | CandidateArcs, cell: Ints, mass: Floats, excess: Floats, v: Floats) -> Balanced:
        if not isinstance(cost, CandidateArcs):
            return balance(cost, cell, mass, excess, v)
        asked.append(len(cost.cols))
        return Balanced(np.arange(len(cell)), cell, mass, v, 0)

    balance, asked = balance_module.balance, []
    set_balance(monkeypatch, blind)
    result = tc.transport(x, y, tolerance=1e-4)
    assert len(asked) == 1
    assert result.gap <= 1e-4
