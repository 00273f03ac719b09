"""Tables in files: NPY, Parquet and CSV, in blocks, with few of them in memory."""

import copy
import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.data import seeded
from torchcoreset import sources
from torchcoreset.sources import FileSource, as_source
from torchcoreset.sources.files import arrays as file_arrays
from torchcoreset.sources.files import source as file_source

pytestmark = pytest.mark.usefixtures("two_starts")

ROWS = 1000
TABLE = np.stack([np.arange(ROWS), 2.0 * np.arange(ROWS)], axis=1)
WEIGHTS = np.arange(ROWS) % 4


def write(folder: Path, kind: str, table: np.ndarray = TABLE, weights: np.ndarray = WEIGHTS) -> Path:
    """A file with the columns x, y and w, the weights."""
    path = folder / f"data.{kind}"
    columns = {"x": table[:, 0], "y": table[:, 1], "w": weights}
    if kind == "npy":
        np.save(path, np.column_stack(list(columns.values())))
    else:
        pa = pytest.importorskip("pyarrow", reason="reading Parquet and CSV files needs pyarrow")
        import pyarrow.csv
        import pyarrow.parquet

        if kind == "parquet":
            pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=64)
        else:
            pyarrow.csv.write_csv(pa.table(columns), path)
    return path


@pytest.fixture(params=["npy", "parquet", "csv"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is larger than the pool and has many blocks."""
    monkeypatch.setattr(file_source, "POOL_ELEMENTS", 400)
    monkeypatch.setattr(file_arrays, "BLOCK_ELEMENTS", 100)
    if request.param == "csv":
        pytest.importorskip("pyarrow.csv", reason="reading CSV files needs pyarrow")
        monkeypatch.setattr("torchcoreset.sources.files.csv.BLOCK", 1000)
    return write(tmp_path, request.param)


@pytest.fixture
def features(path: Path) -> list[str] | list[int]:
    return [0, 1] if path.suffix == ".npy" else ["x", "y"]


def test_what_is_known_without_reading(path, features):
    source = as_source(path, features=features)
    assert isinstance(source, FileSource)
    assert sources.CsvSource is sources.NpySource is sources.ParquetSource is FileSource  # names of earlier versions
    assert (source.size, source.dimension, source.on_disk, source.endless) == (ROWS, 2, True, False)
    assert len(source.starts) > 10
    assert repr(source) == f"{type(source).__name__}(size=1000, dimension=2, file={path.name})"
    assert as_source(str(path), features=features).size == ROWS


def test_all_rows_in_order_and_again(path, features):
    source = as_source(path, features=features)
    for limit in (None, ROWS, 5 * ROWS):
        points, weights = source.materialize(limit, seeded())
        assert points.dtype == torch.float64
        assert points.tolist() == TABLE.tolist()
        assert weights is None


def test_all_columns_by_default_and_their_order(path):
    assert as_source(path).dimension == 3
    turned = as_source(path, features=[1, 0]).materialize(None, seeded())[0]
    assert turned.tolist() == TABLE[:, ::-1].tolist()
    single = as_source(path, features=1).materialize(None, seeded())[0]
    assert single.tolist() == TABLE[:, 1:].tolist()


def test_a_limit_keeps_different_rows_in_order(path, features):
    rows = as_source(path, features=features).materialize(300, seeded())[0][:, 0].tolist()
    assert len(rows) == 300
    assert rows == sorted(set(rows))


def test_samples_are_uniform(path, features):
    """Class-sorted files, case A36: every row is drawn and held equally often."""
    source = as_source(path, features=features)
    drawn, held, g = torch.zeros(10), torch.zeros(10), seeded()
    for _ in range(40):
        drawn += torch.histc(torch.cat([source.draw(20, g) for _ in range(5)])[:, 0], 10, 0, ROWS)
        held += torch.histc(source.materialize(100, g)[0][:, 0], 10, 0, ROWS)
    assert ((drawn / 4000 - 0.1).abs() < 0.02).all()
    assert ((held / 4000 - 0.1).abs() < 0.02).all()


def test_a_draw_never_repeats_a_row(path, features):
    source, g = as_source(path, features=features), seeded()
    for count in (1, 150, 150, 199, 200, 700):
        drawn = source.draw(count, g)
        assert len(drawn) == len(drawn[:, 0].unique()) == count
    drawn = source.draw(5000, g)[:, 0]
    assert drawn.sort().values.tolist() == list(range(ROWS))
    assert drawn.tolist() != list(range(ROWS))


@pytest.mark.parametrize("batch_size", [1, 7, 150, 5000])
def test_batches_are_one_whole_pass_and_again(path, features, batch_size):
    source, g = as_source(path, features=features), seeded()
    for _ in range(2):
        batches = list(source.batches(batch_size, g))
        points = torch.cat([points for points, _ in batches])
        assert points[:, 0].sort().values.tolist() == list(range(ROWS))
        assert points[:, 1].tolist() == (2 * points[:, 0]).tolist()
        assert points[:, 0].tolist() != list(range(ROWS))
        assert {len(points) for points, _ in batches[:-1]} <= {batch_size}
        assert len(batches) == -(-ROWS // batch_size)


def test_blocks_come_in_random_order_where_they_can(path, features):
    first = next(as_source(path, features=features).batches(200, seeded()))[0][:, 0]
    assert (first.max() < 300) == (path.suffix == ".csv")


def test_a_column_of_weights(path):
    column = 2 if path.suffix == ".npy" else "w"
    source = as_source(path, weights=column)
    assert source.dimension == 2
    points, weights = source.materialize(None, seeded())
    assert points.tolist() == TABLE.tolist()
    assert weights.tolist() == pytest.approx((WEIGHTS / WEIGHTS.sum()).tolist())
    for points, share in source.batches(130, seeded()):
        assert share.tolist() == pytest.approx((WEIGHTS[points[:, 0].long().numpy()] / WEIGHTS.sum()).tolist())
    g = seeded()
    drawn = torch.cat([source.draw(50, g)[:, 0] for _ in range(40)]) % 4
    frequency = torch.bincount(drawn.long()) / 2000
    assert ((frequency - torch.arange(4) / 6).abs() < 0.03).all()
    assert source.materialize(50, seeded())[1] is None


def test_weights_from_elsewhere(path, features):
    source = as_source(path, weights=torch.arange(ROWS), features=features)
    expected = np.arange(ROWS) / np.arange(ROWS).sum()
    assert source.materialize(None, seeded())[1].tolist() == pytest.approx(expected.tolist())
    with pytest.raises(ValueError, match=r"weights: got shape \(2,\); expected \(1000,\)"):
        as_source(path, weights=[1, 2], features=features)


def test_the_seed_decides_and_the_global_state_stays(path, features):
    source = as_source(path, features=features)
    state = torch.get_rng_state()

    def everything(seed):
        g = seeded(seed)
        batches = [points for points, _ in source.batches(90, g)]
        return torch.cat([source.draw(20, g), source.draw(30, g), source.materialize(40, g)[0], *batches])

    first = everything(0)
    source.draw(5, seeded(8))
    assert torch.equal(everything(0), first)
    assert not torch.equal(everything(1), first)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_pool_saves_readings_of_the_file(path, features, monkeypatch):
    source, reads, g = as_source(path, features=features), [], seeded()
    plain = type(source)._blocks
    monkeypatch.setattr(type(source), "_blocks", lambda self, wanted: reads.append(1) or plain(self, wanted))
    for _ in range(20):
        source.draw(10, g)
    assert len(reads) == (0 if path.suffix == ".npy" else 1)  # of an array the rows alone are read


def test_nan_rows_are_named_by_their_place_in_the_file(path, tmp_path):
    """Case A17."""
    table = TABLE.copy()
    table[617, 1] = np.nan
    source = as_source(write(tmp_path, path.suffix[1:], table), features=[0, 1])
    message = rf"data{path.suffix}: 1 of \d+ rows hold NaN or inf, the first is row 617"
    with pytest.raises(ValueError, match=message):
        source.materialize(None, seeded())
    with pytest.raises(ValueError, match=message):
        list(source.batches(100, seeded()))
    with pytest.raises(ValueError, match=message):
        source.draw(ROWS, seeded())


def test_copies_and_pickles(path, features):
    source = as_source(path, features=features)
    source.draw(10, seeded())
    for twin in (copy.deepcopy(source), pickle.loads(pickle.dumps(source))):
        assert torch.equal(twin.draw(30, seeded(3)), source.draw(30, seeded(3)))


def test_no_rows(path, tmp_path):
    """Case A38."""
    empty = write(tmp_path, path.suffix[1:], TABLE[:0], WEIGHTS[:0])
    with pytest.raises(ValueError, match="has no rows"):
        as_source(empty)


def test_columns_that_are_not_there(path):
    for features in (3, -1, "z", ["x", 7]):
        with pytest.raises(ValueError, match=r"features: "):
            as_source(path, features=features)
    for weights in (3, "z"):
        with pytest.raises(ValueError, match=r"weights: "):
            as_source(path, weights=weights)


def test_a_coreset_of_a_file(path, features, monkeypatch):
    def fit(**settings):
        source = as_source(path, features=features)
        return tc.build_coreset(source, 3, **{"init": "random", "steps": 20, **settings})

    whole = fit()
    assert whole.transport.plan.shape == (ROWS, 3)
    assert torch.equal(whole.coreset.points, fit().coreset.points)
    for held, settings in ((300, {"FILE_NUMBERS": 600, "DEFAULT_SAMPLES": 1, "SAMPLES_PER_POINT": 1}),
                           (750, {"FILE_NUMBERS": 1, "DEFAULT_SAMPLES": 150, "SAMPLES_PER_POINT": 250})):  # fmt: skip
        with monkeypatch.context() as patch:
            for name, number in settings.items():
                patch.setattr(f"torchcoreset.coresets.samples.loaded.{name}", number)
            part = fit()
        assert part.transport.plan.shape == (held, 3)
        assert part.distance == pytest.approx(whole.distance, rel=0.3)
    assert fit(algorithm="sgd", batch_size=100).distance == pytest.approx(whole.distance, rel=0.3)
    weighted = tc.build_coreset(path, 3, sample_weights=2 if path.suffix == ".npy" else "w", init="random", steps=3)
    assert weighted.coreset.points.shape == (3, 2)


def test_arrays_of_other_types_and_shapes(tmp_path):
    path = tmp_path / "data.npy"
    for array, dtype, expected in [
        (np.arange(6, dtype=">f4"), torch.float32, [[0], [1], [2], [3], [4], [5]]),
        (np.arange(6, dtype=np.int64).reshape(3, 2), torch.float32, [[0, 1], [2, 3], [4, 5]]),
        (np.asfortranarray(np.arange(6, dtype=np.float64).reshape(3, 2)), torch.float64, [[0, 1], [2, 3], [4, 5]]),
    ]:
        np.save(path, array)
        points, _ = as_source(path).materialize(None, seeded())
        assert points.dtype == dtype
        assert points.tolist() == expected
    np.save(path, np.arange(12, dtype=np.uint8).reshape(3, 1, 2, 2))
    assert as_source(path, flatten=True).materialize(None, seeded())[0].shape == (3, 4)
    with pytest.raises(ValueError, match=r"got shape \(3, 1, 2, 2\); .*flatten=True"):
        as_source(path)
    with pytest.raises(ValueError, match=r"has shape \(3, 1, 2, 2\); columns are chosen of \(rows, d\) only"):
        as_source(path, features=0)


def test_what_is_no_array(tmp_path):
    path = tmp_path / "data.npy"
    for array in (np.array(1.0), np.zeros(3, dtype=[("a", float)]), np.array(["a"])):
        np.save(path, array)
        with pytest.raises(ValueError, match=r"holds no plain table|not all numbers"):
            as_source(path)
    np.save(path, np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="is not a NPY file of numbers"):
        as_source(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match="is not a NPY file of numbers"):
        as_source(path)


def test_types_of_parquet_columns(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="reading Parquet files needs pyarrow")
    import pyarrow.parquet

    path = tmp_path / "data.pq"
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]])
    columns = {
        "half": pa.array([1.0, 2.0], pa.float32()),
        "count": pa.array([1, 2], pa.uint8()),
        "flag": pa.array([True, False]),
        "price": pa.array([1, 2]).cast(pa.decimal128(20, 1)),
        "list": vectors,
        "fixed": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        "ragged": pa.array([[1.0], [3.0, 4.0]]),
        "name": pa.array(["a", "b"]),
        "gap": pa.array([1, None]),
    }
    pyarrow.parquet.write_table(pa.table(columns), path)

    def read(features):
        return as_source(path, features=features).materialize(None, seeded())[0]

    assert read(["half", "count"]).tolist() == [[1, 1], [2, 2]]
    assert read("half").dtype == read(["half", "count"]).dtype == read("fixed").dtype == torch.float32
    assert read(["flag", "price"]).tolist() == [[1, 1], [0, 2]]
    assert read("list").tolist() == read("fixed").tolist() == [[1, 2], [3, 4]]
    assert read(["fixed", "count", "list"]).tolist() == [[1, 2, 1, 1, 2], [3, 4, 2, 3, 4]]
    for features, message in [
        ("ragged", "column 'ragged': got lists of several lengths"),
        ("name", r"columns that are not numbers: 'name' \(text\)"),
        (None, r"columns that are not numbers: 'name' \(text\). Choose others"),
        ("gap", "data.pq: 1 of 2 rows hold NaN or inf, the first is row 1 \\(counted from 0\\), in 'gap'"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(features)


def test_empty_row_groups(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="reading Parquet files needs pyarrow")
    import pyarrow.parquet

    path = tmp_path / "data.parquet"
    table = pa.table({"x": [1.0, 2.0]})
    with pyarrow.parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table.slice(0, 0), table, table.slice(0, 0), table):
            writer.write_table(part)
    source = as_source(path)
    assert source.materialize(None, seeded())[0].flatten().tolist() == [1, 2, 1, 2]


def test_dialects_of_csv(tmp_path):
    pytest.importorskip("pyarrow", reason="reading CSV files needs pyarrow")
    for name, text in [
        ("titled.csv", "a,b\n1,2\n3,4.5\n"),
        ("bare.csv", "1,2\n3,4.5\n"),
        ("tabs.tsv", "a\tb\n1\t2\n3\t4.5\n"),
        ("tabs.csv", "a\tb\n1\t2\n3\t4.5\n"),
        ("bars.csv", "a|b\n1|2\n3|4.5\n"),
        ("semicolons.csv", "a;b\n1;2\n3;4.5\n"),
        ("decimal_commas.csv", "a;b\n1;2\n3;4,5\n"),
        ("bare_commas.csv", "1,0;2,0\n3,0;4,5\n"),
        ("marked.csv", "\ufeffa;b\n1;2\n3;4,5\n"),
        ("quoted_semicolon.csv", '"a;b",c\n1,2\n3,4.5\n'),
        ("quoted.CSV", '"a","b, c"\n1,2\n3,4.5\n'),
    ]:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        assert as_source(path).materialize(None, seeded())[0].tolist() == [[1, 2], [3, 4.5]]
        packed = tmp_path / (name + ".gz")
        packed.write_bytes(gzip.compress(text.encode()))
        assert as_source(packed).materialize(None, seeded())[0].tolist() == [[1, 2], [3, 4.5]]
    assert as_source(tmp_path / "bare.csv", features="f1").dimension == 1


@pytest.mark.parametrize(
    ("text", "features", "message"),
    [
        ("", None, "has no rows that can be read"),
        ("a,b\n", None, "has no rows"),
        ("a,b\n1,x\n2,y\n", None, r"columns that are not numbers: 'b' \(text\). Choose .*, such as features=\['a'\]"),
        ("a,b\n1,x\n2,y\n", "b", r"columns that are not numbers: 'b' \(text\)"),
        ("a,b\n1,2020-01-31\n", "b", r"columns that are not numbers: 'b' \(dates\)"),
        ("a:b\n1:2\n", None, "not numbers: 'a:b' \\(text\\).*If the columns are separated otherwise, pass separator"),
        ("a,b\n1,2\n3\n", None, "cannot be read as a table: line 3 has 1 fields where the first has 2"),
        (
            "a,b\n1,2\n3,\n",
            None,
            "data.csv: 1 of 2 rows hold NaN or inf, the first is row 1 \\(counted from 0\\), in 'b'",
        ),
        ("a,a\n1,2\n", None, "columns 0 and 1 .* are both called 'a'"),
    ],
    ids=str,
)
def test_unusable_csv(text, features, message, tmp_path):
    pytest.importorskip("pyarrow", reason="reading CSV files needs pyarrow")
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        as_source(path, features=features).materialize(None, seeded())


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_without_pyarrow(name, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    for module in ("csv", "parquet"):
        monkeypatch.setitem(__import__("sys").modules, f"pyarrow.{module}", None)
    path = tmp_path / name
    path.write_text("a\n1\n")
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'torchcoreset\[files\]'"):
        as_source(path)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_held_out_of_a_file_is_read_as_a_file(path, features, weighted, monkeypatch: pytest.MonkeyPatch):
    """Complete but for rows of weight zero, shuffled, and by no more passes than the file itself takes."""
    table = torch.from_numpy(TABLE[TABLE[:, 0] % 4 > 0] if weighted else TABLE)
    column = 2 if path.suffix == ".npy" else "w"
    whole = as_source(path, column if weighted else None, features=features)
    parts = tc.hold_out(whole, 0.3, seed=1)
    read: list[int] = []
    blocks = whole._blocks
    monkeypatch.setattr(whole, "_blocks", lambda wanted: (read.extend(wanted), blocks(wanted))[1])
    seen, mass = [], []
    for part in parts:
        read.clear()
        for rows, weights in part.batches(16, seeded()):
            seen.append(rows)
            mass.append(rows.new_zeros(0) if weights is None else weights / rows[:, 0].remainder(4).clamp(min=1))
        assert len(read) == len(set(read))  # no block twice
    rows = torch.cat(seen)
    assert torch.equal(rows[rows[:, 0].argsort()], table)
    assert not torch.equal(rows[rows[:, 0].argsort()], rows)
    if weighted:  # in proportion to the column, within each part
        first = torch.cat(mass)[: parts[0].size]
        assert len(torch.unique(first[first > 0].round(decimals=12))) == 1
        drawn = parts[0].draw(200, seeded())
        assert bool((drawn[:, 0] % 4 > 0).all())
    together = [part.materialize(None, seeded())[0] for part in parts]
    assert torch.equal(torch.cat(together).sort(0).values, table)
    monkeypatch.undo()
    again = pickle.loads(pickle.dumps(tc.hold_out(path, 0.3, seed=1)))
    assert [part.size for part in again] == [700, 300]


def test_a_row_that_cannot_be_used_is_named_in_what_is_held_out(tmp_path):
    table = TABLE.copy()
    table[730, 1] = np.nan
    source = as_source(write(tmp_path, "csv", table), features=["x", "y"])
    parts = tc.hold_out(source, 0.5)
    with pytest.raises(ValueError, match="the first is row 730"):
        [list(part.batches(100, seeded())) for part in parts]
