"""The running potential of a stream, below the losses: steps, sums, boundaries, tests."""

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from tests.data import normal
from torchcoreset.testing import NORMAL
from torchcoreset.transport.costs import as_cost
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.problem import Problem, make_problem
from torchcoreset.transport.reductions import c_transform
from torchcoreset.transport.stream.batch import (
    BatchCells,
    Smoothed,
    effective_size,
    evaluate_batch,
    smoothed,
    unseen_cells,
)
from torchcoreset.transport.stream.boundaries import boundaries_of, boundary_drift
from torchcoreset.transport.stream.state import GAIN, StreamState
from torchcoreset.transport.stream.update import advance, advect, begin, chi_square, forget, is_due

either_power = pytest.mark.parametrize("p", [1, 2])


def begun(x: Tensor, y: Tensor, p: float = 2) -> tuple[StreamState, Problem]:
    problem = make_problem(x, y, p)
    passes = make_engine(problem, "dense")
    return begin(passes, x, passes.hard(torch.zeros_like(problem.b)).mean), problem


class Sums(NamedTuple):
    """What a batch tells, in the order of the arguments of `advance`."""

    problem: Problem
    cells: BatchCells
    renewal: Smoothed | None
    raised: Tensor | None


def sums_of(running: StreamState, x: Tensor, y: Tensor, a: Tensor | None = None) -> Sums:
    engine = make_engine(make_problem(x, y, 2, None, a), "dense")
    soft = smoothed(engine, running) if is_due(running) else None
    cells, late = evaluate_batch(engine, running.potential), unseen_cells(running)
    raised = None if late is None else c_transform(engine.problem, cells.transform, late)
    return Sums(engine.problem, cells, soft, raised)


@either_power
def test_a_stream_begins_near_the_potential_of_its_first_batch(p: int) -> None:
    x = NORMAL.optimal_points(5, p)
    running, _ = begun(x, NORMAL.quantile_sample(500), p)
    exact = NORMAL.potential(x, p)  # it is smoothed, and so somewhat narrower
    assert float((running.potential - exact).abs().max()) < 0.5 * float(exact.abs().max()) + 0.3
    assert running.numbers.batches == 1
    assert float(running.potential.sum()) == pytest.approx(0, abs=1e-12)


@either_power
def test_cells_stay_where_they_are_when_points_move(p: int) -> None:
    x = NORMAL.optimal_points(6, p)
    running, _ = begun(x, NORMAL.quantile_sample(2000), p)
    running = StreamState(**{**running.__dict__, "potential": NORMAL.potential(x, p)})
    for scale in (1e-2, 1e-3):
        shifted = x + scale * normal(6, 1)
        error = (
            advect(running, shifted, torch.full((6,), 1 / 6).double()).potential - NORMAL.potential(shifted, p)
        ).abs()
        still = (running.potential - NORMAL.potential(shifted, p)).abs()
        assert float(error.max()) < 0.2 * float(still.max())


def test_a_shift_of_points_in_the_plane_is_carried_to_first_order() -> None:
    x, y = normal(8, 2), normal(4000, 2, seed=1)
    running, problem = begun(x, y)
    shift = torch.tensor([0.01, -0.02], dtype=torch.float64)
    # |y - x - s|^2 differs from |y - x|^2 by -2 y.s + 2 x.s + |s|^2: the cells stay if v gains 2 x.s.
    expected = running.potential + 2 * (x - x.mean(0)) @ shift
    got = advect(running, x + shift, problem.b).potential
    assert float((got - expected).abs().max()) < 0.5 * float((running.potential - expected).abs().max())


def test_points_that_coincide_have_no_boundary() -> None:
    x = torch.zeros(3, 2, dtype=torch.float64)
    coupling, across = boundaries_of(torch.ones(3, 3).double(), torch.zeros(3).double(), x, as_cost(1))
    assert coupling.abs().max() == 0
    assert boundary_drift(coupling, across, x, x + 1).abs().max() == 0


def test_sums_of_parts_add_up_to_those_of_the_whole() -> None:
    x = normal(4, 2)
    running, _ = begun(x, normal(100, 2, seed=1))
    y = normal(90, 2, seed=2)
    whole, *parts = (sums_of(running, x, part) for part in (y, y[:30], y[30:]))
    shares = [effective_size(part.problem) / effective_size(whole.problem) for part in parts]
    for name in ("moments", "mass"):
        total = sum(share * getattr(part.cells, name) for share, part in zip(shares, parts, strict=True))
        torch.testing.assert_close(total, getattr(whole.cells, name), atol=1e-12, rtol=1e-9)
    gram = sum(share * part.renewal.soft.gram for share, part in zip(shares, parts, strict=True))
    torch.testing.assert_close(gram, whole.renewal.soft.gram, atol=1e-12, rtol=1e-9)


def test_a_step_is_newtons_times_the_gain() -> None:
    x, b = normal(4, 2), torch.full((4,), 0.25).double()
    running, _ = begun(x, normal(400, 2, seed=1))
    sums = sums_of(running, x, normal(400, 2, seed=2))
    after = advance(running, *sums, 0.0)
    gain = GAIN / (2 + GAIN - 1)
    laplacian = torch.diag(after.curvature.sum(1) - after.curvature.diagonal()) - after.curvature
    laplacian.fill_diagonal_(0)
    laplacian += torch.diag(-laplacian.sum(1))
    image = laplacian @ (after.potential - running.potential)
    torch.testing.assert_close(image, gain * (b - sums.cells.mass), atol=1e-4, rtol=1e-3)
    assert after.numbers.batches == 2
    assert after.numbers.mean == float(sums.cells.moments[0])


def test_what_is_remembered_is_never_written_to() -> None:
    x = normal(4, 2)
    running, problem = begun(x, normal(50, 2, seed=1))
    before = {name: value.clone() for name, value in running.__dict__.items() if isinstance(value, Tensor)}
    after = advect(running, x + 0.1, problem.b)
    for seed in range(6):
        after = advance(after, *sums_of(after, x + 0.1, normal(50, 2, seed=seed)), 0.0)
    forget(after)
    assert all(torch.equal(getattr(running, name), value) for name, value in before.items())


@pytest.mark.slow
def test_the_potential_stays_centred_over_ten_thousand_steps() -> None:
    x = torch.tensor([[0.0], [10.0]]).double()
    y = torch.arange(4.0).double()[:, None]
    running, _ = begun(x, y)
    for k in range(10_000):
        running = advance(running, *sums_of(running, x, y[k % 4 : k % 4 + 1]), 0.0)
    assert abs(float(running.potential.mean())) < 1e-9
    assert -81 < float(running.potential[0] - running.potential[1]) < -59


def test_a_cell_that_has_been_empty_for_too_long_rises_to_the_nearest_sample() -> None:
    x = torch.tensor([[0.0], [1.0], [50.0]]).double()
    running, _ = begun(x[[0, 1, 1]] + torch.tensor([[0.0], [0.0], [0.1]]), normal(40, 1))
    running = StreamState(**{**running.__dict__, "anchor": x, "overdue": torch.tensor([0.0, 0.0, 99.0]).double()})
    y = normal(40, 1, seed=2)
    sums = sums_of(running, x, y)
    assert sums.raised is not None
    assert sums.raised[:2].isinf().all()
    after = advance(running, *sums, 0.0)
    reduced = (y - x.t()).square() - after.potential
    assert float((reduced[:, 2] - reduced[:, :2].amin(1)).min()) < 2.0


def test_the_c_transform_is_the_highest_potential_that_leaves_a_cell_empty() -> None:
    problem = make_problem(normal(3, 1), normal(30, 1, seed=1))
    cells = make_engine(problem, "dense").hard(torch.tensor([0.0, 0.0, -1e3]).double())
    part = cells.cost - torch.tensor([0.0, 0.0, -1e3]).double()[cells.cell]
    top = float(c_transform(problem, part, torch.tensor([False, False, True]))[2])
    engine = make_engine(problem, "dense")
    assert engine.hard(torch.tensor([0.0, 0.0, top - 1e-9], dtype=torch.float64)).mass[2] == 0
    assert engine.hard(torch.tensor([0.0, 0.0, top + 1e-9], dtype=torch.float64)).mass[2] > 0


def test_chi_square_is_a_standard_normal_of_independent_masses_and_large_of_others() -> None:
    b = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(b, 200 * 1000, replacement=True, generator=generator).view(1000, 200)
    masses = torch.stack([(drawn == i).double().mean(1) for i in range(4)], 1)
    z = torch.tensor([chi_square(b - mass, b, 1 / 200) for mass in masses])
    assert abs(float(z.mean())) < 0.15
    assert 0.85 < float(z.std()) < 1.15
    assert chi_square(torch.tensor([0.1, -0.1, 0.0, 0.0]).double(), b, 1 / 200) > 4
    assert chi_square(torch.tensor([0.1, -0.1, 0.0, 0.0]).double(), b, 1 / 3) == 0
    assert chi_square(torch.zeros(1), torch.ones(1), 1e-3) == 0


def test_the_worth_of_a_batch() -> None:
    x, y = normal(2, 1), normal(4, 1)
    assert effective_size(make_problem(x, y)) == 4
    assert effective_size(make_problem(x, y, 2, None, torch.full((4,), 1e-12))) == 4
    assert not make_problem(x, y, 2, None, torch.tensor([1.0, 1.0, 1.0, 1.0 + 1e-6])).equal
    assert effective_size(make_problem(x, y, 2, None, torch.tensor([1.0, 1.0, 0.0, 0.0]))) == pytest.approx(2)
    assert math.isfinite(effective_size(make_problem(x, y, 2, None, torch.tensor([1.0, 0.0, 0.0, 0.0]))))


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_boundaries_move_alike_wherever_the_points_lie(p: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x, dx = torch.randn(2, 60, 2, generator=generator, dtype=torch.float64)
    curvature = torch.rand(60, 60, generator=generator, dtype=torch.float64)
    curvature = (curvature + curvature.t()).fill_diagonal_(100.0)
    v = 0.1 * torch.randn(60, generator=generator, dtype=torch.float64)
    here = boundary_drift(*boundaries_of(curvature, v, x, as_cost(p)), x, dx)
    far = boundary_drift(*boundaries_of(curvature, v, x + 1e6, as_cost(p)), x + 1e6, dx)
    torch.testing.assert_close(far, here, rtol=0, atol=1e-6 * float(here.abs().max()))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (10, 5), (19, 7), (300, 2)])
def test_a_drift_of_boundaries_is_a_sum_over_pairs(n: int, d: int) -> None:
    coupling, across, x, dx = normal(n, n).t(), normal(n, d, seed=1), normal(n, d, seed=2), normal(n, d, seed=3)
    between = ((x - x[:, None]) * dx[:, None]).sum(2)  # <x_i - x_j, dx_j> of row j and column i
    expected = (coupling * between).sum(0) - (across * dx).sum(1)
    torch.testing.assert_close(boundary_drift(coupling, across, x, dx), expected, rtol=1e-12, atol=1e-11)
