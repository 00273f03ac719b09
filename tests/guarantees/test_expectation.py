"""The error of one mean: right on expectations known in closed form, and less varied than a plain mean."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import line
from torchcoreset.testing import NORMAL

POINTS = NORMAL.optimal_points(10, p=1)


@pytest.mark.slow
def test_coverage_and_variance() -> None:
    """E |Y| = sqrt(2 / pi): 200 intervals hold the error of the points at least 190 times."""
    truth = math.sqrt(2 / math.pi) - float(POINTS.abs().mean())
    found = [
        tc.expectation_error(POINTS, line, lambda y: y.abs()[:, 0], samples=2000, seed=seed) for seed in range(200)
    ]
    assert sum(one.lower <= abs(truth) <= one.upper for one in found) >= 190
    mean = sum(one.error for one in found) / 200
    assert mean == pytest.approx(truth, abs=4 * found[0].standard_error / math.sqrt(200))  # unbiased
    assert sum(one.variance_ratio for one in found) / 200 < 0.25  # a tenth of the calls, worth nearly all


def test_the_lipschitz_bound_is_above_the_error() -> None:
    found = tc.expectation_error(POINTS, line, lambda y: y.abs()[:, 0], samples=50_000, lipschitz=1.0)
    assert found.lipschitz_bound == found.distance.upper
    assert found.upper <= found.lipschitz_bound
    assert found.distance.lower < 0.1252333238 < found.distance.upper


def test_calling_everywhere_is_the_plain_mean() -> None:
    found = tc.expectation_error(POINTS, line, lambda y: y.square()[:, 0], samples=4000, evaluations=4000)
    assert found.evaluations == found.samples == 4000
    assert found.variance_ratio == pytest.approx(1, rel=1e-9)


def test_a_constant_has_no_error() -> None:
    found = tc.expectation_error(POINTS, line, lambda y: torch.ones(len(y)), samples=1000)
    assert (found.lower, found.upper) == (0, 0)
    assert found.variance_ratio == 1


def test_f_is_called_as_often_as_said() -> None:
    calls = 0

    def f(y: Tensor) -> Tensor:
        nonlocal calls
        calls += len(y)
        return y[:, 0]

    found = tc.expectation_error(POINTS, line, f, samples=20_000, evaluations=500)
    assert found.evaluations == 500
    assert calls <= 500 + 1000 + 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"f": lambda y: torch.cat((y, y), 1)}, "f: got 2 numbers for each row; expected one"),
        ({"f": lambda y: 1.0}, "f output: got a single number; expected rows"),
        ({"f": lambda y: y[:3, 0]}, "f: got 3 rows for 10 samples; expected one row for each"),
        ({"evaluations": 2000}, "evaluations: got 2000 with 1000 samples"),
        ({"lipschitz": math.inf}, "lipschitz: got inf"),
        ({"confidence": 0}, "confidence: got 0"),
    ],
)
def test_unusable_arguments(changes: dict[str, object], message: str) -> None:
    arguments = {"coreset": POINTS, "source": line, "f": lambda y: y[:, 0], "samples": 1000} | changes
    with pytest.raises(ValueError, match=message):
        tc.expectation_error(**arguments)


def test_a_few_calls_give_no_interval() -> None:
    """One call has no variance, and an interval of no width would be a lie."""
    for few in (1, 29):
        with pytest.raises(ValueError, match=f"evaluations: got {few} with 5000 samples; expected 30 at least"):
            tc.expectation_error(POINTS, line, lambda y: y.square()[:, 0], samples=5000, evaluations=few)
    assert tc.expectation_error(POINTS, line, lambda y: y.square()[:, 0], samples=290).evaluations == 30
