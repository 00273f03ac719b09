"""Tables as people keep them: what a column is, dialects of text, folders, frames, and what is said of it."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.data import seeded

pa = pytest.importorskip("pyarrow", reason="tables need pyarrow")
pd = pytest.importorskip("pandas", reason="the tables are written by pandas")

FRAME = pd.DataFrame({"a": [1.0, -2.0, 3.0, 4.0], "b": [5.0, 6.0, 7.0, 8.0]})


def read(data: Any, *features: Any, **how: Any) -> tuple[list[list[float]], tc.Table, list[str]]:
    """Rows, table and warnings; the rows come also in batches, by draws and through `hold_out`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = tc.read_table(data, *features, **how)
    rows = table.source.materialize(None, seeded())[0]
    assert rows.shape == (table.rows, len(table.columns))
    passed = torch.cat([batch for batch, _ in table.source.batches(3, seeded())])
    assert sorted(passed.tolist()) == sorted(rows.tolist())
    assert table.source.draw(1, seeded()).tolist()[0] in rows.tolist()
    if len(rows) > 3:
        parts = tc.hold_out(table.source, 0.5)
        assert sorted(row for part in parts for row in part.materialize(None, seeded())[0].tolist()) == sorted(
            rows.tolist()
        )
    return rows.tolist(), table, [str(one.message) for one in caught]


def text(folder: Path, content: str | bytes, name: str = "f.csv") -> Path:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


# What a column is


@pytest.mark.parametrize("write", ["to_parquet", "to_feather"])
@pytest.mark.parametrize("index", ["filtered", "named"])
def test_an_index_in_the_metadata_is_left_out(tmp_path, write, index):
    """Case D40."""
    frame = FRAME[FRAME.a > 0] if index == "filtered" else FRAME.assign(id=[7, 3, 9, 1]).set_index("id")
    path = tmp_path / f"f.{write.removeprefix('to_')}"
    getattr(frame, write)(path)
    rows, table, said = read(path)
    assert rows == frame.values.tolist()
    assert list(table.left_out.values()) == ["index"]
    assert not said  # the file itself says so
    assert tc.as_source(frame).materialize(None, seeded())[0].tolist() == rows
    name = next(iter(table.left_out))
    assert read(path, [name])[1].columns == (name,)


def test_an_index_without_a_name_is_left_out_and_said(tmp_path):
    """Case D41: as pandas writes it, and as it becomes when that is read and written again."""
    FRAME.to_csv(tmp_path / "f.csv")
    pd.read_csv(tmp_path / "f.csv").to_csv(tmp_path / "g.csv", index=False)
    for name in ("f.csv", "g.csv"):
        rows, table, said = read(tmp_path / name)
        assert rows == FRAME.values.tolist()
        assert table.note.startswith("4 rows, 2 features (a, b); left out: ")
        assert "column 0" in said[0]
        assert "was left out, as row labels" in said[0]
        with pytest.warns(UserWarning, match="row labels"):
            assert tc.as_source(tmp_path / name).dimension == 2


def test_a_column_that_counts_the_rows_is_noted(tmp_path):
    pd.DataFrame({"n": range(7, 40), "a": 0.5}).to_csv(tmp_path / "f.csv", index=False)
    assert "n counts the rows: if it is an id" in read(tmp_path / "f.csv")[1].note
    assert "counts" not in read(tmp_path / "f.csv", id="n")[1].note


@pytest.mark.parametrize("names", [range(4), range(1, 5), (1990, 1995, 2000, 2005)], ids=str)
def test_names_that_are_numbers(tmp_path, names):
    """Case D42."""
    frame = pd.DataFrame(np.arange(12).reshape(3, 4) * 1.5, columns=list(names))
    frame.to_csv(tmp_path / "f.csv", index=False)
    rows, table, said = read(tmp_path / "f.csv")
    assert rows == frame.values.tolist()
    assert table.columns == tuple(map(str, names))
    assert "was read as names, not as a row" in said[0]
    for header, count in ((True, 3), (False, 4)):
        rows, table, said = read(tmp_path / "f.csv", header=header)
        assert (len(rows), said) == (count, [])


@pytest.mark.parametrize("content", ["1.5,2\n3,4\n", "0,1\n1,0\n", "0,1,2\n3,4,5\n6,7,8\n", "5,3,9\n1,2,3\n"])
def test_a_first_line_of_numbers_is_a_row(tmp_path, content):
    rows, table, said = read(text(tmp_path, content))
    assert len(rows) == content.count("\n")
    assert (table.columns[0], said) == ("f0", [])


@pytest.mark.parametrize(("yes", "no"), [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
def test_booleans_of_text(tmp_path, yes, no):
    """Case D44."""
    path = text(tmp_path, f"a,b\n1,{yes}\n2,{no}\n")
    assert read(path)[0] == [[1, 1], [2, 0]]
    pd.read_csv(path).to_parquet(tmp_path / "f.parquet")
    assert read(tmp_path / "f.parquet")[0] == [[1, 1], [2, 0]]


def test_categories(tmp_path):
    path = text(tmp_path, "c,a,d\nred,1,u\nblue,2,v\nred,3,u\n")
    rows, table, _ = read(path, one_hot={"c": 3.0, "d": 0.5})
    assert table.columns == ("c=blue", "c=red", "a", "d=u", "d=v")
    points = torch.tensor(rows)
    assert float((points[0, :2] - points[1, :2]).norm()) == pytest.approx(3.0)
    assert float((points[0, 3:] - points[1, 3:]).norm()) == pytest.approx(0.5)
    assert points[0].tolist() == pytest.approx([0, 3 / 2**0.5, 1, 0.5 / 2**0.5, 0])
    for one_hot in (True, 1.0, ["c", "d"]):
        assert read(path, one_hot=one_hot)[1].columns == table.columns
    frame = pd.read_csv(path).astype({"c": "category"})
    frame.to_parquet(tmp_path / "f.parquet")
    for data in (frame, tmp_path / "f.parquet"):
        assert read(data, one_hot="c", label="d")[1].columns == ("c=blue", "c=red", "a")
    for one_hot, message in [
        ("z", "one_hot: 'z' is not a column of f.csv"),
        ({"c": 0.0}, "one_hot: got 0.0 for 'c'; expected a distance"),
        (None, r"features: f.csv has columns that are not numbers: 'c' \(text\), 'd' \(text\). Choose others, such as "
               r"features=\['a'\]. Is 'c' a label"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            tc.read_table(path, one_hot=one_hot)
    for how in ({"label": "c"}, {"features": "a"}):
        with pytest.raises(ValueError, match="one_hot: 'c' is not among the features"):
            tc.read_table(path, one_hot="c", **how)
    text(tmp_path, "c,a\n" + "".join(f"u{k},1\n" for k in range(1001)), "many.csv")
    with pytest.raises(ValueError, match=r"'c' has 1,001 categories; expected at most 1,000. If it names the rows"):
        tc.read_table(tmp_path / "many.csv", one_hot=True)
    text(tmp_path, "c,a\nred,1\n,2\n", "gap.csv")
    with pytest.raises(ValueError, match=r"the first is row 1 .* in 'c=red'"):
        tc.read_table(tmp_path / "gap.csv", one_hot=True).source.materialize(None, seeded())


def test_dates(tmp_path):
    path = text(tmp_path, "t,a\n2020-01-01 12:00:00,1\n2020-01-02 00:00:00,2\n")
    assert read(path, dates="days")[0] == [[18262.5, 1], [18263, 2]]
    assert read(path, dates="hours")[0][1][0] == 18263 * 24
    frame = pd.read_csv(path, parse_dates=["t"])
    frame.to_parquet(tmp_path / "f.parquet")
    for data in (frame, tmp_path / "f.parquet"):
        assert read(data, dates="seconds")[0] == [[18262.5 * 86400, 1], [18263 * 86400, 2]]
    with pytest.raises(ValueError, match=r"'t' \(dates\). Choose .* Take dates as numbers: dates='days'"):
        tc.read_table(path)
    with pytest.raises(ValueError, match="dates: got 'weeks'; expected one of 'seconds', 'hours', 'days', 'years'"):
        tc.read_table(path, dates="weeks")


def test_dates_of_any_unit():
    for values, unit in [
        (pa.array([-(10**6), 0], "date32"), 86400.0),
        (pa.array([-86_400_000, 0], "date64"), 1e-3),
        (pa.array([2**40, 0], pa.timestamp("s", "Europe/Rome")), 1.0),
        (pa.array([1_577_836_800_123_456_789, 1], pa.timestamp("ns")), 1e-9),
        (pa.array([7, 1], pa.duration("ms")), 1e-3),
        (pa.array([7, 1], pa.time32("s")), 1.0),
    ]:
        rows = tc.read_table(pa.table({"t": values}), dates="seconds").source.materialize(None, seeded())[0]
        ticks = [
            int(value) * unit for value in values.cast("int32" if "32" in str(values.type) else "int64").to_pylist()
        ]
        assert rows.flatten().tolist() == pytest.approx(ticks, rel=1e-15)


def test_categories_that_are_no_text(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "n": [7, 8], "v": [[1.0], [2.0]]})
    frame.to_parquet(tmp_path / "f.parquet")
    for data in (frame, tmp_path / "f.parquet"):
        rows, table, _ = read(data, ["a", "b", "n"], one_hot={"b": 2**0.5, "n": 2**0.5})
        assert table.columns == ("a", "b=false", "b=true", "n=7", "n=8")
        assert rows == [pytest.approx([1, 0, 1, 1, 0]), pytest.approx([2, 1, 0, 0, 1])]
    for one_hot, message in (
        ("v", "'v' holds vector; expected text"),
        (1, r"got 1, which may be .* expected \[1\] or"),
    ):
        with pytest.raises(ValueError, match=message):
            tc.read_table(frame, one_hot=one_hot)


def test_roles(tmp_path):
    path = text(tmp_path, "key,a,y,w\nu,1,cat,1\nv,2,dog,3\n")
    rows, table, _ = read(path, label="y", weights="w", id=0)
    assert (rows, table.labels.tolist(), table.ids.tolist()) == ([[1], [2]], ["cat", "dog"], ["u", "v"])
    assert table.source.materialize(None, seeded())[1].tolist() == [0.25, 0.75]
    assert table.note == "2 rows, 1 feature (a); label: y; weights: w; id: key"
    counted = tc.read_table(path, label="y", weights="w", weights_are="counts", id="key")
    assert (counted.rows, counted.source.size) == (2, 4)
    assert tc.as_source(table) is table.source
    assert read(path, ["a"], label="y")[1].left_out == {"key": "not chosen", "w": "not chosen"}
    for how, message in [
        ({"features": ["a", "key"], "id": "key"}, "features: 'key' is the id too; expected it once"),
        ({"label": "z"}, "label: 'z' is not a column of f.csv"),
        ({"features": 9}, "features: 9 is not a column of f.csv"),
        ({"key": "a"}, "key: given with a single table"),
        ({"weights": "y"}, "weights: 'y' of f.csv holds text; expected numbers"),
        ({"weights": "w", "weights_are": "count"}, "weights_are: got 'count'; expected one of 'importance', 'counts'"),
        ({"weights_are": "counts"}, "weights_are: got 'counts' without weights"),
        ({"features": ["a", 1]}, "features: 'a' is named twice"),
    ]:
        with pytest.raises(ValueError, match=message):
            tc.read_table(path, **how)
    text(tmp_path, "a,y\n1,u\n2,\n", "gap.csv")
    with pytest.raises(ValueError, match=r"label: 1 rows of gap.csv have no value in 'y'"):
        tc.read_table(tmp_path / "gap.csv", label="y")


# Dialects


@pytest.mark.parametrize(
    ("content", "rows", "said"),
    [
        ("a;b\n1.234,5;2\n2.345,25;3\n", [[1234.5, 2], [2345.25, 3]], "mark of thousands"),
        ('a,b\n"1,234.5",2\n"12,345.0",3\n', [[1234.5, 2], [12345, 3]], "mark of thousands"),
        ("a;b\n1 234;2\n12 345;3\n", [[1234, 2], [12345, 3]], "mark of thousands"),
        ('"a","b"\n"1,5","2,25"\n"3","4,5"\n', [[1.5, 2.25], [3, 4.5]], ""),
        ("a;b\n0,234;2\n2,345;3\n", [[0.234, 2], [2.345, 3]], ""),
        ("a,b\n+1,2\n+2.5,3\n", [[1, 2], [2.5, 3]], ""),
        ("a|b\n1|2\n", [[1, 2]], ""),
        ("1 2\n3 4\n", [[1, 2], [3, 4]], ""),
        ("'a','b'\n'1','2'\n", [[1, 2]], ""),
        ("a, b ,c\n1, 2,3\n", [[1, 2, 3]], ""),
        ("a,b,\n1,2,\n3,4,\n", [[1, 2], [3, 4]], "column 2 .* since it is empty"),
        ("a,b,,\n1,2,,\n3,4,,\n", [[1, 2], [3, 4]], "column 2 .* since it is empty"),
        ("a;b\n1 234,5;2\n12 345,25;3\n", [[1234.5, 2], [12345.25, 3]], "mark of thousands"),
        ("a;b\n1\u00a0234,5;2\n2\u00a0345,5;3\n", [[1234.5, 2], [2345.5, 3]], "mark of"),
        ("gr\u00f6\u00dfe,b\n1,2\n".encode("latin-1"), [[1, 2]], "not UTF-8 and was read as latin-1"),
        ("gr\u00f6\u00dfe,b\n1,2\n".encode("utf-16"), [[1, 2]], ""),
    ],
    ids=str,
)
def test_dialects_are_found(tmp_path, content, rows, said):
    found, table, warned = read(text(tmp_path, content))
    assert found == rows
    assert bool(warned) == bool(said)
    if said:
        assert __import__("re").search(said, warned[0])
    assert table.columns[0] in ("a", "f0", "gr\u00f6\u00dfe")


@pytest.mark.parametrize(
    ("content", "how", "rows"),
    [
        ("a;b\n1,234;2\n", {"decimal": ","}, [[1.234, 2]]),
        ("a;b\n1,234;2\n", {"thousands": ","}, [[1234, 2]]),
        ("a:b\n1:2\n", {"separator": ":"}, [[1, 2]]),
        ("a\tb\n1\t2\n", {"separator": "tab"}, [[1, 2]]),
        ("*a,b*,c\n1,2\n", {"quote": "*"}, [[1, 2]]),
        ("gr\u00f6\u00dfe,b\n1,2\n".encode("cp1252"), {"encoding": "cp1252"}, [[1, 2]]),
        ("1,2\n3,4\n", {"header": True}, [[3, 4]]),
    ],
    ids=str,
)
def test_dialects_are_said(tmp_path, content, how, rows):
    found, _, warned = read(text(tmp_path, content), **how)
    assert (found, warned) == (rows, [])


@pytest.mark.parametrize(
    ("content", "how", "message"),
    [
        ("a;b\n1,234;2\n", {}, "numbers such as '1,234', which may be 1.234 or 1234; .*decimal=',' or thousands=','"),
        ("1  2\n3   4\n", {}, "runs of spaces; .*numpy.loadtxt"),
        ("a,a,b\n1,2,3\n", {}, r"the columns 0 and 1 \(counted from 0\) are both called 'a'"),
        ("a,,b\n1,2,3\n", {}, r"column 1 \(counted from 0\) of f.csv has no name"),
        ("a,b\n1,2,\n", {}, "line 2 has 3 fields where the first has 2. Mend the line"),
        ("gr\u00f6\u00dfe,b\n1,2\n".encode("latin-1"), {"encoding": "utf-8"}, "cannot be read as a table in utf-8"),
        ("a,b\n1,2\n", {"encoding": "klingon"}, "encoding: 'klingon' is not known"),
        ("a,b\n1,2\n", {"separator": ",,"}, "separator: got ',,'; expected one character"),
        ("a,b\n1,2\n", {"decimal": ";"}, "decimal: got ';'; expected one of '.', ','"),
        ("a,b\n1,2\n", {"decimal": ",", "thousands": ","}, "thousands: got ',', which is the decimal mark too"),
        ("a\n" + "1\n" * 600_000 + "oops\n", {}, "f.csv, line 600002, column 'a': got 'oops'; expected a number"),
        ("a,b\n" + "1,True\n" * 200_000 + "1,maybe\n", {}, "column 'b': got 'maybe'; expected true or false"),
        ("a,b\n1,2\n-,3\n", {}, "If '-' in it is a missing value, or a number with a unit or other marks, mend it"),
        ("a,b\n" + "1,2\n" * 9 + "1," + "x" * 3_000_000, {}, "f.csv, line 11: has more than 1,048,576 characters"),
        ("a,t\n" + "1,2\n" * 300_000 + "\u00e9,4\n", {}, "line 300002, column 'a': got '\u00e9'; expected a number"),
        ("a\n1\n9007199254740993\n", {}, "column 'a': got whole numbers of up to 9.01e.15; expected them below 2.53"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_our_words(tmp_path, content, how, message):
    """Cases D45 and D47."""
    with pytest.raises(ValueError, match=message) as caught:
        tc.read_table(text(tmp_path, content), **how).source.materialize(None, seeded())
    assert not any(word in str(caught.value) for word in ("Arrow", "codec", "CSV conversion", "pyarrow"))


def test_lines_longer_than_a_block(tmp_path):
    """The dialect is found in whole lines of 1.1 MB, and time is not quadratic in the columns."""
    began = time.process_time()  # which is the same on a busy machine: 5 to 7 s
    wide = pd.DataFrame(np.arange(50_000).reshape(2, -1) + 0.123456789012345)
    written = {"index": False, "float_format": "%.38f"}
    wide.to_csv(tmp_path / "f.csv", header=[f"column{k}" for k in range(25_000)], **written)
    wide.to_csv(tmp_path / "g.csv", header=False, **written)
    for name, first in (("f.csv", "column0"), ("g.csv", "f0")):
        table = tc.read_table(tmp_path / name)
        assert table.columns[0] == first
        assert torch.equal(table.source.materialize(None, seeded())[0], torch.tensor(wide.to_numpy()))
    assert time.process_time() - began < 50


def test_dates_that_are_none_in_later_lines(tmp_path):
    path = text(tmp_path, "t,a\n" + "2020-01-01,1\n" * 100_000 + "oops,2\n")
    with pytest.raises(ValueError, match=r"f.csv, line 100002, column 't': got 'oops'; expected a date"):
        tc.read_table(path, dates="days").source.materialize(None, seeded())


def test_a_tsv_file_without_tabs(tmp_path):
    assert read(text(tmp_path, "a,b\n1,2\n3,4\n", "f.tsv"))[0] == [[1, 2], [3, 4]]


def test_labels_of_another_kind_in_later_blocks(tmp_path):
    path = text(tmp_path, "a,y\n" + "1,7\n" * 400_000 + "2,x\n")
    labels = tc.read_table(path, label="y").labels
    assert (labels[0], labels[-1], len(labels)) == ("7", "x", 400_001)


def test_marks_of_text_with_what_is_no_text(tmp_path):
    with pytest.raises(ValueError, match=r"separator, ..., header: given with a table that is no text"):
        tc.read_table(FRAME, separator=";")


# Several files


def test_folders_patterns_and_lists(tmp_path):
    """Case D46."""
    for kind in ("parquet", "csv", "npy", "feather"):
        folder = tmp_path / kind
        folder.mkdir()
        for k in range(3):
            part, path = FRAME + 10 * k, folder / f"part{k}.{kind}"
            if kind == "npy":
                np.save(path, part.values)
            else:
                part.to_csv(path, index=False) if kind == "csv" else getattr(part, f"to_{kind}")(path)
        (folder / "_SUCCESS").touch()
        (folder / ".hidden.csv").touch()
        whole = [row for k in range(3) for row in (FRAME + 10 * k).values.tolist()]
        for data in (folder, f"{folder}/*.{kind}", sorted(folder.glob("part*"))):
            assert read(data)[0] == whole
            assert tc.as_source(data).on_disk
        assert read([folder / f"part2.{kind}", folder / f"part0.{kind}"])[0] == whole[8:] + whole[:4]
        assert read(folder, features=1)[0] == [row[1:] for row in whole]
    FRAME.rename(columns={"b": "z"}).to_parquet(tmp_path / "parquet" / "part9.parquet")
    with pytest.raises(ValueError, match=r"part9.parquet and part0.parquet do not have the same columns: .* 'b', 'z'"):
        tc.read_table(tmp_path / "parquet")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*q\*.csv"):
        tc.read_table(tmp_path / "csv" / "q*.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"the folder .* holds no files that end in .csv"):
        tc.read_table(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"which ends in .csv, .npy; expected one of"):
        tc.read_table([tmp_path / "csv" / "part0.csv", tmp_path / "npy" / "part0.npy"])


def test_addresses_and_home(tmp_path, monkeypatch):
    FRAME.to_csv(tmp_path / "f.csv", index=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/f.csv")[0] == FRAME.values.tolist()
    with pytest.raises(ValueError, match=r"got the address 's3://bucket/f.parquet'; expected a file. Download it"):
        tc.as_source("s3://bucket/f.parquet")


def test_parts_of_other_numbers(tmp_path):
    for k, column in enumerate(([1, 2], [0.5, 1.5], [True, False])):
        pd.DataFrame({"a": column}).to_parquet(tmp_path / f"{k}.parquet")
    assert read(tmp_path)[0] == [[1], [2], [0.5], [1.5], [1], [0]]
    pd.DataFrame({"a": ["x"]}).to_parquet(tmp_path / "9.parquet")
    with pytest.raises(ValueError, match=r"column 'a' holds whole in 0.parquet and text in 9.parquet"):
        tc.read_table(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_hive_partitions(tmp_path, kind):
    for year in (2020, 2021):
        for c in "xy":
            folder = tmp_path / f"year={year}" / f"c={c}"
            folder.mkdir(parents=True)
            path = folder / f"p.{kind}"
            FRAME.to_parquet(path) if kind == "parquet" else FRAME.to_csv(path, index=False)
    rows, table, _ = read(tmp_path, label="c")
    assert table.columns == ("a", "b", "year")
    assert rows[0] == [1, 5, 2020]
    assert rows[-1] == [4, 8, 2021]
    assert table.labels.tolist() == ["x"] * 4 + ["y"] * 4 + ["x"] * 4 + ["y"] * 4
    assert read(tmp_path, "year", label="c")[0] == [[2020]] * 8 + [[2021]] * 8


# Frames and lazy tables


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"a": [1, [2]], "b": [1, 2]}, r"features: column 'a' holds several kinds \(int, list\)"),
        ({"b": [1, 2], "a": [1, "x"]}, r"features: column 'a' holds several kinds \(int, str\)"),
        ({"a": [1, pd.NA], "b": [1, 2]}, r"DataFrame: 1 of 2 rows hold NaN or inf, the first is row 1 .* in 'a'"),
        ({"a": [1, 2], "b": pd.to_datetime(["2020-01-01"] * 2)}, r"not numbers: 'b' \(dates\)"),
        ({"a": [1, 2], "b": pd.Categorical(["u", "v"])}, r"not numbers: 'b' \(text\)"),
        ({"a": [1, 2], "b": [{"u": 1}, {"u": 2}]}, r"not numbers: 'b' \(other\)"),
        ({"a": [[], []]}, "column 'a': got empty lists; expected vectors of one length"),
    ],
)
def test_columns_of_frames_that_cannot_be_used_are_named(frame, message):
    """Case D47."""
    with pytest.raises(ValueError, match=message):
        tc.as_source(pd.DataFrame(frame))


def test_frames(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "y": ["u", "v"], 3: [0.5, 1.5]})
    rows, table, _ = read(frame, label="y")
    assert (rows, table.columns) == ([[1, 1, 0.5], [2, 0, 1.5]], ("a", "b", "3"))
    assert tc.as_source(frame, "a", features=["b", 3]).materialize(None, seeded())[1].tolist() == pytest.approx(
        [1 / 3, 2 / 3]
    )
    arrow = pa.table({"a": [1, 2], "b": [[1.0, 2.0], [3.0, 4.0]]})
    assert read(arrow)[1].columns == ("a", "b[0]", "b[1]")
    with pytest.raises(ValueError, match=r"columns 0 and 1 .* both called 'a'"):
        tc.as_source(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    reader = pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=1))
    assert tc.as_source(reader, features="b").materialize(None, seeded())[0].tolist() == [[1, 2], [3, 4]]


def test_columns_come_in_the_order_asked_for(tmp_path):
    np.save(tmp_path / "f.npy", FRAME.values)
    np.savez(tmp_path / "f.npz", FRAME.values)
    FRAME.to_parquet(tmp_path / "f.parquet")
    for data in (tmp_path / "f.npy", tmp_path / "f.npz", tmp_path / "f.parquet", FRAME):
        assert read(data, [1, 0])[0] == FRAME.values[:, ::-1].tolist()


def test_frames_of_other_kinds_of_columns():
    frame = pd.DataFrame({"s": pd.arrays.SparseArray([0.0, 1.0]), "l": [[True, False], [False, True]]})
    assert read(frame)[0] == [[0, 1, 0], [1, 0, 1]]
    pl = pytest.importorskip("polars", reason="needs polars")
    frame = pl.DataFrame({"a": [1, 2], "c": pl.Series(["u", "v"], dtype=pl.Enum(["u", "v"]))})
    assert read(frame, one_hot=True)[1].columns == ("a", "c=u", "c=v")
    with pytest.raises(ValueError, match="a type that Arrow lacks; cast them"):
        tc.read_table(pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.Int128)}))
    heights = iter([3000, 3000, 2000])
    lazy = pl.LazyFrame({"a": np.arange(4000.0)}).map_batches(lambda whole: whole.head(next(heights, 2000)))
    with pytest.raises(ValueError, match="LazyFrame has changed since it was opened"):
        tc.read_table(lazy).source.materialize(None, seeded())


def test_datasets_of_pyarrow(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    for k in range(2):
        folder = tmp_path / f"k={k}"
        folder.mkdir()
        FRAME.to_parquet(folder / "p.parquet", row_group_size=2)
    found = dataset.dataset(tmp_path, partitioning="hive")
    rows, table, _ = read(found)
    assert table.columns == ("a", "b", "k")
    assert rows == [[*row, k] for k in range(2) for row in FRAME.values.tolist()]
    assert read(found.filter(dataset.field("a") > 1))[0] == [row for row in rows if row[0] > 1]
    assert tc.as_source(found).on_disk


def test_lazy_frames_of_polars(tmp_path):
    pl = pytest.importorskip("polars", reason="needs polars")
    big = pd.DataFrame({"a": np.arange(40_000) * 0.5, "b": 1.0, "c": ["x", "y"] * 20_000})
    big.to_parquet(tmp_path / "f.parquet")
    rows, table, _ = read(pl.scan_parquet(tmp_path / "f.parquet").filter(pl.col("a") >= 5000), label="c")
    assert (len(rows), rows[0], table.labels[0]) == (30_000, [5000, 1], "x")
    assert tc.as_source(pl.scan_parquet(tmp_path / "f.parquet"), features="a").on_disk
    assert read(pl.DataFrame({"a": [1, 2], "c": ["u", "v"]}), one_hot=True)[1].columns == ("a", "c=u", "c=v")


def test_datasets_of_hugging_face():
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    found = datasets.Dataset.from_dict(
        {"emb": (np.arange(40_000)[:, None] * np.ones(2)).tolist(), "y": [0, 1] * 20_000}
    )
    rows, table, _ = read(found, "emb", label="y")
    assert (len(rows), rows[-1], table.columns) == (40_000, [39_999, 39_999], ("emb[0]", "emb[1]"))
    shuffled = read(found.shuffle(seed=0).select(range(100)), "emb")[0]
    assert len({row[0] for row in shuffled}) == 100
    stream = tc.as_source(found.to_iterable_dataset(), features="emb")
    assert stream.draw(3, seeded()).tolist() == rows[:3]


def test_images_and_transformed_rows_of_hugging_face_are_read_row_by_row():
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    images = np.arange(24, dtype=np.float32).reshape(6, 2, 2)
    nested = datasets.Dataset.from_dict({"image": images.tolist(), "y": [0, 1] * 3}).with_format("torch")
    rows = tc.as_source(nested, features="image", flatten=True).materialize(None, seeded())[0]
    assert torch.equal(rows, torch.from_numpy(images).flatten(1))
    plain = datasets.Dataset.from_dict({"x": [1.0, 2.0]})
    plain.set_transform(lambda batch: {"x": torch.tensor(batch["x"]) * 10})
    assert tc.as_source(plain, features="x").materialize(None, seeded())[0].flatten().tolist() == [10, 20]


def test_dask(tmp_path):
    frames = pytest.importorskip("dask.dataframe", reason="needs dask")
    import dask.array

    assert read(frames.from_pandas(FRAME, npartitions=2))[0] == FRAME.values.tolist()
    assert read(dask.array.from_array(FRAME.values, chunks=(2, 2)))[0] == FRAME.values.tolist()


def test_arrays_on_disk(tmp_path):
    h5py = pytest.importorskip("h5py", reason="needs h5py")
    values = np.arange(300_000, dtype=np.float32).reshape(100_000, 3)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"], file["large"] = values, np.arange(6).reshape(2, 3) * 10**9
        source = tc.as_source(file["x"])
        assert source.on_disk
        assert len(source.starts) == 2 or source.starts[1] < 100_000
        assert torch.equal(source.materialize(None, seeded())[0], torch.from_numpy(values))
        assert read(file["large"], [0, 2])[0] == [[0, 2e9], [3e9, 5e9]]
        for door in (tc.as_source, tc.read_table):
            with pytest.raises(
                TypeError, match=r"got File; .* It holds 'large', 'x': pass one of them, such as data\['l"
            ):
                door(file)


def test_zarr(tmp_path):
    zarr = pytest.importorskip("zarr", reason="needs zarr")
    array = zarr.create_array(store=str(tmp_path / "f.zarr"), shape=FRAME.shape, chunks=(2, 2), dtype="f8")
    array[:] = FRAME.values
    assert read(array)[0] == FRAME.values.tolist()


# Files of several arrays


def test_sparse_matrices_are_held_dense(tmp_path):
    """Case D43."""
    sparse = pytest.importorskip("scipy.sparse", reason="needs scipy")
    matrix = sparse.random(300, 50, 0.1, random_state=0, format="csr")
    for form in ("csr", "csc", "coo"):
        sparse.save_npz(tmp_path / "s.npz", matrix.asformat(form))
        rows, _, said = read(tmp_path / "s.npz")
        assert rows == matrix.toarray().tolist()
        assert "is a sparse matrix, which is held dense" in said[0]


def test_several_arrays(tmp_path):
    x, y = np.arange(8.0).reshape(4, 2), np.array(list("abab"))
    np.savez(tmp_path / "f.npz", X=x, y=y, w=np.arange(1.0, 5.0), other=np.zeros((2, 2, 2)))
    rows, table, _ = read(tmp_path / "f.npz", label="y", weights="w", id=1)
    assert (rows, table.labels.tolist(), table.ids.tolist()) == ([[0], [2], [4], [6]], list("abab"), [1, 3, 5, 7])
    assert table.source.weighted
    assert read(tmp_path / "f.npz", key="w")[0] == [[1], [2], [3], [4]]
    torch.save({"x": torch.from_numpy(x), "w": torch.ones(4)}, tmp_path / "f.pt")
    assert read(tmp_path / "f.pt", weights="w")[0] == x.tolist()
    for how, message in [
        ({"key": "Y"}, "key: 'Y' is not an array of f.npz; expected one of X, y"),
        ({"label": "other"}, "label: got 2 values for 4 rows; expected one for each row"),
        ({"key": "other"}, r"f.npz: got shape \(2, 2, 2\); expected \(rows, d\)"),
        ({"key": "y"}, "f.npz holds values of dtype <U1 that are not all numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            tc.read_table(tmp_path / "f.npz", **how)
    np.savez(tmp_path / "g.npz", one=x, two=x)
    with pytest.raises(ValueError, match="holds the arrays one, two; say which one by key="):
        tc.as_source(tmp_path / "g.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(ValueError, match=r"bad.npz is not a .npz file of plain arrays"):
        tc.read_table(tmp_path / "bad.npz")


def test_tensors_of_any_layout_and_dtype(tmp_path):
    x = torch.tensor([[0.0, 1.5], [2.0, 0.0]])
    for tensor in (x.to_sparse(), x.half(), x.bfloat16(), x.to(torch.float8_e4m3fn), x.clone().requires_grad_()):
        torch.save(tensor, tmp_path / "f.pt")
        assert read(tmp_path / "f.pt")[0] == x.tolist()
    torch.save([x], tmp_path / "f.pt")
    with pytest.raises(ValueError, match=r"expected arrays or tensors by name, or one tensor. Save them so"):
        tc.read_table(tmp_path / "f.pt")
    np.savez(tmp_path / "f.npz", X=x.numpy(), w=np.array(["u", "v"]))
    with pytest.raises(ValueError, match="weights: 'w' holds <U1; expected numbers"):
        tc.read_table(tmp_path / "f.npz", weights="w")


def test_only_the_array_asked_for_is_read(tmp_path, monkeypatch):
    """Case D53: an archive may hold one that would fill the memory."""
    np.savez_compressed(tmp_path / "f.npz", X=np.zeros((3, 2)), huge=np.zeros(10_000_000))
    plain, seen = np.lib.format.read_array, []
    monkeypatch.setattr(np.lib.format, "read_array", lambda *a, **k: seen.append(1) or plain(*a, **k))
    tracemalloc = __import__("tracemalloc")
    tracemalloc.start()
    assert read(tmp_path / "f.npz")[0] == [[0, 0]] * 3
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".npy", ".npz", ".pt", ".csv.gz", ".csv.zst"])
def test_damaged_files(tmp_path, suffix):
    for content in (b"", b"hello, this is no such file", b"PAR1ARROW1\0\0\x93NUMPY\x01\0v\0{'descr'"):
        path = tmp_path / f"f{suffix}"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"f\.|no rows") as caught:
            tc.read_table(path)
        assert "Arrow error" not in str(caught.value)
