"""Outputs: they never replace what is read, and what is there only with --force."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc

pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[cli]'")

from torchcoreset.app import main
from torchcoreset.app.demo import main as demo
from torchcoreset.app.outputs import check_outputs

ROWS = np.random.default_rng(0).normal(size=(200, 2))
QUICK = "--size 3 --restarts 1 --tolerance 0.1 --quiet"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table in two formats, a coreset of it and a network."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("t.csv", ROWS, delimiter=",", header="a,b", comments="")
    np.savez("t.npz", X=ROWS)
    Path("net.py").write_text("def f(y):\n    return 2 * y\n")
    tc.Coreset(ROWS[:4]).save("c.npz")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def refused(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What is said of a command that ends with 2 and writes nothing."""
    before = contents(Path.cwd())
    capsys.readouterr()
    assert main(line.split()) == 2
    assert contents(Path.cwd()) == before
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("force", ["", " --force"])
@pytest.mark.parametrize(
    ("line", "flag"),
    [
        (f"build t.csv {QUICK} --out t.csv", "--out"),
        (f"build ./t.csv {QUICK} --out {{here}}/t.csv", "--out"),
        (f"build t.csv {QUICK} --out ../{{name}}/t.csv", "--out"),
        (f"build t.npz {QUICK} --out symlink.npz", "--out"),
        (f"build symlink.npz {QUICK} --out t.npz", "--out"),
        (f"build hardlink.npz {QUICK} --out t.npz", "--out"),
        (f"build t.csv.json.csv {QUICK} --out t.csv.json.csv", "--out"),
        ("push c.npz --network net.py:f --out c.npz", "--out"),
        ("push c.npz --network net.py:f --data t.npz --out t.npz", "--out"),
        ("push c.npz --network torch.nn:Identity --state s.pt --out s.pt", "--out"),
        ("compare t.csv c.npz --plot picture.png", "--plot"),
        ("compare t.csv picture.png --plot picture.png", "--plot"),
        ("run job.yaml", "--out"),
        ("run table.csv", "--out"),
    ],
)
def test_an_output_never_replaces_an_input(folder: Path, capsys, line: str, flag: str, force: str) -> None:
    os.symlink("t.npz", "symlink.npz")
    os.link("t.npz", "hardlink.npz")
    os.symlink("t.csv", "picture.png")
    Path("t.csv.json.csv").write_text("a\n1\n2\n")
    torch.save({}, "s.pt")
    Path("job.yaml").write_text(f"command: build\ndata: t.csv\nsize: 3\nout: {folder}/t.csv\n")
    Path("table.csv").write_text("command: build\ndata: t.npz\nsize: 3\nout: ./table.csv\n")
    said = refused(capsys, line.format(here=folder, name=folder.name) + force)
    assert f"{flag}: " in said
    assert "is what is read" in said


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        (f"build t.csv {QUICK}", "coreset.npz"),
        (f"build t.csv {QUICK} --out o.csv", "o.csv"),
        (f"build t.csv {QUICK} --out o.csv", "o.csv.json"),
        (f"build t.csv {QUICK} --out o.npz --plot o.png", "o.png"),
        ("push c.npz --network net.py:f", "image.npz"),
        ("push c.npz --network net.py:f --out o.csv", "o.csv.json"),
        ("compare t.csv c.npz --plot p.png", "p.png"),
        ("size t.csv --epsilon 3 --max-builds 1 --plot p.png", "p.png"),
        ("run job.yaml", "coreset.npz"),
    ],
)
def test_what_is_there_is_replaced_by_force_alone(folder: Path, capsys, line: str, taken: str) -> None:
    Path("job.yaml").write_text("command: build\ndata: t.csv\nsize: 3\nrestarts: 1\n")
    Path(taken).write_text("mine")
    said = refused(capsys, line)
    assert f"{'--plot' if taken.endswith('png') else '--out'}: '{taken}' exists." in said
    assert "--force" in said
    assert main([*line.split(), "--force"]) == 0
    assert Path(taken).read_bytes() != b"mine"


def test_force_where_nothing_is_written(folder: Path, capsys) -> None:
    assert "--force: given where nothing is written" in refused(capsys, "compare t.csv c.npz --force")
    assert "unknown option '--force'" in refused(capsys, "certify c.npz t.csv --force")
    Path("job.yaml").write_text("command: certify\ncoreset: c.npz\ndata: t.csv\n")
    assert "--force: certify writes no files" in refused(capsys, "run job.yaml --force")


def test_two_outputs_in_one_file(folder: Path, capsys) -> None:
    os.symlink("o.npz", "o.png")
    assert "is the file of --out too" in refused(capsys, f"build t.csv {QUICK} --out o.npz --plot o.png")


def test_a_folder_is_no_output(folder: Path, capsys) -> None:
    Path("d.npz").mkdir()
    assert "is a folder" in refused(capsys, f"build t.csv {QUICK} --out d.npz --force")
    Path("o.csv.json").mkdir()
    assert "o.csv.json' is a folder" in refused(capsys, f"build t.csv {QUICK} --out o.csv")


def test_parts_of_a_table(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "a.parquet").write_text("")
    for name in (str(parts), str(parts / "*.parquet")):
        with pytest.raises(ValueError, match=r"is what is read|would become a part of the table"):
            check_outputs([("--out", parts / "a.parquet")], [name], force=True)
    with pytest.raises(ValueError, match="would become a part"):
        check_outputs([("--out", parts / "sub" / "b.csv")], [str(parts)], force=False)
    check_outputs([("--out", parts / "b.npz")], [str(parts)], force=False)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".csv", ".parquet"])
def test_a_coreset_is_no_table_unless_its_weights_are_named(folder: Path, capsys, suffix: str) -> None:
    assert main(f"build t.csv {QUICK} --size 20 --out o{suffix}".split()) == 0
    weights = "weight" if suffix in (".csv", ".parquet") else "weights"
    for line in (
        f"build o{suffix} {QUICK} --out p.npz",
        f"certify c.npz o{suffix}",
        f"compare o{suffix} c.npz",
        f"size o{suffix} --epsilon 1",
    ):
        said = refused(capsys, line)
        assert f"DATA: o{suffix} is a coreset" in said
        assert f"--weights {weights}" in said
    assert main(f"build o{suffix} {QUICK} --out p.npz --weights {weights}".split()) == 0


def test_the_demo_keeps_what_is_there(folder: Path, capsys) -> None:
    out = folder / "out"
    assert demo(["t.csv", "--size", "3", "--out", str(out)]) == 0
    before = contents(out)
    assert demo(["t.csv", "--size", "4", "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert contents(out) == before
    assert demo(["t.csv", "--size", "4", "--out", str(out), "--force"]) == 0
    assert tc.Coreset.load(out / "coreset.npz").size == 4
    (folder / "t.npz").rename(folder / "coreset.npz")
    assert demo(["coreset.npz", "--size", "3", "--out", ".", "--force"]) == 2
    assert "is what is read" in capsys.readouterr().err


def test_python_overwrites_as_is_usual(folder: Path) -> None:
    tc.Coreset(ROWS[:5]).save("c.npz")
    assert tc.Coreset.load("c.npz").size == 5
