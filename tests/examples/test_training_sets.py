"""Training sets of a few points a class (examples/training_sets.py)."""

from pathlib import Path

import numpy as np
import pytest
import torch

for package in ("matplotlib", "sklearn", "tqdm", "yaml"):
    pytest.importorskip(package)


def test_rows_are_divided_and_features_come_from_images_apart() -> None:
    import training_sets

    pixels = training_sets.split("digits", 3, 900, 400, 300, 2)
    assert [len(part) for part in pixels] == [900, 900, 400, 400]
    assert (pixels.train.min(), pixels.train.max()) == (0, 1)
    state = torch.random.get_rng_state()
    features = training_sets.split("digits, features", 3, 900, 400, 300, 2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert features.train.shape == (900, 32)
    assert np.array_equal(features.test_labels, pixels.test_labels)
    both = np.concatenate((pixels.train, pixels.test))
    assert len(np.unique(both, axis=0)) == len(both)


@pytest.mark.parametrize("method", ["W2 coreset", "W2 rows", "KMeans cells", "D² rows", "herding", "random"])
def test_every_class_has_as_many_points_and_as_much_weight(method: str) -> None:
    import training_sets

    generator = np.random.default_rng(0)
    y = np.repeat([0, 1], [90, 30])
    X = (generator.normal(size=(120, 2)) + 5 * y[:, None]).astype(np.float32)
    points, labels, weights = build(method, 3, training_sets.Split(X, y, X, y))
    assert np.bincount(labels).tolist() == [3, 3]
    assert np.bincount(labels, weights).tolist() == pytest.approx([0.5, 0.5])
    assert points[labels == 0].mean() < 2.5 < points[labels == 1].mean()
    shares = weights * training_sets.restored(labels, weights, y)
    assert np.bincount(labels, shares).tolist() == pytest.approx([0.75, 0.25])
    found = training_sets.judge(points, labels, weights, training_sets.Split(X, y, X, y), 1.0)
    assert min(found.values()) > 0.95


@pytest.mark.parametrize("method", ["W2, proportional", "random, proportional"])
def test_proportional_points_follow_the_classes(method: str) -> None:
    import training_sets

    y = np.repeat([0, 1], [90, 30])
    X = np.random.default_rng(0).normal(size=(120, 2)).astype(np.float32)
    for size, counts in ((1, [1, 1]), (4, [6, 2])):
        _, labels, weights = build(method, size, training_sets.Split(X, y, X, y))
        assert np.bincount(labels).tolist() == counts
        assert np.bincount(labels, weights).tolist() == pytest.approx([0.75, 0.25])


def build(method: str, size: int, data: tuple) -> tuple:
    import training_sets
    import yaml

    held = yaml.safe_load((training_sets.experiment.CONFIGS / "training_sets.yaml").read_text("utf-8"))
    del held["small"]
    task = training_sets.Task(training_sets.Settings(**held), "mine", method, size, 0)
    return training_sets.build(task, data)


def test_an_unknown_method_is_named() -> None:
    import training_sets

    with pytest.raises(SystemExit, match=r"method 'W3': expected some of W2 coreset"):
        training_sets.reduce("W3", np.zeros((5, 2), np.float32), 1, np.random.default_rng(0), 1.0)


@pytest.mark.slow
def test_small_form_shows_what_it_claims(tmp_path: Path) -> None:
    import training_sets

    found = training_sets.main(["--small", "--out", str(tmp_path)])
    held = {(row["method"], row["size"]): row for row in found}
    for size in (1, 5):
        for kind in ("linear", "nearest"):
            coreset = held["W2 coreset", size][kind]
            assert coreset > held["W2 rows", size][kind] > held["random", size][kind]
            assert coreset == pytest.approx(held["KMeans cells", size][kind], abs=0.03)
        assert held["W2 coreset", size]["lower"] < held["random", size]["lower"]
    assert (tmp_path / "training_sets.svg").stat().st_size > 10_000
