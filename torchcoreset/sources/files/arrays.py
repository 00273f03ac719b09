"""Arrays: NPY files, which are mapped into memory, arrays that other libraries keep on disk, and files of several."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...archives import names_in, read_archive, wide
from ...errors import nearest, no_file
from .reader import Kind, Reader

BLOCK_ELEMENTS = 1 << 16  # numbers of a block; larger ones would leave a sorted file less mixed in a pool
LAZY_ELEMENTS = 1 << 20  # the same of arrays whose every access costs
_KINDS: dict[str, Kind] = {"i": "whole", "u": "whole", "f": "number", "b": "bool"}  # by the letter of NumPy
ARRAYS = (".npz", ".pt", ".pth", ".safetensors")  # files of several arrays by name
USUAL = ("X", "x", "features", "data", "points")  # names of the table among several arrays


class ArrayReader(Reader):
    """An array (rows, d), (rows,) or (rows, ...) that is sliced when it is read; columns are called x0, x1, ...

    Args:
        name: of the file or type.
        opened: gives the array; anything with shape, dtype and slices.
        by_row: whether single rows are read as cheaply as slices.

    Raises:
        ValueError: no array of numbers, or one without rows.
    """

    def __init__(self, name: str, opened: Callable[[], Any], *, by_row: bool) -> None:
        self.name, self.by_row, self._opened = name, by_row, opened
        array = opened()
        shape = tuple(array.shape)
        if not shape or np.dtype(array.dtype).names is not None:
            raise ValueError(f"source: {name} holds no plain table; expected an array of shape (rows, d) or (rows,).")
        if not math.isfinite(shape[0]):  # of Dask
            raise ValueError(f"source: {name} does not know its rows; expected it to: call `compute_chunk_sizes()`.")
        if shape[0] == 0:
            raise ValueError(f"source: {name} has no rows; expected at least one.")
        self.shape, self.dtype = shape, np.dtype(array.dtype)
        kind = _KINDS.get(self.dtype.kind)
        if kind is None:
            raise ValueError(
                f"source: {name} holds values of dtype {self.dtype} that are not all numbers; expected numbers."
            )
        self.kinds = {f"x{column}": kind for column in range(shape[1] if len(shape) == 2 else 1)}
        size = BLOCK_ELEMENTS if by_row else LAZY_ELEMENTS
        self._step = max(1, size // max(1, math.prod(shape[1:])))

    @property
    def lengths(self) -> Sequence[int]:
        rows = self.shape[0]
        return [min(self._step, rows - start) for start in range(0, rows, self._step)]

    def blocks(self, wanted: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        for block in wanted:
            # Opened anew each time: pages of a map count as memory of the process as long as it is held.
            yield self._chosen(self._opened()[block * self._step : (block + 1) * self._step], columns)

    def take(self, index: Tensor, columns: Sequence[str]) -> Any:
        return self._chosen(self._opened()[index.numpy()], columns)

    def column(self, name: str) -> Any:
        array = self._opened()
        return np.array(array[:, int(name[1:])] if len(self.shape) > 1 else array[:])

    def small(self, columns: Sequence[str], most: float) -> bool:
        if self.dtype.kind not in "iu" or np.iinfo(self.dtype).max <= most:
            return True
        blocks = self.blocks(range(len(self.lengths)), columns)
        return all(max(-int(block.min()), int(block.max())) <= most for block in blocks)

    def _chosen(self, rows: Any, columns: Sequence[str]) -> NDArray[Any]:
        array = np.array(rows)  # a view of a map would follow later changes of the file
        return array if list(columns) == list(self.kinds) else array[:, [int(column[1:]) for column in columns]]


def is_lazy_array(data: Any) -> bool:
    """Whether this is an array of another library that is sliced on disk, or computed in chunks: h5py, zarr, Dask."""
    if isinstance(data, (np.ndarray, Tensor, type)):  # first: a nested tensor raises where it is asked for its shape
        return False
    return all(hasattr(data, name) for name in ("shape", "dtype", "chunks", "__getitem__"))


def held_by_name(data: Any) -> str:
    """Of a group of arrays, such as of HDF5, or a dict: which may be passed in its place, in words."""
    names = [repr(name) for name in data] if hasattr(data, "keys") and hasattr(data, "__iter__") else []
    return f" It holds {', '.join(names[:6])}: pass one of them, such as data[{names[0]}]." if names else ""


def npy_reader(path: Path) -> ArrayReader:
    """A .npy file, of which only what is used is read."""
    return ArrayReader(path.name, Mapped(path), by_row=True)


@dataclass(frozen=True)
class InMemory:
    """An array that is at hand; a class, so that it can be pickled."""

    array: Any

    def __call__(self) -> Any:
        return self.array


@dataclass(frozen=True)
class Mapped:
    """The map of a .npy file, made anew at each call."""

    path: Path

    def __call__(self) -> NDArray[Any]:
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise
        except Exception as error:  # a damaged header is parsed as Python's literals, whose errors are of many kinds
            raise ValueError(f"source: {self.path} is not a NPY file of numbers.") from error
        if not isinstance(array, np.ndarray):
            raise ValueError(f"source: {self.path} is not a NPY file of numbers.")
        return array


class NamedArrays:
    """The arrays of a .npz, .pt or .safetensors file, each read when it is asked for; nothing in a file is executed.

    Raises:
        ImportError: safetensors is not installed.
        ValueError: a damaged file, or one that holds anything but plain arrays and tensors.
    """

    def __init__(self, path: Path) -> None:
        self.name, self._path = path.name, path
        self.names: list[str] = self._explained(names_in)

    @classmethod
    def of(cls, data: Any) -> NamedArrays | None:
        """Those of the file that is named; None for anything else."""
        if not isinstance(data, (str, os.PathLike)) or Path(data).suffix.lower() not in ARRAYS:
            return None
        path = Path(data).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"source: {no_file(data)}")
        return cls(path)

    def reader(self, key: str | None) -> ArrayReader:
        """The array that is the table, held in memory; a sparse matrix as a dense one."""
        sparse = key is None and self.sparse
        rows = self._densified() if sparse else self[self.main(key)]
        found = ArrayReader(self.name, InMemory(rows), by_row=True)
        found.findings = (f"{self.name} is a sparse matrix, which is held dense",) if sparse else ()
        return found

    def __getitem__(self, name: str) -> NDArray[Any]:
        """One array by its name."""
        return np.asarray(self._explained(lambda path: _plain(read_archive(path, [name])[name])))

    def _explained(self, read: Callable[[Path], Any]) -> Any:
        try:
            return read(self._path)
        except ImportError:
            raise
        except Exception as error:  # zip, zlib, pickle, numpy and torch raise errors of many kinds for a damaged file
            raise ValueError(
                f"source: {self.name} is not a {self._path.suffix} file of plain arrays; expected arrays or tensors by "
                "name, or one tensor. Save them so, without other objects."
            ) from error

    def main(self, key: str | None) -> str:
        """The name of the array that is the table: the one asked for, the usual one, or the only one."""
        if key is not None:
            if key not in self.names:
                raise ValueError(f"key: {key!r} is not an array of {self.name}{nearest(key, self.names)}")
            return key
        usual = [name for name in USUAL if name in self.names]
        if usual or len(self.names) == 1:
            return (usual or self.names)[0]
        if not self.names:
            raise ValueError(f"source: {self.name} holds no arrays; expected arrays or tensors by name.")
        shown = ", ".join(self.names[:20])
        raise ValueError(f"source: {self.name} holds the arrays {shown}; say which one by key=... of `read_table`.")

    @property
    def sparse(self) -> bool:
        """Whether this is a sparse matrix by scipy.sparse.save_npz."""
        return self._path.suffix.lower() == ".npz" and {"format", "shape", "data"} <= set(self.names)

    def _densified(self) -> NDArray[Any]:
        """That matrix, held dense."""
        try:
            from scipy.sparse import load_npz
        except ImportError as error:
            raise ImportError(f"source: {self.name} is a sparse matrix: reading it needs scipy.") from error
        try:
            array: NDArray[Any] = load_npz(self._path).toarray()
        except Exception as error:
            raise ValueError(f"source: {self.name} is not a whole sparse matrix by scipy.sparse.") from error
        return array


def _plain(held: Any) -> Any:
    """What an archive holds under one name, for NumPy; a sparse tensor as a dense one."""
    if not isinstance(held, Tensor):
        return held
    dense = held.detach().to_dense()
    return (wide(dense) if dense.is_floating_point() else dense).numpy()
