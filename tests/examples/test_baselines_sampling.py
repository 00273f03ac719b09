"""The baselines importance, uniform, lightweight, sensitivity, svm_importance, thinning, d_squared, medoids."""

import math

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

LINE = np.array([[0.0], [2.0], [4.0], [10.0]])  # mean 4; squared distances 16, 4, 0, 36


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_importance_weights_are_unbiased_and_add_up_to_one_on_average() -> None:
    from baselines.importance import draw

    q, f = np.array([0.5, 0.3, 0.15, 0.05]), np.array([1.0, -2.0, 7.0, 30.0])
    rows, weights = draw(q, 400_000, rng())
    assert weights[rows == 3][0] == pytest.approx(1 / (400_000 * 4 * 0.05))
    assert weights.sum() == pytest.approx(1, abs=0.01)
    assert weights @ f[rows] == pytest.approx(f.mean(), abs=0.1)


def test_uniform_takes_different_rows_of_equal_weight() -> None:
    from baselines.uniform import uniform

    rows, weights = uniform(10, 10, rng())
    assert sorted(rows.tolist()) == list(range(10))
    assert weights.tolist() == [0.1] * 10


def test_lightweight_probabilities_by_hand() -> None:
    from baselines.lightweight import lightweight, lightweight_probabilities

    expected = [1 / 8 + far / 112 for far in (16, 4, 0, 36)]
    assert lightweight_probabilities(LINE).tolist() == pytest.approx(expected)
    assert lightweight_probabilities(np.ones((5, 2))).tolist() == pytest.approx([0.2] * 5)
    rows, weights = lightweight(LINE, 3, rng())
    assert weights.tolist() == pytest.approx([1 / (12 * expected[row]) for row in rows])


def test_d_squared_rows_weigh_what_is_nearest_to_them() -> None:
    from baselines.d_squared import cell_masses, d_squared

    assert cell_masses(LINE, np.array([[1.0], [9.0]])).tolist() == [0.75, 0.25]
    X = np.array([[0.0]] * 50 + [[1.0]] * 49 + [[100.0]])
    rows, weights = d_squared(X, 3, rng())
    assert sorted(X[rows, 0].tolist()) == [0, 1, 100]  # each draw is of what is far from those before
    assert dict(zip(X[rows, 0].tolist(), weights.tolist(), strict=True)) == {0: 0.5, 1: 0.49, 100: 0.01}


def test_medoids_of_three_groups_are_their_middles() -> None:
    from baselines import medoids

    if reason := medoids.missing():
        assert "pip install kmedoids" in reason
        pytest.skip(reason)
    X = (np.array([[0.0], [50.0], [200.0]])[:, None] + np.array([[-1.0], [0.0], [1.0]])).reshape(9, 1)
    rows, weights = medoids.medoids(X, 3, rng())
    assert sorted(X[rows, 0].tolist()) == [0, 50, 200]
    assert weights.tolist() == pytest.approx([1 / 3] * 3)


def test_sensitivities_by_hand_and_their_sum() -> None:
    from baselines.sensitivity import sensitivities, sensitivity

    # Centres 1 and 7: clusters {0, 2} and {5, 9}, squares 1, 1, 4, 4, mean 2.5; alpha = 16 (1 + 2) = 48.
    s = sensitivities(np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([[1.0], [7.0]]))
    assert s.tolist() == pytest.approx([48 * d / 2.5 + 96 * d / 2.5 + 8 for d in (1, 1, 4, 4)])
    assert s.sum() == pytest.approx(4 * (3 * 48 + 4 * 2))
    X = rng(1).normal(size=(500, 3))
    alpha = 16 * (math.log2(7) + 2)
    assert sensitivities(X, X[:7]).sum() == pytest.approx(500 * (3 * alpha + 4 * 7))
    assert sensitivities(LINE, LINE).tolist() == [16] * 4
    rows, weights = sensitivity(X, 20_000, 7, rng())
    assert weights @ (X[rows] ** 2).sum(1) == pytest.approx((X**2).sum(1).mean(), rel=0.05)


def machine(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, penalty: float) -> np.ndarray:
    """(N,) what each row adds to the objective."""
    return w @ w / (2 * len(X)) + penalty * np.maximum(0, 1 - y * (X @ w + b))


def test_svm_importance_is_above_every_rows_share_of_the_objective() -> None:
    from baselines.svm_importance import clusters_of_classes, svm_sensitivities
    from sklearn.svm import SVC

    generator = rng(2)
    y = np.repeat([-1, 1], [60, 20])
    X = generator.normal(size=(80, 2)) + 0.8 * y[:, None]
    for penalty in (0.05, 1.0, 20.0):
        best = SVC(kernel="linear", C=penalty, tol=1e-8).fit(X, y)
        least = machine(X, y, best.coef_[0], best.intercept_[0], penalty).sum()
        s = svm_sensitivities(X, clusters_of_classes(X, y, generator), penalty, 0.999 * least)
        assert (s >= 1 / 80).all()
        assert s.sum() < 80
        for _ in range(2000):
            w = best.coef_[0] * generator.uniform(0, 3) + generator.normal(size=2) * generator.exponential(2)
            share = machine(X, y, w, best.intercept_[0] + generator.normal() * 2, penalty)
            assert (share / share.sum() <= s + 1e-9).all()


def test_svm_importance_by_hand() -> None:
    from baselines.svm_importance import svm_importance, svm_sensitivities

    # Clusters {0, 2} and {4, 10}: M = 2, delta 1, 1, 3, 3, beta = (1/2 - 1/4) / 2 = 1/8; C = 1/8, F* = 2, r <= 2.
    # delta = 1: r* = 1/2, s = 1/2 + (1/16 - 1/32) / 2; delta = 3: r* = 3/2, s = 1/2 + (9/16 - 9/32) / 2.
    s = svm_sensitivities(LINE, np.array([0, 0, 1, 1]), 0.125, 2.0)
    assert s.tolist() == pytest.approx([0.5 + 1 / 64, 0.5 + 1 / 64, 0.5 + 9 / 64, 0.5 + 9 / 64])
    X, y = rng(3).normal(size=(300, 2)), np.repeat([0, 1], 150)
    rows, weights = svm_importance(X, y, 20_000, 1.0, 10.0, rng())
    assert weights @ X[rows, 0] == pytest.approx(X[:, 0].mean(), abs=0.02)


def test_thinning_takes_what_keeps_the_mean() -> None:
    from baselines import thinning

    if reason := thinning.missing():
        assert "pip install goodpoints" in reason
        pytest.skip(reason)
    X = rng(4).normal(size=(1000, 2))
    rows, weights = thinning.thinning(X, 16, rng())
    assert len(set(rows.tolist())) == len(weights) == 16
    assert np.linalg.norm(X[rows].mean(0) - X.mean(0)) < 0.25
