"""One long table of all records, and the same as JSON beside it."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from .methods import find_method
from .plans import PLANS
from .problems import BY_VALUE
from .record import Record

COLUMNS = ("work", "method", "value", "seconds", "processor", "ratio", "gap", "passes", "peak MiB", "note")
LEGEND = """\
value      W_p^p as the method reports it, a mean over clouds; of coresets the exact W_2^2 of the points.
seconds    wall clock, best of the repeats, of training for one step; of coresets the median over starts. Imports,
           compilation and conversion of arrays are not counted.
processor  seconds of processor time, of all threads.
ratio      processor seconds over those of the method of ours that does the same job: emd2 over "exact", stochastic
           peers over the gap they aim at (solve_semidiscrete over 1e-4), geomloss over 1e-3, KMeans over "one start".
gap        transport: (W_p^p - semi-dual of the returned potential) / W_p^p, in float64, the same lines for everyone;
           coreset: exact W_2^2 of the points over the best of all methods and starts, minus 1; medians over starts;
           partial transport: the cost of the plan over the best, minus 1.
passes     processor seconds over those of one hard pass: a bare chunked loop for min_i |y_k - x_i|^2 and its index.
peak       memory of the process above what it held with imports and data, in its first run."""
NUMBERS = ("value", "seconds", "processor", "ratio", "gap", "passes", "peak MiB")


def summarised(records: Sequence[Record]) -> list[Record]:
    """One record for each work and method: medians over the seeds that went well, with true gaps."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.work, record.method), []).append(record)
    rows = [_median(group) for group in groups.values()]
    for work in {row.work for row in rows}:
        mine = [record for record in records if record.work == work]
        best = best_known(mine)
        for row in rows:
            if row.work != work or best is None:
                continue
            if PLANS[work].task in BY_VALUE and row.value is not None:
                row.gap = row.value / best[0] - 1
            elif row.lower is not None:
                row.gap = (best[0] - row.lower) / best[0]
    return rows


def best_known(records: Sequence[Record]) -> tuple[float, float] | None:
    """Of one work: the optimum and the relative width to which it is proven; of coresets the best value, and 0.

    A transport is proven by a method that returns both sides, the cost of its plan and its potential. None where no
    method did.
    """
    good = [record for record in records if record.status == "ok" and record.value is not None and record.value > 0]
    if not good or PLANS[good[0].work].task != "transport":
        values = [record.value for record in good]
        return (min(values), 0.0) if values else None
    widths = [((r.value - r.lower) / r.value, r.value) for r in good if r.lower is not None]
    if not widths:
        return None
    width, value = min(widths, key=lambda pair: abs(pair[0]))
    return value, width


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
        **{name: middle(name) for name in ("seconds", "processor", "hard_pass", "peak", "value")},
    )


def table(records: Sequence[Record]) -> str:
    """The records as a Markdown table, aligned so that it reads well as plain text."""
    rows = summarised(records)
    cells = [list(COLUMNS), *(_cells(row, rows) for row in rows)]
    return markdown(cells, right={COLUMNS.index(name) for name in NUMBERS})


def markdown(cells: Sequence[Sequence[str]], right: set[int]) -> str:
    """A Markdown table, its first line the head, these columns aligned on the right."""
    widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]

    def laid_out(line: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if k in right else text.ljust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * (width - 1) + ":") if k in right else "-" * width for k, width in enumerate(widths)]
    return "\n".join([laid_out(cells[0]), laid_out(rule), *map(laid_out, cells[1:])])


def _cells(row: Record, rows: Sequence[Record]) -> list[str]:
    if row.status != "ok" or row.seconds is None or row.processor is None:
        # A missing peer is told in the place of its seconds, so that nobody has to look for it.
        return [row.work, row.method, "", row.status, "", "", "", "", "", plain(row.reason)]
    ratio = ratio_to_ours(row, rows)
    return [
        row.work,
        row.method,
        "" if row.value is None else f"{row.value:.6g}",
        f"{row.seconds:.3g}",
        f"{row.processor:.3g}",
        "" if ratio is None else f"{ratio:.3g}",
        "" if row.gap is None else f"{row.gap:.1e}",
        "" if not row.hard_pass else f"{row.processor / row.hard_pass:.3g}",
        "" if row.peak is None else f"{row.peak / 2**20:.0f}",
        plain("; ".join(filter(None, [row.note, f"of itself: {row.own}" if row.own else ""]))),
    ]


def plain(text: str) -> str:
    """Text that does not end the cell of a table."""
    return text.replace("|", "/").replace("\n", " ")


def ratio_to_ours(row: Record, rows: Sequence[Record]) -> float | None:
    """Processor seconds over those of the method of ours that does the same job; None without one."""
    rival = find_method(PLANS[row.work].task, row.method).rival
    return ratio(row, next((other for other in rows if (other.work, other.method) == (row.work, rival)), None))


def ratio(row: Record | None, other: Record | None) -> float | None:
    """Processor seconds of one over those of the other; None where one has none."""
    if row is None or other is None or not row.processor or not other.processor:
        return None
    return row.processor / other.processor


def write_json(path: Path, records: Sequence[Record], machine: dict[str, object]) -> None:
    """Everything measured, the summary of it, and where."""
    rows = summarised(records)
    summary = [{**dataclasses.asdict(row), "ratio": ratio_to_ours(row, rows)} for row in rows]
    measured = {"machine": machine, "summary": summary, "records": [dataclasses.asdict(record) for record in records]}
    path.write_text(json.dumps(measured, indent=1) + "\n")


def read_json(path: Path) -> tuple[list[Record], dict[str, object]]:
    """The records that `write_json` wrote, and where they were measured."""
    measured = json.loads(path.read_text())
    return [Record(**record) for record in measured["records"]], measured["machine"]
