"""Nothing vanishes in silence: rows of a coreset's table, rows of the data, classes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc

pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")
pytest.importorskip("pandas", reason="needs pandas to change tables")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'torchcoreset[cli]'")

import pandas
import pyarrow
from pyarrow import parquet

from torchcoreset.app import main
from torchcoreset.app.files import CoresetFile, read_coreset, write_coreset
from torchcoreset.app.settings import UsageError

ROWS = np.random.default_rng(0).normal(size=(300, 3))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, seed: int = 0, size: int = 40, dtype: torch.dtype = torch.float32, **labels: object) -> None:
    generator = torch.Generator().manual_seed(seed)
    coreset = tc.Coreset(torch.randn(size, 2, generator=generator).to(dtype), torch.rand(size, generator=generator))
    write_coreset(Path(name), CoresetFile(coreset.points.detach(), coreset.weights, **labels))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_whole_table_is_read(suffix: str, dtype: torch.dtype) -> None:
    labels = np.array(["a, b", "ü"] * 20)
    written(f"c{suffix}", dtype=dtype, labels=labels, metadata={"label": "kind", "label_kind": "text"})
    held = read_coreset(f"c{suffix}")
    assert held.points.shape == (40, 2)
    assert held.labels is not None
    assert held.labels.tolist() == labels.tolist()
    assert "rows_mark" not in held.metadata


@pytest.mark.parametrize("cut", [1, 20, 39])
@pytest.mark.parametrize("beside", [True, False])
def test_a_csv_cut_at_a_line_end_is_refused(cut: int, beside: bool) -> None:
    written("c.csv")
    lines = Path("c.csv").read_text().splitlines(keepends=True)
    Path("c.csv").write_text("".join(lines[:-cut]))
    if not beside:
        Path("c.csv.json").unlink()
    with pytest.raises(
        UsageError, match=rf"^c.csv has {40 - cut} points of 40" if beside else r"sum to 0\.\d+; expected 1"
    ):
        read_coreset("c.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop(index=[17]), "has 39 points of 40"),
        (lambda frame: frame.iloc[::-1], "holds other rows"),
        (lambda frame: frame.assign(x0=frame.x0.where(frame.index != 3, 0.0)), "holds other rows"),
        (lambda frame: frame.assign(weight=frame.weight.iloc[::-1].to_numpy()), "holds other rows"),
        (lambda frame: frame.assign(label=frame.label.iloc[::-1].to_numpy()), "holds other rows"),
        (lambda frame: frame.assign(weight=frame.weight * 2), "sum to 2"),
        (lambda frame: frame.assign(weight=np.nan), "sum to nan|text where points"),
    ],
)
def test_a_changed_table_is_refused(suffix: str, change, said: str) -> None:
    name = f"c{suffix}"
    written(name, labels=np.arange(40), metadata={"label": "label", "label_kind": "number"})
    if suffix == ".csv":
        change(pandas.read_csv(name)).to_csv(name, index=False)
    else:
        table = parquet.read_table(name)
        changed = pyarrow.Table.from_pandas(change(table.to_pandas()), preserve_index=False)
        parquet.write_table(changed.cast(table.schema).replace_schema_metadata(table.schema.metadata), name)
    with pytest.raises(UsageError, match=said):
        read_coreset(name)


def test_what_stands_beside_another_table() -> None:
    written("c.csv"), written("other.csv", seed=1), written("longer.csv", size=41)
    for name, said in (("other", "holds other rows than its metadata describe"), ("longer", "has 40 points of 41")):
        Path(f"{name}.csv.json").rename("c.csv.json")
        with pytest.raises(UsageError, match=said):
            read_coreset("c.csv")


def test_a_table_of_points_by_its_user_is_read() -> None:
    Path("p.csv").write_text("x,y\n0,1\n2,3\n4,5\n")
    assert read_coreset("p.csv").weights.tolist() == pytest.approx([1 / 3] * 3)
    Path("p.csv.json").write_text('{"title": "a file of somebody else", "columns": ["no", "such"]}')
    assert read_coreset("p.csv").points.tolist() == [[0, 1], [2, 3], [4, 5]]
    for beside in ('{"size": "12 MB"}', "[1]", '{"a": 1}\n{"b": 2}\n'):  # nor does it keep the table from being read
        Path("p.csv.json").write_text(beside)
        assert main(["build", "p.csv", "--size", "1", "--restarts", "1", "--quiet", "--force"]) == 0
    tc.Coreset(ROWS[:9]).to_dataframe().to_csv("f.csv", index=False)
    assert read_coreset("f.csv").points.shape == (9, 3)
    tc.Coreset(ROWS[:9]).to_dataframe().to_parquet("f.parquet")
    assert read_coreset("f.parquet").points.shape == (9, 3)


def test_a_coreset_of_before_is_read() -> None:
    """Files of earlier versions have a size, and no hash."""
    written("c.csv")
    beside = json.loads(Path("c.csv.json").read_text())
    del beside["rows_mark"]
    Path("c.csv.json").write_text(json.dumps(beside))
    assert read_coreset("c.csv").points.shape == (40, 2)


def test_how_many_rows_of_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("t.npy", ROWS)
    quick = "--size 3 --restarts 1 --tolerance 0.1 --force"
    for options, said in (
        ("", "3 points for 300 rows of 3 columns"),
        ("--samples 50", "3 points for 50 of 300 rows of 3 columns"),
        ("--hold-out 0.5", "3 points for 150 of 300 rows of 3 columns"),
        ("--hold-out 0.5 --samples 50", "3 points for 50 of 300 rows of 3 columns"),
        ("--columns 0", "3 points for 300 rows of 1 column "),
    ):
        main(f"build t.npy {quick} {options}".split())
        assert said in capsys.readouterr().out
    np.savez("t.npz", X=ROWS, y=np.arange(300) % 2)
    main(f"build t.npz {quick} --label y --samples 60".split())
    assert "3 points for 300 rows, built on 60 of them, of 3 columns" in capsys.readouterr().out
    tc.Coreset(ROWS[:4]).save("c.npz")
    main(["compare", "t.npy", "c.npz", "--samples", "50"])
    assert "50 of 300 rows of t.npy" in capsys.readouterr().out
    main(["compare", "t.npy", "c.npz"])
    assert "\n300 rows of t.npy" in "\n" + capsys.readouterr().out


@pytest.mark.parametrize("text", [True, False])
def test_a_class_that_is_held_out_is_named(text: bool, capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.array(["common"] * 299 + ["rare"]) if text else np.array([0] * 299 + [7])
    pandas.DataFrame(ROWS, columns=list("abc")).assign(y=labels).to_csv("t.csv", index=False)
    line = "build t.csv --label y --size 4 --restarts 1 --hold-out 0.5 --seed {} --quiet"
    codes = set()
    for seed in range(6):
        codes.add(code := main(line.format(seed).split()))
        said = capsys.readouterr().err
        if code == 2:
            assert f"--hold-out: class {labels[-1].item()!r} of t.csv would have no points: its only row is" in said
            assert "another --seed" in said
            assert not list(Path().glob("coreset*"))
        else:
            assert set(tc.LabeledCoreset.load("coreset.npz").classes.tolist()) == set(labels.tolist())
            Path("coreset.npz").unlink()
    assert codes == {0, 2}
