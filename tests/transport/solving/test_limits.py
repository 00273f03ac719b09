"""Which problems are small enough to be solved without an approach."""

import pytest
import torch

import torchcoreset as tc
from tests.data import normal
from tests.transport.solving.problems import SETTINGS
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solving import limits
from torchcoreset.transport.solving.limits import is_small, may_start_from_cells, prefers_flow
from torchcoreset.transport.solving.state import SolveState


@pytest.mark.usefixtures("direct")
def test_large_problems_with_few_samples_a_point_are_direct_too() -> None:
    x, y = normal(700, 2), normal(5000, 2, seed=1)
    assert len(y) > limits.FEW
    assert tc.transport(x, y).gap <= 1e-6


def test_many_samples_a_point_are_approached() -> None:
    x, y, potential = normal(20, 2), normal(100_000, 2, seed=1), torch.zeros(20, dtype=torch.float64)
    assert not is_small(SolveState(make_problem(x, y), SETTINGS), None)
    assert not is_small(SolveState(make_problem(x, y), SETTINGS), potential)
    assert not is_small(SolveState(make_problem(x, y[:5000]), SETTINGS), None)
    assert is_small(SolveState(make_problem(x, y[:5000]), SETTINGS), potential)
    assert is_small(SolveState(make_problem(x, y[:2000]), SETTINGS), None)
    assert is_small(SolveState(make_problem(x, y[:13_000]), SETTINGS), potential)
    assert not is_small(SolveState(make_problem(x.repeat(1, 50), y[:13_000].repeat(1, 50)), SETTINGS), potential)


def test_from_cells_of_an_earlier_plan_a_flow_may_take_all_pairs_that_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y, potential = normal(20, 2), normal(4000, 2, seed=1), torch.zeros(20, dtype=torch.float64)
    monkeypatch.setattr(limits, "FEW_PAIRS", 0)
    for earlier, room, prefers in (
        (None, 1 << 20, False),
        (y[:, 0].long(), 1 << 20, True),
        (y[:, 0].long(), 1000, False),
    ):
        monkeypatch.setattr(limits, "MOST_PAIRS", room)
        state = SolveState(make_problem(x, y), SETTINGS, earlier)
        assert not prefers_flow(state), "without a start"
        state.needs_float64(potential)
        assert prefers_flow(state) == prefers
        assert may_start_from_cells(4000, 20) == (room > 4000 * 20)
        assert not may_start_from_cells(4000, 3), "no cells are kept that no step would use"
