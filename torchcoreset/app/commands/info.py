"""`torchcoreset info`: what a file holds, or what this installation can do."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchcoreset as tc

from ...sources import Scaling
from ..files import CoresetFile, DataSettings, is_coreset, read_coreset, read_table
from ..outcome import Outcome
from ..settings import argument, option
from .certify import power

PACKAGES = {
    "geomloss": "Sinkhorn divergences by geomloss",
    "jsonargparse": "this command line",
    "matplotlib": "pictures",
    "pandas": "DataFrames",
    "pyarrow": "CSV and Parquet files",
    "pykeops": "engine keops",
    "scikit-learn": "the estimator and example:digits",
    "tqdm": "progress bars",
}

# What is printed of a coreset's metadata, beside size, distance and columns.
SHOWN = (
    "data", "row_weights", "row_weights_are", "rows", "hold_out", "algorithm", "steps", "status", "seed",
    "distance_unit", "version",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class InfoSettings(DataSettings):
    """Settings of `info`."""

    data: str = argument("coreset file or table; nothing shows the installation", "")
    size: int | None = option("of a table: what a build of this many points would take", None, metavar="N")


def run(settings: InfoSettings) -> Outcome:
    """Look and say."""
    if not settings.data:
        return _installation()
    path = Path(settings.data)
    if path.is_file() and is_coreset(path):
        return _coreset(settings.data, read_coreset(settings.data))
    return _table(settings)


def _coreset(name: str, held: CoresetFile) -> Outcome:
    size, dimension = held.points.shape
    equal = bool((held.weights == held.weights[0]).all())
    known = {key: value for key, value in held.metadata.items() if key not in ("columns", "scaling", "classes")}
    record = {"command": "info", "kind": "coreset", "file": name, **known, "size": size, "dimension": dimension}
    lines = [
        f"{name}: coreset of {size} points in {dimension} {'column' if dimension == 1 else 'columns'}, weights "
        f"{'equal' if equal else 'unequal'}"
    ]
    low, high = held.metadata.get("bounds") or (None, None)
    if low is not None and high is not None:
        lines.append(f"W{power(None, held):g} to the rows of the build: {high:.6g}, at least {low:.6g}")
    if held.labels is not None:
        record["points_of_class"] = _counts(held.labels)
        lines.append(f"points of each class: {_listed(record['points_of_class'])}")
    lines.append(f"columns: {_shortened(held.columns)}")
    lines += [f"{key.replace('_', ' ')}: {known[key]}" for key in SHOWN if known.get(key) is not None]
    return Outcome(record | {"columns": held.columns}, lines)


def _table(settings: InfoSettings) -> Outcome:
    table = read_table(settings)
    scaling = Scaling.of(table.source)
    lines = [f"{table.name}: table of {table.rows:,} rows and {len(table.columns)} columns of features"]
    width = max(len(name) for name in table.columns[:20])
    columns = zip(table.columns, scaling.centre.tolist(), scaling.unit.tolist(), strict=True)
    lines += [
        f"  {name:{width}}  mean {mean:.5g}, deviation {deviation:.5g}" for name, mean, deviation in islice(columns, 20)
    ]
    if len(table.columns) > 20:
        lines.append(f"  and {len(table.columns) - 20} more")
    record: dict[str, Any] = {"command": "info", "kind": "table", "file": settings.data, "rows": table.rows}
    record |= {"columns": list(table.columns), **scaling.to_record()}
    ratio = float(scaling.unit.max() / scaling.unit.min())
    if ratio > 10:
        lines.append(f"The widest column spreads {ratio:.3g} times as wide as the narrowest: consider --standardise.")
    if table.labels is not None:
        record["rows_of_class"] = _counts(table.labels)
        lines.append(f"rows of each class: {_listed(record['rows_of_class'])}")
    if settings.size is not None:
        needed = tc.preflight(table.source, settings.size)
        record["preflight"] = {"memory": needed.memory, "seconds": needed.seconds, "advice": list(needed.advice)}
        lines.append(f"{settings.size} points would take {needed!r}")
    return Outcome(record, lines)


def _installation() -> Outcome:
    record: dict[str, Any] = {
        "command": "info",
        "kind": "installation",
        "version": version("torchcoreset"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cuda": [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())],
        "packages": {name: _version(name) for name in PACKAGES},
    }
    lines = [
        f"torchcoreset {record['version']}, Python {record['python']}, torch {record['torch']} on "
        f"{record['threads']} threads, GPU: {', '.join(record['cuda']) or 'none'}"
    ]
    lines += [
        f"  {name:14}{record['packages'][name] or 'not installed':16}{purpose}" for name, purpose in PACKAGES.items()
    ]
    return Outcome(record, lines)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _counts(labels: Any) -> dict[str, int]:
    """How often each label occurs."""
    found, counts = np.unique(labels, return_counts=True)
    return dict(zip(map(str, found.tolist()), counts.tolist(), strict=True))


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{label}: {count}" for label, count in counts.items())


def _shortened(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 12 else [*names[:10], f"... ({len(names)} in all)"])
