"""What a table holds, and what a build on it would take."""

from __future__ import annotations

from itertools import islice
from typing import Any

import torchcoreset as tc

from ....sources import Scaling
from ...files import read_table
from ...outcome import Outcome
from ...settings import InfoSettings
from .command import counts, listed

MOST_COLUMNS = 20  # that are printed


def table(settings: InfoSettings) -> Outcome:
    """Its columns, and their means and deviations."""
    held = read_table(settings)
    scaling = Scaling.of(held.source)
    lines = [f"{held.name}: table of {held.rows:,} rows and {len(held.columns)} columns of features"]
    width = max(len(name) for name in held.columns[:MOST_COLUMNS])
    columns = zip(held.columns, scaling.centre.tolist(), scaling.unit.tolist(), strict=True)
    lines += [
        f"  {name:{width}}  mean {mean:.5g}, deviation {deviation:.5g}"
        for name, mean, deviation in islice(columns, MOST_COLUMNS)
    ]
    if len(held.columns) > MOST_COLUMNS:
        lines.append(f"  and {len(held.columns) - MOST_COLUMNS} more")
    record: dict[str, Any] = {"command": "info", "kind": "table", "file": settings.data, "rows": held.rows}
    record |= {"columns": list(held.columns), **scaling.to_record()}
    ratio = float(scaling.unit.max() / scaling.unit.min())
    if ratio > 10:
        lines.append(f"The widest column spreads {ratio:.3g} times as wide as the narrowest: consider --standardise.")
    if held.labels is not None:
        record["rows_of_class"] = counts(held.labels)
        lines.append(f"rows of each class: {listed(record['rows_of_class'])}")
    if settings.size is not None:
        needed = tc.preflight(held.source, settings.size)
        record["preflight"] = {"memory": needed.memory, "seconds": needed.seconds, "advice": list(needed.advice)}
        lines.append(f"{settings.size} points would take {needed!r}")
    return Outcome(record, lines)
