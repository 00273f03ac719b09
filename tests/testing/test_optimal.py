"""The global optimum of tiny problems, against closed forms and against every point of a grid."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.data import normal
from torchcoreset.testing import best_value, line_transport


def test_as_many_points_as_rows_cost_nothing() -> None:
    assert best_value(normal(4, 2), 4) == 0


def test_one_point_costs_the_variance() -> None:
    y, a = normal(5, 2), torch.tensor([1.0, 2, 3, 4, 0.5]).double()
    mean = a @ y / a.sum()
    assert best_value(y, 1, row_weights=a) == pytest.approx(float(a @ (y - mean).square().sum(1) / a.sum()))


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_no_points_of_a_grid_on_the_line_are_nearer(p: float) -> None:
    y, a, b = torch.tensor([[0.0], [1.0], [1.5], [4.0]]), torch.tensor([1.0, 3, 2, 2]), torch.tensor([1.0, 2])
    best = best_value(y, 2, p, row_weights=a, weights=b)
    grid = torch.linspace(0, 4, 41).tolist()
    tried = [line_transport(torch.tensor(x)[:, None], y, p, b, a).value for x in itertools.product(grid, grid)]
    assert best <= min(tried) + 1e-12
    assert best == pytest.approx(min(tried), rel=0.05)


def test_what_is_too_large_or_not_on_the_line_is_refused() -> None:
    with pytest.raises(ValueError, match="expected fewer"):
        best_value(normal(12, 1), 5)
    with pytest.raises(ValueError, match="expected one, or p=2"):
        best_value(normal(3, 2), 2, 1)
