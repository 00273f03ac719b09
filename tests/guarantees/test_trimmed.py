"""Certificates for the distance to all but the farthest share."""

import functools
from collections.abc import Callable

import pytest
import torch

import torchcoreset as tc
from tests.data import normal


def with_outliers(count: int) -> torch.Tensor:
    y = torch.randn(count, 1, dtype=torch.float64)
    y[torch.rand(count) < 0.02] += 50
    return y


def cauchy(u: torch.Tensor) -> torch.Tensor:
    """Quantiles, but for the farthest tails."""
    return torch.tan((u - 0.5) * 3.14159)


def heavy_tails(count: int) -> torch.Tensor:
    return cauchy(torch.rand(count, 1, dtype=torch.float64))


X = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)


@functools.cache
def trimmed_distance(source: Callable[[int], torch.Tensor], p: float) -> float:
    """From quantiles in the middle of 20,000 equal shares: to 1e-6 that of 50,000; 400,000 draws are 0.5 % off."""
    u = (torch.arange(20_000, dtype=torch.float64)[:, None] + 0.5) / 20_000
    rows, weights = cauchy(u), None
    if source is with_outliers:
        rows = torch.special.ndtri(u)
        rows, weights = torch.cat((rows, rows + 50)), torch.tensor([0.98, 0.02]).double().repeat_interleave(len(u))
    return tc.transport(X, rows, p, None, weights, trim=0.05).value ** (1 / p)


@pytest.mark.filterwarnings("ignore:source. one of")
@pytest.mark.parametrize("source", [with_outliers, heavy_tails])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("rows", [100, 1000])
def test_the_interval_holds_the_trimmed_distance(source: Callable[[int], torch.Tensor], p: float, rows: int) -> None:
    truth, missed = trimmed_distance(source, p), 0
    runs = range(25)
    for seed in runs:
        torch.manual_seed(seed + 1000)
        found = tc.certify(X, source(rows), p, trim=0.05, seed=seed)
        assert found.lower <= found.upper
        missed += not found.lower <= truth <= found.upper
    assert missed <= 0.15 * len(runs)  # 5 % of them at most, but for chance


@pytest.mark.filterwarnings("ignore:source. one of")
def test_an_outlier_does_not_widen_it() -> None:
    y = normal(5000, 2)
    x = tc.build_coreset(normal(5000, 2, seed=1), 10).coreset
    clean = tc.certify(x, y)
    found = tc.certify(x, torch.cat((y, torch.full((20, 2), 1e6).double())), trim=0.01)
    assert found.upper < 1.1 * clean.upper
    assert found.trim == 0.01
    assert "trim=0.01" in repr(found)


def test_weighted_rows_count() -> None:
    y = normal(3000, 1)
    w = torch.ones(3000)
    w[:1000] = 2
    found = tc.certify(X, tc.as_source(y, w), 2, trim=0.1)
    truth = tc.transport(X, y, 2, None, w, trim=0.1).value ** 0.5
    assert found.lower < truth < found.upper


def test_what_does_not_go_together() -> None:
    with pytest.raises(ValueError, match=r"trim: got 0\.1 with a bound"):
        tc.certify(X, normal(100, 1), trim=0.1, bound=10)
    with pytest.raises(ValueError, match="trim: got 1;"):
        tc.certify(X, normal(100, 1), trim=1)
    with pytest.raises(ValueError, match="source: 5 rows were left to certify with, after 5"):
        tc.certify(X, normal(10, 1), trim=0.1)
