"""What is said of a coreset: in its file, on the terminal and as JSON."""

from __future__ import annotations

import shlex
import time
from importlib.metadata import version
from typing import Any

from numpy.typing import NDArray

from ....sources import Scaling
from ....transport import as_cost
from ...files import as_read
from ...outcome import NOT_REACHED, OK, Outcome, note, unit_of
from .job import Job

LOOKED_AT = 1 << 22  # numbers; the columns of larger tables are not compared: it would take a second
DIVERGENCES = {"energy": "energy distance", "mmd": "maximum mean discrepancy", "sinkhorn": "Sinkhorn divergence"}
UNEVEN = 10.0  # ratio of the deviations of two columns; beyond it a note suggests --standardise


def record_of(job: Job, value: float, lower: float) -> dict[str, Any]:
    """What a file says of its coreset, whose W_p^p is between `lower` and `value`."""
    settings, table, root = job.settings, job.table, as_cost(job.p).root
    return {
        "format": 1,
        "version": version("torchcoreset"),
        "size": settings.size,
        "dimension": len(table.columns),
        "p": job.p,
        "distance": root(value),
        "bounds": [root(max(lower, 0.0)), root(value)],
        "distance_unit": job.unit or "the data's own",
        "seed": settings.seed,
        "algorithm": settings.algorithm,
        "data": table.name,
        "data_mark": table.fingerprint,
        "run_mark": job.mark,
        "columns": list(table.columns),
        "label": table.label,
        "allocation": settings.allocation if job.labels is not None else None,
        "key": settings.key,
        "row_weights": table.weights,
        "row_weights_are": settings.weights_are,
        "read": as_read(settings, table),
        "scaling": None if job.scaling is None else job.scaling.to_record(),
        "cost": None if job.metric is None else job.metric.record(),
        "hold_out": settings.hold_out or None,
        "point_weights": settings.point_weights,
        "trim": settings.trim or None,
        "rows_of_table": table.rows,
    }


def outcome_of(job: Job, record: dict[str, Any], converged: bool) -> Outcome:
    """The end of a run, in words and numbers."""
    settings = job.settings
    seconds = time.perf_counter() - job.began
    low, high = record["bounds"]
    columns = "column" if record["dimension"] == 1 else "columns"
    unit = unit_of(job.table.columns, job.unit)
    lines = [
        f"{settings.size} points for {rows_of(record)} of {record['dimension']} {columns} ({record['data']}), "
        f"{record['steps']} steps, {seconds:.1f} s",
        f"W{job.p:g} to these rows: {high:.6g}, and at least {low:.6g}, in {unit}"
        + (f", without the farthest {settings.trim:.3g} of them" if settings.trim else ""),
    ]
    if record.get("divergence"):
        lines.append(f"{DIVERGENCES[record['divergence']]} to these rows: {record['value']:.6g}")
    lines += _baseline(settings.size, record.get("random_rows"), "far" if not record.get("divergence") else "large")
    for label, found in record.get("classes", {}).items():
        lines.append(f"  class {label}: {found['points']} points, W{job.p:g} = {found['distance']:.4g}")
    lines.append(f"written  {', '.join(filter(None, (settings.out, settings.plot, settings.assignment)))}")
    if settings.hold_out:
        command = shlex.join(["torchcoreset", "certify", str(settings.out), settings.data])  # a shell expands patterns
        lines.append(f"next     {command}   (on the rows held out)")
    short = not converged and settings.algorithm != "sgd"  # which takes the steps that it is given
    if short:
        lines.append("The steps ran out while the value may still fall: allow more (--steps), or a larger --tolerance.")
    record_out = {"command": "build", **record, "out": settings.out, "plot": settings.plot, "seconds": seconds}
    return Outcome(record_out, lines, NOT_REACHED if short else OK)


def _baseline(size: int, found: dict[str, Any] | None, how: str) -> list[str]:
    """What random rows of the same number reach, in one line."""
    if found is None:
        return []
    times = "" if found["ratio"] is None else f", {found['ratio']:.3g} times as {how}"
    return [f"{size} random rows: {found['distance']:.6g}{times}    (mean of {found['sets']} sets)"]


def rows_of(record: dict[str, Any]) -> str:
    """How many rows were used, and of how many."""
    used, whole = record["rows"], record["rows_of_table"]
    built_on = record.get("rows_built_on", used)
    rows = f"{used:,} rows" if used == whole else f"{used:,} of {whole:,} rows"
    return rows if built_on == used else f"{rows}, built on {built_on:,} of them,"


def say_if_uneven(job: Job) -> None:
    """A note if columns seem to be in unlike units: a usual mistake that the result does not show."""
    columns = job.table.columns
    if job.unit is not None or job.table.rows * len(columns) > LOOKED_AT:
        return
    deviation = Scaling.of(job.source).unit
    wide, narrow = int(deviation.argmax()), int(deviation.argmin())
    ratio = float(deviation[wide] / deviation[narrow])
    if ratio > UNEVEN:
        note(
            f"note: column {columns[wide]!r} spreads {ratio:,.0f} times as wide as {columns[narrow]!r}, and decides "
            "the distance. --standardise makes columns alike.",
            quiet=job.settings.quiet,
        )


def kind_of(labels: NDArray[Any]) -> str:
    """Whether labels are text or numbers: a table of text does not say of itself."""
    return "text" if labels.dtype.kind in "UO" else "number"
