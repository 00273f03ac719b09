"""One table of all records, and the same as JSON beside it."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from .methods import find_method
from .problems import PLANS
from .record import Record

COLUMNS = ("work", "method", "W2^2", "seconds", "ratio", "gap", "passes", "peak MiB", "note")
LEGEND = """\
seconds  best of the repeats; of coresets the median over starts. Compilation and conversion of arrays are not counted.
ratio    seconds over those of the method of ours that does the same job: emd2 over "exact", stochastic peers over the
         gap they aim at (solve_semidiscrete over 1e-4), geomloss over 1e-3, coresets over "ours".
gap      transport: (W2^2 - semi-dual of the returned potential) / W2^2, in float64, the same lines for everyone;
         coreset: exact W2^2 of the points over the best of all methods and starts, minus 1; medians over starts.
passes   seconds over those of one hard pass: a bare chunked torch loop for min_i |y_k - x_i|^2 and its index, float32.
peak     memory of the process above what it held with imports and data, in its first run."""


def summarised(records: Sequence[Record]) -> list[Record]:
    """One record for each work and method: medians over the seeds that went well, and coreset gaps."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.work, record.method), []).append(record)
    rows = [_median(group) for group in groups.values()]
    for work in {row.work for row in rows if PLANS[row.work].task == "coreset"}:
        values = [record.value for record in records if record.work == work and record.value is not None]
        for row in rows:
            if row.work == work and row.value is not None:
                row.gap = row.value / min(values) - 1
    return rows


def _median(group: Sequence[Record]) -> Record:
    good = [record for record in group if record.status == "ok"]
    if len(group) == 1 or not good:
        return dataclasses.replace(group[0])

    def middle(name: str) -> float | None:
        values = [getattr(record, name) for record in good if getattr(record, name) is not None]
        return statistics.median(values) if values else None

    return dataclasses.replace(
        good[0],
        runs=[seconds for record in good for seconds in record.runs],
        note=f"{len(good)} of {len(group)} starts; first: {good[0].note}",
        **{name: middle(name) for name in ("seconds", "hard_pass", "minimum_only", "peak", "value", "gap")},
    )


def table(records: Sequence[Record]) -> str:
    """The records as a Markdown table, aligned so that it reads well as plain text."""
    rows = summarised(records)
    cells = [list(COLUMNS), *(_cells(row, rows) for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(COLUMNS))]
    right = {COLUMNS.index(name) for name in ("W2^2", "seconds", "ratio", "gap", "passes", "peak MiB")}

    def laid_out(line: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if k in right else text.ljust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |".rstrip()

    rule = [("-" * (width - 1) + ":") if k in right else "-" * width for k, width in enumerate(widths)]
    return "\n".join([laid_out(cells[0]), laid_out(rule), *map(laid_out, cells[1:])])


def _cells(row: Record, rows: Sequence[Record]) -> list[str]:
    if row.status != "ok":
        # A missing peer is told in the place of its seconds, so that nobody has to look for it.
        return [row.work, row.method, "", row.status, "", "", "", "", row.reason.replace("|", "/")]
    assert row.seconds is not None
    ratio = ratio_to_ours(row, rows)
    return [
        row.work,
        row.method,
        "" if row.value is None else f"{row.value:.6g}",
        f"{row.seconds:.3g}",
        "" if ratio is None else f"{ratio:.3g}",
        "" if row.gap is None else f"{row.gap:.1e}",
        "" if not row.hard_pass else f"{row.seconds / row.hard_pass:.3g}",
        "" if row.peak is None else f"{row.peak / 2**20:.0f}",
        row.note.replace("|", "/"),
    ]


def ratio_to_ours(row: Record, rows: Sequence[Record]) -> float | None:
    """Seconds over those of the method of ours that does the same job; None without one."""
    if row.status != "ok":  # of work whose data is missing there is a line, but no method
        return None
    rival = find_method(PLANS[row.work].task, row.method).rival
    for other in rows:
        if (other.work, other.method) == (row.work, rival) and other.seconds and row.seconds:
            return row.seconds / other.seconds
    return None


def write_json(path: Path, records: Sequence[Record], machine: dict[str, object], growth: object) -> None:
    """Everything measured, the summary of it, and where."""
    path.write_text(
        json.dumps(
            {
                "machine": machine,
                "summary": [
                    {**dataclasses.asdict(row), "ratio": ratio_to_ours(row, rows)}
                    for rows in [summarised(records)]
                    for row in rows
                ],
                "records": [dataclasses.asdict(record) for record in records],
                "growth": growth,
            },
            indent=1,
        )
        + "\n"
    )
