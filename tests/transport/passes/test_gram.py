"""The Gram matrix of lists of shares, against the dense product."""

import pytest
import torch
from torch import Tensor

from torchcoreset.transport.passes import truncated as overlap_module
from torchcoreset.transport.passes.truncated import CROWDED, gram_of


def entries(m: int, n: int, each: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Shares of `each` points at most a sample on average; some samples have none."""
    generator = torch.Generator().manual_seed(m + n + each)
    wanted = torch.rand(m, n, generator=generator) < each / n
    wanted[::7] = False
    rows, cols = wanted.nonzero(as_tuple=True)
    return rows, cols, torch.rand(len(rows), generator=generator, dtype=dtype)


def product(rows: Tensor, cols: Tensor, shares: Tensor, m: int, n: int) -> Tensor:
    table = torch.zeros(m, n, dtype=torch.float64)
    table[rows, cols] = shares.double()
    return table.t() @ table


every_density = pytest.mark.parametrize("each", [1, 5, CROWDED + 10, 60])
either_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@every_density
@either_dtype
def test_it_is_the_dense_product(each: int, dtype: torch.dtype) -> None:
    arguments = entries(300, 80, each, dtype)
    gram = gram_of(*arguments, (300, 80))
    assert gram.dtype == torch.float64
    assert gram.layout == torch.strided
    torch.testing.assert_close(
        gram, product(*arguments, 300, 80), rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-12
    )


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = entries(300, 80, 60, torch.float64)
    assert len(arguments[0]) >= CROWDED * 300
    whole = gram_of(*arguments, (300, 80))
    monkeypatch.setattr(overlap_module, "GRAM_BLOCK", 7 * 80)  # 7 samples each, the last block is shorter
    torch.testing.assert_close(gram_of(*arguments, (300, 80)), whole, rtol=1e-12, atol=1e-14)


@every_density
@either_dtype
def test_it_is_sparse_where_points_are_many(each: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_module, "DENSE_POINTS", 79)
    arguments = entries(300, 80, each, dtype)
    gram = gram_of(*arguments, (300, 80))
    assert gram.layout == torch.sparse_coo
    assert gram.is_coalesced()
    assert gram.dtype == torch.float64
    assert len(gram.values()) <= 80 * 80
    torch.testing.assert_close(
        gram.to_dense(), product(*arguments, 300, 80), rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-12
    )


@pytest.mark.parametrize("points", [8, 2048])
def test_no_entries_overlap_nowhere(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_module, "DENSE_POINTS", points)
    none = torch.zeros(0, dtype=torch.int64)
    gram = gram_of(none, none, torch.zeros(0), (5, 9))
    assert torch.equal(gram.to_dense() if gram.is_sparse else gram, torch.zeros(9, 9, dtype=torch.float64))
