"""Builds by other distances, against references written here or found by SciPy; files; and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

import torchcoreset as tc
from tests.data import normal, seeded
from tests.transport.costs.distances import BY_NAME, DISTANCES, Distance, city_block, haversine
from torchcoreset.testing import sample_cap

pytestmark = pytest.mark.usefixtures("two_starts")

COSTS = tc.costs
GLOBE = COSTS.GreatCircle()
NETWORK = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).double().requires_grad_(False)
CURVED = [one for one in DISTANCES if one.name in ("cosine", "great circle", "mixed")]  # whose means are no rows
every_curved = pytest.mark.parametrize("distance", CURVED, ids=lambda distance: distance.name)


def table(m: int = 200) -> Tensor:
    """Two numbers and a category of four that moves the first number."""
    y = torch.cat((normal(m, 2), torch.randint(4, (m, 1), generator=seeded()).double()), 1)
    y[:, 0] += 2 * y[:, 2]
    return y


# What is reached ------------------------------------------------------------------------------------------------------


@every_curved
@pytest.mark.parametrize("p", [1, 2])
def test_no_step_raises_the_value_and_the_last_is_that_of_the_points(distance: Distance, p: float) -> None:
    y = distance.cloud("clusters", 100)
    found = tc.build_coreset(y, 5, p, cost=distance.cost, restarts=1)
    values = [step.value for step in found.history]
    assert all(after <= before * (1 + 1e-3) for before, after in pairwise(values))
    again = tc.transport(found.points, y, p, found.coreset.weights, exact=True, cost=distance.cost)
    assert found.transport.value == pytest.approx(again.value, rel=1e-3)
    assert found.points.shape == (5, y.shape[1])


@pytest.mark.parametrize("kind", ["cauchy", "repeated"])
@every_curved
def test_other_kinds_of_data(distance: Distance, kind: str) -> None:
    for size, m in ((1, 40), (4, 40), (7, 6)):  # more points than rows, too
        y, a = distance.cloud(kind, m), normal(m).exp()
        found = tc.build_coreset(y, size, cost=distance.cost, restarts=1, steps=5, sample_weights=a)
        assert bool(found.points.isfinite().all())
        assert found.transport.gap <= 1e-3


@pytest.mark.parametrize(("p", "latitude"), [(1, 80), (2, 80), (2, 0)])
def test_one_point_on_the_globe_is_the_frechet_mean(p: float, latitude: float) -> None:
    y = sample_cap(50, 30, (latitude, 175.0), seeded())
    found = tc.build_coreset(y, 1, p, cost=GLOBE, tolerance=1e-8, restarts=1)
    start = [latitude - 3, 178.0]
    best = minimize(lambda x: (haversine(y.numpy(), x[None]) ** p).mean(), start, method="Nelder-Mead", tol=1e-7)
    assert found.transport.value == pytest.approx(best.fun, rel=1e-5)


def test_directions_are_as_near_as_by_spherical_k_means() -> None:
    y = normal(200, 3) + torch.tensor([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [-3, 0, 0]]).double().repeat(50, 1)
    u = (y / y.norm(dim=1, keepdim=True)).numpy()

    def k_means(seed: int) -> float:
        centres = u[np.random.RandomState(seed).choice(len(u), 8, replace=False)]
        for _ in range(40):
            cell = (u @ centres.T).argmax(1)
            sums = np.stack([u[cell == i].sum(0) for i in range(8)])
            centres = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return (2 - 2 * (u @ centres.T).max(1)).mean()

    found = tc.build_coreset(y, 8, weights="free", cost=COSTS.Cosine(), restarts=8)
    assert found.transport.value <= min(map(k_means, range(5))) * 1.01
    torch.testing.assert_close(found.points.norm(dim=1), torch.ones(8, dtype=torch.float64))


@pytest.mark.parametrize("price", [0.5, 3.0])
def test_mixed_rows_are_as_near_as_by_k_prototypes(price: float) -> None:
    y = table().numpy()

    def k_prototypes(seed: int) -> float:
        centres = y[np.random.RandomState(seed).choice(len(y), 6, replace=False)]
        for _ in range(40):
            costs = ((y[:, None, :2] - centres[:, :2]) ** 2).sum(2) + price**2 * (y[:, None, 2] != centres[:, 2])
            cell = costs.argmin(1)
            for i in set(cell):
                rows = y[cell == i]
                centres[i] = [*rows[:, :2].mean(0), np.bincount(rows[:, 2].astype(int)).argmax()]
        return costs.min(1).mean()

    found = tc.build_coreset(y, 6, weights="free", cost=COSTS.Mixed([2], price), restarts=2)
    assert found.transport.value <= min(map(k_prototypes, range(5))) * 1.03
    assert set(found.points[:, 2].tolist()) <= {0.0, 1.0, 2.0, 3.0}


def test_one_point_has_the_mode_and_the_mean() -> None:
    y = torch.tensor([[1.0, 5.0, 2.0], [2.0, 5.0, 2.0], [6.0, 1.0, 2.0], [7.0, 2.0, 9.0]])
    found = tc.build_coreset(y, 1, cost=COSTS.Mixed([1, 2]))
    assert found.points.tolist() == [[4.0, 5.0, 2.0]]
    only = tc.build_coreset(torch.tensor([[3], [3], [3], [4], [8]]), 1, cost=COSTS.Mixed([0]))
    assert only.points.tolist() == [[3.0]]
    assert only.transport.value == pytest.approx(2 / 5)


def test_categories_alone_are_as_near_as_by_k_modes() -> None:
    y = torch.randint(3, (300, 4), generator=seeded()).numpy()

    def k_modes(seed: int) -> float:
        centres = y[np.random.RandomState(seed).choice(len(y), 5, replace=False)]
        for _ in range(20):
            costs = (y[:, None] != centres).sum(2)
            cell = costs.argmin(1)
            for i in set(cell):
                centres[i] = [np.bincount(column).argmax() for column in y[cell == i].T]
        return costs.min(1).mean()

    found = tc.build_coreset(y, 5, weights="free", cost=COSTS.Mixed(range(4)), restarts=8)
    assert found.transport.value <= min(map(k_modes, range(5))) * 1.02


def test_scaled_and_mahalanobis_are_the_units_that_they_stand_for() -> None:
    y = normal(100, 3) * torch.tensor([1.0, 5.0, 20.0]).double() + 3
    for cost, scale in ((COSTS.Scaled([1.0, 0.2, 0.05]), [1.0, 5.0, 20.0]), (COSTS.Mahalanobis.of(y), "whiten")):
        start: dict[str, Any] = {"init": y[:4], "restarts": 1}
        for options in (
            {},
            {"divergence": "energy"},
            {"algorithm": "gradient", "steps": 5},
            {"algorithm": "sgd", "steps": 5},
        ):
            found = tc.build_coreset(y, 4, cost=cost, **start, **options)
            expected = tc.build_coreset(y, 4, scale=scale, **start, **options)
            assert found.distance == pytest.approx(expected.distance, rel=0.02)
            if found.bias is not None:
                assert found.bias == pytest.approx(expected.bias, rel=0.1, abs=1e-3)


def test_a_start_that_is_given_and_one_that_has_settled() -> None:
    y = sample_cap(100, 30, (0.0, 180.0), seeded())
    first = tc.build_coreset(y, 4, cost=GLOBE, restarts=1)
    seen: list[Tensor] = []
    second = tc.build_coreset(
        y, 4, cost=GLOBE, init=first.points, steps=5, callback=lambda step: seen.append(step.points)
    )
    assert second.distance <= first.distance * (1 + 1e-3)
    assert all(haversine(points.numpy(), first.points.numpy()).min(1).max() < 500 for points in seen)  # places, in km


# Rows, features, functions, sources ----------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", [*CURVED, BY_NAME["function"]], ids=lambda distance: distance.name)
def test_rows_of_the_data(distance: Distance) -> None:
    y = distance.cloud("clusters", 40)
    found = tc.build_coreset(y, 4, 1, cost=distance.cost, rows=True, keep=[7], restarts=1)
    assert torch.equal(found.points, y[found.rows].to(found.points))
    assert 7 in found.rows.tolist()
    chosen = tc.transport(found.points, y, 1, cost=distance.cost).value
    others = [tc.transport(y[normal(40, seed=s).topk(4).indices], y, 1, cost=distance.cost).value for s in range(5)]
    assert chosen <= 1.02 * min(others)


def test_a_function_moves_points_by_its_gradient() -> None:
    y = normal(100, 2) * torch.tensor([1.0, 3.0]).double()
    found = tc.build_coreset(y, 1, 1, cost=city_block, steps=40)
    medians = y.median(0).values  # the best place by city blocks, column by column
    assert found.transport.value <= float((y - medians).abs().sum(1).mean()) * 1.01


def test_features_of_images_in_their_own_shape() -> None:
    images = torch.rand(60, 1, 4, 4, generator=seeded())
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)).requires_grad_(False)
    found = tc.build_coreset(images, 5, rows=True, embed=network)
    assert torch.equal(found.points, images[found.rows].flatten(1))
    with torch.no_grad():
        features = network(images)
        value = tc.wasserstein(features[found.rows], features).item()
    assert found.transport.value == pytest.approx(value, rel=2e-3)
    moving = tc.build_coreset(images, 5, embed=network, steps=20)
    assert moving.points.shape == (5, 16)
    assert moving.transport.value < moving.history[0].value


def test_trimmed_mass_is_what_is_far_by_the_distance() -> None:
    near, far = sample_cap(190, 5, (0.0, 180.0), seeded()), sample_cap(10, 1, (0.0, 0.0), seeded())
    found = tc.build_coreset(torch.cat((near, far)), 3, cost=GLOBE, trim=0.05, restarts=1)
    assert haversine(found.points.detach().numpy(), np.array([[0.0, 180.0]])).max() < 1000


def test_other_sources() -> None:
    normals = torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3))
    found = tc.build_coreset(normals, 6, cost=COSTS.Cosine(), samples=1000, restarts=2)
    # Six directions of the sphere: the best are along the axes, and far from each other.
    assert float(torch.pdist(found.points.detach()).min()) > 1.2
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(normal(100, 3)), batch_size=30)
    assert tc.build_coreset(loader, 3, cost=COSTS.Cosine()).points.shape == (3, 3)
    smaller = tc.build_coreset(found, 2)  # of a coreset, by its distance
    assert smaller.coreset.cost == COSTS.Cosine()
    torch.testing.assert_close(smaller.points.norm(dim=1), torch.ones(2))


# Files and records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
@pytest.mark.parametrize(
    "cost",
    [COSTS.Mahalanobis(2 * torch.eye(3)), COSTS.Scaled([1, 2, 3]), COSTS.Cosine(), COSTS.Mixed([2], 3.0)],
    ids=lambda cost: type(cost).__name__,
)
def test_files_keep_the_distance(cost: COSTS.Metric, suffix: str, tmp_path) -> None:
    coreset = tc.Coreset(table(5))
    coreset.cost = cost
    coreset.save(tmp_path / f"points{suffix}")
    loaded = tc.Coreset.load(tmp_path / f"points{suffix}")
    assert loaded.cost == cost
    assert copy.deepcopy(loaded).cost == cost
    assert repr(cost) in repr(loaded)


def test_a_file_knows_the_name_of_what_it_cannot_hold(tmp_path) -> None:
    y = normal(40, 3)
    for cost in (city_block, COSTS.Embedded(NETWORK)):
        found = tc.build_coreset(y, 3, 1, cost=cost, rows=True, restarts=1)
        found.coreset.save(tmp_path / "points.npz")
        loaded = tc.Coreset.load(tmp_path / "points.npz")
        assert repr(loaded.cost) == repr(found.coreset.cost)
        with pytest.raises(ValueError, match="its file does not hold; expected it again"):
            tc.certify(loaded, normal(100, 3, seed=1))
        assert tc.certify(loaded, normal(200, 3, seed=1), p=1, cost=cost).upper > 0
        loaded.save(tmp_path / "again.npz")
        assert repr(tc.Coreset.load(tmp_path / "again.npz").cost) == repr(loaded.cost)


@pytest.mark.parametrize(
    "record",
    [
        "[]", "{}", '{"metric": "Unknown"}', '{"metric": "Scaled"}', '{"metric": "Scaled", "weights": [0]}', "nonsense",
        '{"metric": "GreatCircle", "radius": -1}', '{"metric": "Mixed", "categorical": "x"}', '{"metric": ["Mixed"]}',
        '{"metric": "Mixed", "categorical": [Infinity]}', '{"metric": "Mahalanobis", "matrix": [[NaN]]}',
    ],
)  # fmt: skip
def test_a_damaged_record_is_refused(record: str, tmp_path) -> None:
    np.savez(tmp_path / "points.npz", points=np.ones((2, 2)), weights=np.ones(2) / 2, cost=np.array(record))
    with pytest.raises(ValueError, match=r"the cost in .* makes no sense; expected a file by Coreset\.save"):
        tc.Coreset.load(tmp_path / "points.npz")


@pytest.mark.parametrize("cost", [GLOBE, COSTS.Mixed([1], 2.0)], ids=["globe", "mixed"])
def test_a_run_goes_on_as_if_nothing_had_happened(cost: COSTS.Metric) -> None:
    y = sample_cap(200, 50, (40.0, 170.0), seeded())
    y = y if cost == GLOBE else y.round()
    records: list[dict[str, Any]] = []
    whole = tc.build_coreset(
        y, 4, cost=cost, restarts=1, checkpoint=lambda record: records.append(copy.deepcopy(record))
    )
    resumed = tc.build_coreset(y, 4, cost=cost, resume=records[3])
    assert torch.equal(resumed.points, whole.points)
    other = COSTS.GreatCircle(radius=1.0) if cost == GLOBE else COSTS.Mixed([1], 3.0)
    for wrong in (other, None):
        with pytest.raises(ValueError, match="resume: got a record of a run with cost="):
            tc.build_coreset(y, 4, cost=wrong, resume=records[3])


def test_whatever_takes_a_coreset_asks_for_its_distance() -> None:
    y = sample_cap(100, 50, (40.0, 170.0), seeded())
    found = tc.build_coreset(y, 4, cost=GLOBE, restarts=1)
    with pytest.raises(ValueError, match=r"got a coreset for distances by GreatCircle\(\); expected the same with"):
        tc.transport(found, y)
    assert tc.transport(found, y, cost=GLOBE).value == pytest.approx(found.transport.value, rel=1e-3)
    with pytest.raises(
        ValueError, match=r"coresets\[0\]: got a coreset for distances by GreatCircle\(\); expected the"
    ):
        tc.merge([found, found])
    assert tc.doctor(found, y)["cell masses"].level == "fine"


# What is refused ------------------------------------------------------------------------------------------------------

PLACES, NUMBERS = sample_cap(40, 50, generator=seeded()), normal(40, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: tc.build_coreset(PLACES, 3, cost=GLOBE, algorithm="gradient"),
            r"algorithm: got 'gradient' .*'fixed_p",
        ),
        (lambda: tc.build_coreset(PLACES, 3, cost=GLOBE, algorithm="sgd"), r"algorithm: got 'sgd' .*'fixed_point'"),
        (lambda: tc.build_coreset(PLACES, 3, cost=city_block, algorithm="fixed_point"), "expected 'gradient': no step"),
        (
            lambda: tc.build_coreset(PLACES, 3, cost=GLOBE, rows=True, algorithm="gradient"),
            "rows=True; expected 'auto'",
        ),
        (
            lambda: tc.build_coreset(PLACES, 3, cost=GLOBE, divergence="energy"),
            "cost: .*expected Scaled or Mahalanobis",
        ),
        (lambda: tc.build_coreset(NUMBERS, 3, cost=COSTS.Cosine(), divergence="mmd"), "cost: .*expected Scaled or Mah"),
        (lambda: tc.build_coreset(PLACES, 3, cost=GLOBE, scale="standard"), "scale: given with a cost; expected one"),
        (
            lambda: tc.build_coreset(PLACES, 3, cost=city_block, weights="free", embed=NETWORK),
            "embed: given with cost=",
        ),
        (lambda: tc.build_coreset(PLACES, 3, cost=GLOBE, engine="keops"), "engine: got 'keops'.*expected"),
        (lambda: tc.build_coreset(NUMBERS, 3, cost=GLOBE), "expected two columns, latitude and longitude"),
        (
            lambda: tc.build_coreset(PLACES, 3, cost=GLOBE, init=torch.full((3, 2), 200.0)),
            "init: got a latitude of size",
        ),
        (lambda: tc.build_coreset(NUMBERS, 3, cost=COSTS.Mixed([0])), "cost: column 0 holds .*Is it a number"),
        (lambda: tc.build_coreset(0 * NUMBERS, 3, cost=COSTS.Cosine()), "row 0 is zero, which has no direction"),
        (lambda: tc.optimality_bound(PLACES, 3, cost=GLOBE), "with optimality_bound; expected a distance of coord"),
        (lambda: tc.optimality_bound(PLACES, 3, cost=city_block), "with optimality_bound; expected a distance of"),
        (lambda: tc.optimality_bound(NUMBERS, 3, cost=COSTS.Cosine(), scale="robust"), "scale: given with a cost"),
        (
            lambda: tc.optimality_bound(NUMBERS.round(), 3, cost=COSTS.Mixed([0]), confidence=0.9),
            "with a confidence; expected a distance whose coordinates are those of each row alone",
        ),
    ],
)
def test_what_a_build_refuses(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_bounds_hold_for_what_is_built() -> None:
    y = normal(40, 3)
    for cost in (COSTS.Cosine(), COSTS.Mahalanobis.of(y), COSTS.Embedded(NETWORK)):
        bound = tc.optimality_bound(y, 5, cost=cost)
        found = tc.build_coreset(y, 5, cost=cost, rows=True, restarts=1)
        assert 0 < bound.distance <= found.distance
        assert bound.unit == cost.unit
    y, cost = table(40), COSTS.Mixed([2], 2.0)
    assert 0 < tc.optimality_bound(y, 5, cost=cost).distance <= tc.build_coreset(y, 5, cost=cost, restarts=1).distance


def test_a_group_takes_euclidean_distances_only() -> None:
    from torchcoreset.coresets.build.settings import check_space
    from torchcoreset.coresets.build.space import Space

    with pytest.raises(ValueError, match=r"cost: got GreatCircle\(\) with a group; expected the Euclidean distance"):
        check_space(Space(metric=GLOBE), "auto", False, None, "world")


@pytest.mark.parametrize("layer", [torch.nn.BatchNorm1d(2), torch.nn.Dropout()])
def test_a_network_in_training_mode_is_refused_where_rows_are_measured_again(layer: torch.nn.Module) -> None:
    network = torch.nn.Sequential(layer, torch.nn.Linear(2, 2))
    rows = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    cost, before = tc.costs.Embedded(network), {name: value.clone() for name, value in network.state_dict().items()}
    for call in (
        lambda: tc.build_coreset(rows, 3, rows=True, embed=network),
        lambda: tc.build_coreset(rows, 3, cost=cost),
        lambda: tc.certify(rows[:3], rows[3:], cost=cost),
    ):
        with pytest.raises(ValueError, match=r"cost: the network has \w+ in training mode.*network.eval\(\)"):
            call()
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    tc.wasserstein(rows[:3].clone().requires_grad_(), rows, cost=cost).backward()  # a loss may train it
    network.eval()
    assert tc.build_coreset(rows, 3, rows=True, embed=network).rows is not None
