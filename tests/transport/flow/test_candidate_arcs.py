"""Where boundary samples may go: each cell's own margins say how far lists reach, and who lacks mass is listed."""

import numpy as np
import pytest
import torch
from torch import Tensor

from torchcoreset.transport.flow import CandidateArcs
from torchcoreset.transport.flow.candidate_arcs import WITHIN, candidate_arcs
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.problem import make_problem


def town_and_country(far: float = 300.0) -> tuple[DenseEngine, Tensor]:
    """Forty points and 800 samples close together, five points and 50 samples that are far apart; float64."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(count, 2, dtype=torch.float64, generator=generator) for count in (45, 850))
    x[40:] *= far
    y[800:] *= far
    problem = make_problem(x, y, 2)
    return DenseEngine(problem), torch.zeros_like(problem.b)


def pairs(lists: CandidateArcs, n: int) -> Tensor:
    """(k, n) whether a sample lists a point."""
    table = torch.zeros(len(lists.offsets) - 1, n, dtype=torch.bool)
    rows = np.repeat(np.arange(len(table)), np.diff(lists.offsets))
    table[rows, lists.cols] = True
    assert int(table.sum()) == len(lists.cols)  # once each
    return table


@pytest.mark.parametrize("widen", [1, 4])
def test_lists_hold_what_is_near_for_the_cell(widen: int) -> None:
    engine, v = town_and_country()
    x, y = engine.problem.x, engine.problem.y
    cells = engine.hard(v)
    table = pairs(candidate_arcs(engine, cells.cell, cells.margin, v, torch.zeros_like(v), widen), 45)
    cost = torch.cdist(y, x).square()
    beyond = cost - cost.amin(1, keepdim=True)
    for i in range(45):
        mine = cells.cell == i
        if mine.any():
            reach = float(cells.margin[mine].mean())
            reach = widen * WITHIN * (max(reach, float(cells.margin.mean())) if widen > 1 else reach)
            assert torch.equal(table[mine], (beyond[mine] <= reach) | (torch.arange(45) == i))


def test_far_outliers_do_not_lengthen_the_lists_of_others() -> None:
    lengths = []
    for far in (10.0, 1e4):
        engine, v = town_and_country(far)
        cells = engine.hard(v)
        town = cells.cell < 40
        table = pairs(candidate_arcs(engine, cells.cell, cells.margin, v, torch.zeros_like(v)), 45)
        lengths.append(int(table[:800][town[:800]].sum()))
    assert lengths[1] <= 1.1 * lengths[0]


def test_costs_are_those_of_the_entries() -> None:
    engine, v = town_and_country()
    cells = engine.hard(v)
    lists = candidate_arcs(engine, cells.cell, cells.margin, v, torch.zeros_like(v))
    rows = np.repeat(np.arange(850), np.diff(lists.offsets))
    cost = torch.cdist(engine.problem.y, engine.problem.x).square()
    torch.testing.assert_close(torch.as_tensor(lists.cost), cost[rows, lists.cols])


def test_a_cell_that_lacks_mass_is_listed_by_as_much() -> None:
    engine, v = town_and_country()
    v[3] = -50.0  # nobody is near
    cells = engine.hard(v)
    lacks = engine.problem.b - cells.mass
    table = pairs(candidate_arcs(engine, cells.cell, cells.margin, v, lacks), 45)
    assert cells.mass[3] == 0
    assert engine.problem.a @ table[:, 3].double() >= 2 * engine.problem.b[3] - 1e-12
