"""How long does a coreset take? The paper's data sets and sizes, one after another.

The paper reports "a few seconds for small coresets on small datasets, to 5 minutes on large datasets where large
coresets are required", for C++ on the four cores of an i7-6700K. Here each row is one `build_coreset` with its default
settings, from the samples in memory to the converged points. Wall seconds depend on what else the machine does;
processor seconds hardly do, and exceed wall seconds where several threads work.

    python examples/timing.py --config configs/timing.yaml             # ten minutes or so; prints a Markdown table
    python examples/timing.py --config configs/timing.yaml --small     # a second, scikit-learn's digits

Source: Claici, Genevay, Solomon (2020), section 4.5, "Implementation details".
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import experiment
import figures
import public_data
import torch
from experiment import Row
from torch import Tensor

import torchcoreset as tc

LIMIT = 300.0  # seconds: the paper's 5 minutes
HEADS = {
    "data": "data",
    "rows": "rows",
    "columns": "columns",
    "p": "p",
    "size": "points",
    "distance": "W_p",
    "gap": "gap",
    "steps": "steps",
    "seconds": "seconds",
    "processor": "processor seconds",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML file says."""

    data: list[str]
    scaled: list[str]
    sizes: dict[float, list[int]]
    runs: int


def main(arguments: list[str] | None = None) -> list[Row]:
    """Time every build, print the table as it grows, write it and draw it."""
    settings, out = experiment.read(Settings, "timing", __doc__, arguments)
    began = load()
    print(f"| {' | '.join(HEADS.values())} |\n|{' --- |' * len(HEADS)}")
    rows = []
    for group in cases(settings):
        rows += group
        print(line(experiment.summary(group, ["data", "p", "size"])[0]), flush=True)
    experiment.write("timing", rows, settings, out)
    means = experiment.summary(rows, ["data", "p", "size"])
    draw(means, out / "timing.png")
    print(f"\n{torch.get_num_threads()} threads; load of the machine {began} at the start, {load()} at the end")
    print(conclusion(means))
    return means


def cases(settings: Settings) -> Iterator[list[Row]]:
    """The runs of each data set, power and size in turn."""
    for name in settings.data:
        X, _ = public_data.load(name)
        samples = torch.from_numpy(public_data.standardise(X) if name in settings.scaled else X)
        for p, sizes in settings.sizes.items():
            for size in sizes:
                yield [time_one(name, samples, size, p, seed) for seed in range(settings.runs)]


def time_one(name: str, samples: Tensor, size: int, p: float, seed: int) -> Row:
    """One build: its distance to the samples, how far that can be from exact, and what it took."""
    processor = time.process_time()
    result, seconds = experiment.timed(lambda: tc.build_coreset(samples, size, p=p, seed=seed, progress=False))
    return {
        "data": name,
        "rows": len(samples),
        "columns": samples.shape[1],
        "p": p,
        "size": size,
        "seed": seed,
        "distance": result.distance,
        "gap": result.transport.gap,
        "steps": len(result.history),
        "seconds": seconds,
        "processor": time.process_time() - processor,
    }


def line(row: Row) -> str:
    """A line of the Markdown table."""
    form = {"distance": ".4g", "gap": ".0e", "steps": ".0f", "rows": ",.0f", "columns": ".0f", "p": "g"}
    cells = [format(row[key], form.get(key, "" if isinstance(row[key], (str, int)) else ".2f")) for key in HEADS]
    return "| " + " | ".join(cells) + " |"


def load() -> str:
    """Mean number of running processes of the last minute, where the system tells."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def conclusion(means: Sequence[Row]) -> str:
    """What the numbers say about the paper's five minutes."""
    slowest = max(means, key=lambda row: row["seconds"])
    quick = sum(row["seconds"] < 10 for row in means)
    verdict = "within" if slowest["seconds"] < LIMIT else "beyond"
    return (
        f"Conclusion: {quick} of {len(means)} coresets take less than 10 seconds, and the slowest ({slowest['size']} "
        f"points for {slowest['data']}, p = {slowest['p']:g}) takes {slowest['seconds']:.0f} s, {verdict} the paper's "
        f"5 minutes."
    )


def draw(means: Sequence[Row], path: Path) -> None:
    """Seconds against the number of points, a panel for each power."""
    plt = figures.pyplot()
    powers = list(dict.fromkeys(row["p"] for row in means))
    figure, axes = plt.subplots(
        1, len(powers), figsize=(5 * len(powers), 4), sharey=True, squeeze=False, layout="constrained", dpi=130
    )
    for axis, p in zip(axes[0], powers, strict=True):
        lines: dict[Any, list[Row]] = {}
        for row in means:
            if row["p"] == p:
                lines.setdefault((row["data"], row["rows"]), []).append(row)
        for ((name, rows), held), colour in zip(lines.items(), experiment.COLOURS, strict=False):
            points, seconds = ([row[key] for row in held] for key in ("size", "seconds"))
            axis.loglog(points, seconds, "o-", color=colour, markersize=4, label=f"{name}, {rows:,.0f} rows")
        axis.axhline(LIMIT, color="#333333", linestyle="--", linewidth=1)
        axis.text(
            min(row["size"] for row in means), LIMIT * 0.8, "the paper's longest, four cores", va="top", fontsize=8
        )
        axis.set(title=f"$W_{p:g}$", xlabel="points", ylabel="seconds")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, loc="outside lower center", ncols=len(labels))
    figures.save(figure, path)


if __name__ == "__main__":
    main()
