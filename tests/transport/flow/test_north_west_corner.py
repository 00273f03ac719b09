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
