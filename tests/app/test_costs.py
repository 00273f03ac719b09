"""Other distances on the command line: coresets that Python has saved, and those that are built by --cost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.app.test_again import stopped_after
from tests.data import seeded
from torchcoreset.app import main
from torchcoreset.testing import sample_cap


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """A folder with fresh.csv, and its rows (400, 2)."""
    monkeypatch.chdir(tmp_path)
    rows = sample_cap(400, 30, (60.0, 175.0), seeded(1))
    np.savetxt("fresh.csv", rows.numpy(), delimiter=",", header="lat,lon", comments="")
    return rows


@pytest.fixture
def places(fresh: torch.Tensor) -> None:
    """Coresets of other places, beside fresh.csv: globe.npz, and standard.npz in standard deviations."""
    old = sample_cap(400, 30, (60.0, 175.0), seeded())
    tc.build_coreset(old, 5, cost=tc.costs.GreatCircle(), restarts=1).coreset.save("globe.npz")
    tc.build_coreset(old, 5, scale="standard", restarts=1).coreset.save("standard.npz")


@pytest.mark.parametrize(("name", "unit"), [("globe", "in km"), ("standard", "standard deviations of the columns")])
def test_certify_measures_as_the_coreset_was_built(
    places: None, name: str, unit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(f"certify {name}.npz fresh.csv --quiet".split()) == 0
    assert unit in capsys.readouterr().out
    assert main(f"certify {name}.npz fresh.csv --quiet --json".split()) == 0
    expected = tc.certify(tc.Coreset.load(f"{name}.npz"), "fresh.csv")
    assert json.loads(capsys.readouterr().out)["upper"] == pytest.approx(expected.upper, rel=1e-6)


def test_what_compares_and_merges_refuses_other_distances(places: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fresh.csv", "globe.npz"]) == 2
    assert "globe.npz is for distances by GreatCircle(); expected the Euclidean one" in capsys.readouterr().err
    assert main(["merge", "globe.npz", "globe.npz", "--out", "both.npz"]) == 2
    assert "got a coreset for distances by GreatCircle()" in capsys.readouterr().err


@pytest.mark.parametrize("record", ['{"metric": 3}', '{"metric": "Scaled", "weights": [-1]}', "[]", "nonsense"])
def test_a_damaged_record_is_named(record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "bad.npz", points=np.ones((2, 2)), weights=np.ones(2) / 2, cost=np.array(record))
    assert main(["certify", str(tmp_path / "bad.npz"), "fresh.csv"]) == 2
    assert "metadata is" in capsys.readouterr().err


BUILD = "build fresh.csv -n 5 --cost great-circle --quiet --restarts 1"
SIZE = "size fresh.csv --epsilon 3000 --cost great-circle --max-builds 1 --samples 200 --quiet"
BOUND = "bound fresh.csv -n 5 --cost cosine --method pairs --quiet --json"


def test_a_build_measures_as_the_library_does(fresh: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'torchcoreset[plot]'")
    assert main([*BUILD.split(), "--json", "--plot", "map.png"]) == 0
    said = json.loads(capsys.readouterr().out)
    expected = tc.build_coreset(fresh, 5, cost=tc.costs.GreatCircle(), restarts=1)
    found = tc.Coreset.load("coreset.npz")
    assert found.cost == tc.costs.GreatCircle()
    torch.testing.assert_close(found.points, expected.coreset.points)
    assert said["distance"] == pytest.approx(expected.distance)
    random = [tc.Coreset.from_source(fresh, 5, seed=k).points for k in range(3)]
    values = [tc.transport(points, fresh, cost=found.cost, tolerance=1e-2).value for points in random]
    assert said["random_rows"]["distance"] == pytest.approx(np.sqrt(values).mean(), rel=1e-2)
    assert main(["info", "coreset.npz"]) == 0
    assert "distance: along great circles of the globe, in km" in capsys.readouterr().out


def test_an_interrupted_build_leaves_rows_and_goes_on(fresh: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([*BUILD.split(), "--out", "whole.npz"]) == 0
    assert stopped_after(2, BUILD, monkeypatch) == 130
    so_far, whole = tc.Coreset.load("coreset.npz"), tc.Coreset.load("whole.npz")
    assert float(tc.transport(so_far, whole, cost=whole.cost).value) ** 0.5 < 500  # km, on a cap of 30 degrees
    assert main([*BUILD.split(), "--resume"]) == 0
    assert torch.equal(tc.Coreset.load("coreset.npz").points, whole.points)


@pytest.mark.parametrize("out", ["directions.csv", "directions.parquet", "directions.pt"])
def test_every_format_keeps_the_distance(out: str, fresh: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(f"build fresh.csv -n 4 --cost cosine --quiet --restarts 1 --hold-out 0.5 --out {out}".split()) == 0
    assert "in chords between directions" in capsys.readouterr().out
    assert main(["certify", out, "fresh.csv", "--quiet"]) == 0
    assert "in chords between directions" in capsys.readouterr().out


def test_sizes_and_bounds_are_those_of_the_library(fresh: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SIZE.split()) == 0
    assert " km\n" in capsys.readouterr().out
    assert main(BOUND.split()) == 0
    expected = tc.optimality_bound(fresh, 5, method="pairs", cost=tc.costs.Cosine())
    assert json.loads(capsys.readouterr().out)["distance"] == pytest.approx(expected.distance)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("build fresh.csv -n 5 --cost cosine --scale robust", "--cost: given with --scale; expected one of them"),
        ("build fresh.csv -n 5 --cost cosine --label lat", "--label: given with --cost cosine"),
        ("build fresh.csv -n 5 --cost cosine --divergence mmd", "--divergence: given with --cost cosine"),
        ("build fresh.csv -n 5 --cost cosine --algorithm sgd", "--algorithm: given with --cost cosine"),
        ("build fresh.csv -n 5 --cost cosine --blur 1", "--blur: given with --divergence wasserstein"),
        ("build fresh.csv -n 5 --cost greatcircle", "did you mean 'great-circle'?"),
        ("build fresh.csv -n 5 --cost great-circle --columns lon,lat", "DATA: got a latitude of size"),
        ("build fresh.csv -n 5 --cost great-circle --columns lat", "with --cost great-circle; expected two columns"),
        ("build zero.npy -n 2 --cost cosine", "DATA: row 1 is zero"),
        ("size fresh.csv --epsilon 1 --cost cosine --standardise", "--cost: given with --standardise"),
        ("bound fresh.csv -n 5 --cost great-circle", "--cost: got great-circle, for which no bound is known"),
    ],
)
def test_what_another_distance_refuses(
    line: str, said: str, fresh: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("zero.npy", [[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]])
    assert main(line.split()) == 2
    assert said in capsys.readouterr().err
