"""Numbers at the door: whole numbers, lists of rows, half precision, ends of a dtype, default devices."""

from __future__ import annotations

import math
from collections import deque
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

import torchcoreset as tc
from tests.data import Rows, Stream, seeded
from torchcoreset.guarantees.points import read_points
from torchcoreset.sources.batches.reservoir import reservoir

EPOCH = 1_700_000_000  # seconds: 128 apart in float32
HUNDRED = np.arange(EPOCH, EPOCH + 100)
QUARTERS = math.sqrt((25**2 - 1) / 12)  # W_2 of 100 consecutive whole numbers and the means of four quarters of them
SMALL = np.arange(12).reshape(6, 2)
KINDS = ("int16", "uint16", "int32", "uint32", "int64", "uint64")


def in_a_file(table: np.ndarray, suffix: str, folder) -> str:
    if suffix != ".npy":
        pytest.importorskip("pyarrow", reason="reading Parquet and CSV files needs pyarrow")
    path = folder / f"table{suffix}"
    frame = pd.DataFrame(table, columns=[f"c{k}" for k in range(table.shape[1])])
    if suffix == ".npy":
        np.save(path, table)
    elif suffix == ".parquet":
        frame.to_parquet(path, row_group_size=4)
    else:
        frame.to_csv(path, index=False)
    return str(path)


# Every form of a table (m, d), from an array: what is read of it must not depend on the form.
FORMS = {
    "tensor": lambda t, _: torch.from_numpy(t.copy()),
    "array": lambda t, _: t,
    "DataFrame": lambda t, _: pd.DataFrame(t),
    "list": lambda t, _: t.tolist(),
    "tuple of tuples": lambda t, _: tuple(map(tuple, t.tolist())),
    "deque": lambda t, _: deque(t.tolist()),
    "list of arrays": lambda t, _: list(t),
    "tuple of tensors": lambda t, _: tuple(torch.from_numpy(t.copy())),
    "deque of arrays": lambda t, _: deque(t),
    "objects": lambda t, _: t.astype(object),
    "npy": lambda t, folder: in_a_file(t, ".npy", folder),
    "parquet": lambda t, folder: in_a_file(t, ".parquet", folder),
    "csv": lambda t, folder: in_a_file(t, ".csv", folder),
    "dataset": lambda t, _: Rows(torch.from_numpy(t.copy())),
    "dataset of lists": lambda t, _: Rows(t.tolist()),
    "TensorDataset": lambda t, _: TensorDataset(torch.from_numpy(t.copy())),
    "loader": lambda t, _: DataLoader(Rows(torch.from_numpy(t.copy())), batch_size=4),
    "stream": lambda t, _: Stream(list(torch.from_numpy(t.copy()))),
    "list of batches": lambda t, _: [t[:2], t[2:]],
    "generator": lambda t, _: (part for part in (t[:2], t[2:])),
}
IN_MEMORY = [name for name in FORMS if "dataset" not in name.lower()][:10]


# pyarrow writes no half precision, and reads True in a CSV file as text.
UNREADABLE = {("parquet", "float16"), ("csv", "float16"), ("csv", "bool")}


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        (form, kind)
        for kind in (*KINDS, "bool", "uint8", "float32", "float64", "float16")
        for form in FORMS
        if (form, kind) not in UNREADABLE
    ],
)
def test_every_form_and_dtype_is_read_without_loss(form, kind, tmp_path):
    table = (SMALL % 2 if kind == "bool" else SMALL).astype(kind)
    source = tc.as_source(FORMS[form](table, tmp_path))
    rows, _ = source.materialize(None, seeded())
    assert rows.tolist() == table.astype(float).tolist()
    keeps = kind.startswith("float") and form not in ("list", "tuple of tuples", "deque", "dataset of lists")
    expected = "float64" if form in ("csv", "objects") else kind if keeps else "float32"
    assert rows.dtype == getattr(torch, expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64", "float64"])
def test_digits_that_float32_cannot_hold_are_kept(form, kind, tmp_path):
    table = (HUNDRED[:6] * np.array([[1], [-1 if kind in ("int64", "float64", "int32") else 1]])).T.astype(kind)
    source = tc.as_source(FORMS[form](table, tmp_path))
    rows, _ = source.materialize(None, seeded())
    assert (rows.dtype, rows.tolist()) == (torch.float64, table.astype(float).tolist())


@pytest.mark.parametrize("form", FORMS)
def test_a_coreset_of_epoch_times(form, tmp_path):
    result = tc.build_coreset(FORMS[form](HUNDRED[:, None], tmp_path), 4)
    assert result.distance == pytest.approx(QUARTERS, rel=1e-9)
    assert result.coreset.points.flatten().sort().values.tolist() == [EPOCH + 12 + 25 * k for k in range(4)]


@pytest.mark.parametrize("algorithm", ["fixed_point", "gradient", "sgd"])
@pytest.mark.parametrize(
    "init", [HUNDRED[::25], (HUNDRED[::25] + 12.0).astype(np.float32), "kmeans++", "random"], ids=str
)
def test_points_to_begin_with_take_what_the_samples_need(algorithm, init):
    result = tc.build_coreset(HUNDRED, 4, algorithm=algorithm, init=init, steps=60, tolerance=0)
    assert result.coreset.points.dtype == torch.float64
    assert QUARTERS - 1e-9 < result.distance < QUARTERS * (1.02 if algorithm == "fixed_point" else 1.6)


@pytest.mark.parametrize("form", IN_MEMORY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_and_transports_read_samples_alike(form, dtype):
    y = FORMS[form](HUNDRED[:, None], None)
    x = torch.tensor([[EPOCH + 128.0 * k] for k in (-1, 0, 1)], dtype=dtype)  # numbers of float32
    whole = torch.from_numpy(HUNDRED)[:, None] - EPOCH
    offset = (x.double() - EPOCH).requires_grad_()
    with warning_of_points(dtype):
        for p in (1, 2):
            truth = tc.wasserstein(offset, whole.double(), p)
            assert tc.transport(x, y, p, exact=True).value == pytest.approx(truth.item(), rel=1e-6)
            points = x.clone().requires_grad_()
            value = tc.wasserstein(points, y, p)
            assert (value.dtype, value.item()) == (dtype, pytest.approx(truth.item(), rel=1e-3))
            value.backward()
            expected = torch.autograd.grad(truth, offset)[0]
            assert torch.allclose(points.grad.double(), expected, rtol=2e-3, atol=2e-3)
        for call in (
            lambda points, samples: tc.sinkhorn_divergence(points, samples, blur=10.0, backend="newton"),
            tc.energy_distance,
            lambda points, samples: tc.mmd(points, samples, blur=10.0),
        ):
            assert call(x, y).item() == pytest.approx(call(offset.detach(), whole.double()).item(), rel=1e-3)


@contextmanager
def warning_of_points(dtype):
    if dtype == torch.float64:
        yield
        return
    with pytest.warns(UserWarning, match=r"points: got torch.float32, whose numbers near 1.7e\+09 .*float64") as record:
        yield
    assert {warning.filename for warning in record} == {__file__}


def test_one_whole_number_far_from_the_origin():
    y = torch.tensor([[EPOCH + 50]])
    assert tc.wasserstein(torch.tensor([[EPOCH]], dtype=torch.float64), y, 2).item() == 2500
    with warning_of_points(torch.float32):
        assert tc.wasserstein(torch.tensor([[float(EPOCH)]]), y, 2).item() == 2500


@pytest.mark.parametrize("spread", [1.0, 1e-3])
@pytest.mark.parametrize("offset", [1e6, 1.7e9, -1e12])
def test_an_offset_of_float64_samples_does_not_reach_the_value(offset, spread):
    y = spread * torch.randn(500, 3, generator=seeded(), dtype=torch.float64)
    y = y[:100]
    exact = tc.build_coreset(y, 6, init="random", steps=5).distance
    assert tc.build_coreset(y + offset, 6, init="random", steps=5).distance == pytest.approx(exact, rel=1e-2)
    # In float32 it is the offset's own rounding that is measured, and rightly.
    x = torch.full((1, 3), offset, dtype=torch.float32)
    there = y + offset
    with warning_of(0.01 * spread < np.spacing(np.float32(abs(offset)))):
        value = tc.wasserstein(x, there, 2).item()
    assert value == pytest.approx(float((there - x.double()).square().sum(1).mean()), rel=1e-5)


@contextmanager
def warning_of(coarse):
    if coarse:
        with pytest.warns(UserWarning, match="points: got torch.float32"):
            yield
    else:
        yield


def test_float32_data_at_an_offset_are_measured_as_they_are():
    y = torch.randn(400, 2, generator=seeded()) + 1e6  # 0.06 apart
    x = y[:5].clone()
    truth = tc.transport(x.double() - 1e6, y.double() - 1e6, exact=True).value
    assert tc.transport(x, y, exact=True).value == pytest.approx(truth, rel=1e-9)
    assert tc.wasserstein(x, y).item() == pytest.approx(truth, rel=1e-3)


def test_samples_in_float64_within_the_reach_of_float32_are_no_matter():
    years = torch.randint(1990, 2025, (200, 1), generator=seeded()).double() + 0.1
    x = years[:4].float()
    assert tc.wasserstein(x, years).dtype == torch.float32  # and no warning, which would be an error here
    assert tc.wasserstein(torch.full((1, 1), 0.1), torch.full((9, 1), 0.1, dtype=torch.float64)).item() < 1e-15


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_whole_numbers_that_float64_cannot_hold_are_refused(form, kind, tmp_path):
    table = np.array([[2**60 + k, k] for k in range(6)], dtype=kind)
    with pytest.raises(ValueError, match=r"got whole numbers of up to 1.15e\+18; expected them below 2\^53") as refused:
        tc.build_coreset(FORMS[form](table, tmp_path), 2)
    assert str(refused.value).startswith(("samples", "source: table", "table", "source: DataFrame"))


@pytest.mark.parametrize(
    "table",
    [
        [2**70, 1],
        [2**60, 0.5],
        [[2**60 + 1, 0.5], [1, 2]],
        pd.DataFrame({"id": [2**60 + 1, 3], "size": [0.5, 1.0]}),
        np.array([2**60 + 1, 0.5], dtype=object),
    ],
    ids=["beyond int64", "beside fractions", "nested", "DataFrame", "objects"],
)
def test_whole_numbers_beside_fractions_are_looked_at_too(table):
    for call in (lambda: tc.as_source(table), lambda: tc.wasserstein(torch.zeros(1, 1), table)):
        with pytest.raises(ValueError, match=r"^(samples|source: DataFrame).* whole numbers of up to .*Subtract"):
            call()


def test_floats_may_be_as_large_as_they_are():
    assert tc.as_source([2.0**60, 1.0]).materialize(None, seeded())[0].tolist() == [[2.0**60], [1.0]]
    assert tc.as_source(pd.DataFrame({"a": [1e300, 3.0], "b": [1, 2]})).size == 2


def test_a_pass_that_begins_with_small_numbers_keeps_the_digits_of_large_ones():
    batches = [torch.arange(8)[:, None], torch.arange(EPOCH, EPOCH + 8)[:, None]]
    expected = torch.cat(batches).double()
    for source in (tc.as_source(batches), tc.as_source(iter(batches)), tc.as_source(Rows(list(torch.cat(batches))))):
        assert torch.equal(source.materialize(None, seeded())[0], expected)
    kept = reservoir(
        iter([batch.float() if k == 0 else batch.double() for k, batch in enumerate(batches)]), 4, seeded()
    )
    assert {row for row in kept.flatten().tolist() if row > 8} <= set(expected.flatten().tolist())


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_a_file_whose_later_blocks_hold_larger_numbers_is_one_table(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr("torchcoreset.sources.files.arrays.BLOCK_ELEMENTS", 4)
    table = np.concatenate((np.arange(8), HUNDRED[:8]))[:, None]
    source = tc.as_source(in_a_file(table, suffix, tmp_path))
    for rows in (
        source.materialize(None, seeded())[0],
        source.draw(16, seeded()),
        source.draw(2, seeded()),
        *(rows for rows, _ in source.batches(4, seeded())),
    ):
        assert rows.dtype == torch.float64
        assert set(rows.flatten().tolist()) <= set(table.flatten().tolist())


# Rows of a list, batches of an iterator.


@pytest.mark.slow
@pytest.mark.parametrize("container", [list, tuple, deque])
@pytest.mark.parametrize(
    "row", [np.asarray, torch.from_numpy, list, pd.Series], ids=["array", "tensor", "list", "Series"]
)
def test_a_list_of_rows_is_a_table_everywhere(container, row):
    table = np.random.default_rng(0).standard_normal((30, 4))
    rows = container([row(one) for one in table])
    source = tc.as_source(rows)
    assert (source.size, source.dimension) == (30, 4)
    result = tc.build_coreset(rows, 5, init=container([row(one) for one in table[:5]]), steps=5)
    assert result.coreset.points.shape == (5, 4)
    points = torch.from_numpy(table[:5])
    expected = tc.wasserstein(points, table).item()
    assert tc.wasserstein(points, rows).item() == pytest.approx(expected, rel=1e-6)
    assert tc.CoresetLoss()(points, rows).item() == pytest.approx(expected, rel=1e-6)
    assert tc.transport(rows, rows).value == 0
    assert tc.Coreset(rows).points.shape == (30, 4)
    assert torch.equal(read_points(rows).x, torch.from_numpy(table).to(read_points(rows).x))


UNBATCHED = {
    "generator": lambda rows: (row for row in rows),
    "generator of lists": lambda rows: (row.tolist() for row in rows),
    "generator of pairs": lambda rows: ((row, 1) for row in rows),
    "iterator": lambda rows: iter(list(rows)),
    "map": lambda rows: map(torch.clone, rows),
    "list of pairs": lambda rows: [(row, 1) for row in rows],
    "list of dicts": lambda rows: [{"x": row} for row in rows],
    "DataLoader(batch_size=None)": lambda rows: DataLoader(Rows(rows), batch_size=None),
    "its iterator": lambda rows: iter(DataLoader(Rows(rows), batch_size=None)),
    "DataLoader(batch_size=None) of a stream": lambda rows: DataLoader(Stream(rows), batch_size=None),
}


@pytest.mark.parametrize("form", UNBATCHED)
def test_single_rows_of_an_iterator_are_refused(form):
    rows = torch.randn(300, 4, generator=seeded())
    with pytest.raises(
        ValueError, match=r"^samples, batch 0: got shape \(4,\), .*may be one row or 4 rows.*torch.stack"
    ):
        tc.build_coreset(UNBATCHED[form](rows), 5)


@pytest.mark.parametrize(
    "make",
    [
        lambda y: DataLoader(Rows(y), batch_size=7),
        lambda y: iter(DataLoader(Rows(y), batch_size=7)),
        lambda y: DataLoader(TensorDataset(y, torch.zeros(60)), batch_size=7),
        lambda y: DataLoader(Rows(y), batch_size=None, sampler=BatchSampler(SequentialSampler(y), 7, drop_last=False)),
        lambda y: DataLoader(Stream(y), batch_size=7),
        Stream,
        lambda y: (part[:, None] for part in y.split(7)),
        lambda y: (one[None] for one in y),
    ],
    ids=["loader", "its iterator", "with labels", "by batch sampler", "stream loader", "stream", "columns", "single"],
)
def test_batches_of_numbers_stay_columns(make):
    y = torch.randn(60, generator=seeded())
    rows = tc.as_source(make(y)).draw(60, seeded())
    assert torch.equal(rows, y[:, None])


@pytest.mark.parametrize("kind", [list, tuple])
def test_batches_that_are_lists_of_rows_are_refused(kind):
    rows = torch.randn(40, 6, generator=seeded())
    loader = DataLoader(Rows(rows), batch_size=8, collate_fn=kind)
    for source in (loader, iter(loader), DataLoader(Rows(rows.tolist()), batch_size=8)):
        with pytest.raises(
            ValueError, match=r"^samples, batch 0: got a (list|tuple) of \d one-dimensional .*torch.stack"
        ):
            tc.build_coreset(source, 5)


BAD = {
    "ragged lists": ([[1.0, 2.0], [3.0]], ValueError, "rows of lengths 1, 2.*equal length"),
    "ragged arrays": ([np.zeros(2), np.zeros(3)], ValueError, r"shapes \(2,\), \(3,\); expected rows of one length"),
    "ragged tensors": (deque([torch.zeros(2), torch.zeros(3)]), ValueError, "expected rows of one length"),
    "a number among rows": ([[1.0], 2.0], ValueError, "a number"),
    "text": (["a", "b"], ValueError | TypeError, "str"),
    "text in rows": ([[1.0, "a"]], ValueError, "str"),
    "missing": ([1.0, None], ValueError, "NoneType"),
    "missing in rows": ([[1.0, None]], ValueError, "NoneType"),
    "not a number": ([1.0, math.nan], ValueError, "1 of 2 rows hold NaN or inf"),
    "infinite": (np.array([1.0, -np.inf]), ValueError, "1 of 2 rows hold NaN or inf"),
    "complex": (np.array([1j, 2.0]), ValueError, "expected real numbers"),
    "complex list": ([1j, 2.0], ValueError, "expected real numbers"),
    "objects": (np.array([{}, 1.0], dtype=object), ValueError, "not all numbers"),
    "dates": (np.array(["2020-01-01"], dtype="datetime64[s]"), ValueError, "not all numbers"),
    "structured": (np.zeros(3, dtype=[("a", float)]), ValueError, "not all numbers"),
    "sparse": (torch.eye(3).to_sparse(), ValueError, "dense"),
    "meta": (torch.zeros(3, 1, device="meta"), ValueError, "(no numbers|on meta|device meta)"),
    "no rows": (np.zeros((0, 2)), ValueError, "at least one row"),
    "no columns": (np.zeros((2, 0)), ValueError, "at least one row"),
    "None": (None, TypeError, "got NoneType"),
    "bytes": (b"1 2", TypeError, "got bytes"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_used_is_named_everywhere(bad):
    table, kind, message = BAD[bad]
    x, rows = torch.zeros(2, 1), torch.zeros(4, 1)
    kinds = tuple(kind.__args__) if hasattr(kind, "__args__") else kind
    calls = {
        "samples": [
            lambda: tc.wasserstein(x, table),
            lambda: tc.transport(x, table),
            lambda: tc.energy_distance(x, table),
        ],
        "points": [lambda: tc.transport(table, rows), lambda: tc.Coreset(table)],
        "init": [lambda: tc.build_coreset(rows, 2, init=table)] if table is not None else [],
    }
    if table is not None:
        calls["(samples|source)"] = [lambda: tc.build_coreset(table, 2)]
    if bad == "meta":
        calls["samples"] += calls.pop("points")[:1]  # whose device is not that of the samples
    for name, some in calls.items():
        for call in some:
            with pytest.raises(
                kinds, match=f"^{name}.*{message}|^(samples, batch 0|source|init): got (str|bytes|b'1 2')"
            ):
                call()


def test_no_rows_at_all():
    for empty in ([], (), deque()):
        with pytest.raises(ValueError, match=r"^source: got a \w+ with no batches"):
            tc.build_coreset(empty, 2)
        with pytest.raises(ValueError, match=r"^samples: got shape \(0, 1\)"):
            tc.wasserstein(torch.zeros(2, 1), empty)


# Near the ends of a dtype.


@pytest.mark.parametrize("p", [1, 2])
def test_the_ends_of_float32(p):
    y = torch.tensor([[-3e38], [3e38]])
    assert tc.transport(y, y, p).value == 0
    assert tc.transport(torch.zeros(1, 1), y, p).value == pytest.approx(float(y[1].double()) ** p, rel=1e-9)
    result = tc.build_coreset(y, 2, p)
    assert result.distance == 0
    assert torch.equal(result.coreset.points.sort(0).values, y)
    if p == 2:
        with pytest.raises(
            ValueError, match=r"^points: the value of wasserstein is 9e\+76, which torch.float32 cannot"
        ):
            tc.wasserstein(torch.zeros(1, 1), y)


ENDS = [
    (torch.float32, 4e37), (torch.float32, 1e-41), (torch.float32, 1e30), (torch.float64, 1e30),
    (torch.float64, 1e-100), (torch.float16, 8000.0), (torch.float16, 1e-6), (torch.bfloat16, 4e37),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "scale"), ENDS, ids=str)
def test_the_scale_of_the_data_is_no_matter(dtype, scale):
    y = (scale * torch.randn(100, 2, generator=seeded(), dtype=torch.float64)).to(dtype)
    unit = y.double() / scale
    for p in (1, 2):
        expected = tc.transport(unit[:5], unit, p, exact=True).value ** (1 / p)
        found = tc.transport(y[:5], y, p, exact=True).value
        assert math.exp(math.log(found) / p - math.log(scale)) == pytest.approx(expected, rel=1e-5)
    for settings in ({"init": "annealed", "restarts": 1}, {"init": "kmeans++"}):
        expected = tc.build_coreset(unit, 5, steps=8, **settings).distance
        assert tc.build_coreset(y, 5, steps=8, **settings).distance / scale == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("scale", [1e307, 1e-310])
def test_what_float64_cannot_square_is_refused(scale):
    y = scale * torch.randn(50, 2, generator=seeded(), dtype=torch.float64)
    x = y[:5]
    calls = [lambda: tc.build_coreset(y, 5), lambda: tc.certify(x, y)]
    calls += [lambda f=f: f(x, y) for f in (tc.transport, tc.energy_distance, tc.mmd, tc.sinkhorn_divergence)]
    for call in calls:
        with pytest.raises(ValueError, match=r"^points, samples: got numbers of up to .* Divide both by their scale"):
            call()


def test_samples_that_float32_points_cannot_reach_are_computed_in_float64():
    x = torch.zeros(1, 1)
    assert tc.transport(x, torch.tensor([[1e60]], dtype=torch.float64)).value == pytest.approx(1e120)
    assert tc.transport(x, torch.tensor([[1e-60]], dtype=torch.float64)).value == pytest.approx(1e-120)


# Default devices and dtypes.


def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.randn(300, 2, generator=seeded(), device="cpu", dtype=torch.float32)
    return y[:9] + 0.1, y


def everything(folder) -> list:
    """What most parts of the library make of the same rows, as numbers."""
    x, y = numbers()
    path = folder / "rows.npy"
    np.save(path, y.numpy())
    batches = list(y.split(75))
    loss, online = tc.CoresetLoss(), tc.CoresetLoss(online=True)
    points = x.clone().requires_grad_()
    found = []
    for _ in range(2):
        value = loss(points, y) + online(points, batches[0]) + tc.energy_distance(points, y) + tc.mmd(points, y)
        value = value + tc.sinkhorn_divergence(points, y, backend="newton")
        value.backward()
        found += [value.item(), points.grad.tolist()]
    plan = tc.transport(x, y, exact=True)
    found += [plan.value, plan.potential.tolist(), plan.transform.tolist()]
    for source in (y, y.numpy(), list(y.numpy()), str(path), Rows(y), batches, iter(batches), TensorDataset(y)):
        found.append(tc.build_coreset(source, 5, init="random", steps=2).coreset.points.tolist())
        if not isinstance(source, type(iter([]))):
            found.append(tc.as_source(source).draw(20, seeded()).double().tolist())
    found.append(tc.build_coreset(y, 5, algorithm="sgd", steps=5).coreset.points.tolist())
    found.append(tc.build_coreset(y, 5, init="kmeans++", p=1, steps=5).coreset.points.tolist())
    coreset = tc.Coreset.from_source(y, 5, init="annealed")
    coreset.save(folder / "points.npz")
    found.append(tc.Coreset.load(folder / "points.npz").points.tolist())
    for certificate in (
        tc.certify(x, y),
        tc.certify(x, y, p=1),
        tc.certify_pushforward(x, y, lambda rows: 2 * rows).image,
    ):
        found += [certificate.lower, certificate.upper]
    error = tc.expectation_error(x, y, lambda rows: rows.square().sum(1))
    found += [error.lower, error.upper]
    found.append(str(tc.doctor(tc.build_coreset(y, 5, steps=4), y)))
    kept, fresh = tc.hold_out(y)
    found += [kept.materialize(None, seeded())[0].tolist(), fresh.size]
    return found


@pytest.fixture(scope="module")
def without_defaults(tmp_path_factory):
    return everything(tmp_path_factory.mktemp("plain"))


@pytest.mark.slow
def test_a_default_device_does_not_reach_inside(without_defaults, tmp_path):
    with torch.device("meta"):
        assert everything(tmp_path) == without_defaults
    torch.set_default_device("meta")
    try:
        assert tc.build_coreset(HUNDRED, 4).distance == pytest.approx(QUARTERS, rel=1e-9)
    finally:
        torch.set_default_device(None)


@pytest.mark.slow
def test_a_default_dtype_does_not_reach_inside(without_defaults, tmp_path):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert everything(tmp_path) == without_defaults
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(("where", "m"), [("meta", 5003), ("inference", 5011), ("fake", 5021)])
def test_nothing_of_the_first_solve_of_a_size_is_kept(where, m):
    from torch._subclasses.fake_tensor import FakeTensorMode

    y = torch.randn(m, 2, generator=seeded(), device="cpu")
    x = y[:20] + 0.1
    modes = {"meta": torch.device("meta"), "inference": torch.inference_mode(), "fake": FakeTensorMode()}
    if where == "fake":
        with modes[where], pytest.raises((ValueError, TypeError, RuntimeError, AssertionError)):
            tc.wasserstein(x, y)
    else:
        with modes[where]:
            tc.wasserstein(x, y)
    points = x.clone().requires_grad_()
    value = tc.wasserstein(points, y)
    value.backward()
    assert math.isfinite(value.item())
    assert torch.isfinite(points.grad).all()


def test_lists_follow_the_default_dtype_as_far_as_it_holds_them():
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float64, torch.bfloat16, torch.float16):
            torch.set_default_dtype(dtype)
            assert tc.Coreset([0, 1, 2]).points.dtype == dtype
            assert tc.Coreset([0.0, 1.0, 2.0]).points.dtype == dtype
            assert tc.Coreset([0, 1, 5000]).points.dtype == torch.float64
            assert tc.Coreset([0.0, 1e300]).points.dtype == torch.float64
            assert tc.Coreset(np.float32([0, 1])).points.dtype == torch.float32
    finally:
        torch.set_default_dtype(before)
