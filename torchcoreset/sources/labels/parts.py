"""Where the labels are in a batch, or in a dataset's row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...tensors import is_array
from ..rows import is_table

LABEL_KEYS = ("y", "label", "labels", "target", "targets")


def part_of(batch: Any, key: int | str | None, name: str) -> Any:
    """The labels of a batch (samples, labels), of a dict, or of a table of columns.

    Args:
        batch: what a loader, an iterator, a callable or a dataset gives.
        key: place in a tuple, key of a dict, or column; None for the second part, and for one of LABEL_KEYS.
        name: what error messages call the batch.

    Raises:
        ValueError: there are none, or it is not clear which they are.
    """
    if isinstance(batch, Mapping):
        return batch[_key_of(batch, key, name)]
    if is_array(batch) and hasattr(batch, "columns"):
        if key is None or key not in list(batch.columns):
            raise ValueError(
                f"{name}: got a {type(batch).__name__} with the columns {list(batch.columns)} and y={key!r}; expected "
                "the name of that of the labels as y."
            )
        return batch[key]
    if isinstance(batch, tuple) or (isinstance(batch, list) and not all(is_table([part]) for part in batch)):
        place = 1 if key is None else key
        if not isinstance(place, int) or not -len(batch) <= place < len(batch):
            raise ValueError(
                f"{name}: got a {type(batch).__name__} of {len(batch)} and y={key!r}; expected (samples, labels), or "
                "the place of the labels as y."
            )
        return batch[place]
    raise ValueError(
        f"{name}: got a {type(batch).__name__} without labels; expected (samples, labels), or a dict with one of the "
        f"keys {', '.join(map(repr, LABEL_KEYS))}. Or pass the labels of a table as y."
    )


def without(batch: Any, key: int | str | None, name: str) -> Any:
    """A dict or table of columns without its labels; a tuple as it is, whose first part holds the features."""
    if isinstance(batch, Mapping):
        label = _key_of(batch, key, name)
        return {other: part for other, part in batch.items() if other != label}
    if is_array(batch) and hasattr(batch, "columns"):
        return batch[[column for column in batch.columns if column != key]]
    return batch


def _key_of(batch: Mapping[Any, Any], key: int | str | None, name: str) -> Any:
    found = [one for one in LABEL_KEYS if one in batch] if key is None else [one for one in [key] if one in batch]
    if len(found) == 1:
        return found[0]
    raise ValueError(
        f"{name}: got a dict with the keys {list(batch)} and y={key!r}; expected the key of the labels as y, or one of "
        f"{', '.join(map(repr, LABEL_KEYS))}."
    )
