"""The north-west corner rule."""

import numpy as np
import pytest

from tests.transport.flow.flows import instance
from torchcoreset.transport.flow import north_west_corner


@pytest.mark.parametrize("seed", range(10))
def test_its_plan_is_feasible(seed: int) -> None:
    cost, a, b = instance(seed, "random")
    rows, cols = np.arange(len(a)), cost.argmin(1)
    excess = np.bincount(cols, a, len(b)) - b
    rows, cols, mass = north_west_corner(rows, cols, a, excess)
    assert mass.min() >= 0
    np.testing.assert_allclose(np.bincount(rows, mass, len(a)), a, atol=1e-14)
    np.testing.assert_allclose(np.bincount(cols, mass, len(b)), b, atol=1e-14)


def test_sums_that_differ_by_rounding_leave_what_samples_send() -> None:
    """Without a taker for it, or with one that takes more than is there."""
    rows, cols, mass = np.arange(4), np.array([0, 0, 1, 1]), np.array([1e-9, 0.5, 0.3, 0.2 - 1e-9])
    for excess in (np.array([1e-12, 0.0]), np.array([1e-12, -3e-12]), np.array([0.0, -1e-12])):
        moved = north_west_corner(rows, cols, mass, excess)
        np.testing.assert_allclose(np.bincount(moved[0], moved[2], 4), mass, rtol=1e-15)
