"""Where the features are in a batch, a dataset's row or a table, and how they become rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..tensors import LISTS, check_finite, is_array
from .labels import Labels, part_of, without
from .rows import float_tensor, is_rows, is_table, shaped_rows

MOST_PARTS = 3  # of a batch (samples, labels, weights); a longer tuple of vectors may be rows, and is refused
_FEATURE_KEYS = ("x", "features", "data")

Key = int | str


@dataclass(frozen=True)
class Layout:
    """Which part of a batch, row or table holds the features, and whether images are flattened.

    Attributes:
        features: key of a dict, place in a tuple or list, or column of a DataFrame or file; several of them are
            put side by side. None for the usual place: see `as_source`.
        flatten: read rows of more than one dimension, such as images, as vectors.
        labels: what rows hold in columns after the features; None for features alone.
        label: which part of a batch or row these are: see `part_of`.

    Raises:
        TypeError: `features` or `flatten` is of another type.
        ValueError: `features` is empty or names something twice.
    """

    features: Key | Sequence[Key] | None = None
    flatten: bool = False
    labels: Labels | None = None
    label: Key | None = None

    def __post_init__(self) -> None:
        if isinstance(self.features, list):  # frozen, so that it can be shared
            object.__setattr__(self, "features", tuple(self.features))
        keys = self.features if isinstance(self.features, tuple) else (self.features,)
        unset = self.features is None
        if not unset and not all(isinstance(key, (int, str)) and not isinstance(key, bool) for key in keys):
            raise TypeError(f"features: got {self.features!r}; expected a name, a number, or a list of them.")
        if not keys or len(set(keys)) < len(keys):
            raise ValueError(f"features: got {list(keys)!r}; expected at least one name or number, and each once.")
        if not isinstance(self.flatten, bool):
            raise TypeError(f"flatten: got {self.flatten!r}; expected True or False.")

    @property
    def of_features(self) -> "Layout":
        """The same without labels."""
        return replace(self, labels=None, label=None)


PLAIN = Layout()


def rows_of(batch: Any, name: str, layout: Layout = PLAIN, *, batched: bool = True) -> Tensor:
    """Read one batch as rows, (rows, d), and check that they can be used; dtypes follow the rule of `tensors`.

    Args:
        batch: tensor, array, DataFrame, nested lists of numbers, or a tuple, list or dict with one of them.
        name: what error messages call the batch.
        layout: where in it the features are.
        batched: whether it is known to hold several rows, so that one dimension, (rows,), is read as (rows, 1).

    Returns:
        Rows, (rows, d), detached; they share the batch's memory where no conversion was needed.

    Raises:
        TypeError: the features are not numbers in one of the forms above.
        ValueError: no rows, more than two dimensions, or one that may be a row; NaN or inf; it is not clear where the
            features are.
    """
    if layout.labels is not None:
        features = rows_of(without(batch, layout.label, name), name, layout.of_features, batched=batched)
        rows = beside(features, layout.labels.columns(part_of(batch, layout.label, name), name), name)
    elif isinstance(layout.features, tuple) and not _has_columns(batch):
        parts = [shaped_rows(float_tensor(part, name), name, layout.flatten) for part in _parts(batch, name, layout)]
        rows = _side_by_side(parts, name)
    else:
        tensor = float_tensor(_part(batch, name, layout), name)
        if not batched and tensor.dim() == 1 and len(tensor) > 1:
            raise ValueError(
                f"{name}: got shape {tuple(tensor.shape)}, which may be one row or {len(tensor)} rows of one number; "
                "expected batches of shape (rows, d). Gather rows first, such as by `torch.stack` or a DataLoader with "
                "a batch_size, and make a column of numbers, `batch[:, None]`."
            )
        rows = shaped_rows(tensor, name, layout.flatten)
    check_finite(rows, name)
    return rows


def row_shape(source: Any) -> tuple[int, ...] | None:
    """The shape of one row of a tensor, an array, a map-style dataset or its loader, such as that of an image; None of
    anything else."""
    shape = getattr(source, "shape", None)
    if isinstance(shape, tuple) and len(shape) > 1:
        return tuple(int(length) for length in shape[1:])
    dataset = getattr(source, "dataset", source)
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")) or isinstance(dataset, (str, *LISTS)):
        return None
    if isinstance(dataset, Mapping) or is_array(dataset) or not len(dataset):
        return None
    try:
        part = _usual_part(dataset[0], "source")
    except (TypeError, ValueError, KeyError, IndexError, NotImplementedError):
        return None  # whoever reads it says what is wrong
    found = getattr(part, "shape", None)
    return tuple(int(length) for length in found) if isinstance(found, tuple) else None


def row_of(row: Any, name: str, layout: Layout = PLAIN) -> Tensor:
    """The features of a dataset's single row, 0-d, (d,) or an image, as a floating point tensor."""
    if isinstance(layout.features, tuple):
        parts = [float_tensor(part, name) for part in _parts(row, name, layout)]
        if not layout.flatten and any(part.dim() > 1 for part in parts):
            shapes = [tuple(part.shape) for part in parts]
            raise ValueError(f"{name}: got features of shapes {shapes}; expected vectors. Pass flatten=True.")
        return torch.cat([part.reshape(-1) for part in parts])
    part = _part(row, name, layout)
    # A list of numbers is a row here: what float32 keeps apart is asked of columns.
    return float_tensor([part], name)[0] if isinstance(part, LISTS) else float_tensor(part, name)


def beside(features: Tensor, columns: Tensor, name: str) -> Tensor:
    """Rows (rows, d) with columns of labels (rows, t) after them, in a dtype that holds both: float32 at least."""
    if len(features) != len(columns):
        raise ValueError(f"{name}: got {len(columns)} labels for {len(features)} rows; expected one for each row.")
    dtype = torch.promote_types(torch.promote_types(features.dtype, columns.dtype), torch.float32)
    return torch.cat((features.to(dtype), columns.to(features.device, dtype)), 1)


def _side_by_side(parts: list[Tensor], name: str) -> Tensor:
    if len({len(part) for part in parts}) > 1:
        raise ValueError(
            f"{name}: got features of {[len(part) for part in parts]} rows; expected the same number in each of them."
        )
    return torch.cat(parts, dim=1)


def _parts(batch: Any, name: str, layout: Layout) -> list[Any]:
    """Each of the features that were asked for by name or place."""
    assert isinstance(layout.features, tuple)
    return [_part(batch, name, Layout(key)) for key in layout.features]


def _part(batch: Any, name: str, layout: Layout) -> Any:
    """The part of a batch or of a dataset's row that holds the features."""
    if layout.features is None:
        return _usual_part(batch, name)
    if _has_columns(batch):
        return _columns(batch, name, layout)
    key = layout.features
    if isinstance(batch, Mapping):
        if key not in batch:
            raise ValueError(f"{name}: features={key!r} is none of the keys {list(batch)}. Name one of these.")
        return batch[key]
    if isinstance(batch, tuple) or (isinstance(batch, list) and not all(is_table([part]) for part in batch)):
        if not isinstance(key, int) or not -len(batch) <= key < len(batch):
            raise ValueError(
                f"{name}: features={key!r} with a {type(batch).__name__} of {len(batch)}; expected a place."
            )
        return batch[key]
    raise ValueError(
        f"{name}: features={key!r} with a {type(batch).__name__}, which has no parts to choose from; expected a "
        f"dict, a tuple, a DataFrame or a file. Choose its columns yourself: `samples[:, [0, 2]]`."
    )


def _usual_part(batch: Any, name: str) -> Any:
    if isinstance(batch, Mapping):
        return _usual_part(batch[_feature_key(batch, name)], name)
    if isinstance(batch, tuple) or (isinstance(batch, list) and not is_table(batch)):
        if len(batch) == 0:
            raise ValueError(f"{name}: got an empty {type(batch).__name__}; expected at least one row. Leave it out.")
        if len(batch) > MOST_PARTS and is_rows(batch):
            raise ValueError(
                f"{name}: got a {type(batch).__name__} of {len(batch)} one-dimensional tensors or arrays, which may be "
                "rows, columns, or parts of a batch; expected (rows, d). Stack them first: `torch.stack(batch)` for "
                "rows, `torch.stack(batch, dim=1)` for columns, which torch's default collation makes of rows that "
                "are lists. Or choose a part: `as_source(..., features=0)`."
            )
        return _usual_part(batch[0], name)
    return batch


def _has_columns(batch: Any) -> bool:
    return is_array(batch) and hasattr(batch, "columns")


def _columns(frame: Any, name: str, layout: Layout) -> Any:
    keys = list(layout.features) if isinstance(layout.features, tuple) else [layout.features]
    missing = [key for key in keys if key not in list(frame.columns)]
    if missing:
        raise ValueError(f"{name}: features={missing[0]!r} is none of the columns {list(frame.columns)}.")
    return frame[keys]


def _feature_key(batch: Mapping[Any, Any], name: str) -> Any:
    for candidates in (
        [key for key in _FEATURE_KEYS if key in batch],
        [key for key, value in batch.items() if isinstance(value, (Tensor, np.ndarray))],
        list(batch),
    ):
        if len(candidates) == 1:
            return candidates[0]
    raise ValueError(
        f"{name}: got a dict with the keys {list(batch)}; expected a single tensor or one of the keys "
        f"{', '.join(map(repr, _FEATURE_KEYS))}. Choose with `as_source(..., features=KEY)`."
    )
