"""The Gram matrix of lists of shares, against the dense product."""

import pytest
import torch
from torch import Tensor

from torchcoreset.transport.passes import gram as gram_module
from torchcoreset.transport.passes.gram import gram_of, gram_of_few

Lists = tuple[Tensor, Tensor, Tensor, Tensor]


def entries(m: int, n: int, each: int, dtype: torch.dtype) -> Lists:
    """Offsets, points and shares of `each` points at most a sample on average, some without any; and which to keep."""
    generator = torch.Generator().manual_seed(m + n + each)
    wanted = torch.rand(m, n, generator=generator) < each / n
    wanted[::7] = False
    rows, cols = wanted.nonzero(as_tuple=True)
    offsets = torch.searchsorted(rows, torch.arange(m + 1))
    order = torch.randperm(len(rows), generator=generator)
    order = order[torch.argsort(rows[order], stable=True)]  # points of a sample may be in any order
    kept = torch.rand(len(rows), generator=generator) < 0.9
    return offsets, cols[order].int(), torch.rand(len(rows), generator=generator, dtype=dtype), kept


def product(lists: Lists, n: int, stride: int = 1) -> Tensor:
    offsets, cols, shares, kept = lists
    m = len(offsets) - 1
    table = torch.zeros(m, n, dtype=torch.float64)
    rows = torch.arange(m).repeat_interleave(offsets.diff())
    table[rows[kept], cols[kept].long()] = shares[kept].double()
    return table[::stride].t() @ table[::stride] * stride


every_density = pytest.mark.parametrize("each", [1, 5, 30, 75])
either_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
every_stride = pytest.mark.parametrize("stride", [1, 4])


@every_density
@either_dtype
@every_stride
def test_it_is_the_dense_product(each: int, dtype: torch.dtype, stride: int) -> None:
    lists = entries(300, 80, each, dtype)
    gram = gram_of(*lists, 80, stride)
    assert gram.dtype == torch.float64
    assert gram.layout == torch.strided
    torch.testing.assert_close(
        gram, product(lists, 80, stride), rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-12
    )


@every_density
@either_dtype
def test_so_it_is_of_few_points(each: int, dtype: torch.dtype) -> None:
    offsets, cols, shares, _ = entries(300, 80, each, dtype)
    cols = torch.cat([some.sort().values for some in cols.split(offsets.diff().tolist())])
    lists = offsets, cols, shares, torch.ones_like(cols, dtype=torch.bool)
    torch.testing.assert_close(gram_of_few(offsets, cols, shares, 80), product(lists, 80), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stride", [1, 5])
def test_blocks_change_nothing(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_module, "CROWDED", 0)
    lists = entries(300, 80, 60, torch.float64)
    whole = gram_of(*lists, 80, stride)
    monkeypatch.setattr(gram_module, "BLOCK", 7 * 80)  # 7 samples each, the last block is shorter
    torch.testing.assert_close(gram_of(*lists, 80, stride), whole, rtol=1e-12, atol=1e-14)


@every_density
@either_dtype
@every_stride
@pytest.mark.parametrize("compiled", [True, False])
def test_it_is_sparse_where_points_are_many(
    each: int, dtype: torch.dtype, stride: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gram_module, "DENSE_POINTS", 79)
    lists = entries(300, 80, each, dtype)
    gram = gram_of(*lists, 80, stride) if compiled else gram_module._by_torch(*lists, 80, stride)
    assert gram.layout == torch.sparse_csr
    assert gram.dtype == torch.float64
    assert len(gram.values()) <= 80 * 80
    for row in gram.col_indices().split(gram.crow_indices().diff().tolist()):
        assert bool((row.diff() > 0).all())
    torch.testing.assert_close(
        gram.to_dense(), product(lists, 80, stride), rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-12
    )


@pytest.mark.parametrize("points", [8, 2048])
def test_threads_change_no_bit(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_module, "DENSE_POINTS", points)
    monkeypatch.setattr(gram_module, "PART", 7)
    monkeypatch.setattr(gram_module, "WORTH", 1)
    lists, found = entries(300, 80, 20, torch.float32), []
    for number in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda number=number: number)
        found.append(gram_of(*lists, 80).to_dense())
    assert torch.equal(*found)


@pytest.mark.parametrize("points", [8, 2048])
def test_no_entries_overlap_nowhere(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_module, "DENSE_POINTS", points)
    none = torch.zeros(0, dtype=torch.int32)
    gram = gram_of(torch.zeros(6, dtype=torch.int64), none, torch.zeros(0), none.bool(), 9)
    assert torch.equal(gram.to_dense(), torch.zeros(9, 9, dtype=torch.float64))
