"""Losses by other distances: gradients by finite differences, dtypes, batches, compiled steps, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchcoreset as tc
from tests.data import normal
from tests.losses.test_loops import compiles
from tests.transport.costs.distances import BY_NAME, DISTANCES, Distance, city_block, with_category

every_distance = pytest.mark.parametrize("distance", DISTANCES, ids=lambda distance: distance.name)
of_coordinates = pytest.mark.parametrize(
    "distance", [BY_NAME[name] for name in ("mahalanobis", "cosine", "mixed")], ids=lambda distance: distance.name
)
GLOBE, CITY = BY_NAME["great circle"], BY_NAME["function"]


def tables(distance: Distance, n: int = 4, m: int = 30) -> tuple[Tensor, Tensor]:
    return distance.rows(normal(n, 3, seed=9)), distance.rows(normal(m, 3))


def check_gradients(loss: Callable[..., Tensor], inputs: list[Tensor], moving: list[tuple[int, int]]) -> None:
    """Autograd's gradients of a loss of these against central differences, at some entries of each.

    `moving` is, of each input, the number of columns that may be moved, and how many entries to try.
    """
    given = [one.clone().requires_grad_() for one in inputs]
    loss(*given).backward()
    for i, (columns, count) in enumerate(moving):
        gradient = given[i].grad.reshape(len(inputs[i]), -1)
        size = 1e-6 * float(inputs[i].abs().max())
        for k in range(count):
            row, column = (7 * k) % len(inputs[i]), k % columns
            ends = []
            for sign in (1, -1):
                moved = [one.clone() for one in inputs]
                moved[i].view(len(inputs[i]), -1)[row, column] += sign * size
                ends.append(loss(*moved).item())
            expected = (ends[0] - ends[1]) / (2 * size)
            assert gradient[row, column].item() == pytest.approx(
                expected, rel=1e-4, abs=1e-5 * float(gradient.abs().max())
            )


@every_distance
@pytest.mark.parametrize("p", [1, 2, 3])
def test_gradients_in_points_samples_and_weights(distance: Distance, p: float) -> None:
    x, y = tables(distance)
    b, a = normal(4, seed=2).exp(), normal(30, seed=3).exp()
    columns = 2 if distance.name == "mixed" else x.shape[1]
    check_gradients(
        lambda x, y, b, a: tc.wasserstein(x, y, p, b / b.sum(), a / a.sum(), exact=True, cost=distance.cost),
        [x, y, b, a],
        [(columns, 4), (columns, 4), (1, 2), (1, 2)],
    )


@of_coordinates
@pytest.mark.parametrize("divergence", ["sinkhorn", "energy", "mmd"])
def test_gradients_of_other_divergences(distance: Distance, divergence: str) -> None:
    x, y = tables(distance)
    options: dict[str, Any] = {
        "sinkhorn": {"blur": 0.5, "backend": "newton", "tolerance": 1e-10}, "energy": {}, "mmd": {"blur": 1.0},
    }[divergence]  # fmt: skip
    columns = 2 if distance.name == "mixed" else x.shape[1]
    check_gradients(
        tc.CoresetLoss(divergence=divergence, cost=distance.cost, **options).eval(),
        [x, y],
        [(columns, 3), (columns, 3)],
    )


@pytest.mark.parametrize("p", [1, 2, 3])
def test_gradients_near_a_pole_and_across_the_date_line(p: float) -> None:
    x = torch.tensor([[89.0, 10.0], [0.5, 179.0]], dtype=torch.float64)
    y = torch.tensor([[88.0, -170.0], [87.0, 90.0], [0.0, -179.0], [-1.0, 178.0]], dtype=torch.float64)
    check_gradients(
        lambda x, y: tc.wasserstein(x, y, p, exact=True, cost=tc.costs.GreatCircle(radius=1.0)),
        [x, y],
        [(2, 4), (2, 8)],
    )


def test_gradients_are_zero_or_finite_where_they_are_not_defined() -> None:
    """On a sample, at a pole and at antipodes."""
    y = torch.tensor([[10.0, 20.0], [90.0, 0.0], [0.0, 180.0]])
    for x in ([[10.0, 20.0]], [[90.0, 50.0]], [[0.0, 0.0]]):
        for p in (1, 2, 3):
            place = torch.tensor(x, requires_grad=True)
            tc.wasserstein(place, y, p, cost=GLOBE.cost).backward()
            assert bool(place.grad.isfinite().all())
    same = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    for cost in (city_block, lambda y, x: (y - x).square().sum(-1).sqrt(), tc.costs.Cosine()):
        (gradient,) = torch.autograd.grad(tc.wasserstein(same, same.detach(), 1, cost=cost), same)
        assert gradient.abs().max() <= 1e-6


@every_distance
def test_half_precision_and_autocast_are_as_float32(distance: Distance) -> None:
    x, y = (rows.float() for rows in tables(distance))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        autocast = tc.wasserstein(x, y, cost=distance.cost)
    plain = tc.wasserstein(x, y, cost=distance.cost)
    assert autocast.dtype == plain.dtype == torch.float32
    assert autocast.item() == pytest.approx(plain.item(), rel=1e-6)
    half, samples = x.half().requires_grad_(), y.half()
    value = tc.wasserstein(half, samples, p=1, cost=distance.cost)
    value.backward()
    single = tc.wasserstein(half.detach().float(), samples.float(), p=1, cost=distance.cost)
    assert value.item() == pytest.approx(single.item())
    assert half.grad.dtype == torch.float16
    assert bool(half.grad.isfinite().all())


@every_distance
def test_a_batch_is_the_loop_over_its_pairs(distance: Distance) -> None:
    x = torch.stack([distance.rows(normal(3, 3, seed=seed)) for seed in (1, 2)]).requires_grad_()
    y = torch.stack([distance.rows(normal(20, 3, seed=seed)) for seed in (3, 4)])
    values = tc.wasserstein(x, y, exact=True, cost=distance.cost)
    (gradients,) = torch.autograd.grad(values.sum(), x)
    for i in range(2):
        alone = x[i].detach().requires_grad_()
        value = tc.wasserstein(alone, y[i], exact=True, cost=distance.cost)
        value.backward()
        assert values[i].item() == pytest.approx(value.item(), rel=1e-8)
        torch.testing.assert_close(gradients[i], alone.grad, rtol=1e-7, atol=1e-9 * float(gradients.abs().max()))


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("distance", [GLOBE, CITY], ids=lambda distance: distance.name)
def test_a_compiled_step_equals_the_eager_one(distance: Distance) -> None:
    x, y = tables(distance)
    found = []
    for compiled in (False, True):
        torch.compiler.reset()
        points = x.clone().requires_grad_()
        loss = tc.CoresetLoss(cost=distance.cost)

        def step(x: Tensor, loss: tc.CoresetLoss = loss) -> Tensor:
            return 2 * loss(1.0 * x, y) + tc.wasserstein(x, y, p=1, cost=distance.cost)

        value = (torch.compile(step, backend="eager") if compiled else step)(points)
        value.backward()
        found.append((value.detach(), points.grad))
    for eager, other in zip(*found, strict=True):
        torch.testing.assert_close(other, eager)


def test_features_are_where_distances_are() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).double()
    x, y = normal(4, 3, seed=1).requires_grad_(), normal(20, 3)
    value = tc.wasserstein(x, y, exact=True, cost=tc.costs.Embedded(network))
    value.backward()
    expected = x.detach().clone().requires_grad_()
    direct = tc.wasserstein(network(expected), network(y), exact=True)
    weights = network[0].weight.grad.clone()
    network.zero_grad()
    direct.backward()
    assert value.item() == pytest.approx(direct.item())
    torch.testing.assert_close(x.grad, expected.grad)
    torch.testing.assert_close(weights, network[0].weight.grad)
    cosine = tc.wasserstein(x, y, exact=True, cost=tc.costs.Embedded(network, metric=tc.costs.Cosine()))
    assert cosine.item() == pytest.approx(
        tc.wasserstein(network(x), network(y), exact=True, cost=tc.costs.Cosine()).item()
    )


def test_an_online_loss_by_a_distance_of_coordinates() -> None:
    """Its potential comes to that of the whole table."""
    x, y = normal(3, 3, seed=1) @ torch.diag(torch.tensor([1.0, 5.0, 1.0]).double()), normal(4000, 3)
    cost = tc.costs.Scaled([1.0, 0.2, 1.0])
    loss = tc.CoresetLoss(p=2, online=True, cost=cost)
    values = torch.stack([loss(x, batch) for batch in y.split(100)])
    assert values[20:].mean().item() == pytest.approx(tc.wasserstein(x, y, cost=cost).item(), rel=0.05)


def test_the_kept_term_of_the_samples_is_that_of_their_distance() -> None:
    """A network that learns between two calls changes the samples' features, and the term of them alone."""
    network = nn.Linear(3, 2).double()
    x, y = normal(4, 3, seed=1), normal(20, 3)
    loss = tc.CoresetLoss(p=1, divergence="energy", cost=tc.costs.Embedded(network))
    loss(x, y)
    with torch.no_grad():
        network.weight.mul_(2)
        assert loss(x, y).item() == pytest.approx(tc.energy_distance(network(x), network(y)).item())


QUAKES = torch.tensor([[10.0, 20.0], [30.0, 40.0], [-50.0, 60.0]])
TABLE = with_category(normal(3, 3))
COSTS = tc.costs


@pytest.mark.parametrize(
    ("cost", "points", "samples", "words"),
    [
        (COSTS.Scaled([1, 2, 3]), QUAKES, QUAKES, "points: got shape .*expected rows of 3 columns"),
        (COSTS.Mahalanobis(torch.eye(3)), QUAKES, QUAKES, "points: got shape .*expected rows of 3 columns"),
        (COSTS.GreatCircle(), TABLE, TABLE, "points: got shape .*expected two columns, latitude"),
        (COSTS.GreatCircle(), QUAKES, 2 * QUAKES, "samples: got a latitude of size 100; .*columns exchanged"),
        (COSTS.GreatCircle(), QUAKES, QUAKES * torch.tensor([1, 7]), "samples: got a longitude of size 420"),
        (COSTS.GreatCircle(), QUAKES / 0, QUAKES, "points: .*inf"),
        (COSTS.Cosine(), QUAKES, 0 * QUAKES, "samples: row 0 is zero, .*Leave it out"),
        (COSTS.Cosine(), QUAKES, torch.nan * QUAKES, "samples: 3 of 3 rows hold NaN"),
        (COSTS.Mixed([5]), TABLE, TABLE, r"cost: got rows of 3 columns with cost=Mixed\(\[5\]"),
        (COSTS.Mixed([2, -1]), TABLE, TABLE, "cost: got rows of 3 columns"),
        (COSTS.Mixed([2], weights=[1.0]), TABLE, TABLE, "and 1 weights; expected .*as many weights"),
        (COSTS.Mixed([0]), TABLE, TABLE, "cost: column 0 holds .*expected whole numbers.*Is it a number"),
        (
            COSTS.Mixed([0]),
            torch.arange(2000.0)[:, None],
            TABLE[:, 2:],
            "2000 values; expected at most 1000 categories",
        ),
        (lambda y, x: y - x, QUAKES, QUAKES, "cost: <lambda> gave shape .*expected distances of shape"),
        (lambda y, x: 1.0, QUAKES, QUAKES, "cost: <lambda> gave float for rows"),
        (lambda y, x: (y - x).sum(-1), QUAKES, QUAKES, "cost: <lambda> gave -.*expected finite distances >= 0"),
        (lambda y, x: (y - x).sum(-1) / 0, QUAKES, QUAKES, "cost: <lambda> gave nan; expected finite distances"),
        (COSTS.Embedded(lambda rows: rows[:1]), QUAKES, QUAKES, "the network gave shape .* for 3 rows; expected feat"),
        (COSTS.Embedded(lambda rows: 1), QUAKES, QUAKES, "the network gave int for 3 rows"),
        (
            COSTS.Embedded(nn.Identity(), shape=(3, 3)),
            QUAKES,
            QUAKES,
            r"rows of 2 numbers for a network that takes \(3, 3",
        ),
    ],
)
def test_rows_that_a_distance_does_not_measure(cost: Any, points: Tensor, samples: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tc.wasserstein(points, samples, cost=cost)


@pytest.mark.parametrize("cost", [COSTS.GreatCircle(), city_block], ids=["globe", "function"])
def test_what_does_not_go_with_distances_that_are_not_of_coordinates(cost: Any) -> None:
    for loss in (tc.sinkhorn_divergence, tc.energy_distance, tc.mmd):
        with pytest.raises(ValueError, match=f"with {loss.__name__}; expected a distance of coordinates"):
            loss(QUAKES, QUAKES, cost=cost)
    with pytest.raises(ValueError, match=r"with CoresetLoss\(online=True\); expected a distance of coordinates"):
        tc.CoresetLoss(online=True, cost=cost)(QUAKES, QUAKES)
    for engine in ("keops", "triton"):
        with pytest.raises(ValueError, match=f"engine: got '{engine}' .*expected"):
            tc.wasserstein(QUAKES, QUAKES, cost=cost, engine=engine)


def test_what_is_no_distance() -> None:
    with pytest.raises(TypeError, match=r"cost: got 'cosine'; expected one of tc\.costs"):
        tc.wasserstein(QUAKES, QUAKES, cost="cosine")
    with pytest.raises(TypeError, match=r"got the class Cosine; expected an instance: Cosine\("):
        tc.CoresetLoss(cost=COSTS.Cosine)
    with pytest.raises(ValueError, match=r"p: got 0\.5; expected"):
        tc.wasserstein(QUAKES, QUAKES, 0.5, cost=COSTS.Cosine())


def test_a_function_without_gradients_gives_values() -> None:
    def whole(y: Tensor, x: Tensor) -> Tensor:
        return (y - x).detach().abs().sum(-1)

    x = QUAKES.clone().requires_grad_()
    with torch.no_grad():
        assert tc.wasserstein(x, QUAKES + 1, 1, cost=whole).item() == pytest.approx(2)
    with pytest.raises(ValueError, match="cost: whole gives distances without a gradient; expected differentiable"):
        tc.wasserstein(x, QUAKES, cost=whole).backward()
