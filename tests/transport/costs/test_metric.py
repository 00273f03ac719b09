"""Metrics by themselves: settings that are refused, records, equality, and coordinates that go there and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchcoreset as tc
from tests.data import normal
from tests.transport.costs.distances import BY_NAME, DISTANCES, city_block
from torchcoreset.transport.costs import ArcPower, as_metric, check_euclidean, metric_of, same_metric

COSTS = tc.costs
NETWORK = torch.nn.Linear(2, 2)
SAVED = [
    COSTS.Euclidean(), COSTS.Scaled([1.0, 2.0]), COSTS.Mahalanobis([[2.0, 1.0], [1.0, 2.0]]), COSTS.Cosine(),
    COSTS.GreatCircle(), COSTS.GreatCircle(radius=2.0, unit="m"), COSTS.Mixed([1], 3.0),
    COSTS.Mixed([0, 2], [1.0, 2.0], weights=[1.0, 2.0, 3.0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: COSTS.Scaled([1.0, -2.0]), ValueError, r"weights: got the number -2; expected \(d,\), a positive"),
        (lambda: COSTS.Scaled([1.0, float("nan")]), ValueError, "weights: got the number nan"),
        (lambda: COSTS.Scaled(torch.ones(2, 2)), ValueError, r"weights: got shape \(2, 2\)"),
        (lambda: COSTS.Mahalanobis([1.0, 2.0]), ValueError, r"matrix: got shape \(2,\); expected \(d, d\)"),
        (lambda: COSTS.Mahalanobis([[1.0, 2.0], [0.0, 1.0]]), ValueError, r"not symmetric; .*\(M \+ M\.T\) / 2"),
        (lambda: COSTS.Mahalanobis([[1.0, 2.0], [2.0, 1.0]]), ValueError, "eigenvalues from -1 to 3; expected all of"),
        (lambda: COSTS.Mahalanobis([[float("inf"), 0.0], [0.0, 1.0]]), ValueError, "matrix: got one that is not"),
        (lambda: COSTS.Mahalanobis.of(torch.ones(5, 2)), ValueError, "their covariance is singular; .*Leave out const"),
        (lambda: COSTS.Mahalanobis.of(torch.ones(1, 2)), ValueError, r"rows: got shape \(1, 2\); expected \(m, d\)"),
        (lambda: COSTS.GreatCircle(radius=0), ValueError, "radius: got 0; expected a positive number, or None"),
        (lambda: COSTS.GreatCircle(radius=float("inf")), ValueError, "radius: got inf"),
        (lambda: COSTS.GreatCircle(radius="miles"), ValueError, "radius: got 'miles'"),
        (lambda: COSTS.Mixed([]), ValueError, r"categorical: got \[\]; expected numbers of columns"),
        (lambda: COSTS.Mixed([1, 1]), ValueError, "each once"),
        (lambda: COSTS.Mixed([0.5]), ValueError, r"categorical: got \[0\.5\]"),
        (
            lambda: COSTS.Mixed([0], price=0.0),
            ValueError,
            "price: got 0.0 with 1 categorical columns; expected a posit",
        ),
        (lambda: COSTS.Mixed([0], price=[1.0, 2.0]), ValueError, r"price: got \[1\.0, 2\.0\] with 1 cat"),
        (lambda: COSTS.Mixed([0], weights=[1.0, 0.0]), ValueError, "weights: got one that is not positive and finite"),
        (lambda: COSTS.Embedded(3), TypeError, "network: got int; expected a module or a function"),
        (lambda: COSTS.Embedded(NETWORK, metric=COSTS.GreatCircle()), TypeError, r"metric: got GreatCircle\(\); expec"),
        (lambda: COSTS.Embedded(NETWORK, metric="cosine"), TypeError, "metric: got 'cosine'; expected one of"),
        (lambda: COSTS.Function("f"), TypeError, "distance: got str; expected a function of two tensors"),
        (lambda: as_metric(city_block, NETWORK), ValueError, "embed: given with cost=Function.*Leave one out"),
        (lambda: check_euclidean(COSTS.GreatCircle(), "a group"), ValueError, "with a group; expected a distance of"),
    ],
)
def test_settings_that_are_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("metric", SAVED, ids=repr)
def test_a_record_brings_a_metric_back(metric: COSTS.Metric) -> None:
    found = metric_of(json.loads(json.dumps(metric.record())))
    assert found == metric
    assert same_metric(found, metric)
    assert hash(found) == hash(metric)
    assert (repr(found), found.unit) == (repr(metric), metric.unit)


def test_metrics_are_told_apart() -> None:
    for i, first in enumerate(SAVED):
        assert not any(first == second for second in SAVED[:i])
    assert COSTS.Mahalanobis(torch.eye(3)) != COSTS.Mahalanobis(2 * torch.eye(3))  # whose names are the same
    assert COSTS.Function(city_block) == COSTS.Function(city_block) != COSTS.Function(torch.dist)
    assert COSTS.Embedded(NETWORK) == COSTS.Embedded(NETWORK) != COSTS.Embedded(torch.nn.Linear(2, 2))
    assert COSTS.Embedded(NETWORK) != COSTS.Embedded(NETWORK, metric=COSTS.Cosine())
    assert same_metric(None, COSTS.Euclidean())
    assert not same_metric(None, COSTS.Cosine())


@pytest.mark.parametrize("distance", [d for d in DISTANCES if d.name != "function"], ids=lambda distance: distance.name)
def test_rows_and_coordinates_there_and_back(distance) -> None:
    y = distance.cloud("normal", 20)
    metric = distance.cost.fitted(y)
    at = metric.coordinates(y)
    torch.testing.assert_close(metric.coordinates(metric.rows(at)), at, rtol=1e-12, atol=1e-12 * float(at.abs().max()))
    if metric.is_euclidean:
        truth = torch.from_numpy(distance.powers(y[:5], y[5:], 1))
        torch.testing.assert_close(torch.cdist(at[5:], at[:5]), truth, rtol=1e-7, atol=1e-7)


def test_directions_of_any_length() -> None:
    y = torch.tensor([[3e-30, 4e-30], [3e30, 4e30], [-6.0, -8.0]])
    at = COSTS.Cosine().coordinates(y)
    torch.testing.assert_close(at, torch.tensor([[0.6, 0.8], [0.6, 0.8], [-0.6, -0.8]]))
    assert COSTS.Cosine().rows(torch.zeros(1, 2)).tolist() == [[1.0, 0.0]]  # all directions are as near


def test_mahalanobis_of_rows_whitens_them() -> None:
    y = normal(200, 3) @ torch.tensor([[1.0, 0.5, 0.0], [0.0, 30.0, 2.0], [0.0, 0.0, 1e-3]]).double() + 100
    at = COSTS.Mahalanobis.of(y).coordinates(y)
    torch.testing.assert_close(torch.cov(at.T), torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-6)


def test_an_arc_is_known_by_its_power_and_radius() -> None:
    arc = ArcPower(2.0, 1.0)
    assert arc == ArcPower(2.0, 1.0) != ArcPower(2.0, 2.0)
    assert hash(arc) == hash(ArcPower(2.0, 1.0))
    assert arc.metric == ArcPower(1.0, 1.0)
    assert repr(arc) == "ArcPower(p=2, radius=1)"
    assert BY_NAME["great circle"].cost.farthest == pytest.approx(20015, rel=1e-4)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_the_gradient_of_an_arc_is_that_of_autograd(p: float) -> None:
    y, x = (normal(9, 3, seed=seed) for seed in (0, 1))
    y, x = (rows / rows.norm(dim=1, keepdim=True) for rows in (y, x))
    x.requires_grad_()
    arcs = 2 * ((y - x).norm(dim=1) / 2).asin()
    (expected,) = torch.autograd.grad((arcs**p).sum(), x)
    cost = ArcPower(p, 1.0)
    torch.testing.assert_close(cost.paired_gradient(y, x.detach()), expected, rtol=1e-10, atol=1e-12)
    costs = cost.paired(y, x.detach())
    torch.testing.assert_close(costs, arcs.detach() ** p, rtol=1e-12, atol=0)
    torch.testing.assert_close(p * cost.weight_from_cost(costs), cost.slope(costs), rtol=1e-12, atol=0)
    torch.testing.assert_close(
        cost.weight((y - x).norm(dim=1).detach()), cost.weight_from_cost(costs), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize("p", [1, 2, 3])
def test_rounding_of_arcs_is_within_what_engines_allow_for_it(p: float) -> None:
    """Costs by products, in float32, of near, far and antipodal pairs."""
    y = normal(400, 3)
    y = y / y.norm(dim=1, keepdim=True)
    x = torch.cat((y[:20] + 1e-5 * normal(20, 3, seed=1), -y[20:40], y[40:60]))
    x = x / x.norm(dim=1, keepdim=True)
    y, x = y.float(), x.float()
    cost = ArcPower(p, 1.0)
    exact = cost.pairwise_exact(y.double(), x.double())
    off = (cost.pairwise(y, x).double() - exact).abs()
    norm = torch.ones_like(exact)
    allowed = cost.expansion_error(exact, torch.zeros_like(exact), norm, 3, torch.finfo(torch.float32).eps)
    assert bool((off <= allowed).all())
