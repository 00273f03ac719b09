"""NPY files, mapped into memory by NumPy: any row can be read on its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ..tensors import check_finite
from .file_source import FileSource
from .layout import PLAIN, Layout
from .rows import float_tensor, shaped_rows

_BLOCK_ELEMENTS = 1 << 16  # numbers of a block: small, so that a pool mixes many places of a sorted file


class NpySource(FileSource):
    """An array in a .npy file.

    Draws read just the rows drawn; `batches` reads blocks of 2^16 numbers in random order.

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
        array = _mapped(path)
        self._columns = _columns(path, array, weights, layout)
        if isinstance(weights, int) and not isinstance(weights, bool):
            weights = np.array(array[:, weights], dtype=np.float64)
        block = max(1, _BLOCK_ELEMENTS // max(1, array[:1].size))
        starts = torch.cat((torch.arange(0, len(array), block), torch.tensor([len(array)])))
        width = len(self._columns) if self._columns is not None else self._rows(path, array[:1]).shape[1]
        super().__init__(path, starts, width, weights)

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        for block in wanted:
            # Mapped anew each time: pages count as memory of the process as long as a map holds them.
            yield self._chosen(_mapped(self.path)[int(self.starts[block]) : int(self.starts[block + 1])])

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        if len(index) > len(self.starts):  # most blocks hold some of them, and are read whole as fast
            return super()._read(index, generator)
        ordered, order = index.sort()
        rows = self._chosen(_mapped(self.path)[ordered.numpy()])
        check_finite(rows, self.path.name, ordered)
        found = torch.empty_like(rows)
        found[order] = rows
        return found

    def _chosen(self, rows: np.ndarray[Any, Any]) -> Tensor:
        return self._rows(self.path, rows if self._columns is None else rows[:, self._columns])

    def _rows(self, path: Path, rows: np.ndarray[Any, Any]) -> Tensor:
        if len(rows) == 0:
            raise ValueError(f"source: {path} has no rows; expected at least one.")
        # A view of the map would follow later changes of the file.
        return shaped_rows(float_tensor(np.array(rows), path.name), path.name, self._layout.flatten)


def _mapped(path: Path) -> np.ndarray[Any, Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged header is parsed as Python's literals, whose errors are of many kinds
        raise ValueError(f"source: {path} is no NPY file of numbers ({error}).") from error
    if not isinstance(array, np.ndarray) or array.ndim == 0 or array.dtype.names is not None:
        raise ValueError(f"source: {path} holds no plain table; expected an array of shape (rows, d) or (rows,).")
    return array


def _columns(path: Path, array: np.ndarray[Any, Any], weights: Any, layout: Layout) -> list[int] | None:
    """Numbers of the columns to read; None for the whole array."""
    weighed = isinstance(weights, int) and not isinstance(weights, bool)
    if isinstance(weights, str):
        raise ValueError(
            f"weights: got {weights!r} with {path.name}; expected the number of a column, or (rows,) values."
        )
    if layout.features is None and not weighed:
        return None
    if array.ndim != 2:
        raise ValueError(f"features: {path.name} has shape {array.shape}; columns are chosen of (rows, d) only.")
    width = array.shape[1]
    named = layout.features if isinstance(layout.features, tuple) else (layout.features,)
    for name, number in [("features", key) for key in named if key is not None] + [("weights", weights)] * weighed:
        if not isinstance(number, int) or not 0 <= number < width:
            raise ValueError(f"{name}: got {number!r} with {path.name}; expected numbers of columns, 0 to {width - 1}.")
    if layout.features is None:
        return [column for column in range(width) if column != weights]
    return [key for key in named if isinstance(key, int)]
