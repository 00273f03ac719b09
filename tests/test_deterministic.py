"""Deterministic forms of reductions: the same results as the fast ones, and equal bits on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import torchcoreset as tc
from torchcoreset import deterministic
from torchcoreset.deterministic import column_medians, kth_smallest, mass_by_cell, running_sum


@contextmanager
def deterministic_mode() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def results(dtype: torch.dtype) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    values = torch.randn(1000, generator=g, dtype=torch.float64).to(dtype)
    cell = torch.randint(7, (1000,), generator=g)
    return [
        mass_by_cell(cell, values.square(), 9),
        running_sum(values),
        kth_smallest(values, 1),
        kth_smallest(values, 333),
        column_medians(values.reshape(100, 10)),
        column_medians(values[:999].reshape(333, 3)),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_forms_agree(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = results(dtype)
    monkeypatch.setattr(deterministic, "_strict", lambda _: True)
    strict = results(dtype)
    for one, other in zip(fast, strict, strict=True):
        assert one.dtype == other.dtype == dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=0)
    assert all(torch.equal(one, other) for one, other in zip(fast[2:], strict[2:], strict=True))


def test_the_fast_form_is_taken_on_the_cpu() -> None:
    with deterministic_mode():
        assert not deterministic._strict(torch.zeros(3))


@pytest.mark.gpu
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("algorithm", ["fixed_point", "sgd", "gradient"])
def test_a_build_on_the_gpu_runs_and_gives_equal_bits(algorithm: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case A33. cuBLAS reads its variable when it starts, so set it for the whole run if this raises."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    y = torch.randn(2000, d, generator=torch.Generator().manual_seed(0)).cuda()
    w = torch.rand(2000, generator=torch.Generator().manual_seed(1))
    with deterministic_mode():
        points = [
            tc.build_coreset(y, 16, algorithm=algorithm, sample_weights=w, steps=20, init="kmeans++").coreset.points
            for _ in range(2)
        ]
    assert torch.equal(*points)
