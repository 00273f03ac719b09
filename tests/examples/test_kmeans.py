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

    found = kmeans.main(["--small", "--out", str(tmp_path)])
    error = {(row["method"], row["size"]): row["error"] for row in found}
    for size in (10, 20):
        for other in ("uniform", "lightweight", "sensitivity", "D² rows"):
            assert error["W2 coreset", size] < 0.25 * error[other, size]
    assert 0 <= error["KMeans cells", 10] < error["W2 coreset", 10] < error["W1 coreset", 10] < 0.05
    free = next(row for row in found if (row["method"], row["size"]) == ("W2, free weights", 20))
    assert free["error"] < free["unweighted"]
    assert (tmp_path / "kmeans.svg").stat().st_size > 10_000
    with (tmp_path / "kmeans.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 8 * 2 * 5
    assert "at 10, 20 points: W1 coreset" in capsys.readouterr().out


def test_cost_and_centres_by_hand() -> None:
    import kmeans

    X = np.array([[0.0], [1.0], [10.0], [12.0]])
    assert kmeans.cost(X, np.array([[0.0], [11.0]])) == 1 + 1 + 1
    weighted = kmeans.learn(X, np.array([0.3, 0.1, 0.4, 0.2]), 2, 5, seed=0)  # many_starts, whose centres are these
    assert sorted(weighted[:, 0].tolist()) == pytest.approx([0.25, 32 / 3])
    assert kmeans.learn(X[[0, 0, 2]], np.ones(3), 2, 5, seed=0)[:, 0].tolist() == [0, 10]


def test_pendigits_has_the_cost_that_is_known(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kmeans
    import public_data

    monkeypatch.setenv("TORCHCORESET_DATA", str(data_dir))
    X, _ = public_data.load("pendigits")
    best = kmeans.cost(X, kmeans.cells(X, 10, seed=0)[0])
    assert 49_301_514 < best < 1.1 * 49_301_514
    few = kmeans.learn(X[:10], np.full(10, 0.1), 10, 1, seed=0)
    assert kmeans.cost(X, few) > 1.3 * best


def test_an_unknown_method_is_named(tmp_path: Path) -> None:
    import kmeans

    config = tmp_path / "mine.yaml"
    text = Path(kmeans.__file__).parents[1].joinpath("configs", "kmeans.yaml").read_text("utf-8")
    small = '[W2 coreset, W1 coreset, "W2, free weights", KMeans cells, D² rows, uniform, lightweight, sensitivity]'
    assert small in text
    config.write_text(text.replace(small, "[W3]"), "utf-8")
    with pytest.raises(SystemExit, match=r"method 'W3': expected some of W2 coreset"):
        kmeans.main(["--config", str(config), "--small", "--out", str(tmp_path)])


def test_many_starts_find_what_scikit_learn_finds() -> None:
    import torch
    from many_starts import many_starts
    from sklearn.cluster import KMeans

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=generator, dtype=torch.float64) + 1e3
    w = torch.rand(60, generator=generator, dtype=torch.float64)
    w[:3] = 0
    centres = many_starts(x, w, 5, 100, generator)
    found = (torch.cdist(x, centres).square().min(1).values * w).sum().item()
    model = KMeans(5, n_init=50, random_state=0).fit(x.numpy(), sample_weight=w.numpy())
    assert found == pytest.approx(model.inertia_, rel=5e-3)
    repeated = x[torch.zeros(9, dtype=torch.int64)]  # nothing to divide
    torch.testing.assert_close(many_starts(repeated, torch.ones(9, dtype=x.dtype), 2, 3, generator), repeated[:2])


def test_errors_are_above_the_least_cost_that_any_method_found() -> None:
    import kmeans

    rows = [{"data": "a", "cost": 12.0, "cost_unweighted": 15.0}, {"data": "a", "cost": 9.0, "cost_unweighted": 9.0}]
    found = kmeans.with_errors(rows, {"a": 10.0})
    assert [row["error"] for row in found] == pytest.approx([1 / 3, 0])
    assert found[0]["unweighted"] == pytest.approx(2 / 3)
