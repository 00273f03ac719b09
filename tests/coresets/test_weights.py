"""Builds with free and bounded weights, and with mass that stays unmatched, on every kind of data."""

import functools
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from torch import distributed

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal
from torchcoreset.testing import NORMAL

pytestmark = pytest.mark.usefixtures("two_starts")

BOUNDS = (0.5, 2.0)


def within(weights: torch.Tensor, low: float, high: float) -> bool:
    n = len(weights)
    return bool((weights >= low / n - 1e-6).all() and (weights <= high / n + 1e-6).all())


@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize("p", [1, 2])
def test_more_choice_is_nearer(kind: str, p: float) -> None:
    y = cloud(kind, 400)
    values = []
    for weights in (None, BOUNDS, "free"):
        result = tc.build_coreset(y, 8, p, weights=weights, restarts=1)
        low, high = {None: (1, 1), "free": (0, math.inf)}.get(weights, BOUNDS)
        assert within(result.coreset.weights, low, high)
        torch.testing.assert_close(result.coreset.weights, result.transport.weights.to(result.coreset.weights))
        again = tc.transport(result.coreset.points.detach(), y, p, result.coreset.weights, tolerance=1e-5)
        assert result.transport.value == pytest.approx(again.value, rel=2e-3, abs=1e-12)
        values.append(result.transport.value)
    spread = values[0] + 1e-12
    assert values[2] <= values[1] + 0.02 * spread
    assert values[1] <= values[0] + 0.02 * spread


@pytest.mark.parametrize("n", [10, 50])
def test_free_weights_are_k_means_on_real_rows(n: int) -> None:
    X = load_digits().data
    result = tc.build_coreset(X, n, weights="free")
    best = KMeans(n, n_init=10, random_state=0).fit(X).inertia_ / len(X)
    assert result.transport.value < 1.005 * best


def test_the_quantizer_of_a_normal_distribution() -> None:
    result = tc.build_coreset(torch.distributions.Normal(0.0, 1.0), 20, weights="free")
    assert result.transport.value == pytest.approx(NORMAL.quantizer_value(20, p=2), rel=0.02)
    points, weights = NORMAL.quantizer(20, p=2)
    order = result.coreset.points[:, 0].argsort()
    torch.testing.assert_close(result.coreset.points.detach()[order].double(), points, rtol=0, atol=0.1)
    torch.testing.assert_close(result.coreset.weights[order].double(), weights, rtol=0, atol=0.01)


def test_a_small_cluster_far_away_gets_a_point() -> None:
    y = torch.cat((normal(990, 2), normal(10, 2, seed=1) + 1000))
    result = tc.build_coreset(y, 20, weights="free", seed=1)
    assert (result.coreset.points[:, 0] > 900).any()
    assert result.transport.value < 1
    bounded = tc.build_coreset(y, 20, weights=(0.1, 2.0), seed=1)
    assert bounded.transport.value < 10  # an equal share of 50 rows would bring 40 of them there


@functools.cache
def best_of(weights: object) -> float:
    torch.manual_seed(0)
    return tc.build_coreset(lambda k: torch.randn(k, 2), 10, weights=weights, samples=20_000).transport.value


@pytest.mark.parametrize("algorithm", ["fixed_point", "gradient", "sgd"])
@pytest.mark.parametrize("weights", ["free", BOUNDS], ids=str)
def test_every_algorithm_chooses(algorithm: str, weights: object) -> None:
    torch.manual_seed(0)
    result = tc.build_coreset(
        lambda k: torch.randn(k, 2), 10, weights=weights, algorithm=algorithm, samples=20_000, steps=200
    )
    assert result.transport.value < 1.15 * best_of(weights)


def test_streams_are_read_batch_by_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randn(500, 2, generator=generator) for _ in range(300)]
    result = tc.build_coreset(iter(batches), 10, weights="free", algorithm="sgd", steps=200, samples=10_000)
    assert result.transport.value < 1.2 * tc.build_coreset(torch.cat(batches), 10, weights="free").transport.value


def test_row_weights_count() -> None:
    y = torch.cat((normal(200, 2), normal(200, 2, seed=1) + 10))
    a = torch.cat((torch.full((200,), 1e-9), torch.ones(200)))
    result = tc.build_coreset(y, 5, weights="free", sample_weights=a)
    near = (result.coreset.points[:, 0] < 5).detach()
    assert result.coreset.weights[near].sum() < 1e-6
    doubled = tc.build_coreset(torch.cat((y, y[200:])), 6, weights="free", samples=None)
    twice = torch.cat((torch.ones(200), torch.full((200,), 2.0)))
    weighted = tc.build_coreset(y, 6, weights="free", sample_weights=twice)
    assert weighted.transport.value == pytest.approx(doubled.transport.value, rel=0.05)


@pytest.mark.parametrize("weights", ["free", BOUNDS], ids=str)
def test_equal_seeds_give_equal_bits_and_runs_go_on(weights: object) -> None:
    y = normal(600, 3)
    first, second = (tc.build_coreset(y, 12, weights=weights, seed=4) for _ in range(2))
    assert torch.equal(first.coreset.points, second.coreset.points)
    assert torch.equal(first.coreset.weights, second.coreset.weights)
    records: list[dict] = []
    tc.build_coreset(y, 12, weights=weights, seed=4, steps=4, checkpoint=records.append, tolerance=0)
    whole = tc.build_coreset(y, 12, weights=weights, seed=4, steps=8, tolerance=0)
    resumed = tc.build_coreset(
        y, 12, weights=weights, seed=4, steps=8, resume=pickle.loads(pickle.dumps(records[-1])), tolerance=0
    )
    assert torch.equal(whole.coreset.points, resumed.coreset.points)


def test_more_points_than_rows() -> None:
    y = normal(5, 2)
    result = tc.build_coreset(y, 9, weights="free")
    assert result.transport.value == pytest.approx(0, abs=1e-12)
    assert tc.build_coreset(y, 1, weights="free").coreset.weights.tolist() == [1.0]
    constant = tc.build_coreset(torch.ones(30, 2), 4, weights="free")
    assert constant.transport.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("weights", [None, "free", BOUNDS], ids=str)
@pytest.mark.parametrize("far", ["one place", "all over"])
def test_a_hundredth_of_outliers_moves_no_point(far: str, weights: object) -> None:
    y = normal(1980, 2)
    rng = np.random.default_rng(0)
    outliers = 1e6 * (np.ones((20, 2)) if far == "one place" else rng.normal(size=(20, 2)))
    clean = tc.build_coreset(y, 10, weights=weights)
    result = tc.build_coreset(torch.cat((y, torch.from_numpy(outliers))), 10, weights=weights, trim=0.01)
    assert result.coreset.points.abs().max() < 5
    assert result.transport.value == pytest.approx(clean.transport.value, rel=0.03)
    assert (result.transport.assignment[-20:] == -1).all()
    assert (result.transport.assignment[:-20] >= 0).all()


@pytest.mark.parametrize("init", ["random", "kmeans++", "annealed"])
def test_no_start_lies_among_the_outliers(init: str) -> None:
    y = torch.cat((normal(500, 3), torch.full((5, 3), 1e4).double()))
    result = tc.build_coreset(y, 20, init=init, trim=0.01, steps=3, tolerance=0)
    assert result.coreset.points.abs().max() < 10


def test_labelled_coresets_choose_within_each_class() -> None:
    X, labels = load_digits(return_X_y=True)
    fixed, free = (tc.build_labeled_coreset(X, labels, 40, weights=w, restarts=1) for w in (None, "free"))
    shares = np.bincount(labels) / len(labels)
    of_classes = np.bincount(free.class_of.numpy(), free.weights.numpy())
    np.testing.assert_allclose(of_classes, shares, atol=1e-6)
    assert not torch.allclose(free.weights, fixed.weights, atol=1e-3)
    with pytest.raises(ValueError, match="weights: got one for each point"):
        tc.build_labeled_coreset(X, labels, 40, weights=np.ones(40))


@pytest.mark.filterwarnings("ignore:source. a tenth")
def test_sizes_with_free_weights_are_no_larger() -> None:
    wedge = torch.distributions.Beta(1.0, 2.0)
    equal, free = (tc.size_for(0.02, wedge, weights=w, samples=20_000) for w in (None, "free"))
    assert free.size is not None
    assert equal.size is not None
    assert free.size < equal.size


def test_optimal_fixed_weights_in_any_order() -> None:
    _, weights = NORMAL.quantizer(20, p=2)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    result = tc.build_coreset(torch.distributions.Normal(0.0, 1.0), 20, weights=weights[order])
    assert result.transport.value == pytest.approx(0.0062, rel=0.05)


def test_what_does_not_go_together() -> None:
    y = normal(50, 2)
    with pytest.raises(ValueError, match=r"trim: got 0\.1 with algorithm='sgd'"):
        tc.build_coreset(y, 3, trim=0.1, algorithm="sgd")
    with pytest.raises(ValueError, match="weights: got 'fre'; expected 'free', bounds"):
        tc.build_coreset(y, 3, weights="fre")
    with pytest.raises(ValueError, match=r"weights: got the bounds \(2, 3\)"):
        tc.build_coreset(y, 3, weights=(2, 3))


def test_ranks_share_fixed_weights_only(tmp_path: Path) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        y = normal(50, 2)
        with pytest.raises((ValueError, tc.RankError), match="weights: got 'free' with a group"):
            tc.build_coreset(y, 3, weights="free", group="world")
        with pytest.raises((ValueError, tc.RankError), match=r"trim: got 0\.1 with a group"):
            tc.build_coreset(y, 3, trim=0.1, group="world")
        with pytest.raises((ValueError, tc.RankError), match="group: given with point_weights that the plan chooses"):
            tc.transport(y[:3], y, 2, "free", group="world")
        with pytest.raises((ValueError, tc.RankError), match="group: given with trim"):
            tc.wasserstein(y[:3], y, trim=0.1, group="world")
        with pytest.raises((ValueError, tc.RankError), match=r"trim: got 0\.1 with a group"):
            tc.certify(y[:3], y, trim=0.1, group="world")
    finally:
        distributed.destroy_process_group()
