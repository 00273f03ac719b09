"""Tables on the command line: what is read and said, and that later commands read the same."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jsonargparse", reason="the command line needs jsonargparse")
pytest.importorskip("pyarrow", reason="tables need pyarrow")
pd = pytest.importorskip("pandas", reason="the tables are written by pandas")

from torchcoreset.app import main  # noqa: E402

pytestmark = pytest.mark.usefixtures("two_starts")
FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(240, 2)), columns=["a", "b"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the record on stdout, and what is said on stderr."""
    code = main([*line.split(), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else {}, captured.err


def test_what_was_taken_for_what_is_said_before_the_work(capsys):
    FRAME.assign(id=[f"row{k}" for k in range(240)], y=np.random.default_rng(1).integers(0, 3, 240)).to_csv(
        "t.csv", index=False
    )
    code, record, said = ask(capsys, "build t.csv --size 3 --id id --label y")
    assert code == 0
    assert "note: t.csv: 240 rows, 2 features (a, b); label: y; id: id\n" in said
    assert record["columns"] == ["a", "b"]


@pytest.mark.parametrize("write", ["to_csv", "to_parquet"])
def test_an_index_is_no_feature(capsys, write):
    frame = FRAME[FRAME.a > 0]
    getattr(frame, write)("t.csv" if write == "to_csv" else "t.parquet")
    code, record, said = ask(capsys, f"build {'t.csv' if write == 'to_csv' else 't.parquet'} --size 3")
    assert (code, record["columns"]) == (0, ["a", "b"])
    assert "left out: " in said


def test_names_that_are_numbers(capsys):
    pd.DataFrame(np.random.default_rng(1).normal(size=(30, 3)), columns=[2000, 2001, 2002]).to_csv("t.csv", index=False)
    code, record, said = ask(capsys, "build t.csv --size 3")
    assert (code, record["rows"], record["columns"]) == (0, 30, ["2000", "2001", "2002"])
    assert "was read as names, not as a row (--header no if it is one)." in said
    assert ask(capsys, "build t.csv --size 3 --header no --out c2.npz")[1]["rows"] == 31
    assert ask(capsys, "build t.csv --size 3 --header yes --out c3.npz")[1]["rows"] == 30


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"gr\xf6\xdfe,b\n1,2\n", "--encoding utf-8", "t.csv cannot be read as a table in utf-8. Pass --encoding"),
        (b"a;b\n1,234;2\n", "", "Pass --decimal , or --thousands ,."),
        (b"a,a\n1,2\n", "", "are both called 'a'"),
        (b"a,b\n1,2,\n", "", "Mend the line, or pass --separator ... or --quote ..."),
        (b"a,b\n1,x\n", "", "not numbers: 'b' (text). Choose others, such as --columns a."),
        (b"d,a\n2020-01-01,1\n", "", "Take dates as numbers: --dates days."),
        (b"a,b\n1,2\n", "--one-hot a=x", "--one-hot: got 'a=x'; expected NAME or NAME=DISTANCE"),
        (b"a,b\n1,2\n", "--label z", "--label: 'z' is not a column of t.csv"),
        (b"a,z\n1,0.5\n2,1.5\n", "--label z", "--label: got fractions or NaN; expected labels"),
        (b"a,c\n1,u\n", "--columns a --one-hot c", "--one-hot: 'c' is not among the features"),
        (b"a,b\n1,2\n", "--separator ,,", "--separator: got ',,'; expected one character"),
    ],
)  # fmt: skip
def test_errors_speak_of_options(capsys, content, options, message):
    Path("t.csv").write_bytes(content)
    code, _, said = ask(capsys, f"build t.csv --size 1 {options}")
    assert code == 2
    assert message in said.replace("`read_table`", "READ_TABLE")


def test_a_later_command_reads_the_table_as_the_build_did(capsys):
    """Case D04: columns, weights, categories, dates and marks of text are remembered."""
    frame = FRAME.assign(
        c=np.random.default_rng(1).choice(["x", "y", "z"], 240),
        d=pd.date_range("2020-01-01", periods=240),
        w=np.random.default_rng(1).uniform(1, 9, 240),
        k=range(240),
    )
    frame.to_csv("t.csv", index=False, sep=";", decimal=",")
    line = "build t.csv --size 8 --weights w --one-hot c=0.5 --dates years --id k --hold-out 0.5"
    code, record, said = ask(capsys, line)
    assert (code, record["columns"]) == (0, ["a", "b", "c=x", "c=y", "c=z", "d"])
    assert "240 rows, 6 features (a, b, c=x, c=y, c=z, d); weights: w; id: k" in said
    code, found, said = ask(capsys, "certify coreset.npz t.csv")
    assert code == 0
    assert "its held-out rows" in said
    assert found["upper"] < 10 * record["distance"] + 1
    frame[frame.c != "z"].to_parquet("fresh.parquet")  # another table, without one of the categories
    code, found, said = ask(capsys, "certify coreset.npz fresh.parquet")
    assert code == 0
    assert "features (a, b, c=x, c=y, c=z, d); weights: w; id: k" in said
    frame.assign(c="new").to_csv("new.csv", index=False)
    code, _, said = ask(capsys, "certify coreset.npz new.csv")
    assert code == 2
    assert "got 'new', which is none of its 3 known categories" in said


def test_folders_and_patterns(capsys):
    Path("parts").mkdir()
    for k in range(3):
        (FRAME + k).to_parquet(f"parts/p{k}.parquet")
    for k, data in enumerate(("parts", "parts/*.parquet", "parts/p?.parquet")):
        code, record, said = ask(capsys, f"build {data} --size 4 --out c{k}.npz")
        assert (code, record["rows"]) == (0, 720)
        assert "720 rows, 2 features" in said
    assert main(["build", "parts/*.parquet", "--size", "4", "--hold-out", "0.5", "--out", "my c.npz"]) == 0
    command = capsys.readouterr().out.split("next     torchcoreset ")[1].split("   (")[0]
    assert command == "certify 'my c.npz' 'parts/*.parquet'"
    assert main(shlex.split(command)) == 0
    capsys.readouterr()
    assert ask(capsys, "build parts/*.csv --size 4 --out d.npz")[0] == 2


def test_a_sparse_matrix(capsys):
    sparse = pytest.importorskip("scipy.sparse", reason="needs scipy")
    sparse.save_npz("s.npz", sparse.random(300, 50, 0.1, random_state=0))
    code, record, said = ask(capsys, "build s.npz --size 4")
    assert (code, record["rows"], record["dimension"]) == (0, 300, 50)
    assert "note: s.npz is a sparse matrix, which is held dense." in said


@pytest.mark.parametrize("options", ["", " --hold-out 0.5 --scale robust", " --label y", " --label y --samples 60"])
def test_rows_come_back(capsys, options):
    """The assignment can be joined to the table, by number and by id."""
    frame = FRAME.assign(key=[f"row{k}" for k in range(240)], y=np.random.default_rng(1).integers(0, 3, 240))
    frame.to_csv("t.csv", index=False)
    columns = "" if "label" in options else " --columns a,b"
    code, _, said = ask(capsys, f"build t.csv --size 6 --id key{columns}{options} --assignment rows.csv")
    assert code == 0, said
    rows, points = pd.read_csv("rows.csv"), np.load("coreset.npz")["points"]
    assert list(rows.columns) == ["row", "key", "point"]
    assert (rows.key == frame.key.loc[rows.row].to_numpy()).all()
    assert rows.row.is_unique
    assert len(rows) == (60 if "samples" in options else 120 if "hold-out" in options else 240)
    assert set(rows.point) == set(range(6))
    if "label" in options:
        labels = np.load("coreset.npz")["labels"]
        assert (labels[rows.point] == frame.y.loc[rows.row].to_numpy()).all()
    joined = frame.loc[rows.row, ["a", "b"]].to_numpy()
    others = np.linalg.norm(joined - points[np.random.default_rng(1).permutation(rows.point)], axis=1).mean()
    assert np.linalg.norm(joined - points[rows.point], axis=1).mean() < 0.8 * others
    assert ask(capsys, f"build t.csv --size 6 --id key{columns} --out c2.npz --assignment rows.csv")[0] == 2
    assert ask(capsys, f"build t.csv --size 6 --id key{columns} --out c2.npz --assignment rows.txt")[0] == 2


@pytest.mark.parametrize("options", ["", " --hold-out 0.5 --scale robust", " --label y --scale whiten"])
@pytest.mark.parametrize("out", ["rows.npz", "rows.parquet"])
def test_rows_as_points(capsys, options, out):
    """Points are rows of the table to the last bit, and the file says which, by number and by id."""
    frame = FRAME.assign(key=[f"row{k}" for k in range(240)], y=np.random.default_rng(1).integers(0, 3, 240))
    frame.to_parquet("t.parquet", index=False)
    columns = "" if "label" in options else " --columns a,b"
    line = f"build t.parquet --size 6 --id key --rows{columns}{options} --out {out}"
    code, record, said = ask(capsys, line)
    assert code == 0, said
    chosen = frame.iloc[record["row_numbers"]]
    assert record["row_ids"] == chosen.key.tolist()
    assert chosen.key.is_unique
    known = ask(capsys, f"info {out}")[1]
    assert known["row_numbers"] == record["row_numbers"]
    points = np.load(out)["points"] if out.endswith("npz") else pd.read_parquet(out)[["a", "b"]].to_numpy()
    np.testing.assert_array_equal(points, chosen[["a", "b"]].to_numpy())
    assert ask(capsys, f"{line} --resume")[0] == 0, "a run that has ended is known"
    assert ask(capsys, f"{line} --algorithm sgd --force")[0] == 2


@pytest.mark.parametrize("scale", ["standard", "robust", "whiten", "1,1000"])
def test_units_of_the_columns(capsys, scale):
    (FRAME * [1.0, 1000.0]).to_csv("t.csv", index=False)
    code, record, _ = ask(capsys, f"build t.csv --size 6 --hold-out 0.5 --scale {scale}")
    assert code == 0
    assert record["distance"] < 3
    assert abs(np.load("coreset.npz")["points"][:, 1]).max() > 100
    code = main(["certify", "coreset.npz", "t.csv", "--quiet"])
    assert (code, record["distance_unit"] in capsys.readouterr().out) == (0, True)
    assert main(["compare", "t.csv", "coreset.npz", "--quiet"]) == 0
    assert record["distance_unit"] in capsys.readouterr().out
    assert ask(capsys, f"size t.csv --epsilon 5 --max-builds 1 --scale {scale}")[1]["certificate"]["upper"] < 5
    for wrong in ("--scale none", "--scale 1,2,3", "--scale 1;2", "--scale robust --standardise"):
        code, _, said = ask(capsys, f"build t.csv --size 6 --out d.npz {wrong}")
        assert code == 2
        assert "--scale" in said
