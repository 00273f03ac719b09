"""Tables in files that may be larger than memory: read in blocks, sampled uniformly, in one pass or several."""

import abc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from ...tensors import check_count, check_finite
from ..randomness import permutation
from ..tables import POOL_ELEMENTS, RandomAccessSource


class FileSource(RandomAccessSource):
    """A table in a file, of which only blocks and a pool of random rows are held in memory.

    Draws and `materialize` are exact uniform samples, as of a table in memory. Formats that must be read in blocks
    serve draws from a pool: 2^25 numbers of random rows, for which the file is gone through once, and which is drawn
    afresh when it is used up or when another generator comes. `batches` goes through the file once, in random order of
    blocks where the format allows, and shuffles rows within such a pool: each pass is complete, but the rows of a
    file that is sorted and far larger than the pool come sorted still, unless its blocks are small.

    With weights, 16 bytes a row are held for them.

    Attributes:
        path: of the file, which must not change while it is used.
        starts: (blocks + 1,) number of the first row of each block, and of all rows.
    """

    on_disk = True
    _any_order = True  # whether blocks can be read in any order
    _titles: list[str] | None = None  # names of the features, where the file has names
    _by_row = False  # whether single rows can be read, so that draws need no pool

    def __init__(self, path: Path, starts: Tensor, dimension: int, weights: Any = None) -> None:
        size = int(starts[-1])
        if size == 0:
            raise ValueError(f"source: {path} has no rows; expected at least one.")
        super().__init__(size, weights)
        self.path, self.starts, self.dimension = path, starts, dimension
        self._pool: Tensor | None = None
        self._pool_generator: Generator | None = None

    @abc.abstractmethod
    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        """The blocks of these numbers, (rows, d) each, in that order; it ascends unless any order is allowed."""

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
        count = len(self.starts) - 1
        order = permutation(count, generator) if self._any_order else torch.arange(count, device="cpu")
        held: list[Tensor] = []
        numbers: list[Tensor] = []
        last = int(order[-1])
        for block, rows in zip(order.tolist(), self._blocks(order.tolist()), strict=True):
            index = torch.arange(int(self.starts[block]), int(self.starts[block + 1]), device="cpu")
            check_finite(rows, self.path.name, index, self._titles)
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
            check_finite(chosen, self.path.name, ordered[part], self._titles)
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
        return (*super()._parts(), f"file={self.path.name}")
