"""Which samples are offered to a balance, and how many."""

import math
from importlib import import_module

import pytest
import torch

from torchcoreset import transport
from torchcoreset.transport.flow import boundary as boundary_module
from torchcoreset.transport.flow.boundary import BoundarySamples, boundary_samples, least_margin
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.problem import Problem, make_problem
from torchcoreset.transport.solving import limits

balance_module = import_module("torchcoreset.transport.solving.balance")


def few_cells(starved: int) -> tuple[Problem, BoundarySamples, int]:
    """40 points, some of whose cells are nobody's second choice, and what is offered within a limit of 400 samples."""
    generator = torch.Generator().manual_seed(0)
    problem = make_problem(torch.randn(40, 2, generator=generator), torch.randn(4000, 2, generator=generator), 2)
    v = torch.zeros(40).double()
    v[:starved] = -1e4
    engine = DenseEngine(problem)
    cells = engine.hard(v)
    return problem, boundary_samples(engine, cells, cells.mass - problem.b, 1, 400), 400


@pytest.mark.parametrize("starved", [1, 20, 39])
def test_no_more_are_offered_than_the_limit_however_many_cells_are_starved(starved: int) -> None:
    problem, boundary, limit = few_cells(starved)
    assert len(boundary.y) <= limit + len(problem.x)  # the limit of each cell is rounded up
    assert len(boundary.number.unique()) == len(boundary.number)


def test_a_starved_cell_is_offered_what_loses_least_by_going_there() -> None:
    problem, boundary, _ = few_cells(1)
    costs = (problem.y - problem.x[0]).square().sum(1)
    nearest = (problem.y[:, None] - problem.x[1:]).square().sum(2).amin(1)
    assert int((costs - nearest).argmin()) in boundary.number.tolist()


def test_samples_without_weight_are_offered_to_nobody() -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.ones(400)
    a[::10] = 0
    samples = torch.randn(400, 2, generator=generator)
    problem = make_problem(torch.randn(10, 2, generator=generator), samples, 2, sample_weights=a)
    v = torch.zeros(10).double()
    v[0] = -1e4
    engine = DenseEngine(problem)
    cells = engine.hard(v)
    boundary = boundary_samples(engine, cells, cells.mass - problem.b, 1, 200)
    assert len(boundary.a) >= 16
    assert bool((boundary.a > 0).all())


@pytest.mark.parametrize("by_sorting", [False, True])  # as on other devices
def test_of_each_cell_those_of_least_margin_are_found_however_sparse_its_samples_are(
    by_sorting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_sorting:
        monkeypatch.setattr(boundary_module, "_least_by_selection", boundary_module._least_by_sorting)
    generator = torch.Generator().manual_seed(0)
    cell = torch.randint(0, 20, (40_000,), generator=generator)
    margin = torch.rand(40_000, generator=generator) * (1 + 50 * (cell == 7))
    cell[cell == 9], cell[100:105] = 10, 9  # a cell of few samples
    cell[cell == 3] = 4  # and one of none
    order = least_margin(cell, margin, torch.full((20,), 29.5))
    assert bool((cell[order].diff() >= 0).all())
    for i in range(20):
        own = (cell == i).nonzero()[:, 0]
        least = own[margin[own].argsort()[:30]]
        assert torch.equal(order[cell[order] == i], least)


def test_samples_without_a_second_point_or_of_equal_margins_are_offered_all_the_same() -> None:
    cell, margin = torch.tensor([0, 0, 1, 0, 0, 0]), torch.tensor([math.inf, 2.0, math.inf, 2.0, 1.0, 2.0])
    assert least_margin(cell, margin, torch.tensor([3.0, 5.0, 1.0])).tolist() == [4, 1, 3, 2]
    assert least_margin(cell, margin, torch.tensor([9.0, 0.0, 1.0])).tolist() == [4, 1, 3, 5, 0]


def test_for_a_rough_plan_fewer_are_offered(monkeypatch) -> None:
    offered = []

    def seen(*given):
        offered.append(boundary_samples(*given))
        return offered[-1]

    monkeypatch.setattr(balance_module, "boundary_samples", seen)
    monkeypatch.setattr(limits, "COLD_PAIRS", 0)
    generator = torch.Generator().manual_seed(0)
    points, samples = torch.randn(20, 4, generator=generator), torch.randn(20_000, 4, generator=generator)
    for tolerance in (1e-3, 9e-4):
        assert transport(points, samples, tolerance=tolerance).gap <= tolerance
    rough, fine = offered
    assert len(rough.y) < 0.7 * len(fine.y)
