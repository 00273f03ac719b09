"""Mass in wrong cells: where it is little enough to be moved, and where a start is lost."""

from dataclasses import replace

import pytest
import torch

import torchcoreset as tc
from tests.benchmarks.problems import separated
from tests.data import normal, seeded
from tests.transport.solving.problems import SETTINGS
from torchcoreset.coresets.start.bisection import leaf_means, leaves
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solving import wrong_mass
from torchcoreset.transport.solving.limits import is_small
from torchcoreset.transport.solving.state import Settings, SolveState


@pytest.mark.parametrize(("n", "few"), [(20, 80), (2000, 1000)])  # four samples a point; or a sample in 40
def test_samples_are_dearer_to_move_among_many_points(n: int, few: int) -> None:
    settings = Settings(1e-3, False, 100, "auto", False)
    state = SolveState(make_problem(normal(n, 2), normal(40000, 2, seed=1)), settings)
    cells, b = state.evaluate(torch.zeros(n, dtype=torch.float64)), state.problem.b
    wrong = torch.zeros_like(b)
    wrong[0], wrong[1] = 1 / 40000, -1 / 40000
    assert wrong_mass.few_are_wrong(state.problem, replace(cells, mass=b + 0.9 * few * wrong))
    assert not wrong_mass.few_are_wrong(state.problem, replace(cells, mass=b + 1.1 * few * wrong))


@pytest.mark.usefixtures("direct")
def test_lost_starts_are_given_up_for_a_flow_from_zero_where_that_is_near() -> None:
    y = separated(20, 40_000, 8, distance=20)(0)[1]
    index, sizes = leaves(y, 20, seeded())
    x, lost = leaf_means(y[index], sizes), 1e4 * normal(20, 1, seed=2)[:, 0].double()
    assert not is_small(SolveState(make_problem(x, y), SETTINGS), lost)
    assert tc.transport(x, y, start=lost).gap <= 1e-3
