"""The few reductions that torch cannot do deterministically on a GPU, done in another way when it is asked to.

Under `torch.use_deterministic_algorithms(True)` torch raises for these on CUDA: `bincount` with weights adds in any
order, `median` and `kthvalue` return any of equal indices, `cumsum` splits its sums as it likes. `index_add_` and
`sort` have deterministic forms, which that mode selects. Elsewhere the faster ones are used, with the same results up
to rounding, and without rounding on the CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mass_by_cell(cell: Tensor, mass: Tensor, count: int) -> Tensor:
    """Sum of the masses (m,) of each cell (m,) in 0..count - 1, (count,) in the dtype of the masses."""
    if _strict(mass):
        return mass.new_zeros(count).index_add_(0, cell, mass)
    return torch.bincount(cell, mass, minlength=count)


def running_sum(values: Tensor) -> Tensor:
    """v_0, v_0 + v_1, ..., (m,)."""
    return values.cpu().cumsum(0).to(values.device) if _strict(values) else values.cumsum(0)


def kth_smallest(values: Tensor, k: int) -> Tensor:
    """The k-th smallest of the values (m,), counted from 1; 0-d."""
    return values.sort().values[k - 1] if _strict(values) else values.kthvalue(k).values


def column_medians(rows: Tensor) -> Tensor:
    """Median of each column of finite rows (m, d), the lower of two; (d,)."""
    middle = (len(rows) - 1) // 2
    if rows.is_cpu and rows.dtype in (torch.float32, torch.float64):  # of columns NumPy takes half the time (measured)
        columns = rows.detach().numpy().copy()
        columns.partition(middle, 0)
        return torch.from_numpy(columns[middle].copy())
    return rows.sort(0).values[middle] if _strict(rows) else rows.median(0).values


def _strict(tensor: Tensor) -> bool:
    return tensor.is_cuda and torch.are_deterministic_algorithms_enabled()
