"""Sinkhorn against exact: coresets that minimise either, judged by exact transport to samples that none of them saw.

Each seed draws rows to build on and a start. Every divergence is minimised by `build_coreset` from that same start,
random rows, and again from the best start that it has by itself. Judged is W_2^2 to 100,000 other samples of a mixture,
with its exact shares (in the first runs also to 100,000 further ones, which tells how much of a value is the judge's
noise), or to all the other rows of a table. `to_quality` is when the exact W_2^2 to the rows built on first came within
2 % of that of the exact coreset from its best start: processor seconds since the build was called, over the runs that
came so far.

    ring      8 Gaussians of equal mass on a circle, five points for each: the shares of few samples are uneven
    unequal   5 Gaussians of unequal mass and width, which overlap

OT_eta is the Sinkhorn divergence without its two debiasing terms; its points fall together (section 4.2 of Claici,
Genevay, Solomon 2020), which `distinct` counts.

    python examples/sinkhorn_vs_exact.py [--small]
    python examples/report.py sinkhorn_vs_exact
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import experiment
import figures
import public_data
import report
import torch
from experiment import Row, Task
from torch import Tensor

import torchcoreset as tc

NAME = "sinkhorn_vs_exact"
EXACT, MANY = "exact", "exact, many samples"
SAME, BEST = "same start", "own best start"
QUALITY = 1.02  # W_2^2 of equal quality, relative to the exact coreset's
NEAR = 0.01  # distance, in scales of the data, up to which points count as one
VALUES = ("judged", "own", "ratio", "distinct", "seconds", "to_quality")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one coreset does not depend on stay out of its `repr`, by which results are kept."""

    data: dict[str, Any] = field(repr=False)
    judged: int
    many: int
    many_runs: int = field(repr=False)
    check_runs: int
    relative_blurs: list[float] = field(repr=False)
    more_blurs: list[float] = field(repr=False)
    biased_blurs: list[float] = field(repr=False)
    biased_data: list[str] = field(repr=False)
    biased_runs: int = field(repr=False)
    runs: int = field(repr=False)
    timed_runs: int
    jobs: int = field(repr=False)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Fit, judge, print tables and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    keep = out / f"{NAME}_kept.jsonl"
    rows = relative(experiment.each(run, tasks(settings), settings.jobs, keep))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["data", "method", "start", "blur"], VALUES)
    found = [{**line, **counted(rows, line)} for line in found]
    order = (MANY, EXACT, "energy", "Sinkhorn", "OT_eta")
    found.sort(key=lambda row: (list(settings.data).index(row["data"]), order.index(row["method"]), row["blur"]))
    report.conclude(NAME, rows, found, tables(found), out)
    noise = [abs(row["again"] / row["judged"] - 1) for row in rows if row.get("again")]
    if noise:
        print(f"\nother samples to judge by change a value by {max(noise):.2%} at most.")
    figures.save(draw(found), out / f"{NAME}.png")
    return found


def tasks(settings: Settings) -> list[Task]:
    """Each divergence from each start, for every seed and data set."""
    made = []
    for seed in range(settings.runs):
        for data, about in settings.data.items():
            if seed >= about.get("runs", settings.runs):
                continue
            blurs = about.get("relative_blurs", settings.relative_blurs)
            methods = [(EXACT, 0.0), ("energy", 0.0), *(("Sinkhorn", blur) for blur in blurs)]
            if seed < settings.timed_runs and "relative_blurs" not in about:
                methods += [("Sinkhorn", blur) for blur in settings.more_blurs]
                if data in settings.biased_data and seed < settings.biased_runs:
                    methods += [("OT_eta", blur) for blur in settings.biased_blurs]
            made += [Task(settings, data, method, about["size"], seed, (about["rows"], start, blur))
                     for method, blur in methods for start in (SAME, BEST)]  # fmt: skip
            if data in MIXTURES and seed < settings.many_runs and "relative_blurs" not in about:
                made.append(Task(settings, data, MANY, about["size"], seed, (settings.many, BEST, 0.0)))
    return made


class Mixture(NamedTuple):
    """Gaussians: their shares (k,), places (k, d) and widths (k,)."""

    shares: Tensor
    places: Tensor
    widths: Tensor

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Samples (rows, d)."""
        return self.of(torch.multinomial(self.shares, rows, replacement=True, generator=generator), generator)

    def of(self, kinds: Tensor, generator: torch.Generator) -> Tensor:
        """Samples (rows, d) of the Gaussians with the numbers `kinds` (rows,)."""
        normal = torch.randn(len(kinds), self.places.shape[1], generator=generator)
        return self.places[kinds] + self.widths[kinds, None] * normal


ANGLE = torch.arange(8) * (math.pi / 4)
RING = Mixture(torch.full((8,), 1 / 8), 3 * torch.stack((ANGLE.cos(), ANGLE.sin()), 1), torch.full((8,), 0.3))
UNEQUAL = Mixture(
    torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05]),
    torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.5], [-3.0, -1.0], [1.0, -3.0]]),
    torch.tensor([1.0, 0.3, 0.6, 0.4, 0.8]),
)
MIXTURES = {"ring": RING, "ring, more samples": RING, "unequal": UNEQUAL}


@cache
def population(name: str, rows: int, seed: int) -> Tensor:
    """Samples of a mixture with its exact shares, which no build sees: seeds of builds are below 10^6.

    Shares that are drawn are off by a few thousandths with 100,000 samples, which alone changes W_2^2 by a tenth where
    clusters are apart.
    """
    mixture = MIXTURES[name]
    kinds = torch.repeat_interleave(torch.arange(len(mixture.shares)), (mixture.shares * rows).round().long())
    return mixture.of(kinds, torch.Generator().manual_seed(10**6 + seed))


@cache
def table(name: str) -> Tensor:
    """The rows of a table, in standard deviations of its columns unless these have one unit."""
    X, _ = public_data.load(name)
    return torch.from_numpy(X if name in ("digits", "pendigits") else public_data.standardise(X))


def samples(task: Task) -> tuple[Tensor, Tensor]:
    """Rows to build on, and others to judge by."""
    rows = task.given[0]
    generator = torch.Generator().manual_seed(task.seed)
    if task.data in MIXTURES:
        return MIXTURES[task.data].draw(rows, generator), population(task.data, task.settings.judged, 0)
    held = table(task.data)
    order = torch.randperm(len(held), generator=generator)
    return held[order[:rows]], held[order[rows:]]


def options(method: str, blur: float) -> dict[str, Any]:
    """What `build_coreset` is told to minimise."""
    if method in (EXACT, MANY):
        return {}
    if method == "energy":
        return {"divergence": "energy"}
    return {"divergence": "sinkhorn", "relative_blur": blur, "debias": method == "Sinkhorn"}


def run(task: Task) -> Row:
    """One coreset, and how far it is from the rows that it was built on and from others."""
    y, others = samples(task)
    _, start, blur = task.given
    init = tc.Coreset.from_source(y, task.size, seed=task.seed).points.detach() if start == SAME else None
    steps: list[tuple[float, Tensor]] = []
    began = time.process_time()

    def note(step: Any) -> None:
        steps.append((time.process_time() - began, step.points.clone()))

    with warnings.catch_warnings():  # blurs beyond the data, and small ones that need more passes, are part of it
        warnings.simplefilter("ignore")
        result = tc.build_coreset(
            y, task.size, init=init, seed=task.seed, progress=False, callback=note, **options(task.method, blur)
        )
    seconds = time.process_time() - began
    points = result.coreset.points.detach()
    row: Row = {"data": task.data, "method": task.method, "start": start, "blur": blur, "seed": task.seed}
    row |= {"own": value(points, y), "judged": value(points, others), "seconds": seconds}
    row["distinct"] = distinct(points, NEAR * scale(y))
    if task.data in MIXTURES and task.seed < task.settings.check_runs:
        row["again"] = value(points, population(task.data, task.settings.judged, 1))
    if task.seed < task.settings.timed_runs and task.method in (EXACT, "energy", "Sinkhorn"):
        row["path"] = [(when, value(at, y)) for when, at in [*thinned(steps), (seconds, points)]]
    return row


def thinned(steps: list[tuple[float, Tensor]], most: int = 40) -> list[tuple[float, Tensor]]:
    """At most about `most` of the steps, the first ones among them."""
    return [step for k, step in enumerate(steps) if k < most // 2 or k % max(1, len(steps) // (most // 2)) == 0]


def value(points: Tensor, y: Tensor) -> float:
    """Exact W_2^2, to a gap of 1e-3."""
    return float(tc.transport(points, y, 2).value)


def scale(y: Tensor) -> float:
    """Median distance to the median, which `relative_blur` is a fraction of."""
    return float((y - y.median(0).values).norm(dim=1).median())


def distinct(points: Tensor, within: float) -> int:
    """Number of groups of points that hang together by distances of at most `within`."""
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(torch.cdist(points, points).numpy() <= within, directed=False)[0])


def relative(rows: Sequence[Row]) -> list[Row]:
    """With the ratio to the exact coreset of the same seed from its best start, and the time to its quality."""
    best = {(row["data"], row["seed"]): row for row in rows if (row["method"], row["start"]) == (EXACT, BEST)}
    found = []
    for row in rows:
        rival = best[row["data"], row["seed"]]
        path = row.get("path")
        when = next((t for t, at in path or () if at <= QUALITY * rival["own"]), math.nan)
        held = {key: x for key, x in row.items() if key != "path"}
        found.append({**held, "ratio": row["judged"] / rival["judged"], "timed": bool(path), "to_quality": when})
    return found


def counted(rows: Sequence[Row], line: Row) -> Row:
    """In how many runs this method, start and blur was nearer to the other samples than the exact coreset, and in how
    many of those that were timed it came to the exact coreset's quality."""
    keys = ("data", "method", "start", "blur")
    own = [row for row in rows if all(row[key] == line[key] for key in keys)]
    return {
        "nearer": sum(row["ratio"] < 1 for row in own),
        "timed": sum(row["timed"] for row in own),
        "reached": sum(not math.isnan(row["to_quality"]) for row in own),
    }


def name_of(row: Row) -> str:
    """A method with its blur."""
    return f"{row['method']}, {row['blur']:g}" if row["blur"] else str(row["method"])


def tables(found: Sequence[Row]) -> dict[str, str]:
    """A Markdown table for each data set: a line for each divergence, from either start."""
    heads = ("minimised", "start", "W2² to other samples", "relative to exact", "nearer than exact", "W2² to its rows",
             "distinct points", "seconds", "seconds to equal quality")  # fmt: skip
    made = {}
    for data in dict.fromkeys(row["data"] for row in found):
        lines = [heads, ("---",) * len(heads)]
        for row in (row for row in found if row["data"] == data):
            lines.append((
                name_of(row), row["start"], report.cell(row, "judged", 4), report.cell(row, "ratio"),
                f"{row['nearer']} of {row['runs']}", report.cell(row, "own", 4), report.cell(row, "distinct"),
                report.cell(row, "seconds", 2), reached(row),
            ))  # fmt: skip
        made[data] = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return made


def reached(row: Row) -> str:
    """The time to equal quality, and in how many of the runs that were timed it was reached."""
    if not row["timed"]:
        return ""
    return f"{row['to_quality']:.2g} ({row['reached']} of {row['timed']})" if row["reached"] else "never"


def draw(found: Sequence[Row]) -> Any:
    """A panel for each data set: W_2^2 to other samples, relative to the exact coreset, against the blur.

    OT_eta is left to the table: its values are up to a hundred times as large.
    """
    names = [data for data in dict.fromkeys(row["data"] for row in found) if ", more" not in data]
    figure, axes = figures.panels(len(names))
    look = figures.looks((EXACT, "Sinkhorn", "energy", MANY))
    for axis, data in zip(axes, names, strict=True):
        here = [row for row in found if row["data"] == data]
        blurs = sorted({row["blur"] for row in here if row["method"] == "Sinkhorn"})
        for method, (colour, _) in look.items():
            for start, dash in ((BEST, "-"), (SAME, "--")):
                line = [{**row, "method": f"{method}, {start}" if start == SAME else method} for row in here
                        if (row["method"], row["start"]) == (method, start)]  # fmt: skip
                if line and method != "Sinkhorn":  # no blur: a level line
                    line = [{**line[0], "blur": blur} for blur in (blurs[0], blurs[-1])]
                if line:
                    figures.curves(axis, line, "ratio", {line[0]["method"]: (colour, dash)}, "blur")
        axis.set(xscale="log", yscale="log", title=data, xlabel="blur, in scales of the data",
                 ylabel="W2², over exact")  # fmt: skip
        axis.set_xticks(blurs, [f"{blur:g}" for blur in blurs])
        figures.ratios(axis)
        figures.name_lines(axis)
    return figure


if __name__ == "__main__":
    main()
