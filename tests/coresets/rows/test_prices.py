"""What swaps are said to lead to, against their transports."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.coresets.rows.prices import cells_of, inverse_hessian, swap_prices
from torchcoreset.coresets.rows.screen import Screen
from torchcoreset.transport import as_cost

GENERATOR = torch.Generator().manual_seed(0)
Y = torch.randn(60, 2, generator=GENERATOR, dtype=torch.float64)
UNEVEN = torch.rand(60, generator=GENERATOR, dtype=torch.float64)
ROWS = torch.tensor([3, 14, 15, 9, 26])
UNEQUAL = torch.tensor([0.4, 0.3, 0.1, 0.1, 0.1], dtype=torch.float64)


def swapped(position: int, row: int) -> Tensor:
    rows = ROWS.clone()
    rows[position] = row
    return rows


def prices(p: float, a: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor, Tensor, tc.Transport, Screen]:
    cost, weights = as_cost(p), "free" if b is None else b
    plan = tc.transport(Y[ROWS], Y, p, weights, a, tolerance=1e-6)
    mass = plan.weights
    cells = cells_of(Y, Y[ROWS], plan.potential, cost)
    inverse = None if b is None else inverse_hessian(Y, a, Y[ROWS], plan.potential, cells, cost)
    found = swap_prices(Y, a, mass, plan.potential, Y, cells, inverse, plan.lower, cost, free=b is None)
    return *found, plan, Screen(Y, a, ROWS, b, cost)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("a", [torch.full((60,), 1 / 60, dtype=torch.float64), UNEVEN / UNEVEN.sum()])
@pytest.mark.parametrize("b", [torch.full((5,), 0.2, dtype=torch.float64), UNEQUAL])
def test_bounds_hold_and_estimates_rank(p: float, a: Tensor, b: Tensor) -> None:
    bounds, estimates, heights, plan, screen = prices(p, a, b)
    values = torch.tensor([
        [tc.transport(Y[swapped(i, k)], Y, p, b, a, tolerance=1e-6).value for k in range(60)] for i in range(5)
    ], dtype=torch.float64)  # fmt: skip
    assert (bounds <= values * (1 + 1e-9)).all()
    order = torch.stack((estimates.flatten(), values.flatten())).argsort(1).argsort(1).double()
    assert torch.corrcoef(order)[0, 1] > 0.8
    for i, k in [(0, 1), (3, 40), (4, 59)]:
        guess = plan.potential.clone()
        guess[i] = heights[k]
        bound, potential = screen.bound(i, k, guess.numpy(), math.inf)
        assert bounds[i, k] * (1 - 1e-12) <= bound <= values[i, k] * (1 + 1e-9)
        assert bound > 0.9 * values[i, k]
        assert len(potential) == 5


@pytest.mark.parametrize("p", [1, 2, 3])
def test_bounds_of_free_weights_are_the_values(p: float) -> None:
    a = UNEVEN / UNEVEN.sum()
    bounds, estimates, _, _, screen = prices(p, a, None)
    assert torch.equal(bounds, estimates)
    for i in range(5):
        for k in range(60):
            value = float(a @ as_cost(p).pairwise_exact(Y, Y[swapped(i, k)]).amin(1))
            assert float(bounds[i, k]) == pytest.approx(value, rel=1e-9)
            assert screen.bound(i, k, torch.zeros(5, dtype=torch.float64).numpy(), math.inf)[0] == pytest.approx(value)


def test_one_row() -> None:
    a, cost = torch.full((60,), 1 / 60, dtype=torch.float64), as_cost(2)
    zero = torch.zeros(1, dtype=torch.float64)
    cells = cells_of(Y, Y[:1], zero, cost)
    assert inverse_hessian(Y, a, Y[:1], zero, cells, cost) is None
    lower = float(a @ cost.pairwise_exact(Y, Y[:1])[:, 0])
    bounds, _, _ = swap_prices(Y, a, zero + 1, zero, Y, cells, None, lower, cost, free=False)
    torch.testing.assert_close(bounds[0], a @ cost.pairwise_exact(Y, Y))
