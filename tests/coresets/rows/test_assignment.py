"""Distinct columns at the least cost: against all assignments, and against scipy's."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from torchcoreset.coresets.rows.assignment import assign


@pytest.mark.parametrize("seed", range(20))
def test_the_best_of_all_assignments(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m = int(random.integers(1, 6)), 6
    costs = random.integers(0, 5, (n, m)).astype(float)  # many ties
    best = min(sum(costs[i, j] for i, j in enumerate(chosen)) for chosen in permutations(range(m), n))
    found = assign(costs.__getitem__, n, m)
    assert len(set(found.tolist())) == n
    assert costs[np.arange(n), found].sum() == best


def test_the_same_cost_as_scipy() -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="needs scipy")
    random = np.random.default_rng(0)
    rows = random.standard_normal((200, 2))
    costs = np.abs(random.standard_normal((80, 1, 2)) * 0.1 - rows).sum(2)  # all want the same rows
    found = assign(costs.__getitem__, 80, 200)
    assert len(set(found.tolist())) == 80
    assert costs[np.arange(80), found].sum() == pytest.approx(costs[optimize.linear_sum_assignment(costs)].sum())


def test_where_rows_may_not_go() -> None:
    costs = np.array([[1.0, 9.0, 9.0], [0.0, np.inf, np.inf]])
    assert assign(costs.__getitem__, 2, 3).tolist() == [1, 0]
