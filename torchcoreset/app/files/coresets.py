"""Coresets in files, with their metadata, in the formats that `stored` reads."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from ...archives import pyarrow, wide
from ...coresets import Coreset, replacing, write_arrays
from ...sources import Scaling
from ...transport.costs import Metric, metric_of
from ..outcome import to_json
from ..outputs import sidecar
from ..settings import DataSettings, UsageError
from ..stored import (
    ROWS_MARK,
    SCHEMA_KEY,
    SPARE,
    WEIGHT,
    check_format,
    is_coreset,
    names_of_features,
    read_stored,
    rows_mark,
)
from .pictures import check_place


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
        return names_of_features(self.metadata, self.points.shape[1])

    @property
    def scaling(self) -> Scaling | None:
        """In whose units distances are, if the columns were standardised."""
        record = self.metadata.get("scaling")
        return None if record is None else Scaling.from_record(record)

    @property
    def cost(self) -> Metric | None:
        """The distance that the points are for, if it is not the Euclidean one."""
        record = self.metadata.get("cost")
        return None if record is None else metric_of(record)

    def coreset(self, scaling: Scaling | None = None) -> Coreset:
        """Points, in units of the scaling if one is given, and weights; it knows its distance."""
        coreset = Coreset(self.points if scaling is None else scaling.apply(self.points), self.weights)
        coreset.cost = self.cost
        return coreset


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
        if held.metadata.get("cost") is not None:
            text["cost"] = to_json(held.metadata["cost"], indent=None)  # where Coreset.load looks for it
        write_arrays(path, {"points": held.points, "weights": held.weights}, text, held.labels)
        return
    if suffix == ".csv":  # first: a process that dies in between leaves no table without it
        with replacing(sidecar(path)) as beside:
            beside.write_text(to_json(_described_table(held)) + "\n", "utf-8")
    with replacing(path) as beside:
        {".csv": _write_csv, ".parquet": _write_parquet}[suffix](beside, held)


def read_coreset(name: str) -> CoresetFile:
    """Read what `write_coreset` wrote, or `Coreset.save`, or any table of points in one of the formats."""
    stored = read_stored(name)
    labels, metadata = stored.labels, stored.metadata
    try:
        coreset = Coreset(stored.points, stored.weights)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{name}: {error}") from error
    if labels is not None and labels.shape != (coreset.size,):
        raise UsageError(
            f"{name}: got labels of shape {labels.shape} for {coreset.size} points; expected one for each."
        )
    held = CoresetFile(coreset.points.detach(), coreset.weights, labels, metadata)
    try:
        _ = held.cost
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(
            f"{name}: its metadata is damaged or not ours: cost={str(metadata['cost'])[:40]!r}."
        ) from error
    if held.scaling is not None and {len(held.scaling.centre), *held.scaling.unit.shape} != {len(held.columns)}:
        raise UsageError(f"{name}: its metadata scale other columns than its {len(held.columns)}.")
    return held


def check_table(settings: DataSettings) -> None:
    """Raise if the table that a command is to read is a coreset, unless its weights or an array of it are named."""
    path = Path(settings.data)
    if settings.weights is None and settings.key is None and path.is_file() and is_coreset(path):
        name = WEIGHT if path.suffix.lower() in (".csv", ".parquet") else "weights"
        raise UsageError(
            f"DATA: {settings.data} is a coreset; expected the table of data. If its points are meant as rows, say so "
            f"with their weights: --weights {name}."
        )


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
