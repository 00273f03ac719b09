"""Which samples near boundaries a flow is offered, and along which arcs."""

import math

import pytest

import torchcoreset as tc
from tests.data import normal
from tests.transport.solving.problems import set_balance
from torchcoreset.transport.flow import Balanced, CandidateArcs
from torchcoreset.transport.flow import boundary as offered_module
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solving import balance as balance_module
from torchcoreset.transport.solving.state import Settings, SolveState

pytestmark = pytest.mark.usefixtures("by_approach")


def test_no_more_costs_are_held_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # where the limit of every cell exceeds what it holds, as in late rounds
    balance, rows = balance_module.balance, []

    def counted(cost, *arguments) -> Balanced:
        rows.append(len(cost))
        return balance(cost, *arguments)

    x, y = normal(20, 2), 2 * normal(3000, 2, seed=1)
    optimum = tc.transport(x, y, exact=True).value
    set_balance(monkeypatch, counted)
    monkeypatch.setattr(balance_module, "BALANCED_ELEMENTS", 20 * 100)
    monkeypatch.setattr(offered_module, "PER_CELL", 10_000)
    result = tc.transport(x, y, tolerance=1e-2)
    assert result.lower <= optimum * (1 + 1e-12)
    assert optimum <= result.value * (1 + 1e-12)
    assert rows
    assert max(rows) <= 100 + len(x)  # the limit of each cell is rounded up


@pytest.mark.parametrize(("elements", "lists"), [(300 * 400, True), (300 * 3000, False)])
def test_more_samples_than_a_block_has_room_for_are_offered_along_lists(
    elements: int, lists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # of 100,000 samples a third was offered in every round, whatever the round, and some mass found no path
    balance, offered = balance_module.balance, []

    def counted(cost, cell, *arguments) -> Balanced:
        offered.append((isinstance(cost, CandidateArcs), len(cell)))
        return balance(cost, cell, *arguments)

    set_balance(monkeypatch, counted)
    monkeypatch.setattr(balance_module, "BALANCED_ELEMENTS", elements)
    monkeypatch.setattr(balance_module, "ROW_ELEMENTS", 40)
    settings = Settings(1e-3, False, 100, "auto", False)
    state = SolveState(make_problem(normal(300, 2), 2 * normal(3000, 2, seed=1)), settings)
    balance_module.balance_boundary(state, state.evaluate(state.zero), 16, 0)
    assert offered == [(lists, 3000)]
    assert not math.isinf(state.value)
