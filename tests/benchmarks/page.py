"""The tables of docs/benchmarks.md: a row for each piece of work, a column for each method.

    python -m tests.benchmarks.page      after `make bench`; `make bench-page` does both

puts the tables of benchmark_output/full.json between the two marks of the page, and the plots into docs/images.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .machine import ROOT
from .methods import methods_for
from .plans import FULL, PLANS, Programme, Section
from .problems import BY_VALUE
from .record import Record
from .report import best_known, markdown, plain, ratio, read_json, summarised

OUTPUT = Path("benchmark_output")
ROUNDING = 1e-15  # of sums in float64, relative: no bracket is known to be narrower
BEGIN, END = "<!-- measured by `make bench`, written by `make bench-page` -->", "<!-- end of what was measured -->"
# What a cell says of a method that has no time; the reason stands below the table.
SHORT = {"not installed": "not installed", "unavailable": "none", "failed": "failed", "not run": "not run"}
LEGEND = """\
Cells are wall-clock and processor time, the latter of all threads. In brackets, for a transport, the true gap: the
relative distance from the optimum to the semi-dual value of the potential returned, both in float64 (a negative one is
rounding); for a training step, the number of bare hard passes (one chunked loop for the nearest point of every sample)
that fit into its processor time; for a coreset, by how much its exact $W_2^2$ with equal weights exceeds the best in
its row. The optimum is given with the relative width to which it is proven. The last column compares processor times.
Imports, compilation and conversion of arrays are not counted. What takes less than a second is repeated, five times at
most, and the best counts."""


def render(programme: Programme, records: Sequence[Record], machine: Mapping[str, object], picture: str = "") -> str:
    """What was measured, as Markdown: where, a table for each section, the plots."""
    rows = summarised(records)
    parts = [_measured_on(machine), LEGEND]
    for section in programme.sections:
        mine = [row for row in rows if row.work in section.plans]
        if mine:
            parts += [f"### {section.title}", section.about, _table(section, mine), *_reasons(mine), *_own(mine)]
    if picture:
        parts += [
            "### Growth",
            "Cold solves on N(0, I) and on 20 separated clusters. A hard pass costs n m d: where a line of the lower "
            "panels is flat, the solve grows as n m d does, too.",
            f"![processor seconds, and those over one hard pass, against n, m and d]({picture})",
        ]
        growth = programme.growth()
        parts += _reasons([row for row in rows if row.work in growth])
    return "\n\n".join(parts) + "\n"


def _measured_on(machine: Mapping[str, object]) -> str:
    versions = machine["versions"]
    assert isinstance(versions, Mapping)
    told = ", ".join(f"{name} {version}" for name, version in versions.items() if version != "not installed")
    took = machine.get("seconds of the run")
    return (
        f"{machine['processor']}, {machine['cores']} cores, threads of each method: {machine['threads']}, load at the "
        f"start: {machine['load at start']}; {str(machine['date'])[:10]}, commit {machine['commit']}, Python "
        f"{machine['python']}, {told}." + (f" {took / 60:.0f} minutes in all." if isinstance(took, int) else "")
    )


def _table(section: Section, rows: Sequence[Record]) -> str:
    """One line for each work, one column for each method that ran at least once."""
    found = {(row.work, row.method): row for row in rows}
    names = {method.name: None for plan in section.plans.values() for method in methods_for(plan)}
    shown = [name for name in names if any(row.method == name and row.status != "not installed" for row in rows)]
    ours, peer = section.compared
    judged = {plan.task for plan in section.plans.values()} <= {"transport", *BY_VALUE}
    head = ["work", *(["best known"] if judged else []), *shown, f"{ours} / {peer}"]
    lines = [head]
    for work in section.plans:
        mine = [row for row in rows if row.work == work]
        if mine:
            compared = ratio(found.get((work, ours)), found.get((work, peer)))
            best = [_best(mine)] if judged else []
            cells = [_cell(found.get((work, name))) for name in shown]
            lines.append([work, *best, *cells, "" if compared is None else f"{compared:.2g}"])
    return markdown(lines, right=set(range(1, len(head))))


def _best(rows: Sequence[Record]) -> str:
    best = best_known(rows)
    if best is None:
        return "unknown"
    value, width = best
    return f"{value:.6g}" + (f" ({max(abs(width), ROUNDING):.0e})" if width else "")


def _cell(row: Record | None) -> str:
    if row is None:
        return ""
    if row.status == "timed out" and row.seconds is not None:
        return f"over {row.seconds:.0f} s"
    if row.status != "ok" or row.seconds is None or row.processor is None:
        return SHORT.get(row.status, row.status)
    unit, scale = ("ms", 1e3) if row.processor < 0.1 else ("s", 1)
    worth = ""
    if PLANS[row.work].task == "loss" and row.hard_pass:
        worth = f" ({row.processor / row.hard_pass:.3g} passes)"
    elif row.gap is not None:
        worth = f" (+{row.gap:.2%})" if PLANS[row.work].task in BY_VALUE else f" ({row.gap:.0e})"
    return f"{row.seconds * scale:.3g} / {row.processor * scale:.3g} {unit}{worth}"


def _reasons(rows: Sequence[Record]) -> list[str]:
    """Why there is no time, once for each method and reason."""
    works: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row.status != "ok":
            works.setdefault((row.method, row.status, plain(row.reason)), []).append(row.work)
    lines = [
        f"- {method}, {status} in {'all rows' if len(names) == len({row.work for row in rows}) else '; '.join(names)}: "
        f"{reason}"
        for (method, status, reason), names in works.items()
    ]
    return ["\n".join(lines)] if lines else []


def _own(rows: Sequence[Record]) -> list[str]:
    """A folded table of what methods say of their own errors; those that say nothing have no column."""
    telling = [row for row in rows if row.own]
    if not telling:
        return []
    names, works = (list(dict.fromkeys(getattr(row, name) for row in telling)) for name in ("method", "work"))
    found = {(row.work, row.method): plain(row.own) for row in telling}
    table = markdown(
        [["work", *names], *([work, *(found.get((work, name), "") for name in names)] for work in works)], right=set()
    )
    return [f'<details markdown="1">\n<summary>Errors by each method\'s own measure</summary>\n\n{table}\n\n</details>']


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page. Raises ValueError where it has not both, in order."""
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page}: expected the marks {BEGIN} and {END}, in this order; put them where tables belong")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", "utf-8")


def main() -> None:
    """The whole page."""
    measured, picture = OUTPUT / "full.json", OUTPUT / "growth-full.png"
    if not measured.is_file():
        sys.exit(f"{measured} is missing: run `make bench` first")
    records, machine = read_json(measured)
    shown = ""
    if picture.is_file():
        shutil.copy(picture, ROOT / "docs" / "images" / "growth.png")
        shown = "images/growth.png"
    put_into(ROOT / "docs" / "benchmarks.md", render(FULL, records, machine, shown))


if __name__ == "__main__":
    main()
