"""Certificates: an interval of finite numbers that lies around what the sample says, or a named error."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

import torchcoreset as tc
from tests.properties.draw import Refused, answer, as_read, bits, examples, same, tables

powers = st.sampled_from((2, 1, 1.5, 3)) | st.sampled_from((0.5, math.nan, "2", None))
sources = tables(rows=90, columns=2) | tables(rows=20, columns=2) | tables(rows=150, columns=1)
confidences = st.sampled_from((0.95, 0.5, 0.999)) | st.sampled_from((0, 1, math.nan, "95 %", None))
MAPS = {
    "relu": lambda y: y.relu(),
    "column": lambda y: y[:, 0],
    "images": lambda y: y[:, :, None, None],
    "wrong rows": lambda y: y[:1],
    "NaN": lambda y: y * math.nan,
    "no tensor": lambda y: None,
    "numbers": lambda y: 1.0,
    "array": lambda y: y.float().numpy(),
    "complex": lambda y: y + 1j,
    "integers": lambda y: y.sign().long(),
}


def is_interval(found: Any, scale: float) -> bool:
    assert math.isfinite(found.lower), found
    assert math.isfinite(found.upper), found
    return 0 <= found.lower <= found.upper * (1 + 1e-9) + 1e-6 * scale


def reach(*tables: Any) -> float:
    return max(float(as_read(table).double().abs().max()) for table in tables)


@examples(40)
@given(tables(columns=2), sources, powers, confidences, st.data())
def test_a_certificate_holds_or_says_why(points: Any, rows: Any, p: Any, confidence: Any, data: st.DataObject) -> None:
    bound = data.draw(st.none() | st.sampled_from((1.0, 1e30, 0, -1, math.nan, "1")))
    before = bits(points, rows)
    found = answer(lambda: tc.certify(points, rows, p, confidence, 200, bound=bound))
    assert same(before, bits(points, rows))
    if isinstance(found, Refused):
        return
    assert is_interval(found, reach(points, rows))
    assert bool(torch.isfinite(found.potential).all())
    assert "nan" not in repr(found)


@examples(30)
@given(tables(columns=2), sources, powers, st.sampled_from(sorted(MAPS)))
def test_a_pushforward_is_certified_or_not_by_name(points: Any, rows: Any, p: Any, name: str) -> None:
    found = answer(lambda: tc.certify_pushforward(points, rows, MAPS[name], p, samples=200))
    if not isinstance(found, Refused):
        assert is_interval(found, reach(points, rows))
        assert is_interval(found.data, reach(points, rows))


@examples(30)
@given(tables(columns=2), sources, confidences, st.sampled_from(sorted(MAPS)))
def test_an_expectation_is_compared_or_not_by_name(points: Any, rows: Any, confidence: Any, name: str) -> None:
    found = answer(lambda: tc.expectation_error(points, rows, MAPS[name], confidence, samples=200))
    if not isinstance(found, Refused):
        assert is_interval(found, reach(points, rows))
        assert math.isfinite(found.error)


@examples(6)
@given(
    st.sampled_from((1.0, 1e-9, 1e9, 0, math.nan, math.inf, "1", None)),
    tables(rows=150, columns=2),
    powers,
    confidences,
)
def test_a_size_is_found_or_not_by_name(epsilon: Any, rows: Any, p: Any, confidence: Any) -> None:
    found = answer(lambda: tc.size_for(epsilon, rows, p, confidence=confidence, samples=200, max_size=12, max_builds=2))
    if not isinstance(found, Refused):
        assert is_interval(found.certificate, reach(rows))
        assert found.size is None or found.certificate.upper <= epsilon


def test_the_maps_are_of_both_kinds() -> None:
    rows = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    points = rows[:4].clone()
    refused = {
        name
        for name, f in MAPS.items()
        if isinstance(answer(partial(tc.certify_pushforward, points, rows, f)), Refused)
    }
    assert {"wrong rows", "NaN", "no tensor", "numbers", "complex"} <= refused
    assert not {"relu", "column", "images"} & refused
