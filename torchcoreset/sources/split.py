"""Rows of a source split in two, to build on and to certify on; and its rows read without replacement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from ..tensors import check_finite, is_real
from .convert import as_source
from .files import BlockSource
from .pushforward import Pushforward
from .randomness import make_generator, permutation
from .source import Source
from .tables import RandomAccessSource, RepeatedRows

BATCH = 1 << 16  # rows read at once


class RowSubset(RandomAccessSource):
    """Some rows of a table or dataset, read from it when needed.

    Args:
        whole: the table or dataset.
        index: (rows,) int64, which of its rows.
    """

    def __init__(self, whole: RandomAccessSource, index: Tensor) -> None:
        super().__init__(len(index), _weights_of(whole, index))
        self._whole, self._index = whole, index
        self.dimension, self.units = whole.dimension, whole.units

    def numbers_of(self, index: Tensor) -> Tensor:
        return self._whole.numbers_of(self._index[index])

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return self._whole._read(self._index[index.to(self._index.device)], generator)

    def _read_all(self, generator: Generator) -> Tensor:
        return self._whole._read(self._index, generator)


class FileSubset(BlockSource):
    """Some rows of a file, read as a file is: in blocks, of which only these rows are kept.

    Args:
        whole: the file.
        index: (rows,) int64, which of its rows, ascending.
    """

    def __init__(self, whole: BlockSource, index: Tensor) -> None:
        edges = torch.searchsorted(index, whole.starts)
        self._whole, self._index = whole, index
        self._numbers = (edges[1:] > edges[:-1]).nonzero().flatten()  # of the blocks that hold any
        starts = torch.cat((edges[:1], edges[1:][self._numbers]))
        assert whole.dimension is not None  # known from the start
        super().__init__(whole.name, starts, whole.dimension, _weights_of(whole, index))
        self._by_row, self.columns = whole._by_row, whole.columns

    def numbers_of(self, index: Tensor) -> Tensor:
        return self._whole.numbers_of(self._index[index])

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        numbers = self._numbers[wanted].tolist()
        for block, number, rows in zip(wanted, numbers, self._whole._blocks(numbers), strict=True):
            kept = self._index[int(self.starts[block]) : int(self.starts[block + 1])]
            chosen = rows[kept - self._whole.starts[number]]
            check_finite(chosen, self.name, kept, self.columns)  # here, where a row's number in the file is known
            yield chosen

    def _order(self, generator: Generator) -> list[int]:
        places = {number: place for place, number in enumerate(self._numbers.tolist())}
        return [places[number] for number in self._whole._order(generator) if number in places]

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return self._whole._read(self._index[index], generator)


def hold_out(source: Any, share: float = 0.5, *, seed: int | Generator = 0) -> tuple[Source, Source]:
    """Split a table or dataset at random: rows to build a coreset on, and fresh rows to certify it on.

    Rows keep their weights, and those of weight zero are left out before the split. Rows with counts
    (`as_source(..., weights_are="counts")`) are split as the single rows that they stand for.

    Args:
        source: a tensor, array, DataFrame or map-style dataset, a `Source` of one, or a `Pushforward` of that.
        share: part of the rows that is held out, in (0, 1). Half is a good default: the coreset converges faster in
            the number of rows than the certificate does.
        seed: int or generator of the split.

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
    if isinstance(whole, Pushforward):
        build, fresh = hold_out(whole.source, share, seed=seed)
        return whole.over(build), whole.over(fresh)
    if not isinstance(whole, RandomAccessSource):
        raise TypeError(
            f"source: got {whole!r}; expected a table or a map-style dataset, whose rows can be picked. "
            "A distribution or callable gives fresh samples anyway; split the data behind a loader."
        )
    order = permutation(whole.size, make_generator(seed))
    if whole._weights is not None:
        order = order[whole._weights[order] > 0]
    count = round(share * len(order))
    if not 0 < count < len(order):
        raise ValueError(
            f"share: got {share!r} of {len(order)} rows; expected at least one row in either part. "
            "Take more rows or another share."
        )
    return _picked(whole, order[count:].sort().values), _picked(whole, order[:count].sort().values)


def once(source: Source, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
    """At most `limit` rows of a finite source in random order, none twice, with their weights.

    What `materialize` gives of a weighted source, if there is a limit, is drawn with replacement; what it gives of rows
    with counts has all copies of a row in one.

    Returns:
        Rows, (rows, d), and their weights, (rows,) in float64 summing to 1, or None for equal weights.
    """
    if source.weights_are is None:
        rows, _ = source.materialize(limit, generator)
        return rows[permutation(len(rows), generator).to(rows.device)], None
    pieces: list[Tensor] = []
    masses: list[Tensor] = []
    missing = source.size if limit is None else limit
    assert missing is not None  # weights are those of a table
    for rows, weights in source.batches(min(missing, BATCH), generator):
        used = torch.ones(len(rows), dtype=torch.bool, device="cpu") if weights is None else weights > 0
        pieces.append(rows[used][:missing])
        masses.append((rows.new_ones(len(rows)).double() if weights is None else weights)[used][:missing])
        missing -= len(pieces[-1])
        if missing <= 0:
            break
    mass = torch.cat(masses)
    return torch.cat(pieces), None if source.weights_are == "counts" else mass / mass.sum()


def _picked(whole: RandomAccessSource, index: Tensor) -> RandomAccessSource:
    """Some rows of a table, by their numbers, ascending."""
    picked: RandomAccessSource
    if isinstance(whole, RepeatedRows):
        picked = whole.picked(index)
    else:
        picked = FileSubset(whole, index) if isinstance(whole, BlockSource) else RowSubset(whole, index)
    picked.metric, picked.joint = whole.metric, whole.joint
    return picked


def _weights_of(whole: RandomAccessSource, index: Tensor) -> Tensor | None:
    """The weights of some rows, on the scale of those given."""
    return None if whole._weights is None else whole._weights[index] * whole.mass
