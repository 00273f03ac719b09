"""What a file says of its coreset: checked before anybody relies on it, as is that its table has lost no rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..outputs import sidecar
from ..settings import UsageError

ROWS_MARK = "rows_mark"  # in the metadata of a table: hash of its rows
ROUNDING = {"float16": 1 / 128, "bfloat16": 1 / 128}  # what weights may miss a sum of 1 by, by dtype
ROUNDED = 1e-6  # the same for others; a cut table of a million points misses it
DEEPEST = 8  # objects and lists within another in metadata


def read_metadata(text: str, path: Path) -> dict[str, Any]:
    """What a file says of its coreset, as far as others rely on it checked."""
    found = parsed(text, path)
    for name, valid in VALID.items():
        if found.get(name) is not None and not valid(found[name]):
            raise UsageError(f"{path}: its metadata is damaged or not ours: {name}={str(found[name])[:40]!r}.")
    return found


def parsed(text: str, path: Path) -> dict[str, Any]:
    """A JSON object that is not deep, or UsageError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else error
        raise UsageError(f"{path}: its metadata is not valid JSON ({said}).") from error
    level = [found]
    for _ in range(DEEPEST):
        inner = [
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, (dict, list))
        ]
        level = [part for parts in inner for part in parts]
    if level:
        raise UsageError(f"{path}: its metadata is nested more than {DEEPEST} deep.")
    if not isinstance(found, dict):
        raise UsageError(f"{path}: its metadata is not a JSON object.")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are(valid: Callable[[Any], bool], value: Any, count: int | None = None) -> bool:
    return isinstance(value, list) and all(map(valid, value)) and count in (None, len(value))


def _is_scaling(value: Any) -> bool:
    """Whether this has a number for each column as its centre, and as its unit, or a matrix of them."""
    if not isinstance(value, dict):
        return False
    centre, unit = value.get("centre", value.get("mean")), value.get("unit", value.get("deviation"))
    return (
        isinstance(centre, list)
        and _are(_is_number, centre)
        and (
            _are(_is_number, unit, len(centre))
            or _are(lambda row: _are(_is_number, row, len(centre)), unit, len(centre))
        )
    )


def _is_read(value: Any) -> bool:
    """Whether this can be the settings by which a table was read."""
    return isinstance(value, dict) and all(
        isinstance(part, (str, bool)) or _are(_is_text, part) or (name == "categories" and isinstance(part, dict))
        for name, part in value.items()
    )


VALID: dict[str, Callable[[Any], bool]] = {  # what commands rely on; null stands for nothing
    **dict.fromkeys(("p", "distance", "value", "hold_out", "bias"), _is_number),
    **dict.fromkeys(("data", "data_mark", "run_mark", ROWS_MARK, "dtype", "status"), _is_text),
    **dict.fromkeys(("key", "label", "row_weights", "row_weights_are"), lambda value: isinstance(value, (str, int))),
    **dict.fromkeys(("size", "seed"), lambda value: isinstance(value, int) and abs(value) < 1 << 63),
    "columns": lambda value: _are(_is_text, value),
    "read": _is_read,
    "bounds": lambda value: _are(lambda one: one is None or _is_number(one), value, 2),
    "scaling": _is_scaling,
    "cost": lambda value: isinstance(value, dict) and _is_text(value.get("metric", value.get("unsaved"))),
}


def rows_mark(points: NDArray[Any], weights: NDArray[Any] | None, labels: NDArray[Any] | None) -> str:
    """Hash of the rows of a table, in their order."""
    found = hashlib.sha256(points.astype("<f8").tobytes())
    found.update(b"" if weights is None else weights.astype("<f8").tobytes())
    found.update("\0".join([] if labels is None else map(str, labels.tolist())).encode("utf-8", "surrogatepass"))
    return found.hexdigest()[:16]


def check_whole(
    points: NDArray[Any],
    weights: NDArray[Any] | None,
    labels: NDArray[Any] | None,
    metadata: dict[str, Any],
    path: Path,
) -> None:
    """Raise UsageError for a table that has lost or changed rows, as far as it tells."""
    size, mark = metadata.get("size", len(points)), metadata.get(ROWS_MARK)
    if len(points) != size:
        raise UsageError(f"{path} has {len(points)} points of {size}: it is cut, or its metadata are of another file.")
    total = 1.0 if weights is None else float(weights.sum(dtype=np.float64))
    if not abs(total - 1) <= ROUNDING.get(metadata.get("dtype", ""), ROUNDED):  # NaN is no sum either
        raise UsageError(
            f"{path}: the weights of its {len(points)} points sum to {total:.6g}; expected 1. Rows are missing, or the "
            "column holds something else: divide it by its sum, or rename it."
        )
    if mark is not None and mark != rows_mark(points, weights, labels):
        where = f"remove {sidecar(path)}" if path.suffix.lower() == ".csv" else "write it without its metadata"
        raise UsageError(
            f"{path} holds other rows than its metadata describe: some were lost, changed or reordered, or the "
            f"metadata are of another file. Restore it, or {where} to read the points alone."
        )
