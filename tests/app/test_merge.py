"""`torchcoreset merge`: files of parts become one, with their bounds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc

pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[cli]'")

from torchcoreset.app import main
from torchcoreset.app.files import CoresetFile, write_coreset

pytestmark = pytest.mark.usefixtures("two_starts")

ROWS = np.random.default_rng(0).normal(size=(400, 2)) * [1.0, 10.0]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with two tables of a file each, and their coresets."""
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, rows in (("a", ROWS[:300]), ("b", ROWS[300:])):
            np.savetxt(f"{name}.csv", rows, delimiter=",", header="x,y", comments="")
            assert main(f"build {name}.csv --size 5 --restarts 2 --out {name}.npz --quiet".split()) == 0
    return folder


@pytest.fixture(autouse=True)
def parts(built, tmp_path, monkeypatch):
    """A copy of them to work in."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)


def ask(capsys, line: str) -> dict:
    """What a command says as JSON, after it has ended well."""
    capsys.readouterr()
    assert main([*line.split(), "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def fail(capsys, line: str) -> str:
    capsys.readouterr()
    assert main([*line.split(), "--quiet"]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".csv", ".parquet"])
def test_files_become_one_within_the_bound(capsys, suffix):
    said = ask(capsys, f"merge a.npz b.npz --masses rows --size 5 --out c{suffix}")
    assert (said["size"], said["masses"], said["rows"], said["columns"]) == (5, [300, 100], 400, ["x", "y"])
    kept = ask(capsys, f"info c{suffix}")
    assert kept["bounds"] == said["bounds"]
    assert kept["merged_from"] == ["a.npz", "b.npz"]
    if suffix == ".npz":
        distance = tc.transport(tc.Coreset.load("c.npz"), torch.from_numpy(ROWS)).value ** 0.5
        assert said["bounds"][0] <= distance <= said["bounds"][1]
    again = ask(capsys, f"merge c{suffix} a.npz --masses rows --out d.npz")  # with the bound of the merged file
    assert again["rows"] == 700
    assert again["size"] == 10
    assert 0 < said["bias"] < said["bounds"][1]
    library = tc.merge([tc.build_coreset(ROWS[:300], 5), tc.build_coreset(ROWS[300:], 5)], [300, 100], 5)
    assert said["bounds"] == pytest.approx([library.bound.lower, library.bound.upper])
    bounds = [(400, said["bounds"][1]), (300, ask(capsys, "info a.npz")["bounds"][1])]
    assert again["bounds"][1] == pytest.approx((sum(m * e**2 for m, e in bounds) / 700) ** 0.5)


def test_what_is_printed(capsys):
    assert main(["merge", "a.npz", "b.npz", "--masses", "3,1", "--size", "4", "--out", "c.npz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 points for the 10 of 2 files"
    assert lines[1].startswith("W2 to these points: ")
    assert lines[2].startswith("W2 to the rows of the parts: at most ")
    assert lines[3] == "written  c.npz"
    tc.Coreset(ROWS[:3]).save("plain.npz")
    assert main(["merge", "plain.npz", "--out", "d.npz"]) == 0
    assert "no bound: plain.npz does not say how far it is from all its rows." in capsys.readouterr().out


def test_bounds_of_an_interrupted_run_are_not_relied_on(capsys):
    points = torch.from_numpy(ROWS[:3])
    record = {"status": "interrupted", "bounds": [0.0, 0.1], "columns": ["x", "y"], "p": 2.0}
    write_coreset(Path("i.npz"), CoresetFile(points, torch.full((3,), 1 / 3), None, record))
    assert ask(capsys, "merge a.npz i.npz --out c.npz")["bounds"] == [0, None]


def test_rows_that_built_a_part_are_known_again(capsys):
    ask(capsys, "merge a.npz b.npz --out c.npz")
    for name in "ab":
        assert main(f"certify c.npz {name}.csv".split()) == 0
        assert "built this coreset" in capsys.readouterr().err


def test_labels_and_units_stay(capsys):
    for name in "ab":
        rows = np.loadtxt(f"{name}.csv", delimiter=",", skiprows=1)
        kind = np.where(rows[:, 0] > 0, "up", "down")
        lines = ["x,y,kind", *(f"{x},{y},{word}" for (x, y), word in zip(rows, kind, strict=True))]
        Path(f"l{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")
        ask(capsys, f"build l{name}.csv --label kind --size 6 --scale 1,10 --out l{name}.npz")
    said = ask(capsys, "merge la.npz lb.npz --masses rows --size 4 --out c.npz")
    assert said["scaling"]["unit"] == [1, 10]
    assert said["bounds"][1] < 2
    merged = tc.LabeledCoreset.load("c.npz")
    assert sorted(set(merged.labels.tolist())) == ["down", "up"]


def test_what_is_asked_wrongly(capsys):
    ask(capsys, "build a.csv --size 4 --p 1 --out p1.npz")
    ask(capsys, "build b.csv --size 4 --columns y,x --out yx.npz")
    tc.Coreset(ROWS[:3]).save("plain.npz")
    for line, message in (
        ("merge", "merge: got no coreset files"),
        ("merge a.npz p1.npz", "p1.npz is of p=1, and a.npz of p=2; expected one power"),
        ("merge a.npz yx.npz", "yx.npz has the columns y, x, and a.npz has x, y; expected the same"),
        ("merge a.npz b.npz --masses 1", "--masses: got 1 for 2 files"),
        ("merge a.npz b.npz --masses 1,x", "--masses: got '1,x'; expected numbers"),
        ("merge plain.npz --masses rows", "--masses: plain.npz does not say of how many rows it is"),
        ("merge a.npz b.npz --seed 3", "--seed: given without `size`"),
        ("merge a.npz no.npz", "there is no file 'no.npz'"),
        ("merge a.npz --out a.npz", "--out"),
    ):
        assert message in fail(capsys, line), line
