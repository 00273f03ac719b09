"""Points, weights, labels and metadata of a coreset file: .npz, .pt, .safetensors, .csv, .parquet.

| format | points and weights | metadata |
| --- | --- | --- |
| .npz, .pt, .safetensors | arrays `points`, `weights`, `labels`; `tc.Coreset.load` reads them | `metadata`, as JSON |
| .csv | a column for each feature, the label, and "weight" (or "point_weight") | FILE.csv.json beside it |
| .parquet | the same columns | the schema's key "torchcoreset" |

Tables that have lost or changed rows are refused: weights sum to 1, and the metadata hold the number of points and a
hash of all rows. Nothing in a file is executed when it is read.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...archives import FORMATS as ARCHIVES
from ...archives import labels_of, names_in, pyarrow, read_arrays, require_safetensors
from ...errors import meant, no_file
from ..outputs import sidecar
from ..settings import UsageError
from .metadata import ROWS_MARK, check_whole, parsed, read_metadata

TABLES = (".csv", ".parquet")
KEPT = ("scaling", "cost")  # what `Coreset.save` writes beside the arrays, in JSON
FORMATS = (*ARCHIVES, *TABLES)
WEIGHT = "weight"  # column of the weights
SPARE = "point_weight"  # the same where the data have a column called "weight"
SCHEMA_KEY = b"torchcoreset"


@dataclass(frozen=True)
class Stored:
    """What a file holds.

    Attributes:
        points: (n, d) array, or tensor of a .pt or .safetensors file; as it is in the file, of any shape.
        weights: the same, (n,), or None.
        labels: (n,) numbers or text, or None.
        metadata: size, p, distance, bounds, version, seed, columns, scaling and more.
    """

    points: Any
    weights: Any
    labels: NDArray[Any] | None
    metadata: dict[str, Any]


def check_format(path: Path, flag: str) -> str:
    """The suffix of a file to write or read."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(
            f"{flag}: got {str(path)!r}; expected a name that ends in {', '.join(FORMATS)}{meant(suffix, FORMATS, '.')}"
        )
    if suffix == ".parquet":
        pyarrow("pyarrow", path)
    if suffix == ".safetensors":
        require_safetensors()
    return suffix


def names_of_features(metadata: dict[str, Any], dimension: int) -> list[str]:
    """Names of the features: those of the metadata if they are as many."""
    named = metadata.get("columns")
    return list(named) if named is not None and len(named) == dimension else [f"x{k}" for k in range(dimension)]


def read_stored(name: str) -> Stored:
    """Read what `build` wrote, or `Coreset.save`, or any table of points in one of the formats.

    Raises:
        UsageError: there is no such file, or it is damaged, or has lost rows, or holds no points.
    """
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"coreset: {no_file(name)}")
    suffix = check_format(path, "coreset")
    if suffix in TABLES:
        return _read_table(path, suffix)
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise UsageError(str(error).removeprefix("path: ")) from error
    if "points" not in arrays:
        raise UsageError(f"{name} holds no points; expected a file that `torchcoreset build` or Coreset.save wrote.")
    metadata = read_metadata(str(arrays["metadata"]), path) if "metadata" in arrays else {}
    for key in KEPT:
        if key in arrays and key not in metadata:
            metadata |= read_metadata(json.dumps({key: parsed(str(arrays[key]), path)}), path)
    if "built_on" in arrays and "data_mark" not in metadata:
        metadata["data_mark"] = str(arrays["built_on"])
    return Stored(arrays["points"], arrays.get("weights"), labels_of(arrays), metadata)


def is_coreset(path: Path) -> bool:
    """Whether a file is a coreset and no table of data, by its names or metadata: its arrays are not read."""
    suffix = path.suffix.lower()
    if suffix in ARCHIVES:
        with suppress(Exception):  # a damaged file is none; whoever reads it says what is wrong
            return {"points", "weights"} <= {*names_in(path)}
    if suffix == ".parquet":
        arrow, parquet = pyarrow("pyarrow", path), pyarrow("pyarrow.parquet", path)
        with suppress(arrow.ArrowInvalid):
            return SCHEMA_KEY in (parquet.read_schema(path).metadata or {})
    if suffix == ".csv":
        with suppress(UsageError):  # somebody else's file
            return bool(beside(path))
    return False


def beside(path: Path) -> dict[str, Any]:
    """The metadata beside a CSV file; empty if there are none, or they are not of a coreset."""
    file = sidecar(path)
    if not file.is_file():
        return {}
    text = file.read_text("utf-8", errors="replace")
    return read_metadata(text, file) if "format" in parsed(text, file) else {}


def _read_table(path: Path, suffix: str) -> Stored:
    arrow = pyarrow("pyarrow", path)
    try:
        if suffix == ".parquet":
            table = pyarrow("pyarrow.parquet", path).read_table(path)
            text = (table.schema.metadata or {}).get(SCHEMA_KEY, b"{}").decode("utf-8", "replace")
            metadata = read_metadata(text, path)
        else:
            metadata = beside(path)
            csv_of_arrow = pyarrow("pyarrow.csv", path)
            labels = {str(metadata.get("label")): arrow.string()}  # 01 may be text
            table = csv_of_arrow.read_csv(path, convert_options=csv_of_arrow.ConvertOptions(column_types=labels))
    except arrow.ArrowInvalid as error:
        raise UsageError(f"{path} cannot be read as a {suffix} table ({error}).") from error
    return _from_table({name: np.asarray(table.column(name)) for name in table.schema.names}, metadata, path)


def _from_table(table: dict[str, NDArray[Any]], metadata: dict[str, Any], path: Path) -> Stored:
    label = metadata.get("label")
    labels = table.get(str(label)) if label is not None else None
    weight = SPARE if SPARE in table else WEIGHT
    columns = metadata.get("columns") or [name for name in table if name not in (weight, label)]
    missing = [name for name in columns if name not in table]
    if missing:
        raise UsageError(f"{path} has no column {missing[0]!r}, which its metadata names.")
    dtype = metadata.get("dtype") or "float64"
    kind = np.float64 if dtype == "float64" else np.float32
    try:
        points = np.stack([table[name].astype(kind) for name in columns], axis=1)
        weights = table[weight].astype(kind) if weight in table and weight not in columns else None
        if labels is not None and labels.dtype.kind in "UO" and metadata.get("label_kind") == "number":
            labels = labels.astype(np.int64)
    except ValueError as error:
        raise UsageError(
            f"{path} has text where points should be ({error}); expected a coreset, as `torchcoreset build` writes it."
        ) from error
    labels = labels.astype(str) if labels is not None and labels.dtype.kind == "O" else labels
    check_whole(points, weights, labels, metadata, path)
    metadata.pop(ROWS_MARK, None)
    return Stored(points, weights, labels, {**metadata, "columns": list(columns)})
