"""The Gram matrix of lists of shares, from which the curvature comes: sum_k s_ki s_kj over samples k.

    s_ki share of point i in sample k, times the root of the sample's weight      e entries of all lists

Up to DENSE_POINTS points it is dense, else sparse CSR. On the CPU it is compiled: torch's product of sparse matrices
takes ten times as long (measured).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from ..compiled import TYPES, call, function

Found = TypeVar("Found")

DENSE_POINTS = 2048  # points beyond which n x n numbers are neither kept nor factorised
CROWDED = 60  # shares a sample from which a product of dense blocks is faster (measured)
BLOCK = 1 << 22  # elements of a block
PART = 64  # rows that a thread takes at a time
WORTH = 1 << 20  # pairs of entries from which a thread is worth starting: a millisecond


def gram_of(offsets: Tensor, cols: Tensor, shares: Tensor, kept: Tensor, n: int, stride: int = 1) -> Tensor:
    """The Gram matrix (n, n), float64, of the entries that are `kept` (e,) bool; every stride-th sample stands for all.

    Sample k has the entries offsets[k] to offsets[k + 1] - 1 of `cols` (e,) int32, points, and of `shares` (e,).
    """
    if not shares.is_cpu:
        return _by_torch(offsets, cols, shares, kept, n, stride)
    count = int(kept.sum())
    if n <= DENSE_POINTS and count >= CROWDED * (len(offsets) - 1):
        return _of_crowded(offsets, cols, shares, kept, n, stride)
    kind, wide = TYPES[shares.dtype], shares.element_size() // 4
    entries, of_points = cols.new_empty((count + 1) * 2 * wide), cols.new_empty(count * (2 + wide))
    starts, pairs = offsets.new_empty(n + 1), offsets.new_empty(n)
    sort = function(f"sort_entries_{kind}", "nnn" + 8 * "*")
    call(sort, len(offsets) - 1, n, stride, offsets, kept, cols, shares, entries, starts, of_points, pairs)
    if n <= DENSE_POINTS:
        gram = pairs.new_zeros(n, n, dtype=torch.float64)
        rows = function(f"dense_rows_{kind}", "nnn" + 4 * "*")
        _in_parts(lambda first, last: call(rows, first, last, n, entries, starts, of_points, gram), pairs)
        return gram.mul_(stride)
    rows = function(f"sparse_rows_{kind}", "nnn" + 8 * "*" + ">n")
    counts = pairs.new_zeros(n + 1, dtype=torch.int32)

    def work(first: int, last: int) -> tuple[Tensor, Tensor]:
        room = int(pairs[first:last].clamp(max=n).sum())
        found, values = counts.new_empty(room), pairs.new_empty(room, dtype=torch.float64)
        space = (values.new_zeros(n), pairs.new_zeros(-(-n // 64)), counts[first + 1 : last + 1])
        used = call(rows, first, last, n, entries, starts, of_points, *space, found, values)
        return found[:used].clone(), values[:used].clone()

    points, values = (torch.cat(parts) for parts in zip(*_in_parts(work, pairs), strict=True))
    return csr(counts.cumsum(0, dtype=torch.int32), points, values.mul_(stride))


def gram_of_few(offsets: Tensor, cols: Tensor, shares: Tensor, n: int) -> Tensor:
    """The same of all entries, on the CPU, for so few points that n x n numbers stay in cache."""
    gram, row = (shares.new_zeros(size, dtype=torch.float64) for size in ((n, n), n))
    add = function(f"few_points_{TYPES[shares.dtype]}", "nn*****")
    call(add, len(offsets) - 1, n, offsets, cols, shares, row, gram)
    return gram


def csr(offsets: Tensor, cols: Tensor, values: Tensor) -> Tensor:
    """A sparse matrix (n, n), without torch's warning that the format may change."""
    n = len(offsets) - 1
    with _formats_allowed():
        return torch.sparse_csr_tensor(offsets, cols, values, (n, n), device=values.device, check_invariants=False)


def _of_crowded(offsets: Tensor, cols: Tensor, shares: Tensor, kept: Tensor, n: int, stride: int) -> Tensor:
    """The same where samples have many entries: of blocks of them, sparse by dense."""
    gram = shares.new_zeros(n, n, dtype=torch.float64)
    size = max(1, BLOCK // n // stride) * stride
    for start in range(0, len(offsets) - 1, size):
        ends = offsets[start : start + size + 1]
        some = slice(int(ends[0]), int(ends[-1]))
        block = _picked(ends - ends[0], cols[some], shares[some], kept[some], n, stride)
        gram += torch.sparse.mm(block.t(), block.to_dense())
    return gram.mul_(stride)


def _in_parts(work: Callable[[int, int], Found], pairs: Tensor) -> list[Found]:
    """The work on each part of the rows, from one to another, by as many threads as torch uses."""
    n = len(pairs)
    firsts = range(0, n, PART)
    lasts = [min(first + PART, n) for first in firsts]
    threads = min(torch.get_num_threads(), len(firsts), int(pairs.sum()) // WORTH)
    if threads < 2:
        return list(map(work, firsts, lasts))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, firsts, lasts))


def _by_torch(offsets: Tensor, cols: Tensor, shares: Tensor, kept: Tensor, n: int, stride: int) -> Tensor:
    split = _picked(offsets, cols, shares, kept, n, stride)
    with _formats_allowed():
        pairs: Tensor = torch.sparse.mm(split.t(), split).double() * stride
        return pairs.to_dense() if n <= DENSE_POINTS else pairs.coalesce().to_sparse_csr()


def _picked(offsets: Tensor, cols: Tensor, shares: Tensor, kept: Tensor, n: int, stride: int) -> Tensor:
    """The entries as a sparse matrix; they are in order and inside, so that nothing has to be checked."""
    m = len(offsets) - 1
    rows = torch.arange(m, device=offsets.device).repeat_interleave(offsets.diff())
    index = (kept & (rows % stride == 0)).nonzero()[:, 0]
    places = torch.stack((rows[index] // stride, cols[index].long()))
    return torch.sparse_coo_tensor(
        places, shares[index], (-(-m // stride), n), device=shares.device, is_coalesced=True, check_invariants=False
    )


@contextmanager
def _formats_allowed() -> Iterator[None]:
    """Without torch's warning of a format that may change."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
        yield
