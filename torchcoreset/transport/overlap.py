"""How much two points want the same samples: the off-diagonal part of the Hessian, from the shares that are not zero.

chi_ki share of sample k that goes to point i      overlap_ij = sum_k a_k chi_ki chi_kj
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

DENSE_POINTS = 2048  # points beyond which n x n numbers are neither kept nor factorised
# Shares a sample from which a sparse by dense product wins. Measured, (n, m) = (1000, 20k), milliseconds: 12 shares 31
# sparse by sparse and 25 + 55 with a dense factor, 60 shares 636 and 177 + 52.
CROWDED = 20
BLOCK = 1 << 22  # elements of the dense factor


def overlap_of(rows: Tensor, cols: Tensor, shares: Tensor, shape: tuple[int, int]) -> Tensor:
    """The overlap of some entries.

    Args:
        rows: (entries,) samples, ascending.
        cols: (entries,) points.
        shares: (entries,) times the root of the sample's weight.
        shape: (m, n).

    Returns:
        (n, n) float64, dense up to DENSE_POINTS points, else sparse COO and coalesced.
    """
    m, n = shape
    if n > DENSE_POINTS or len(rows) < CROWDED * m:
        split = _matrix(rows, cols, shares, shape)
        with warnings.catch_warnings():  # of a format that torch takes on the way
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
            pairs: Tensor = torch.sparse.mm(split.t(), split).double()
        return pairs.coalesce() if n > DENSE_POINTS else pairs.to_dense()
    overlap: Tensor = shares.new_zeros(n, n, dtype=torch.float64)
    for start in range(0, m, BLOCK // n):
        count = min(BLOCK // n, m - start)
        first, last = torch.searchsorted(rows, rows.new_tensor([start, start + count])).tolist()
        block = _matrix(rows[first:last] - start, cols[first:last], shares[first:last], (count, n))
        overlap += torch.sparse.mm(block.t(), block.to_dense())
    return overlap


def _matrix(rows: Tensor, cols: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse matrix; entries are in order and inside, so that nothing has to be checked."""
    index = torch.stack((rows, cols))
    return torch.sparse_coo_tensor(
        index, values, shape, device=values.device, is_coalesced=True, check_invariants=False
    )
