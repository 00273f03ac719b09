"""Coresets that Python has saved, for other distances or in other units, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import torchcoreset as tc
from tests.data import seeded
from torchcoreset.app import main
from torchcoreset.testing import sample_cap


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with fresh.csv, and coresets of other places: globe.npz, and standard.npz in standard deviations."""
    monkeypatch.chdir(tmp_path)
    old, fresh = sample_cap(400, 30, (60.0, 175.0), seeded()), sample_cap(400, 30, (60.0, 175.0), seeded(1))
    np.savetxt("fresh.csv", fresh.numpy(), delimiter=",", header="lat,lon", comments="")
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
