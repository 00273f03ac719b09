"""Two sources from one: rows to build on, and rows that stay unseen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from ..tensors import check_finite, is_real
from .convert import as_source
from .file_source import FileSource
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
        self.dimension = whole.dimension

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return self._whole._read(self._index[index.to(self._index.device)], generator)

    def _read_all(self, generator: Generator) -> Tensor:
        return self._whole._read(self._index, generator)


class FileSubset(FileSource):
    """Some rows of a file, read as a file is: in blocks, of which only these rows are kept.

    Args:
        whole: the file.
        index: (rows,) int64, which of its rows, ascending.
    """

    def __init__(self, whole: FileSource, index: Tensor) -> None:
        edges = torch.searchsorted(index, whole.starts)
        self._whole, self._index = whole, index
        self._numbers = (edges[1:] > edges[:-1]).nonzero().flatten()  # of the blocks that hold any
        self._any_order, self._by_row = whole._any_order, whole._by_row
        starts = torch.cat((edges[:1], edges[1:][self._numbers]))
        weights = None if whole._weights is None else whole._weights[index]
        assert whole.dimension is not None  # known from the start
        super().__init__(whole.path, starts, whole.dimension, weights)

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        numbers = self._numbers[wanted].tolist()
        for block, number, rows in zip(wanted, numbers, self._whole._blocks(numbers), strict=True):
            kept = self._index[int(self.starts[block]) : int(self.starts[block + 1])]
            chosen = rows[kept - self._whole.starts[number]]
            check_finite(chosen, self.path.name, kept)  # here, where a row's number in the file is known
            yield chosen

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return self._whole._read(self._index[index], generator)


def hold_out(
    source: Any, share: float = 0.5, *, seed: int | Generator = 0
) -> tuple[RandomAccessSource, RandomAccessSource]:
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
    parts = order[count:].sort().values, order[:count].sort().values
    if isinstance(whole, FileSource):
        return FileSubset(whole, parts[0]), FileSubset(whole, parts[1])
    return RowSubset(whole, parts[0]), RowSubset(whole, parts[1])
