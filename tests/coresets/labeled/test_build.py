"""Coresets of labelled data: counts, weights, seeds, and what is no label."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchcoreset as tc
from torchcoreset.coresets.labeled import allocate

pytestmark = pytest.mark.usefixtures("two_starts")

X = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
Y = torch.arange(400) % 10 // 7  # 280 of class 0, 120 of class 1


def test_proportional_keeps_the_prior() -> None:
    found = tc.build_labeled_coreset(X, Y, 10)
    assert np.bincount(found.labels).tolist() == [7, 3]
    shares = torch.bincount(torch.from_numpy(found.labels), weights=found.weights.double())
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.3], dtype=torch.float64), atol=1e-6, rtol=0)
    assert found.points.requires_grad
    assert len(found.to_dataset()) == 10


def test_equal_gives_classes_the_same() -> None:
    found = tc.build_labeled_coreset(X, Y, 9, allocation="equal")
    assert sorted(np.bincount(found.labels).tolist()) == [4, 5]
    shares = torch.bincount(torch.from_numpy(found.labels), weights=found.weights.double())
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.5], dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.slow
def test_each_class_is_a_coreset_of_its_rows() -> None:
    found = tc.build_labeled_coreset(X, Y, 8, p=1, seed=5)
    alone = tc.build_coreset(X[Y == 1], found.results[1].coreset.size, p=1, seed=6)
    assert torch.equal(found.points[found.class_of == 1], alone.coreset.points)


def test_weights_count_like_rows() -> None:
    weights = torch.where(Y == 0, 3.0, 7.0)  # 840 to 840
    found = tc.build_labeled_coreset(X, Y, 4, sample_weights=weights)
    assert np.bincount(found.labels).tolist() == [2, 2]
    assert found.weights.tolist() == pytest.approx([0.25] * 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("samples", "allocation", "rows"),
    [
        (100, "proportional", [70, 30]),
        (100, "equal", [50, 50]),
        (300, "equal", [180, 120]),  # of the second class there are no more
        (2, "proportional", [1, 1]),
        (400, "equal", [280, 120]),
        (10**9, "proportional", [280, 120]),
        (None, "proportional", [280, 120]),
    ],
)
def test_samples_are_those_of_all_classes(samples: int | None, allocation: str, rows: list[int]) -> None:
    found = tc.build_labeled_coreset(X, Y, 10, allocation, samples=samples, restarts=1)
    assert [len(result.transport.transform) for result in found.results] == rows
    whole = tc.build_labeled_coreset(X, Y, 10, allocation, restarts=1)
    assert torch.equal(found.weights, whole.weights)
    assert torch.equal(found.class_of, whole.class_of)
    if sum(rows) == 400:
        assert torch.equal(found.points, whole.points)


@pytest.mark.slow
def test_samples_of_weighted_rows_follow_the_weights() -> None:
    weights = (X[:, 0] > 0).float()
    found = tc.build_labeled_coreset(X, Y, 6, sample_weights=weights, samples=80)
    assert sum(len(result.transport.transform) for result in found.results) == 80
    assert bool((found.points[:, 0] > 0).all())
    assert tc.build_labeled_coreset(X, Y, 6, samples=80, seed=1).results[0].coreset.points.isfinite().all()


def test_each_class_is_built_on_the_rows_that_a_coreset_would_be() -> None:
    found = tc.build_labeled_coreset(X, Y, 10, seed=5, samples=100)
    alone = tc.build_coreset(X[Y == 1], 3, seed=6, samples=30)
    assert torch.equal(found.points[found.class_of == 1], alone.coreset.points)


def test_many_classes_share_what_a_few_lack() -> None:
    y = torch.tensor([0] * 5 + [1] * 15 + [2] * 380)
    found = tc.build_labeled_coreset(X, y, 9, "equal", samples=90)
    assert [len(result.transport.transform) for result in found.results] == [5, 15, 70]


def test_starts_by_class_and_a_callback_with_labels() -> None:
    first = tc.build_labeled_coreset(X, Y, 6)
    seen: list[tuple[int, tuple[int, ...]]] = []
    again = tc.build_labeled_coreset(
        X,
        Y,
        6,
        init={0: first.points[first.class_of == 0].detach()},
        callback=lambda label, step: seen.append((label, tuple(step.points.shape))),
    )
    assert {label for label, _ in seen} == {0, 1}
    assert again.results[0].distance == pytest.approx(first.results[0].distance, rel=1e-3)


@pytest.mark.parametrize(
    ("size", "shares", "counts"),
    [
        (10, [0.5, 0.5], [5, 5]),
        (3, [0.9, 0.05, 0.05], [1, 1, 1]),
        (7, [0.9, 0.05, 0.05], [5, 1, 1]),
        (10, [0.26, 0.37, 0.37], [2, 4, 4]),
        (4, [0.999, 0.001], [3, 1]),
    ],
)
def test_largest_remainders(size: int, shares: list[float], counts: list[int]) -> None:
    found = allocate(size, np.array(shares))
    assert found.tolist() == counts
    assert found.sum() == size


@pytest.mark.parametrize(
    ("y", "options", "said"),
    [
        (Y[:5], {}, "y: got shape (5,) for 400 rows"),
        (Y + 0.5, {}, "y: got fractions"),
        ([None] * 400, {}, "y: got labels of NoneType"),
        (Y, {"allocation": "fair"}, "allocation: got 'fair'"),
        (Y, {"size": 1}, "size: got 1 points for 2 classes"),
        (Y, {"sample_weights": (Y == 0).float()}, "sample_weights: all rows of class 1"),
        (Y, {"seed": 0.5}, "seed: got 0.5"),
        (Y, {"samples": 0}, "samples: got 0; expected a positive integer"),
        (Y, {"samples": 1}, "samples: got 1 for 2 classes; expected at least one for each class"),
    ],
)
def test_unusable_arguments(y: object, options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match="^" + said.replace("(", r"\(").replace(")", r"\)")):
        tc.build_labeled_coreset(X, y, **{"size": 4, **options})


def test_a_step_has_points_for_a_callback_and_none_in_the_history() -> None:
    steps: list[tc.Step] = []
    result = tc.build_coreset(X, 5, callback=steps.append)
    assert torch.equal(steps[-1].points, result.coreset.points)
    assert all(step.points is None for step in result.history)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
@pytest.mark.parametrize("y", [Y, Y.bool(), np.where(Y.numpy() > 0, "rød", "blå")], ids=["int", "bool", "text"])
def test_a_file_keeps_the_labels(tmp_path, suffix, y) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors")
    found = tc.build_labeled_coreset(X, y, 5, restarts=1)
    found.save(tmp_path / f"c{suffix}")
    again = tc.LabeledCoreset.load(tmp_path / f"c{suffix}")
    assert repr(again) == repr(found)
    assert again.labels.tolist() == found.labels.tolist()
    assert again.labels.dtype.kind == found.labels.dtype.kind
    assert torch.equal(again.points, found.points)
    assert torch.equal(again.weights, found.weights)
    assert torch.equal(tc.Coreset.load(tmp_path / f"c{suffix}").points, found.points)


def test_a_file_without_labels(tmp_path) -> None:
    tc.Coreset(X[:4]).save(tmp_path / "c.npz")
    with pytest.raises(ValueError, match=r"c.npz holds no labels; expected a file by LabeledCoreset.save"):
        tc.LabeledCoreset.load(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", points=X[:4].numpy(), weights=np.full(4, 0.25), labels=np.zeros(3, dtype=int))
    with pytest.raises(ValueError, match=r"holds labels of shape \(3,\) for 4 points"):
        tc.LabeledCoreset.load(tmp_path / "d.npz")


def test_the_command_line_and_python_read_each_other(tmp_path, monkeypatch) -> None:
    pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
    from torchcoreset.app.files.coresets import CoresetFile, read_coreset, write_coreset

    found = tc.build_labeled_coreset(X, np.where(Y.numpy() > 0, "b", "a"), 5)
    for suffix in (".npz", ".pt"):
        found.save(tmp_path / f"p{suffix}")
        assert read_coreset(str(tmp_path / f"p{suffix}")).labels.tolist() == found.labels.tolist()
        held = CoresetFile(found.points.detach(), found.weights, found.labels)
        write_coreset(tmp_path / f"c{suffix}", held)
        assert tc.LabeledCoreset.load(tmp_path / f"c{suffix}").labels.tolist() == found.labels.tolist()


def test_points_for_a_label_that_does_not_occur() -> None:
    X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"init: got points for \['one'\]; expected labels among \[0, 1\]"):
        tc.build_labeled_coreset(X, [0, 1] * 10, 4, init={"one": X[:2]})
