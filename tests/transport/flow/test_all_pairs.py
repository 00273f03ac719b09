"""Flows on all pairs of samples and points, which begin on a part of the samples where these are many."""

import numpy as np
import pytest

from tests.transport.flow.flows import KINDS, points_of, solved, value_of
from torchcoreset.transport.flow import SolvedPairs, solve_pairs

WEIGHTS = {
    "equal": lambda rng, m: np.ones(m),
    "twelve powers": lambda rng, m: 10.0 ** rng.uniform(-12, 0, m),
    "nearly all in one": lambda rng, m: np.where(np.arange(m) == 1, 100.0 * m, 1.0),
    "only between those of the part": lambda rng, m: np.where(np.arange(m) % 4 == 0, 0.0, 1.0),
}


def pairs(kind: str, n: int, m: int, weights: str = "equal") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Costs (m, n), sample weights (m,), point weights (n,)."""
    rng = np.random.default_rng(0)
    x, y = points_of(kind, n, rng), points_of(kind, m, rng)
    a, b = WEIGHTS[weights](rng, m), rng.random(n) + 0.1
    return ((y[:, None] - x) ** 2).sum(2), a / a.sum(), b / b.sum()


def found_from(cost: np.ndarray, a: np.ndarray, b: np.ndarray, v: np.ndarray | None = None) -> SolvedPairs:
    return solve_pairs(cost[None], a[None], b[None], np.zeros((1, len(b))) if v is None else v[None])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(10)
def test_the_plan_is_optimal(kind: str, weights: str) -> None:
    cost, a, b = pairs(kind, 12, 2000, weights)
    lost = np.where(np.arange(12) == 3, 2 * cost.max(), 0.0)  # one cell holds every sample
    for v in (None, lost):
        found = found_from(cost, a, b, v)
        np.testing.assert_allclose(np.bincount(found.rows, found.mass, 2000), a, atol=1e-12)
        np.testing.assert_allclose(np.bincount(found.cols, found.mass, 12), b, atol=1e-11)
        assert found.value[0] == pytest.approx(float(found.mass @ cost[found.rows, found.cols]), rel=1e-12)
        dual = float(a @ (cost - found.potential[0]).min(1) + b @ found.potential[0])
        assert dual == pytest.approx(found.value[0], rel=1e-11, abs=1e-15 * cost.max())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "integers"])  # whose ties go to cells at random
def test_a_part_of_the_samples_first_saves_pivots_on_all(kind: str) -> None:
    cost, a, b = pairs(kind, 10, 20_000)
    at_once, found = solved(cost, a, b), found_from(cost, a, b)
    assert found.value[0] == pytest.approx(value_of(at_once, cost), rel=1e-11)
    assert 0 < found.pivots[0] < 0.6 * at_once.pivots


def test_a_batch_gives_what_each_does_alone() -> None:
    problems = [pairs(kind, 6, 900, weights) for kind, weights in zip(KINDS, [*WEIGHTS, "equal"] * 2, strict=False)]
    cost, a, b = (np.stack(arrays) for arrays in zip(*problems, strict=True))
    found = solve_pairs(cost, a, b, np.zeros_like(b))
    for i, problem in enumerate(problems):
        assert found.value[i] == found_from(*problem).value[0]


def moved(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A problem, and the cells of the plan of points nearby."""
    rng = np.random.default_rng(1)
    centres = 20 * rng.normal(size=(6, 2))
    y = (
        centres[rng.integers(0, 6, 6000)] + rng.normal(size=(6000, 2))
        if kind == "clusters"
        else points_of(kind, 6000, rng)
    )
    x = y[:10] + 0.1
    a, b = np.full(6000, 1 / 6000), np.full(10, 1 / 10)
    cost, near = (((y[:, None] - points) ** 2).sum(2) for points in (x + 0.3 * rng.normal(size=x.shape), x))
    plan = found_from(near, a, b)
    cells = np.zeros(6000, dtype=np.int64)
    cells[plan.rows] = plan.cols
    return cost, a, b, cells


@pytest.mark.parametrize("kind", ["clusters", "smooth", "tails"])
def test_cells_of_an_earlier_plan_are_a_start_unless_they_are_lost(kind: str) -> None:
    cost, a, b, cells = moved(kind)
    lost = np.where(np.arange(10) == 3, cost.max(), 0.0)
    cold = found_from(cost, a, b, lost)
    from_cells = solve_pairs(cost[None], a[None], b[None], lost[None], cells[None])
    from_any = solve_pairs(cost[None], a[None], b[None], lost[None], np.roll(cells, 1)[None])
    assert from_cells.value[0] == pytest.approx(cold.value[0], rel=1e-11)
    assert from_any.pivots[0] == cold.pivots[0], "they are not used"
    assert from_any.value[0] == cold.value[0]
    assert from_cells.pivots[0] != cold.pivots[0]


def test_cells_of_an_earlier_plan_are_left_where_zero_is_balanced() -> None:
    y = np.random.default_rng(0).random((9, 3))
    cost = ((y[:, None] - (y + 1e-7)) ** 2).sum(2) ** 1.5
    a, lost = np.full((1, 9), 1 / 9), np.where(np.arange(9) == 3, 10.0, 0.0)[None]
    found = solve_pairs(cost[None], a, a, lost, np.roll(np.arange(9), 1)[None])
    assert found.pivots[0] == 0
    assert not found.potential.any(), "a potential of the size of other costs would cost all digits of these"
