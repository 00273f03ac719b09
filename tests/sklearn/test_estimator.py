"""The estimator: scikit-learn's own checks, and what they do not ask."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", "1.6", reason="needs scikit-learn 1.6: pip install 'torchcoreset[sklearn]'")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import torchcoreset as tc
from torchcoreset.sklearn import WassersteinCoreset

pytestmark = pytest.mark.usefixtures("two_starts")

X = np.random.default_rng(0).normal(size=(400, 2))


@pytest.mark.slow
def test_scikit_learns_checks() -> None:
    reason = "starts are drawn at random, by weights or among repeated rows; KMeans is excused from it for the same"
    found = check_estimator(
        WassersteinCoreset(n_points=3, init="random", max_iter=10),
        expected_failed_checks={"check_sample_weight_equivalence_on_dense_data": reason},
        on_skip=None,
    )
    assert sum(check["status"] == "passed" for check in found) > 50


def test_fit_is_build_coreset() -> None:
    model = WassersteinCoreset(5, random_state=3).fit(X)
    seed = int(np.random.RandomState(3).randint(np.iinfo(np.int32).max))
    expected = tc.build_coreset(torch.from_numpy(X), 5, seed=seed)
    assert np.array_equal(model.points_, expected.coreset.points.detach().numpy())
    assert model.lower_ <= model.value_ == pytest.approx(-model.score(X), rel=1e-3)
    assert np.bincount(model.predict(X)).tolist() == pytest.approx([80] * 5, abs=2)
    assert np.allclose(model.transform(X), np.linalg.norm(X[:, None] - model.points_, axis=2))


def test_cells_are_those_of_the_potential_for_p_1() -> None:
    model = WassersteinCoreset(4, p=1, random_state=0).fit(X)
    assert np.bincount(model.labels_).tolist() == pytest.approx([100] * 4, abs=2)
    assert np.bincount(model.labels_).tolist() == [100] * 4
    assert np.mean(model.labels_ != model.predict(X)) < 0.02, "rows at a boundary, within the gap of the plan"


def test_weights_count() -> None:
    weights = (X[:, 0] > 0).astype(float)
    model = WassersteinCoreset(4, random_state=0).fit(X, sample_weight=weights)
    assert (model.points_[:, 0] > 0).all()
    kept = X[weights > 0]
    assert model.score(X, sample_weight=weights) == pytest.approx(model.score(kept), rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_a_stream_comes_near_the_fit(p: float) -> None:
    random = np.random.default_rng(1)
    model = WassersteinCoreset(5, p=p, random_state=0)
    for _ in range(150):
        model.partial_fit(random.normal(size=(50, 2)))
    fresh = random.normal(size=(4000, 2))
    best = WassersteinCoreset(5, p=p, random_state=0).fit(fresh)
    assert model.score(fresh) > 1.05 * best.score(fresh)
    assert model.n_iter_ == 150


def test_a_stream_goes_on_from_a_fit() -> None:
    model = WassersteinCoreset(3, random_state=0).fit(X)
    before = model.points_.copy()
    model.partial_fit(X[:50])
    assert 0 < np.abs(model.points_ - before).max() < 1


@pytest.mark.slow
def test_in_a_pipeline_and_a_grid() -> None:
    y = (X.sum(1) > 0).astype(int)
    pipeline = make_pipeline(StandardScaler(), WassersteinCoreset(5, random_state=0, tol=0.05), LogisticRegression())
    grid = GridSearchCV(pipeline, {"wassersteincoreset__n_points": [2, 8]}, cv=2).fit(X, y)
    assert grid.best_score_ > 0.8
    search = GridSearchCV(WassersteinCoreset(random_state=0, tol=0.05), {"n_points": [2, 6]}, cv=2).fit(X)
    assert search.best_params_ == {"n_points": 6}


def test_names_and_clones() -> None:
    model = WassersteinCoreset(3, random_state=0).fit(X)
    assert model.get_feature_names_out().tolist() == [f"wassersteincoreset{k}" for k in range(3)]
    assert clone(model.set_params(n_points=4)).get_params()["n_points"] == 4


def test_rows_far_from_the_origin_in_float32() -> None:
    """Such as years or coordinates: distances and cells are those of the same rows at the origin."""
    X = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32) + np.float32(3e4)
    model = WassersteinCoreset(5, random_state=0).fit(X)
    apart = np.linalg.norm(X[:, None].astype(float) - model.points_.astype(float), axis=2)
    np.testing.assert_allclose(model.transform(X), apart, rtol=1e-5)
    reduced = apart**2 - model.potential_
    assert (reduced.min(1) >= reduced[np.arange(300), model.labels_] - 0.02).all()


def test_a_stream_pickled_by_the_version_before_goes_on() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 2))
    estimator = WassersteinCoreset(4, random_state=0).partial_fit(rows[:100])
    del estimator._sizes, estimator.p_  # which that version did not keep
    again = pickle.loads(pickle.dumps(estimator)).partial_fit(rows[100:])
    assert again.points_.shape == (4, 2)
    assert again.n_iter_ == 2


def test_free_and_bounded_weights_and_outliers() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate((rng.normal(size=(396, 2)), np.full((4, 2), 1e5)))
    equal = WassersteinCoreset(6, random_state=0, trim=0.01).fit(X)
    free = WassersteinCoreset(6, random_state=0, weights="free", trim=0.01).fit(X)
    assert free.value_ < equal.value_
    assert equal.weights_ == pytest.approx(np.full(6, 1 / 6))
    assert free.weights_.sum() == pytest.approx(1)
    assert (free.labels_[-4:] == -1).all()
    assert np.bincount(free.labels_[:-4]) / 396 == pytest.approx(free.weights_, abs=2 / 396)
    assert np.abs(free.points_).max() < 10
    assert -free.score(X) == pytest.approx(free.value_, rel=1e-2)
    bounded = WassersteinCoreset(6, random_state=0, weights=(0.9, 1.1)).fit(X[:-4])
    assert 0.9 / 6 - 1e-9 <= bounded.weights_.min() <= bounded.weights_.max() <= 1.1 / 6 + 1e-9
    assert (bounded.predict(X[:-4]) == bounded.labels_).mean() > 0.95
    with pytest.raises(ValueError, match="weights: got 'free' in partial_fit"):
        WassersteinCoreset(6, weights="free").partial_fit(X)
