"""The best place in a cell: means, geometric medians, and steps that never raise the cost."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset import Coupling
from torchcoreset.coresets.algorithms import cells
from torchcoreset.coresets.algorithms.cells import cell_centres

every_power = pytest.mark.parametrize("p", [1, 1.2, 1.5, 2, 2.5, 3, 4, 8])


def random_plan(m: int, n: int, seed: int) -> Coupling:
    """Every sample in a random cell, a third of them split between two."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.cat((torch.arange(m), torch.arange(m // 3)))
    cols = torch.randint(n, (len(rows),), generator=generator)
    mass = torch.rand(len(rows), generator=generator, dtype=torch.float64)
    return Coupling(rows, cols, mass / mass.sum(), (m, n))


def one_cell(masses: list[float]) -> Coupling:
    m = len(masses)
    return Coupling(torch.arange(m), torch.zeros(m, dtype=torch.int64), torch.tensor(masses).double(), (m, 1))


def costs(x: Tensor, y: Tensor, plan: Coupling, p: float) -> Tensor:
    """sum_k pi_ki |y_k - x_i|^p for each point."""
    distance = (y[plan.rows] - x[plan.cols]).norm(dim=1)
    return torch.zeros(len(x), dtype=torch.float64).index_add_(0, plan.cols, plan.mass * distance**p)


def repeated(x: Tensor, y: Tensor, plan: Coupling, p: float, times: int) -> Tensor:
    for _ in range(times):
        x = cell_centres(x, y, plan, p)
    return x


def test_p2_is_the_mean_of_the_cells() -> None:
    x, y = normal(5, 2), normal(60, 2, seed=1)
    for plan in (random_plan(60, 5, 2), tc.transport(x, y, sample_weights=torch.arange(1, 61)).plan):
        matrix = plan.to_sparse().to_dense()
        expected = matrix.t() @ y / matrix.sum(0)[:, None]
        torch.testing.assert_close(cell_centres(x, y, plan, 2), expected, rtol=1e-12, atol=1e-12)


def test_a_point_that_stays_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    y, x = 2 * normal(60, 2) ** 3, 3 * normal(2, 2, seed=1)
    masses = torch.full((60,), 1 / 60, dtype=torch.float64)
    plan = Coupling(torch.arange(60), torch.arange(60) % 2, masses, (60, 2))
    alone = cell_centres(x[1:], y[1::2], one_cell([1 / 60] * 30), 1)
    measured = cells._costs

    def at_its_best(places: Tensor, *problem: Any) -> Tensor:
        costs = measured(places, *problem)
        costs[0] += float((places[0] != x[0]).any())  # of the first point, whose every step raises the cost
        return costs

    monkeypatch.setattr(cells, "_costs", at_its_best)
    found = cell_centres(x, y, plan, 1)
    assert torch.equal(found[0], x[0])
    torch.testing.assert_close(found[1:], alone)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 1.5, 3])
def test_repetition_converges_to_the_minimiser(p: float) -> None:
    x, y, plan = normal(4, 2), normal(50, 2, seed=1), random_plan(50, 4, 2)
    found = costs(repeated(x, y, plan, p, 200), y, plan, p)
    for i in range(4):

        def cost(z: np.ndarray, i: int = i) -> float:
            moved = x.clone()
            moved[i] = torch.from_numpy(z)
            return float(costs(moved, y, plan, p)[i])

        best = scipy.optimize.minimize(
            cost, x[i].numpy(), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-10}
        )
        assert float(found[i]) == pytest.approx(best.fun, rel=1e-7)


def test_p1_stays_on_the_sample_that_is_the_median() -> None:
    y = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]]).double()
    assert torch.equal(cell_centres(torch.zeros(1, 2).double(), y, one_cell([0.2] * 5), 1), torch.zeros(1, 2).double())
    heavy = cell_centres(y[3:4], y, one_cell([0.1, 0.1, 0.1, 0.6, 0.1]), 1)
    assert torch.equal(heavy, y[3:4]), "half of the mass is a median"


def test_p1_leaves_a_sample_that_is_no_median() -> None:
    y = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]]).double()
    plan = one_cell([0.2] * 5)
    once = cell_centres(y[3:4], y, plan, 1)
    assert float(costs(once, y, plan, 1)) < float(costs(y[3:4], y, plan, 1))
    torch.testing.assert_close(repeated(y[3:4], y, plan, 1, 300), torch.zeros(1, 2).double(), rtol=0, atol=1e-3)


@every_power
@pytest.mark.parametrize("start", ["near", "far", "on samples"])
def test_no_plan_costs_more_at_its_centres(p: float, start: str) -> None:
    for seed in range(10):
        y, plan = normal(40, 2, seed=seed), random_plan(40, 6, seed)
        x = {"near": normal(6, 2, seed=seed + 1), "far": 10 + normal(6, 2, seed=seed + 1), "on samples": y[:6]}[start]
        before, after = (costs(z, y, plan, p) for z in (x, cell_centres(x, y, plan, p)))
        assert bool((after <= before * (1 + 1e-12)).all())


@every_power
@pytest.mark.parametrize("heavy", [0.6, 0.9, 0.999])
def test_a_point_on_a_heavy_sample_moves_to_no_worse_place(p: float, heavy: float) -> None:
    y, plan = torch.tensor([[0.0], [1.0]]).double(), one_cell([heavy, 1 - heavy])
    before, after = (costs(z, y, plan, p).item() for z in (y[:1], cell_centres(y[:1], y, plan, p)))
    assert after <= before * (1 + 1e-12)


@every_power
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_without_mass_stay(p: float, dtype: torch.dtype) -> None:
    x, y = normal(3, 2).to(dtype), normal(20, 2, seed=1).to(dtype)
    plan = random_plan(20, 2, 3)
    moved = cell_centres(x, y, Coupling(plan.rows, plan.cols, plan.mass, (20, 3)), p)
    assert moved.dtype == dtype
    assert torch.equal(moved[2], x[2])
    assert not torch.equal(moved[:2], x[:2])
    no_mass = cell_centres(x, y, Coupling(plan.rows, plan.cols, 0 * plan.mass, (20, 3)), p)
    assert torch.equal(no_mass, x)


@every_power
def test_far_from_the_origin_float32_keeps_its_digits(p: float) -> None:
    x, y, plan = normal(4, 2), normal(60, 2, seed=1), random_plan(60, 4, 2)
    near, far = (cell_centres((z + x).float(), (z + y).float(), plan, p) for z in (0, 4096))
    torch.testing.assert_close(far - 4096, near, rtol=0, atol=2e-3)
