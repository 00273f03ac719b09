"""Small problems of min-cost flow, and what every plan has to be."""

import numpy as np

from torchcoreset.transport.flow.min_cost_flow import Balanced

WEIGHTS = ["equal", "random", "ties", "skew"]
ROUNDING = 1e-14  # arc tolerance of an exact plan


def instance(seed: int, weights: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Costs (m, n), sample weights (m,), point weights (n,)."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 25)), int(rng.integers(1, 60))
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    if weights == "ties":
        x, y = x.round(), y.round()
    a, b = np.ones(m), np.ones(n)
    if weights != "equal":
        power = 8 if weights == "skew" else 1
        a, b = rng.random(m) ** power + 1e-9, rng.random(n) ** power + 1e-9
    return ((y[:, None] - x) ** 2).sum(2), a / a.sum(), b / b.sum()


def assert_feasible(result: Balanced, a: np.ndarray, b: np.ndarray) -> None:
    assert result.mass.min() > 0
    np.testing.assert_allclose(np.bincount(result.rows, result.mass, len(a)), a, atol=1e-12)
    np.testing.assert_allclose(np.bincount(result.cols, result.mass, len(b)), b, atol=1e-11)
