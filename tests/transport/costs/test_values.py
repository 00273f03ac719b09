"""Optimal transport by each distance, against exact solvers on matrices of costs computed elsewhere."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from tests.transport.costs.distances import BY_NAME, DISTANCES, Distance, city_block, some_weights
from torchcoreset.testing import bounded_value, matrix_value

every_distance = pytest.mark.parametrize("distance", DISTANCES, ids=lambda distance: distance.name)
every_power = pytest.mark.parametrize("p", [1, 1.5, 2, 3])


def optimum(costs: np.ndarray, b: Tensor | None = None, a: Tensor | None = None) -> float:
    """The value by POT's network simplex, of costs brought to 1."""
    top = max(float(costs.max()), 1e-300)
    shares = [[] if w is None else (w / w.sum()).double().numpy() for w in (a, b)]
    return top * float(ot.emd2(*shares, np.ascontiguousarray(costs / top), numItermax=10**6))


def check(found: tc.Transport, truth: float, slack: float) -> None:
    """The bounds hold the truth, but for an absolute `slack`, and are as near as they say."""
    assert found.lower <= truth + slack
    assert truth <= found.value + slack
    assert found.gap <= 1e-3
    assert found.value - found.lower <= 1.01e-3 * found.value


@every_distance
@every_power
@pytest.mark.parametrize("kind", ["normal", "clusters", "cauchy", "repeated", "ints"])
def test_values_are_those_of_the_matrix(distance: Distance, p: float, kind: str) -> None:
    y, x = distance.cloud(kind, 80), distance.rows(normal(7, 3, seed=9).round(decimals=1))
    b, a = some_weights(7), some_weights(80, seed=4)
    truth = optimum(distance.powers(x, y, p), b, a)
    given = y.long() if kind == "ints" and bool((y == y.round()).all()) else y
    check(tc.transport(x, given, p, b, a, cost=distance.cost), truth, 1e-6 * truth)


@every_distance
def test_float32_and_more_points_than_samples(distance: Distance) -> None:
    for n, m in ((5, 3000), (12, 5), (1, 1), (3, 1)):
        y, x = distance.cloud("normal", m).float(), distance.rows(normal(n, 3, seed=9)).float()
        truth = optimum(distance.powers(x, y, 2))
        check(tc.transport(x, y, cost=distance.cost), truth, 1e-5 * truth)


@every_distance
def test_rows_that_are_all_the_same_cost_nothing(distance: Distance) -> None:
    y = distance.rows(normal(1, 3, seed=5)).expand(40, -1)
    for p in (1, 2, 3):
        found = tc.transport(y[:3], y, p, cost=distance.cost)
        assert found.value <= 1e-12
        assert found.status is tc.Status.CONVERGED


@pytest.mark.parametrize("name", ["scaled", "mahalanobis", "cosine", "function"])
def test_far_from_the_origin(name: str) -> None:
    distance = BY_NAME[name]
    y, x = (distance.rows(rows + 1e6) for rows in (normal(80, 3), normal(7, 3, seed=9)))
    for p in (1, 2):
        shift = 0 if name == "cosine" else 1e6
        costs = distance.powers(x - shift, y - shift, p)
        if name == "cosine":  # SciPy's 1 - cos cancels: the chord of nearby directions, by their difference
            y1, x1 = (rows / rows.norm(dim=1, keepdim=True) for rows in (y, x))
            costs = torch.cdist(y1, x1, compute_mode="donot_use_mm_for_euclid_dist").numpy() ** p
        truth = optimum(costs)
        check(tc.transport(x, y, p, cost=distance.cost), truth, 1e-6 * truth)


@pytest.mark.parametrize("name", ["scaled", "mahalanobis", "cosine", "function"])
def test_784_columns(name: str) -> None:
    y, x, w = normal(30, 784), normal(4, 784, seed=1), normal(784, seed=2).exp()
    matrix = np.diag(w.numpy()) + 0.1
    cost, truth = {
        "scaled": (tc.costs.Scaled(w), lambda: cdist(y * w, x * w)),
        "mahalanobis": (tc.costs.Mahalanobis(matrix), lambda: cdist(y, x, "mahalanobis", VI=matrix)),
        "cosine": (tc.costs.Cosine(), lambda: np.sqrt(2 * cdist(y, x, "cosine"))),
        "function": (city_block, lambda: cdist(y, x, "cityblock")),
    }[name]
    value = optimum(truth() ** 2)
    check(tc.transport(x, y, cost=cost), value, 1e-9 * value)


@every_distance
def test_free_and_bounded_weights_and_trim(distance: Distance) -> None:
    y, x = distance.cloud("clusters", 40), distance.rows(normal(5, 3, seed=9))
    low, high = torch.zeros(5), torch.ones(5)
    costs = torch.from_numpy(distance.powers(x, y, 2))
    free = tc.transport(x, y, 2, "free", cost=distance.cost)
    assert free.value == pytest.approx(bounded_value(costs, low, high), rel=2e-3)
    bounded = tc.transport(x, y, 2, (0.5, 1.5), cost=distance.cost)
    assert bounded.value == pytest.approx(bounded_value(costs, low + 0.1, high * 0.3), rel=2e-3)
    trimmed = tc.transport(x, y, 2, trim=0.2, cost=distance.cost)
    assert trimmed.value == pytest.approx(bounded_value(costs, low + 0.2, high * 0.2, trim=0.2), rel=2e-3)


@every_distance
def test_a_batch_is_its_pairs(distance: Distance) -> None:
    x = torch.stack([distance.rows(normal(4, 3, seed=seed)) for seed in (1, 2)])
    y = torch.stack([distance.rows(normal(30, 3, seed=seed)) for seed in (3, 4)])
    found = tc.transport(x, y, cost=distance.cost)
    for i in range(2):
        truth = matrix_value(torch.from_numpy(distance.powers(x[i], y[i], 2)))
        check(found[i], truth, 1e-6 * truth)


@every_distance
def test_a_metric_obeys_the_triangle_inequality_and_exact_is_exact(distance: Distance) -> None:
    first, second, third = (distance.rows(normal(6, 3, seed=seed)) for seed in (1, 2, 3))
    for p in (1, 2):
        pairs = ((first, second), (second, third), (first, third))
        values = [tc.transport(x, y, p, exact=True, cost=distance.cost).value for x, y in pairs]
        truths = [matrix_value(torch.from_numpy(distance.powers(x, y, p))) for x, y in pairs]
        assert values == pytest.approx(truths, rel=1e-7)
        one, two, both = (value ** (1 / p) for value in values)
        assert both <= (one + two) * (1 + 1e-9)
