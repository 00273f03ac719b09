"""Two sources from one: rows to build on, and rows that stay unseen."""

from __future__ import annotations

from typing import Any

from torch import Generator, Tensor

from ..tensors import is_real
from .convert import as_source
from .random_access import RandomAccessSource
from .randomness import make_generator, permutation


class RowSubset(RandomAccessSource):
    """Some rows of a table or dataset, read from it when needed.

    Args:
        whole: the table or dataset.
        index: (rows,) int64, which of its rows.
    """

    def __init__(self, whole: RandomAccessSource, index: Tensor) -> None:
        super().__init__(len(index), None if whole._weights is None else whole._weights[index])
        self._whole, self._index = whole, index
        self.dimension, self.on_disk = whole.dimension, whole.on_disk

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return self._whole._read(self._index[index.to(self._index.device)], generator)

    def _read_all(self, generator: Generator) -> Tensor:
        return self._whole._read(self._index, generator)


def hold_out(source: Any, share: float = 0.5, *, seed: int | Generator = 0) -> tuple[RowSubset, RowSubset]:
    """Split a table or dataset at random: rows to build a coreset on, and fresh rows to certify it on.

    Args:
        source: a tensor, array, DataFrame or map-style dataset, or a `Source` of one.
        share: part of the rows that is held out, in (0, 1). Half is a fair start: the coreset converges faster in the
            number of rows than the certificate does.
        seed: int or generator; which split.

    Returns:
        (to build on, held out): two sources without a common row.

    Raises:
        TypeError, ValueError: the source has no rows that can be picked, or too few of them.

    Example:
        >>> import torch, torchcoreset as tc
        >>> build, fresh = tc.hold_out(torch.randn(100, 2, generator=torch.Generator().manual_seed(0)), share=0.2)
        >>> build.size, fresh.size
        (80, 20)
    """
    if not is_real(share) or not 0 < share < 1:
        raise ValueError(f"share: got {share!r}; expected a part of the rows in (0, 1), such as 0.5.")
    whole = as_source(source)
    if not isinstance(whole, RandomAccessSource):
        raise TypeError(
            f"source: got {whole!r}; expected a table or a map-style dataset, whose rows can be picked. "
            "A distribution or callable gives fresh samples anyway; split the data behind a loader."
        )
    count = round(share * whole.size)
    if not 0 < count < whole.size:
        raise ValueError(
            f"share: got {share!r} of {whole.size} rows; expected at least one row in either part. "
            "Take more rows or another share."
        )
    order = permutation(whole.size, make_generator(seed))
    return RowSubset(whole, order[count:].sort().values), RowSubset(whole, order[:count].sort().values)
