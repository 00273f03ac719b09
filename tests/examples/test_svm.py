"""Support vector machines on coresets (examples/svm.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

for package in ("matplotlib", "sklearn", "tqdm", "yaml"):
    pytest.importorskip(package)


@pytest.mark.slow
def test_small_form_shows_what_it_claims(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import svm

    found = svm.main(["--small", "--out", str(tmp_path)])
    for kernel in ("linear", "rbf"):
        for size in (10, 20):
            here = {row["method"]: row for row in found if (row["kernel"], row["size"]) == (kernel, size)}
            for measure in ("accuracy", "balanced", "auc"):
                rival = max(here[name][measure] for name in ("uniform", "SVM importance"))
                assert min(here[name][measure] for name in svm.OURS) > rival + 0.02
    for name in ("svm", "svm_balanced"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 10_000
    held = json.loads((tmp_path / "svm.json").read_text("utf-8"))
    assert held["rows"][0]["method"] == "all rows"
    whole = next(row for row in found if (row["method"], row["kernel"]) == ("all rows", "linear"))
    assert whole["accuracy"] == held["rows"][0]["accuracy"] > 0.85
    assert svm.relative([whole, {**whole, "method": "copy"}])[0]["accuracy"] == 1
    assert "digits, rbf, best relative accuracy, 10: " in capsys.readouterr().out


def test_the_prior_is_restored() -> None:
    import svm

    weights = svm.restore_prior(np.array([0, 0, 1, 1]), np.array([0] * 9 + [1]))
    assert weights.tolist() == pytest.approx([0.45, 0.45, 0.05, 0.05])


def test_weights_count_as_repeated_rows() -> None:
    import svm

    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(30, 2)), np.arange(30) % 2
    X[:, 0] += y
    twice = np.concatenate((X, X[:15]))
    weighted = svm.fit(X, y, np.where(np.arange(30) < 15, 2.0, 1.0), "linear", 1.0)
    repeated = svm.fit(twice, np.concatenate((y, y[:15])), None, "linear", 1 / 1.5)
    assert weighted.coef_[0] == pytest.approx(repeated.coef_[0], abs=5e-3)


def test_one_class_alone_is_a_guess() -> None:
    import svm

    data = svm.Split(np.zeros((1, 1)), np.zeros(1, int), np.zeros((4, 1)), np.array([0, 0, 0, 1]))
    assert svm.fit(np.zeros((3, 1)), np.zeros(3, int), None, "rbf", 1.0) is None
    assert svm.judge(None, data) == {"accuracy": 0.75, "balanced": 0.5, "auc": 0.5}


def test_scores_are_those_of_the_machine() -> None:
    import svm

    generator = np.random.default_rng(1)
    X = generator.normal(size=(60, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    for kernel in ("linear", "rbf"):
        model = svm.fit(X, y, None, kernel, 1.0)
        assert svm.scores(model, X) == pytest.approx(model.decision_function(X), abs=1e-4)


def test_points_of_each_class_keep_the_prior_or_are_as_many() -> None:
    import svm

    generator = np.random.default_rng(2)
    X, y = generator.normal(size=(100, 2)).astype(np.float32), np.repeat([0, 1], [80, 20])
    for method, counts, share in (
        ("KMeans cells", [8, 2], 0.2),
        ("D² rows", [8, 2], 0.2),
        ("random equal", [5, 5], 0.5),
    ):
        points, labels, weights = svm.per_class(X, y, 10, *svm.PER_CLASS[method], generator)
        assert points.shape == (10, 2)
        assert np.bincount(labels).tolist() == counts
        assert weights.sum() == pytest.approx(1)
        assert weights[labels == 1].sum() == pytest.approx(share)


def test_htru2_is_as_known(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import svm

    monkeypatch.setenv("TORCHCORESET_DATA", str(data_dir))
    data = svm.split.__wrapped__("htru2", 0.3)
    found = svm.judge(svm.fit(data.train, data.train_labels, None, "linear", 1.0), data)
    assert 0.975 < found["accuracy"] < 0.981
