"""The potential that goes with points: nearer to the best one where they are, for every kind of samples."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.coresets.algorithms import Objective
from torchcoreset.coresets.algorithms.carry import MOST, carried
from torchcoreset.transport import as_cost, make_problem
from torchcoreset.transport.passes import make_engine

SMOOTH = {"cloud", "offset", "many columns"}  # where mass moves little, what is between two cells stays there


def kinds() -> dict[str, Tensor]:
    cloud = normal(1500, 3)
    generator = torch.Generator().manual_seed(1)
    return {
        "cloud": cloud,
        "clusters": cloud + 20 * (torch.rand(1500, 1, generator=generator) < 0.3),
        "tails": torch.empty(1500, 3).cauchy_(generator=generator),
        "integers": (3 * cloud).round(),
        "repeated": cloud[torch.randint(300, (1500,), generator=generator)],
        "offset": cloud.double() + 1e6,
        "many columns": normal(600, 80),
    }


def dual(x: Tensor, v: Tensor, y: Tensor, a: Tensor | None, p: float) -> float:
    problem = make_problem(x, y, p, None, a)
    return make_engine(problem, "auto").hard(v).dual


def equal(n: int) -> Tensor:
    return torch.full((n,), 1 / n, dtype=torch.float64)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", kinds())
def test_the_carried_potential_is_no_worse_where_points_have_gone_and_mostly_better(kind: str, p: float) -> None:
    y, n = kinds()[kind], 20
    x = y[:n].clone()
    a = torch.rand(len(y), generator=torch.Generator().manual_seed(2), dtype=torch.float64) ** 4
    objective = Objective(equal(n), p)
    for weights in (None, a):
        found = objective.transport(x, y, weights, tolerance=1e-4)
        moved = torch.lerp(x, objective.centres(x, y, found), 1.5)
        v = objective.carried(x, found.potential, moved, y, weights)
        best = objective.transport(moved, y, weights, tolerance=1e-4).value
        kept, there = (best - dual(moved, w, y, weights, p) for w in (found.potential, v))
        assert there <= kept + 1e-9 * best
        if kept > 1e-2 * best and kind in SMOOTH:
            assert there < 0.8 * kept


def test_points_that_stay_keep_their_potential() -> None:
    y = normal(800, 2)
    found = tc.transport(y[:10], y)
    v = carried(y[:10], found.potential, y[:10], y, None, equal(10), as_cost(2))
    torch.testing.assert_close(v, found.potential, rtol=0, atol=1e-9)


@pytest.mark.parametrize("points", [normal(1, 2), normal(1, 2).expand(30, 2), normal(MOST + 1, 2)])
def test_nothing_is_made_of_one_place_or_of_too_many_points(points: Tensor) -> None:
    v = torch.zeros(len(points), dtype=torch.float64)
    assert carried(points, v, points + 1, normal(100, 2), None, equal(len(points)), as_cost(2)) is v


def test_weights_that_a_plan_chooses_have_prices_that_do_not_move() -> None:
    y = normal(300, 2)
    found = tc.transport(y[:5], y, 2, "free")
    assert Objective("free", 2).carried(y[:5], found.potential, y[5:10], y, None) is found.potential
