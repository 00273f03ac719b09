"""Coresets in files, with their metadata: .npz, .pt, .safetensors, .csv, .parquet.

| format | points and weights | metadata |
| --- | --- | --- |
| .npz, .pt, .safetensors | arrays `points`, `weights`, `labels`; `tc.Coreset.load` reads them | `metadata`, as JSON |
| .csv | a column for each feature, the label, and "weight" (or "point_weight") | FILE.csv.json beside it |
| .parquet | the same columns | the schema's key "torchcoreset" |

Tables that have lost or changed rows are refused: weights sum to 1, and the metadata hold the number of points and a
hash of all rows. Nothing in a file is executed when it is read.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...archives import FORMATS as ARCHIVES
from ...archives import names_in, require_safetensors, wide
from ...coresets import Coreset, labels_of, read_arrays, replacing, write_arrays
from ...sources import Scaling
from ...sources.files import pyarrow
from ..outcome import to_json
from ..outputs import sidecar
from ..settings import UsageError
from .data import DataSettings
from .metadata import ROWS_MARK, check_whole, parsed, read_metadata, rows_mark
from .pictures import check_place

FORMATS = (*ARCHIVES, ".csv", ".parquet")
WEIGHT = "weight"  # column of the weights
SPARE = "point_weight"  # the same where the data have a column called "weight"
SCHEMA_KEY = b"torchcoreset"


@dataclass(frozen=True)
class CoresetFile:
    """What a file holds.

    Attributes:
        points: (n, d), in the units of the data.
        weights: (n,), sum 1.
        labels: (n,) numbers or text, or None.
        metadata: size, p, distance, bounds, version, seed, columns, scaling and more.
    """

    points: Tensor
    weights: Tensor
    labels: NDArray[Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Names of the features."""
        named = self.metadata.get("columns")
        width = self.points.shape[1]
        return list(named) if named is not None and len(named) == width else [f"x{k}" for k in range(width)]

    @property
    def scaling(self) -> Scaling | None:
        """In whose units distances are, if the columns were standardised."""
        record = self.metadata.get("scaling")
        return None if record is None else Scaling.from_record(record)

    def coreset(self, scaling: Scaling | None = None) -> Coreset:
        """Points and weights, in units of the scaling if one is given."""
        return Coreset(self.points if scaling is None else scaling.apply(self.points), self.weights)


def check_format(path: Path, flag: str) -> str:
    """The suffix of a file to write or read."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{flag}: got {str(path)!r}; expected a name that ends in {', '.join(FORMATS)}.")
    if suffix == ".parquet":
        pyarrow("pyarrow", path)
    if suffix == ".safetensors":
        require_safetensors()
    return suffix


def check_out(path: Path, flag: str, columns: Iterable[str] = ()) -> None:
    """Raise unless a coreset with these columns can be written there: found before the work, not after it."""
    if check_format(path, flag) in (".csv", ".parquet"):
        _weight_name(tuple(columns))
    check_place(path, flag)


def write_coreset(path: Path, held: CoresetFile) -> None:
    """Write a file in the format of its suffix; it is there whole or not at all."""
    suffix = check_format(path, "--out")
    if held.labels is not None and held.labels.dtype.kind == "O":  # which numpy would pickle, and no reader would take
        held = replace(held, labels=held.labels.astype(str))
    if suffix not in (".csv", ".parquet"):
        text = {"metadata": to_json(_described(held), indent=None)}
        if held.metadata.get("data_mark") is not None:
            text["built_on"] = held.metadata["data_mark"]
        write_arrays(path, {"points": held.points, "weights": held.weights}, text, held.labels)
        return
    if suffix == ".csv":  # first: a process that dies in between leaves no table without it
        with replacing(sidecar(path)) as beside:
            beside.write_text(to_json(_described_table(held)) + "\n", "utf-8")
    with replacing(path) as beside:
        {".csv": _write_csv, ".parquet": _write_parquet}[suffix](beside, held)


def read_coreset(name: str) -> CoresetFile:
    """Read what `write_coreset` wrote, or `Coreset.save`, or any table of points in one of the formats."""
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"coreset: there is no file {name!r}.")
    suffix = check_format(path, "coreset")
    if suffix in (".csv", ".parquet"):
        return _read_table(path, suffix)
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise UsageError(str(error).removeprefix("path: ")) from error
    if "points" not in arrays:
        raise UsageError(f"{name} holds no points; expected a file that `torchcoreset build` or Coreset.save wrote.")
    metadata = read_metadata(str(arrays["metadata"]), path) if "metadata" in arrays else {}
    if "built_on" in arrays and "data_mark" not in metadata:
        metadata["data_mark"] = str(arrays["built_on"])
    return _checked(arrays["points"], arrays.get("weights"), labels_of(arrays), metadata, path)


def _checked(
    points: Any, weights: Any, labels: NDArray[Any] | None, metadata: dict[str, Any], path: Path
) -> CoresetFile:
    """Points and weights that can be used, or an error that names the file."""
    try:
        coreset = Coreset(points, weights)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}") from error
    if labels is not None and labels.shape != (coreset.size,):
        raise UsageError(
            f"{path}: got labels of shape {labels.shape} for {coreset.size} points; expected one for each."
        )
    held = CoresetFile(coreset.points.detach(), coreset.weights, labels, metadata)
    if held.scaling is not None and {len(held.scaling.centre), *held.scaling.unit.shape} != {len(held.columns)}:
        raise UsageError(f"{path}: its metadata scale other columns than its {len(held.columns)}.")
    return held


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
            return bool(_beside(path))
    return False


def check_table(settings: DataSettings) -> None:
    """Raise if the table that a command is to read is a coreset, unless its weights or an array of it are named."""
    path = Path(settings.data)
    if settings.weights is None and settings.key is None and path.is_file() and is_coreset(path):
        name = WEIGHT if path.suffix.lower() in (".csv", ".parquet") else "weights"
        raise UsageError(
            f"DATA: {settings.data} is a coreset; expected the table of data. If its points are meant as rows, say so "
            f"with their weights: --weights {name}."
        )


def _beside(path: Path) -> dict[str, Any]:
    """The metadata beside a CSV file; empty if there are none, or they are not of a coreset."""
    beside = sidecar(path)
    if not beside.is_file():
        return {}
    text = beside.read_text("utf-8", errors="replace")
    return read_metadata(text, beside) if "format" in parsed(text, beside) else {}


def _described(held: CoresetFile) -> dict[str, Any]:
    """The metadata, with what a table of text does not say of itself."""
    dtype = str(held.points.dtype).removeprefix("torch.")
    return {"format": 1, **held.metadata, "dtype": dtype, "columns": held.columns}


def _described_table(held: CoresetFile) -> dict[str, Any]:
    """The metadata of a table, with what shows that all of it is there."""
    points, weights = (wide(tensor.detach().cpu()).numpy() for tensor in (held.points, held.weights))
    return {**_described(held), "size": len(points), ROWS_MARK: rows_mark(points, weights, held.labels)}


def _label_name(held: CoresetFile) -> str:
    return str(held.metadata.get("label") or "label")


def _table(held: CoresetFile) -> dict[str, NDArray[Any]]:
    """Columns by name."""
    points = wide(held.points.detach().cpu()).numpy()
    table: dict[str, NDArray[Any]] = {name: points[:, k] for k, name in enumerate(held.columns)}
    if held.labels is not None:
        table[_label_name(held)] = held.labels
    return {**table, _weight_name(table): wide(held.weights.cpu()).numpy()}


def _weight_name(names: Iterable[str]) -> str:
    """The name for the column of weights: one that the data have not taken."""
    free = [name for name in (WEIGHT, SPARE) if name not in names]
    if not free:
        raise UsageError(
            f"--out: columns of the data are called {WEIGHT!r} and {SPARE!r}. Rename one, or write .npz or .pt."
        )
    return free[0]


def _write_csv(path: Path, held: CoresetFile) -> None:
    table = _table(held)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        # str of a numpy float is the shortest text that reads back as the same number.
        writer.writerows(zip(*([str(value) for value in column] for column in table.values()), strict=True))


def _write_parquet(path: Path, held: CoresetFile) -> None:
    arrow, parquet = pyarrow("pyarrow", path), pyarrow("pyarrow.parquet", path)
    table = arrow.table(_table(held))
    metadata = to_json(_described_table(held), indent=None)
    parquet.write_table(table.replace_schema_metadata({SCHEMA_KEY: metadata}), path)


def _read_table(path: Path, suffix: str) -> CoresetFile:
    arrow = pyarrow("pyarrow", path)
    try:
        if suffix == ".parquet":
            table = pyarrow("pyarrow.parquet", path).read_table(path)
            text = (table.schema.metadata or {}).get(SCHEMA_KEY, b"{}").decode("utf-8", "replace")
            metadata = read_metadata(text, path)
        else:
            metadata = _beside(path)
            csv_of_arrow = pyarrow("pyarrow.csv", path)
            labels = {str(metadata.get("label")): arrow.string()}  # 01 may be text
            table = csv_of_arrow.read_csv(path, convert_options=csv_of_arrow.ConvertOptions(column_types=labels))
    except arrow.ArrowInvalid as error:
        raise UsageError(f"{path} cannot be read as a {suffix} table ({error}).") from error
    return _from_table({name: np.asarray(table.column(name)) for name in table.schema.names}, metadata, path)


def _from_table(table: dict[str, NDArray[Any]], metadata: dict[str, Any], path: Path) -> CoresetFile:
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
    return _checked(points, weights, labels, {**metadata, "columns": list(columns)}, path)
