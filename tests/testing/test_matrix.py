"""The linear program for any matrix of costs, against POT and the line; and its closed form for equal costs."""

from __future__ import annotations

import ot
import pytest
import torch

from tests.data import normal
from torchcoreset.testing import E1, bounded_value, categories_value, line_transport, matrix_value


def test_the_program_is_optimal_transport() -> None:
    costs, b, a = normal(20, 6).exp(), normal(6, seed=1).exp(), normal(20, seed=2).exp()
    expected = ot.emd2((a / a.sum()).numpy(), (b / b.sum()).numpy(), costs.numpy())
    assert matrix_value(costs, b, a) == pytest.approx(expected, rel=1e-9)
    costs = (E1.samples - E1.points.T).abs()
    assert matrix_value(costs) == pytest.approx(line_transport(E1.points, E1.samples, 1).value)


def test_bounds_let_samples_go_to_their_nearest() -> None:
    costs = normal(20, 6).exp()
    assert bounded_value(costs, torch.zeros(6), torch.ones(6)) == pytest.approx(float(costs.amin(1).mean()))
    with pytest.raises(ValueError, match=r"low, high: .*expected bounds"):
        bounded_value(costs, torch.zeros(6), torch.full((6,), 0.1))


def test_equal_costs_are_paid_for_the_total_variation() -> None:
    shares, others = normal(5).exp(), normal(5, seed=1).exp()
    costs = 3.0**2 * (1 - torch.eye(5))
    assert categories_value(shares, others, 3.0, 2) == pytest.approx(matrix_value(costs, shares, others), rel=1e-9)


@pytest.mark.parametrize("weights", [torch.ones(3), torch.tensor([1.0, -1.0]), torch.zeros(2)])
def test_weights_that_are_none(weights: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="point_weights: got shape"):
        matrix_value(torch.ones(4, 2), weights)
