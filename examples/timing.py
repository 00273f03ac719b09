"""How long does a coreset take? The paper's data sets, from 10 to 1,000 points.

The paper reports "a few seconds for small coresets on small datasets, to 5 minutes on large datasets where large
coresets are required", for C++ on the four cores of an i7-6700K. Here each run is one `build_coreset` with its default
settings, from the samples in memory to the converged points. Seconds are processor time, of all threads: they hardly
depend on what else the machine does.

    python examples/timing.py --config configs/timing.yaml [--small]
    python examples/report.py timing

Source: Claici, Genevay, Solomon (2020), section 4.5, "Implementation details".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import experiment
import figures
import public_data
import report
import torch
from experiment import Row, Task
from torch import Tensor

import torchcoreset as tc

NAME = "timing"
LIMIT = 300.0  # seconds: the paper's 5 minutes
POWERS = {"W2": 2.0, "W1": 1.0}
VALUES = ("seconds", "distance", "steps", "gap")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one build does not depend on stay out of its `repr`, by which results are kept."""

    data: list[str] = field(repr=False)
    scaled: list[str]
    sizes: list[int] = field(repr=False)
    methods: list[str] = field(repr=False)
    largest: dict[str, int] = field(repr=False, default_factory=dict)
    runs: int = field(repr=False)
    jobs: int = field(repr=False)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Time every build, print the tables and draw them; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    for method in settings.methods:
        if method not in POWERS:
            raise SystemExit(f"method {method!r}: expected some of {', '.join(POWERS)}.")
    tasks = [
        task
        for task in experiment.tasks(settings, settings.methods)
        if task.size <= settings.largest.get(task.method, task.size)
    ]
    rows = experiment.each(run, tasks, settings.jobs, out / f"{NAME}_kept.jsonl")
    rows.sort(key=lambda row: (settings.methods.index(row["method"]), settings.data.index(row["data"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["method", "data", "rows", "columns", "size"], VALUES)
    report.conclude(NAME, rows, found, tables(found), out)
    print(f"\n{conclusion(found)}")
    figures.save(draw(found), out / f"{NAME}.png")
    return found


@cache
def samples(name: str, scale: bool) -> Tensor:
    """Rows (m, d) of a data set, its columns standardised if so asked."""
    X, _ = public_data.load(name)
    return torch.from_numpy(public_data.standardise(X) if scale else X)


def run(task: Task) -> Row:
    """One build: its distance to the samples, how far that can be from exact, and what it took."""
    held, p = samples(task.data, task.data in task.settings.scaled), POWERS[task.method]
    result, seconds = experiment.timed(lambda: tc.build_coreset(held, task.size, p=p, seed=task.seed, progress=False))
    return {
        "method": task.method,
        "data": task.data,
        "rows": len(held),
        "columns": held.shape[1],
        "size": task.size,
        "seed": task.seed,
        "distance": result.distance,
        "gap": result.transport.gap,
        "steps": len(result.history),
        "seconds": seconds,
    }


def named(row: Row) -> Row:
    """The row with "data set", its name with the numbers of rows and columns."""
    return {**row, "data set": f"{row['data']}, {row['rows']:,} x {row['columns']}"}


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of seconds, distances, steps and gaps, for each power."""
    names = {"seconds": "processor seconds", "distance": "distance", "steps": "steps", "gap": "gap"}
    made = {}
    for method in dict.fromkeys(row["method"] for row in found):
        here = [named(row) for row in found if row["method"] == method]
        for value, name in names.items():
            made[f"{method}, {name}"] = report.table(here, value, "data set", "size", 3 if value == "distance" else 2)
    return made


def conclusion(found: Sequence[Row]) -> str:
    """What the medians say about the paper's five minutes."""
    slowest = max(found, key=lambda row: row["seconds"])
    quick = sum(row["seconds"] < 10 for row in found)
    verdict = "within" if slowest["seconds"] < LIMIT else "beyond"
    return (
        f"Conclusion: {quick} of {len(found)} coresets take less than 10 processor seconds, and the slowest "
        f"({slowest['size']} points for {slowest['data']}, {slowest['method']}) takes {slowest['seconds']:.0f} s, "
        f"{verdict} the paper's 5 minutes."
    )


def draw(found: Sequence[Row]) -> Any:
    """Processor seconds against the number of points, a panel for each power."""
    methods = list(dict.fromkeys(row["method"] for row in found))
    figure, axes = figures.panels(len(methods))
    for axis, method in zip(axes, methods, strict=True):
        here = [{**row, "method": row["data"]} for row in found if row["method"] == method]
        figures.curves(axis, here, "seconds", figures.looks(dict.fromkeys(row["method"] for row in here)))
        axis.set(yscale="log", title=f"$W_{POWERS[method]:g}$", xlabel="points", ylabel="processor seconds")
        axis.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        figures.sizes(axis, (row["size"] for row in here))
        axis.axhline(LIMIT, color="#333333", linestyle="--", linewidth=1, label="_paper")
        axis.text(min(row["size"] for row in here), LIMIT * 0.85, "the paper's longest", va="top", fontsize=7.5)
        figures.name_lines(axis)
    return figure


if __name__ == "__main__":
    main()
