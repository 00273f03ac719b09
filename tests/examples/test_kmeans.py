"""k-means on coresets (examples/kmeans.py)."""

import csv
from pathlib import Path

import numpy as np
import pytest

for package in ("matplotlib", "sklearn", "tqdm", "yaml"):
    pytest.importorskip(package)


@pytest.mark.slow
def test_small_form_shows_what_it_claims(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import kmeans

    means = kmeans.main(["--small", "--out", str(tmp_path)])
    error = {(row["method"], row["size"]): row["error"] for row in means}
    for size in (10, 20):
        for other in ("uniform", "lightweight", "sensitivity"):
            assert error["W2 coreset", size] < 0.25 * error[other, size]
    assert 0 <= error["W2 coreset", 10] < error["W1 coreset", 10] < 0.05
    assert (tmp_path / "kmeans.png").stat().st_size > 10_000
    with (tmp_path / "kmeans.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5 * 2 * 5
    text = capsys.readouterr().out
    assert "uniform sampling needs more than 20 points" in text
    assert "below that of every sampling method at 10, 20 of the sizes 10, 20" in text


def test_cost_and_centres_by_hand() -> None:
    import kmeans

    X = np.array([[0.0], [1.0], [10.0], [12.0]])
    assert kmeans.cost(X, np.array([[0.0], [11.0]])) == 1 + 1 + 1
    weighted = kmeans.learn(X, np.array([0.3, 0.1, 0.4, 0.2]), 2, 5, seed=0)
    assert sorted(weighted[:, 0].tolist()) == pytest.approx([0.25, 32 / 3])
    assert kmeans.learn(X[[0, 0, 2]], np.ones(3), 2, 5, seed=0)[:, 0].tolist() == [0, 10]


def test_pendigits_has_the_cost_that_is_known(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kmeans
    import public_data

    monkeypatch.setenv("TORCHCORESET_DATA", str(data_dir))
    X, _ = public_data.load("pendigits")
    best = kmeans.cost(X, kmeans.learn(X, None, 10, 20, seed=0))
    assert best == pytest.approx(49_301_514.9, rel=2e-3)
    assert kmeans.cost(X, kmeans.learn(X[:10], None, 10, 1, seed=0)) > 1.3 * best


def test_an_unknown_method_is_named(tmp_path: Path) -> None:
    import kmeans

    config = tmp_path / "mine.yaml"
    text = Path(kmeans.__file__).parents[1].joinpath("configs", "kmeans.yaml").read_text("utf-8")
    config.write_text(text.replace("[W2 coreset, W1 coreset, uniform, lightweight, sensitivity]", "[W3]"), "utf-8")
    with pytest.raises(SystemExit, match=r"method 'W3': expected some of W2 coreset"):
        kmeans.main(["--config", str(config), "--small", "--out", str(tmp_path)])
