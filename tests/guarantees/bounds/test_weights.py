"""How heavy the tail of weights is, and when that is told."""

from __future__ import annotations

import math

import pytest
import torch

from torchcoreset.guarantees.bounds.weights import pareto_shape


def quantiles(count: int) -> torch.Tensor:
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


@pytest.mark.parametrize("k", [0.1, 0.3, 0.5, 1.0])
def test_the_shape_of_pareto_weights(k: float) -> None:
    weights = (1 - quantiles(20_000)) ** -k
    assert pareto_shape(weights) == pytest.approx(k, abs=0.06)
    assert pareto_shape(1e-9 * weights.flip(0)) == pytest.approx(pareto_shape(weights))


def test_bounded_weights_have_no_tail() -> None:
    assert pareto_shape(quantiles(2000)) < -0.5
    assert abs(pareto_shape(-torch.log1p(-quantiles(20_000)))) < 0.1  # exponential


@pytest.mark.parametrize(
    "weights", [torch.ones(100), torch.ones(3), torch.tensor([1.0, 2.0]).repeat(50), torch.tensor([1e9] + [1.0] * 99)]
)
def test_ties_and_few_weights_say_nothing(weights: torch.Tensor) -> None:
    assert pareto_shape(weights) == -math.inf
