"""Tables that may be larger than memory: read in blocks, sampled uniformly, in one pass or several."""

import abc
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from ...tensors import check_count, check_finite, exact_up_to
from ..layout import beside
from ..randomness import permutation
from ..tables import POOL_ELEMENTS, RandomAccessSource
from .columns import Feature, rows_of, titles_of
from .reader import Reader

PAGE = 4096  # bytes that the system reads for a single row, at least


class BlockSource(RandomAccessSource):
    """A table read in blocks, of which only blocks and a pool of random rows are held in memory.

    Draws and `materialize` are exact uniform samples, as of a table in memory. Formats that must be read in blocks
    serve draws from a pool: 2^25 numbers of random rows, for which the file is gone through once, and which is drawn
    afresh when it is used up or when another generator comes. `batches` goes through the file once, in random order of
    blocks where the format allows, and shuffles rows within such a pool: each pass is complete, but the rows of a
    file that is sorted and far larger than the pool come sorted still, unless its blocks are small.

    With weights, 16 bytes a row are held for them.

    Attributes:
        name: of the file or files, which must not change while they are used.
        starts: (blocks + 1,) number of the first row of each block, and of all rows.
        columns: (d,) names of the features.
    """

    on_disk = True
    columns: tuple[str, ...] = ()
    _by_row = False  # whether single rows can be read, so that draws need no pool

    def __init__(self, name: str, starts: Tensor, dimension: int, weights: Any = None) -> None:
        super().__init__(int(starts[-1]), weights)
        self.name, self.starts, self.dimension = name, starts, dimension
        self._pool: Tensor | None = None
        self._pool_generator: Generator | None = None

    @property
    def near(self) -> int:
        return int(self.starts[1])

    @abc.abstractmethod
    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        """The blocks of these numbers, (rows, d) each, in that order, which is ascending or one of `_order`."""

    @abc.abstractmethod
    def _order(self, generator: Generator) -> list[int]:
        """All blocks, in random order as far as they can be read so."""

    def draw(self, count: int, generator: Generator) -> Tensor:
        check_count(count, "count")
        pool_rows = min(self.size, self._pool_rows())
        if self._by_row or count >= pool_rows:
            return super().draw(count, generator)
        if self._pool is None or self._pool_generator is not generator or len(self._pool) < count:
            # What is left of a pool may repeat in the next one, so one draw never takes from two.
            self._pool = None
            self._pool, self._pool_generator = super().draw(pool_rows, generator), generator
        drawn, self._pool = self._pool[:count].clone(), self._pool[count:]
        return drawn

    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        check_count(batch_size, "batch_size")
        for index, rows in self._shuffled(batch_size, generator):
            yield rows, None if self._weights is None else self._weights[index]

    def _shuffled(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass: pools of blocks, each shuffled and cut into batches; what is left goes into the next pool."""
        order = self._order(generator)
        held: list[Tensor] = []
        numbers: list[Tensor] = []
        last = order[-1]
        for block, rows in zip(order, self._blocks(order), strict=True):
            index = torch.arange(int(self.starts[block]), int(self.starts[block + 1]), device="cpu")
            check_finite(rows, self.name, index, self.columns)
            held.append(rows)
            numbers.append(index)
            if block != last and sum(map(len, held)) < max(batch_size, self._pool_rows()):
                continue
            pool, index = torch.cat(held), torch.cat(numbers)
            shuffle = permutation(len(pool), generator)
            whole = len(pool) if block == last else len(pool) - len(pool) % batch_size
            for start in range(0, whole, batch_size):
                chosen = shuffle[start : min(start + batch_size, whole)]
                yield index[chosen], pool[chosen]
            held, numbers = [pool[shuffle[whole:]]], [index[shuffle[whole:]]]

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        ordered, order = index.sort()
        edges = torch.searchsorted(ordered, self.starts)
        wanted = (edges[1:] > edges[:-1]).nonzero().flatten().tolist()
        found: Tensor | None = None
        for block, rows in zip(wanted, self._blocks(wanted), strict=True):
            part = slice(int(edges[block]), int(edges[block + 1]))
            chosen = rows[ordered[part] - self.starts[block]]
            check_finite(chosen, self.name, ordered[part], self.columns)
            if found is None:
                found = chosen.new_empty(len(index), chosen.shape[1])
            found[order[part]] = chosen
        assert found is not None  # an index is never empty
        return found

    def _read_all(self, generator: Generator) -> Tensor:
        return self._read(torch.arange(self.size, device="cpu"), generator)

    def _pool_rows(self) -> int:
        assert self.dimension is not None  # known from the start
        return max(1, POOL_ELEMENTS // self.dimension)

    def __getstate__(self) -> dict[str, Any]:
        """Without the pool: a copy draws its own."""
        return {**self.__dict__, "_pool": None, "_pool_generator": None}

    def _parts(self) -> tuple[str, ...]:
        return (*super()._parts(), f"file={self.name}")


class FileSource(BlockSource):
    """A table in a file, or in several, or in the hands of a library that reads it in blocks.

    Rows are float64 if a column holds whole numbers that torch's default dtype cannot hold, or if the table does not
    say how large they are.

    Args:
        reader: of the table.
        features: the columns that make the rows.
        weights: (rows,); None for equal weights.
        flatten: read images as vectors.
    """

    def __init__(
        self, reader: Reader, features: Sequence[Feature], weights: Any = None, *, flatten: bool = False
    ) -> None:
        self._reader, self._features, self._flatten = reader, tuple(features), flatten
        self._names = [feature.name for feature in self._features]
        head = rows_of(next(iter(reader.blocks([0], self._names))), self._features, reader.name, flatten)
        starts = torch.tensor([0, *reader.lengths], device="cpu").cumsum(0)
        super().__init__(reader.name, starts, head.shape[1], weights)
        self._by_row = reader.by_row
        small = reader.small(self._names, exact_up_to(torch.get_default_dtype()))
        self._dtype = head.dtype if small else torch.float64
        self.columns = titles_of(reader, self._features, head.shape[1])

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        found = self._reader.blocks(wanted, self._names)
        for number in wanted:
            block, expected = next(found, None), int(self.starts[number + 1] - self.starts[number])
            rows = None if block is None else rows_of(block, self._features, self.name, self._flatten)
            if rows is None or len(rows) != expected:
                raise ValueError(
                    f"source: {self.name} has changed since it was opened: got {0 if rows is None else len(rows)} rows "
                    f"where it had {expected}. Open it anew, or save or collect it first."
                )
            yield rows.to(self._dtype)

    def _order(self, generator: Generator) -> list[int]:
        return self._reader.order(generator)

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        width = self._dtype.itemsize * (self.dimension or 1)
        many = len(index) > len(self.starts) and len(index) * max(PAGE, width) > self.size * width
        if not self._by_row or many:  # blocks are read whole as fast
            return super()._read(index, generator)
        ordered, order = index.sort()
        rows = rows_of(self._reader.take(ordered, self._names), self._features, self.name, self._flatten).to(
            self._dtype
        )
        check_finite(rows, self.name, ordered, self.columns)
        found = torch.empty_like(rows)
        found[order] = rows
        return found


class LabeledBlocks(BlockSource):
    """Joint rows of a table on disk: columns of labels, held in memory, after its features.

    Args:
        whole: the features; its weights are those of the joint rows.
        columns: (rows, t) what stands after them.
    """

    def __init__(self, whole: BlockSource, columns: Tensor) -> None:
        assert whole.dimension is not None  # known from the start
        weights = None if whole._weights is None else whole._weights * whole.mass
        super().__init__(whole.name, whole.starts, whole.dimension + columns.shape[1], weights)
        self._whole, self._columns = whole, columns
        self._by_row, self.columns = whole._by_row, whole.columns

    def numbers_of(self, index: Tensor) -> Tensor:
        return self._whole.numbers_of(index)

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        for block, rows in zip(wanted, self._whole._blocks(wanted), strict=True):
            yield beside(rows, self._columns[int(self.starts[block]) : int(self.starts[block + 1])], self.name)

    def _order(self, generator: Generator) -> list[int]:
        return self._whole._order(generator)

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return beside(self._whole._read(index, generator), self._columns[index], self.name)
