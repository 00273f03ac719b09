"""NPY files, mapped into memory by NumPy: any row can be read on its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ...tensors import check_finite, exact_up_to
from ..layout import PLAIN, Layout
from ..rows import float_tensor, shaped_rows
from .columns import choose_columns, is_key
from .source import FileSource

_BLOCK_ELEMENTS = 1 << 16  # numbers of a block; larger ones would leave a sorted file less mixed in a pool


class NpySource(FileSource):
    """An array in a .npy file.

    Draws read just the rows drawn; `batches` reads blocks of 2^16 numbers in random order. Whole numbers of more than
    16 bits are read once here, to see whether torch's default dtype holds them; float64 is used if not.

    Args:
        path: file of a numeric array, (rows, d) or (rows,), or of more dimensions if they are flattened.
        weights: number of a column, or (rows,) values; None for equal weights.
        layout: `features` are numbers of columns; None for all but that of the weights.

    Raises:
        ValueError: the file holds another kind of array, no rows, or not such columns; on reading, NaN or inf.
    """

    _by_row = True

    def __init__(self, path: Path, weights: Any = None, layout: Layout = PLAIN) -> None:
        self._layout = layout
        array = mapped(path)
        self._columns = _columns(path, array, weights, layout)
        if is_key(weights):
            weights = np.array(array[:, int(weights)], dtype=np.float64)
        block = max(1, _BLOCK_ELEMENTS // max(1, array[:1].size))
        starts = torch.tensor([*range(0, len(array), block), len(array)], device="cpu")
        head = self._chosen(array[:1], path)
        super().__init__(path, starts, head.shape[1], weights)
        self._dtype = head.dtype
        if array.dtype.kind in "iu" and np.iinfo(array.dtype).max > exact_up_to(head.dtype):
            for number in range(len(starts) - 1):
                self._dtype = torch.promote_types(self._dtype, self._block(number).dtype)

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        for block in wanted:
            yield self._block(block).to(self._dtype)

    def _block(self, number: int) -> Tensor:
        # Mapped anew each time: pages count as memory of the process as long as a map holds them.
        return self._chosen(mapped(self.path)[int(self.starts[number]) : int(self.starts[number + 1])], self.path)

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        if len(index) > len(self.starts):  # most blocks hold some of them, and are read whole as fast
            return super()._read(index, generator)
        ordered, order = index.sort()
        rows = self._chosen(mapped(self.path)[ordered.numpy()], self.path).to(self._dtype)
        check_finite(rows, self.path.name, ordered)
        found = torch.empty_like(rows)
        found[order] = rows
        return found

    def _chosen(self, rows: np.ndarray[Any, Any], path: Path) -> Tensor:
        if len(rows) == 0:
            raise ValueError(f"source: {path} has no rows; expected at least one.")
        rows = rows if self._columns is None else rows[:, self._columns]
        # A view of the map would follow later changes of the file.
        return shaped_rows(float_tensor(np.array(rows), path.name), path.name, self._layout.flatten)


def mapped(path: Path) -> np.ndarray[Any, Any]:
    """The array of a file, of which only what is used is read."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged header is parsed as Python's literals, whose errors are of many kinds
        raise ValueError(f"source: {path} is not a NPY file of numbers ({error}).") from error
    if not isinstance(array, np.ndarray) or array.ndim == 0 or array.dtype.names is not None:
        raise ValueError(f"source: {path} holds no plain table; expected an array of shape (rows, d) or (rows,).")
    return array


def _columns(path: Path, array: np.ndarray[Any, Any], weights: Any, layout: Layout) -> list[int] | None:
    """Numbers of the columns to read; None for the whole array."""
    if layout.features is None and not is_key(weights):
        return None
    if array.ndim != 2:
        raise ValueError(f"features: {path.name} has shape {array.shape}; columns are chosen of (rows, d) only.")
    chosen, _ = choose_columns(path, [str(column) for column in range(array.shape[1])], weights, layout)
    return [int(column) for column in chosen]
