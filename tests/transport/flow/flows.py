"""Small problems of min-cost flow, and what every plan has to be."""

import numpy as np

from torchcoreset.transport.flow import Balanced, CandidateArcs, balance, nearest_cells

WEIGHTS = ["equal", "random", "ties", "skew"]
KINDS = ["smooth", "integers", "tails", "scales", "repeated", "far groups"]


def points_of(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows in the plane, (count, 2)."""
    rows = rng.normal(size=(count, 2))
    match kind:
        case "integers":
            return rows.round()
        case "tails":
            return rng.standard_cauchy((count, 2))
        case "scales":
            return rows * 10.0 ** rng.integers(-4, 5, (count, 1))
        case "repeated":
            return rows[np.arange(count) // 2]
        case "far groups":
            return rows + 1e3 * rng.integers(0, 4, (count, 1))
        case _:
            return rows


def instance(seed: int, weights: str, kind: str = "smooth", p: float = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Costs (m, n), sample weights (m,), point weights (n,)."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 25)), int(rng.integers(1, 60))
    kind = "integers" if weights == "ties" else kind
    x, y = points_of(kind, n, rng), points_of(kind, m, rng)
    a, b = np.ones(m), np.ones(n)
    if weights != "equal":
        power = 8 if weights == "skew" else 1
        a, b = rng.random(m) ** power + 1e-9, rng.random(n) ** power + 1e-9
    return ((y[:, None] - x) ** 2).sum(2) ** (p / 2), a / a.sum(), b / b.sum()


def crowded(seed: int, weights: str = "equal") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Many small samples, and points of which a few get far too much: as `instance`."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(40, 2)), 0.5 * rng.normal(size=(600, 2))
    a, b = (np.ones(600), np.ones(40)) if weights == "equal" else (rng.random(600), rng.random(40))
    return ((y[:, None] - x) ** 2).sum(2), a / a.sum(), b / b.sum()


def listed(cost: np.ndarray, allowed: np.ndarray) -> CandidateArcs:
    """Lists of the allowed (m, n) pairs."""
    rows, cols = np.nonzero(allowed)
    return CandidateArcs(np.searchsorted(rows, np.arange(len(cost) + 1)), cols, cost[rows, cols])


def full(cost: np.ndarray) -> CandidateArcs:
    return listed(cost, np.ones(cost.shape, dtype=bool))


def start(cost: np.ndarray, a: np.ndarray, b: np.ndarray, v: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    """Cells, masses, excess and potential to begin with; zero if none is given."""
    v = np.zeros(len(b)) if v is None else v
    cell, _ = nearest_cells(cost, v)
    return cell, a, np.bincount(cell, a, len(b)) - b, v


def solved(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> Balanced:
    return balance(cost, *start(cost, a, b))


def value_of(result: Balanced, cost: np.ndarray) -> float:
    return float(result.mass @ cost[result.rows, result.cols])


def dual_of(v: np.ndarray, cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ (cost - v).min(1) + b @ v)


def assert_feasible(result: Balanced, a: np.ndarray, b: np.ndarray) -> None:
    assert result.mass.min() > 0
    assert len(np.unique(result.rows * len(b) + result.cols)) == len(result.rows)
    assert len(result.rows) <= len(a) + len(b) - 1  # a vertex splits no more samples
    np.testing.assert_allclose(np.bincount(result.rows, result.mass, len(a)), a, atol=1e-12)
    np.testing.assert_allclose(np.bincount(result.cols, result.mass, len(b)), b, atol=1e-11)
