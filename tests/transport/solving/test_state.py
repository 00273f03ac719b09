"""What the state of a solve says of it."""

import pytest
import torch

import torchcoreset as tc
from tests.data import normal

pytestmark = pytest.mark.usefixtures("by_approach")


def test_the_gap_is_that_of_the_bounds() -> None:
    """Also in float32, where rounding ends the search."""
    x, y = normal(50, 2, dtype=torch.float32), normal(5000, 2, seed=1, dtype=torch.float32)
    plan = tc.transport(x, y, tolerance=1e-5)
    assert plan.gap == (plan.value - plan.lower) / plan.value
