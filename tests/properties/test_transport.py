"""`transport` against an exact linear programme: whatever comes in, a right answer or an error that names it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import torchcoreset as tc
from tests.properties.draw import Refused, answer, as_read, bits, examples, same, tables, weights

ot = pytest.importorskip("ot", reason="needs POT: pip install POT")

powers = st.sampled_from((2, 1, 1.5, 3))


def shares(w: Any, rows: int) -> np.ndarray:
    if w is None:
        return np.full(rows, 1 / rows)
    w = np.asarray(torch.as_tensor(w).double())
    w = w / w.max()
    return w / w.sum()


def truth(x: Tensor, y: Tensor, p: float, b: Any, a: Any) -> tuple[float, float]:
    """W_p^p by an exact linear programme on rescaled costs, and the mean cost to the points' centre."""
    centre = x.median(0).values
    x, y = x - centre, y - centre
    unit = max(float(x.abs().max()), float(y.abs().max())) or 1.0
    u, v = (x / unit).numpy(), (y / unit).numpy()
    costs = np.sqrt(((v[:, None] - u[None]) ** 2).sum(2)) ** p
    mass, masses = shares(b, len(x)), shares(a, len(y))
    size = (masses @ (v**2).sum(1) + mass @ (u**2).sum(1)) ** (p / 2)
    top = costs.max() or 1.0
    value = ot.emd2(masses, mass, np.ascontiguousarray(costs / top), numItermax=1_000_000)
    return float(value) * float(top) * unit**p, float(size) * unit**p


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, Any, float, Any, Any]:
    n, m, d = draw(st.integers(1, 8)), draw(st.integers(1, 20)), draw(st.integers(1, 3))
    d_too = d if draw(st.integers(0, 15)) else d + 1
    x, y = draw(tables(n, d)), draw(tables(m, d_too))
    if draw(st.integers(0, 5)) == 0 and isinstance(x, Tensor):
        y = x.detach().clone()  # samples on points
    return x, y, draw(powers), draw(weights(n)), draw(weights(m))


@examples(150)
@given(problems(), st.booleans())
def test_transport_is_right_or_says_why(problem: tuple[Any, Any, float, Any, Any], exact: bool) -> None:
    x, y, p, b, a = problem
    before = bits(x, y, b, a)
    found = answer(lambda: tc.transport(x, y, p, b, a, exact=exact))
    assert same(before, bits(x, y, b, a))
    if isinstance(found, Refused):
        return
    work, samples = as_read(x), as_read(y)
    work_dtype = torch.float64 if exact or work.dtype == torch.float64 else torch.float32
    work, samples = work.double(), samples.to(work_dtype).double()
    value, size = truth(work, samples, p, b, a)
    eps = torch.finfo(work_dtype).eps
    margin = 8 * eps * size + (1e-8 + 64 * eps) * value + 1e-300
    assert found.lower - margin <= value <= found.value + margin, (found, value, size)
    assert found.lower <= found.value
    assert np.isfinite([found.value, found.lower, found.gap]).all()
    assert bool(torch.isfinite(found.potential).all())
    assert bool((found.plan.mass >= 0).all())
    np.testing.assert_allclose(found.plan.column_sums(), shares(b, len(work)), atol=1e-9)
    rows = torch.bincount(found.plan.rows, weights=found.plan.mass, minlength=len(samples))
    np.testing.assert_allclose(rows, shares(a, len(samples)), atol=1e-9)
    if found.status is tc.Status.CONVERGED:
        allowed = 1e-9 if exact else 1e-3
        assert found.value - value <= allowed * found.value + margin, (found, value)


@examples(40)
@given(tables(5, 2, faults=False), tables(16, 2, faults=False), powers, st.integers(-20, 20))
def test_a_power_of_two_scales_bit_for_bit(x: Any, y: Any, p: float, power: int) -> None:
    x, y = as_read(x).double(), as_read(y).double()
    if not bool(torch.isfinite(x).all() & torch.isfinite(y).all()) or max(x.abs().max(), y.abs().max()) > 1e10:
        return
    s = 2.0**power
    one, other = tc.transport(x, y, p, exact=True), tc.transport(x * s, y * s, p, exact=True)
    assert other.value == pytest.approx(one.value * s**p, rel=1e-8)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(power + 20))
    again = tc.transport(x, y[order], p, exact=True)
    assert again.value == pytest.approx(one.value, rel=1e-8)
