"""Losses: right or a named error; and after an error, points, potential and optimizer are as they were."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import torchcoreset as tc
from tests.properties.draw import Refused, answer, as_read, bits, examples, same, tables, weights

LOSSES: dict[str, dict[str, Any]] = {
    "wasserstein": {},
    "p=1": {"p": 1},
    "exact": {"exact": True},
    "sinkhorn": {"divergence": "sinkhorn", "backend": "newton"},
    "sinkhorn, blur": {"divergence": "sinkhorn", "backend": "newton", "blur": 0.5, "p": 1},
    "energy": {"divergence": "energy"},
    "mmd": {"divergence": "mmd"},
    "mmd, blur": {"divergence": "mmd", "kernel": "laplace", "blur": 2.0},
    "online": {"online": True},
    "online, p=1": {"online": True, "p": 1, "forgetting": 0.1},
}
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "wasserstein": tc.wasserstein,
    "sinkhorn_divergence": lambda *a: tc.sinkhorn_divergence(*a, backend="newton"),
    "energy_distance": tc.energy_distance,
    "mmd": tc.mmd,
}


@st.composite
def measures(draw: st.DrawFn) -> tuple[Any, Any, Any, Any]:
    n, m, d = draw(st.integers(1, 6)), draw(st.integers(1, 14)), draw(st.integers(1, 3))
    x = draw(tables(n, d))
    return x, draw(tables(m, d)), draw(weights(n)), draw(weights(m))


@pytest.mark.parametrize("name", FUNCTIONS)
@examples(30)
@given(measures())
def test_a_functional_loss_is_finite_or_says_why(name: str, given: tuple[Any, Any, Any, Any]) -> None:
    before = bits(*given)
    found = answer(lambda: FUNCTIONS[name](*given))
    assert same(before, bits(*given))
    if isinstance(found, Refused):
        return
    assert found.dim() == 0 or name == "wasserstein"  # of clouds of three dimensions it is one for each
    found = found.sum()
    assert math.isfinite(found.item()), found
    x, y, _, _ = given
    size = max(float(as_read(t).double().abs().max()) for t in (x, y)) ** 2 + 1
    assert found.item() >= -1e-5 * size
    if isinstance(x, Tensor) and x.requires_grad:
        found.backward()
        assert bool(torch.isfinite(x.grad).all()), x.grad
        x.grad = None


@pytest.mark.parametrize("name", LOSSES)
@examples(12)
@given(st.data())
def test_the_state_is_unchanged_after_an_error(name: str, data: st.DataObject) -> None:
    columns, n = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 5))
    start = as_read(data.draw(tables(n, columns, faults=False))).float()
    if not bool(torch.isfinite(start).all()) or float(start.abs().max()) > 1e11:
        return
    points = torch.nn.Parameter(start.clone())
    loss = tc.CoresetLoss(**LOSSES[name])
    optimizer = torch.optim.Adam([points], lr=1e-3 * (1 + float(start.abs().max())))
    for _ in range(data.draw(st.integers(1, 5))):
        samples = data.draw(tables(columns=columns))
        rows = samples.shape[0] if isinstance(samples, Tensor) and samples.dim() else 7
        a = data.draw(weights(rows))
        b = data.draw(weights(n)) if data.draw(st.booleans()) else None
        state = copy.deepcopy((loss.state_dict(), optimizer.state_dict()))
        before = points.detach().clone()
        optimizer.zero_grad()

        def step(samples: Any = samples, a: Any = a, b: Any = b) -> Tensor:
            value = loss(points, samples, b, a).sum()
            value.backward()
            return value

        found = answer(step)
        assert torch.equal(points.detach(), before)
        if isinstance(found, Refused):
            if not isinstance(found.error, tc.ConvergenceError):
                after = loss.state_dict()
                assert list(after) == list(state[0])
                assert all(torch.equal(after[key], state[0][key]) for key in after)
            continue
        assert math.isfinite(found.item())
        assert points.grad is not None
        assert bool(torch.isfinite(points.grad).all())
        assert all(bool(torch.isfinite(t).all()) for t in loss.state_dict().values())
        optimizer.step()
