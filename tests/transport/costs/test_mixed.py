"""Numbers and categories: unseen codes, tables of categories alone, and the rows that coordinates go back to."""

from __future__ import annotations

import pytest
import torch

import torchcoreset as tc
from tests.data import normal
from torchcoreset.testing import categories_value


@pytest.mark.parametrize("p", [1, 2, 3])
def test_categories_alone_cost_their_total_variation(p: float) -> None:
    y = torch.tensor([0, 0, 0, 1, 1, 2, 7, 7, 7, 7])[:, None]
    x, b = torch.tensor([[0.0], [1.0], [2.0], [7.0]]), torch.tensor([1.0, 1, 1, 1])
    found = tc.transport(x, y, p, b, cost=tc.costs.Mixed([0], price=3.0))
    assert found.value == pytest.approx(categories_value(b, torch.tensor([3, 2, 1, 4]), 3.0, p), rel=1e-6)


def test_codes_that_no_point_has_cost_the_price_each() -> None:
    cost = tc.costs.Mixed([0, 1], price=[2.0, 5.0])
    x = torch.tensor([[1.0, 1.0]])
    for code, value in (([1, 1], 0), ([9, 1], 4), ([1, -3], 25), ([9, -3], 29), ([2.0, 1e6], 29)):
        assert tc.wasserstein(x, torch.tensor([code]), cost=cost).item() == pytest.approx(value)
    many = torch.arange(5000)[:, None].expand(-1, 2)  # more values than a category may have, in samples alone
    assert tc.wasserstein(x, many, cost=cost).item() == pytest.approx(29 * 4999 / 5000)


def test_columns_may_be_counted_from_the_end_and_numbers_weighted() -> None:
    x, y = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[4.0, 1.0, 4.0]])
    cost = tc.costs.Mixed(-3, price=2.0, weights=[100.0, 1.0, 0.5])  # the weight of a category does not count
    assert tc.wasserstein(x, y, cost=cost).item() == pytest.approx(4 + 1)


def test_rows_come_back_with_the_commonest_category() -> None:
    y = torch.tensor([[5.0, 0.0, 1.0], [9.0, 2.0, 3.0], [9.0, 4.0, 2.0]], dtype=torch.float64)
    cost = tc.costs.Mixed([0], price=3.0, weights=[1.0, 2.0, 4.0]).fitted(y)
    coordinates = cost.coordinates(y)
    torch.testing.assert_close(cost.rows(coordinates), y)
    mean = coordinates.mean(0, keepdim=True)
    torch.testing.assert_close(cost.rows(mean), torch.tensor([[9.0, 2.0, 2.0]], dtype=torch.float64))
    assert torch.equal(cost.feasible(coordinates), coordinates)


def test_other_divergences_take_categories_of_both_sides() -> None:
    """Two categories 3 apart that share no mass: an energy distance of 2 E|X-Y| - E|X-X'| - E|Y-Y'|, halved."""
    x, y = torch.zeros(4, 1), torch.ones(6, 1)
    assert tc.energy_distance(x, y, cost=tc.costs.Mixed([0], 3.0)).item() == pytest.approx(3.0)
    mixed = torch.tensor([[0.0], [0.0], [1.0], [2.0]])
    value = tc.energy_distance(torch.zeros(1, 1), mixed, cost=tc.costs.Mixed([0], 3.0)).item()
    assert value == pytest.approx(3 * 0.5 - 3 * (1 - (0.25 + 2 / 16)) / 2)


def test_categories_have_no_gradient() -> None:
    x = torch.cat((normal(4, 2), torch.tensor([[0.0], [1], [1], [2]])), 1).requires_grad_()
    y = torch.cat((normal(30, 2, seed=1), torch.arange(30.0)[:, None] % 4), 1)
    tc.wasserstein(x, y, cost=tc.costs.Mixed([2])).backward()
    assert bool((x.grad[:, 2] == 0).all())
    assert bool((x.grad[:, :2] != 0).all())
