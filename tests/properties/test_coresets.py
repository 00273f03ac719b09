"""Builds, the module, its files and what is said of a coreset: a right answer or a named error."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import torchcoreset as tc
from tests.properties.draw import Refused, answer, as_read, bits, examples, rows_of, same, tables, weights

pytestmark = pytest.mark.usefixtures("two_starts")

powers = st.sampled_from((2, 1, 1.5, 3))
sizes = st.sampled_from((1, 2, 3, 5, 8, 20)) | st.sampled_from((0, -1, True, 2.0, "2", None))
seeds = st.sampled_from((0, 1, 2**40)) | st.sampled_from(("a", 1.5, None, True))


def finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


@examples(40)
@given(tables(), st.data())
def test_a_coreset_and_its_files(points: Any, data: st.DataObject) -> None:
    rows = rows_of(points)
    w = data.draw(weights(rows))
    before = bits(points, w)
    coreset = answer(lambda: tc.Coreset(points, w))
    assert same(before, bits(points, w))
    if isinstance(coreset, Refused):
        return
    assert coreset.points.is_floating_point()
    assert torch.equal(coreset.points.detach(), as_read(points))
    assert finite(coreset.weights)
    assert float(coreset.weights.double().sum()) == pytest.approx(1, abs=2e-2)
    assert repr(coreset)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".pt", ".npz", ".safetensors"):
            if suffix == ".safetensors":
                pytest.importorskip("safetensors")
            path = Path(folder) / f"coreset{suffix}"
            coreset.save(path)
            again = tc.Coreset.load(path)
            assert torch.equal(again.points.double(), coreset.points.double())
            assert torch.equal(again.weights.double(), coreset.weights.double())
            # Any cut and any flipped byte is either read as numbers, or refused by name.
            content = bytearray(path.read_bytes())
            at = data.draw(st.integers(0, len(content) - 1))
            path.write_bytes(content[:at])
            assert isinstance(answer(lambda path=path: tc.Coreset.load(path)), Refused)
            content[at] ^= data.draw(st.integers(1, 255))
            path.write_bytes(content)
            answer(lambda path=path: tc.Coreset.load(path))


@pytest.mark.parametrize("algorithm", ["fixed_point", "sgd", "gradient"])
@examples(10)
@given(tables(), sizes, powers, seeds, st.data())
def test_a_build_is_finite_or_says_why(
    algorithm: str, rows: Any, size: Any, p: float, seed: Any, data: st.DataObject
) -> None:
    w = data.draw(weights(rows_of(rows)))
    b = data.draw(weights(size)) if type(size) is int and size > 0 else None
    init = data.draw(st.sampled_from((None, "random", "kmeans++", "annealed", "nearest")) | tables(columns=2))
    before = bits(rows, w, b)
    found = answer(
        lambda: tc.build_coreset(
            rows, size, p, algorithm=algorithm, init=init, weights=b, sample_weights=w, steps=6, seed=seed,
            progress=False,
        )
    )  # fmt: skip
    assert same(before, bits(rows, w, b))
    if isinstance(found, Refused):
        return
    read = as_read(rows)
    assert found.coreset.points.shape == (size, read.shape[1])
    assert finite(found.coreset.points.detach())
    assert math.isfinite(found.distance)
    if p == 2 and algorithm == "fixed_point" and init is None and read.shape[1] > 1:
        low, high = read.double().amin(0), read.double().amax(0)
        margin = 1e-2 * (high - low) + 1e-5 * read.double().abs().amax(0) + 1e-300
        inside = (found.coreset.points >= low - margin) & (found.coreset.points <= high + margin)
        assert bool(inside.all()), "points outside the hull of the data"


@examples(20)
@given(tables(), sizes, powers, seeds, st.data())
def test_a_labeled_build_is_finite_or_says_why(rows: Any, size: Any, p: float, seed: Any, data: st.DataObject) -> None:
    count = rows_of(rows)
    y = data.draw(
        st.lists(st.sampled_from((0, 1)), min_size=count, max_size=count)
        | st.lists(st.sampled_from(("a", "b")), min_size=count, max_size=count)
        | st.sampled_from((None, "ab", [0.5] * count, [math.nan] * count, [0] * (count + 1), [None] * count, [[0]], 3))
    )
    w = data.draw(weights(count))
    allocation = data.draw(st.sampled_from(("proportional", "equal", "fair")))
    found = answer(
        lambda: tc.build_labeled_coreset(
            rows, y, size, allocation, p, sample_weights=w, steps=5, seed=seed, progress=False
        )
    )
    if isinstance(found, Refused):
        return
    assert finite(found.points)
    assert len(found.points) == size
    assert float(found.weights.double().sum()) == pytest.approx(1, abs=1e-2)


@examples(30)
@given(tables(), st.data())
def test_sources_and_splits(rows: Any, data: st.DataObject) -> None:
    count = rows_of(rows)
    w = data.draw(weights(count))
    source = answer(lambda: tc.as_source(rows, w))
    if isinstance(source, Refused) or source.size is None:
        return
    drawn, mass = source.materialize(None, torch.Generator().manual_seed(0))
    assert finite(drawn)
    assert torch.equal(drawn.double(), as_read(rows).double())
    assert mass is None or float(mass.sum()) == pytest.approx(1)
    share = data.draw(st.floats(0, 1) | st.sampled_from((0.5, math.nan, "half", None, 2, -1, True)))
    split = answer(lambda: tc.hold_out(source, share, seed=data.draw(seeds)))
    if not isinstance(split, Refused):
        assert split[0].size + split[1].size == source.size


@examples(25)
@given(tables(), sizes, powers, seeds)
def test_preflight_says_something_or_why_not(rows: Any, size: Any, p: float, seed: Any) -> None:
    found = answer(lambda: tc.preflight(rows, size, p, seed=seed))
    if not isinstance(found, Refused):
        assert found.memory > 0
        assert math.isfinite(found.seconds)


@examples(30)
@given(tables(columns=2), tables(columns=2), powers | st.sampled_from((0.5, "2", None)), st.data())
def test_doctor_says_something_or_why_not(points: Any, rows: Any, p: Any, data: st.DataObject) -> None:
    made = answer(lambda: tc.Coreset(points))
    patient = points if isinstance(made, Refused) else made
    found = answer(lambda: tc.doctor(patient, rows, p, seed=data.draw(seeds)))
    if not isinstance(found, Refused):
        assert "nan" not in repr(found).lower()


@examples(8)
@given(tables(rows=12), sizes, seeds, st.data())
def test_divergences_are_compared_or_not_by_name(rows: Any, size: Any, seed: Any, data: st.DataObject) -> None:
    held_out = data.draw(st.none() | tables())
    blurs = data.draw(st.none() | st.sampled_from(([0.5], [0.0], [math.nan], ["a"], 0.5, [])))
    found = answer(
        lambda: tc.compare_divergences(rows, size, blurs=blurs or [1.0], held_out=held_out, steps=3, seed=seed)
    )
    if not isinstance(found, Refused):
        assert all(math.isfinite(row.value) and math.isfinite(row.w1) and finite(row.points) for row in found)


@examples(15)
@given(tables(), sizes, powers, st.data())
def test_the_estimator(rows: Any, size: Any, p: float, data: st.DataObject) -> None:
    estimator = pytest.importorskip("torchcoreset.sklearn", reason="needs scikit-learn").WassersteinCoreset
    if not isinstance(rows, (np.ndarray, list)):
        return
    model = estimator(size, p=p, max_iter=5, random_state=0)
    w = data.draw(weights(len(rows)))
    w = w.numpy() if isinstance(w, Tensor) else w
    try:  # scikit-learn's own checks say it in its own words
        model.fit(rows, sample_weight=w)
    except (ValueError, TypeError):
        return
    assert np.isfinite(model.points_).all()
    assert np.isfinite(model.value_)
    before = model.points_.copy()
    bad = np.full((3, model.n_features_in_), np.nan)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(bad)
    assert np.array_equal(before, model.points_)
    model.partial_fit(rows, sample_weight=w)
    assert np.isfinite(model.points_).all()
