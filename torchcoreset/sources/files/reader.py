"""A table of named columns that is read in blocks, wherever it lies; and several of them, one after another."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from ...archives import pyarrow
from ..randomness import permutation

Kind = Literal["number", "whole", "bool", "vector", "text", "date", "other"]
NUMBERS: set[Kind] = {"number", "whole", "bool"}  # which may stand for each other


class Reader(abc.ABC):
    """A table that is read in blocks, which must not change while it is used.

    Attributes:
        name: what messages call it.
        kinds: the columns in their order, and what they hold: "number" (floats), "whole" (integers), "bool", "vector"
            (numbers of one length a row), "text" (also categories), "date" (also times), "other".
        index: columns that the table's own metadata, or their missing name, tell to be row labels, not data.
        any_order: whether blocks can be read in any order; if not, in ascending order.
        by_row: whether `take` reads single rows.
        findings: what had to be guessed to read the table, in words.
    """

    name: str
    kinds: dict[str, Kind]
    index: tuple[str, ...] = ()
    any_order: bool = True
    by_row: bool = False
    findings: tuple[str, ...] = ()

    @property
    @abc.abstractmethod
    def lengths(self) -> Sequence[int]:
        """Rows of each block; none is empty."""

    @abc.abstractmethod
    def blocks(self, wanted: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        """These columns of these blocks: each an Arrow table or record batch, or an array (rows, columns)."""

    def take(self, index: Tensor, columns: Sequence[str]) -> Any:
        """These columns of single rows by their numbers, ascending, as an array."""
        raise NotImplementedError(f"{self.name} is read in blocks")

    def column(self, name: str) -> Any:
        """One column, whole, as an Arrow array; of any kind, also where its first values are whole numbers."""
        arrow = pyarrow("pyarrow", self.name)
        parts = [block.column(name) for block in self.blocks(range(len(self.lengths)), [name])]
        chunks = [chunk for part in parts for chunk in (part.chunks if hasattr(part, "chunks") else [part])]
        return arrow.chunked_array(chunks)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """One column of numbers, whole."""
        return np.asarray(self.column(name), dtype=np.float64)

    def order(self, generator: Generator) -> list[int]:
        """All blocks, in random order as far as the format allows."""
        count = len(self.lengths)
        return permutation(count, generator).tolist() if self.any_order else list(range(count))

    def small(self, columns: Sequence[str], most: float) -> bool:
        """Whether metadata show that no whole number of these columns is larger than `most`."""
        return not any(self.kinds[name] in ("whole", "vector") for name in columns)


class Parts(Reader):
    """Tables with the same columns, one after another, such as the files of a folder.

    Args:
        name: of the whole.
        parts: the tables, at least one.
        keys: of each part, columns with one value, such as the hive partition key=value.

    Raises:
        ValueError: a part has other columns than the first, or of another kind.
    """

    def __init__(self, name: str, parts: Sequence[Reader], keys: Sequence[Mapping[str, Any]]) -> None:
        self.name, self._parts, self._keys = name, parts, keys
        self.kinds, first = {}, parts[0]
        for part in parts:
            odd = set(part.kinds) ^ set(first.kinds)
            if odd:
                raise ValueError(
                    f"source: {part.name} and {first.name} do not have the same columns: only one of them has "
                    f"{', '.join(map(repr, sorted(odd)[:6]))}. Read them as two tables, or choose files by a pattern."
                )
        for column in first.kinds:
            self.kinds[column] = _common_kind(column, parts)
        for key, value in keys[0].items():
            self.kinds[key] = "whole" if isinstance(value, int) else "text"
        self.index, self.findings = first.index, tuple(dict.fromkeys(said for part in parts for said in part.findings))
        self.by_row = all(part.by_row for part in parts) and not keys[0]

    @cached_property
    def lengths(self) -> Sequence[int]:
        return [rows for part in self._parts for rows in part.lengths]

    def blocks(self, wanted: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        own = [name for name in columns if name not in self._keys[0]]
        for number, run in groupby(wanted, key=self._part_of):
            part, start = self._parts[number], int(self._first[number])
            # A part whose columns are all partition keys is still counted by one of its own.
            read = own or list(part.kinds)[:1]
            for block in part.blocks([block - start for block in run], read):
                yield self._with_keys(block, number, columns) if self._keys[number] else block

    def take(self, index: Tensor, columns: Sequence[str]) -> Any:
        ends = torch.tensor([sum(part.lengths) for part in self._parts], device="cpu").cumsum(0)
        found, start = [], 0
        for part, end in zip(self._parts, ends.tolist(), strict=True):
            here = index[(index >= start) & (index < end)]
            if len(here):
                found.append(part.take(here - start, columns))
            start = end
        return np.concatenate(found)

    def order(self, generator: Generator) -> list[int]:
        """Parts in random order, and their blocks as each allows."""
        if all(part.any_order for part in self._parts):
            return permutation(len(self.lengths), generator).tolist()
        parts = permutation(len(self._parts), generator).tolist()
        return [int(self._first[k]) + block for k in parts for block in self._parts[k].order(generator)]

    def small(self, columns: Sequence[str], most: float) -> bool:
        return all(part.small([name for name in columns if name in part.kinds], most) for part in self._parts)

    def column(self, name: str) -> Any:
        if name in self._keys[0]:
            return super().column(name)
        arrow = pyarrow("pyarrow", self.name)
        columns = [arrow.table({name: part.column(name)}) for part in self._parts]
        return arrow.concat_tables(columns, promote_options="permissive").column(name)

    def numbers(self, name: str) -> NDArray[np.float64]:
        if name in self._keys[0]:
            return super().numbers(name)
        return np.concatenate([part.numbers(name) for part in self._parts])

    @cached_property
    def _first(self) -> np.ndarray[Any, Any]:
        """Number of the first block of each part."""
        return np.cumsum([0, *(len(part.lengths) for part in self._parts)])

    def _part_of(self, block: int) -> int:
        return int(np.searchsorted(self._first, block, side="right")) - 1

    def _with_keys(self, block: Any, number: int, columns: Sequence[str]) -> Any:
        arrow, keys = pyarrow("pyarrow", self.name), self._keys[number]
        rows = block.num_rows
        whole = {name: arrow.repeat(keys[name], rows) if name in keys else block.column(name) for name in columns}
        return arrow.table(whole)


def _common_kind(column: str, parts: Sequence[Reader]) -> Kind:
    kinds = {part.kinds[column]: part.name for part in reversed(parts)}  # and the first part that has each
    if len(kinds) == 1:
        return next(iter(kinds))
    if set(kinds) <= NUMBERS:
        return "number" if "number" in kinds else "whole"
    first = parts[0].kinds[column]
    other = next(kind for kind in kinds if kind != first and not {kind, first} <= NUMBERS)
    raise ValueError(
        f"source: column {column!r} holds {first} in {kinds[first]} and {other} in {kinds[other]}; expected the "
        "same in all parts."
    )
