"""Draws the chart of speed of the README from the tables of benchmarks.md: `python docs/speed.py [FOLDER]`.

`make bench-page` measures again, rewrites these tables and draws the chart.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent / "images"
TABLES = Path(__file__).parent / "benchmarks.md"

# Work of the tables, what it is called in the chart, and its methods: column of the table and name in the chart.
CHOSEN = {
    "n=50 m=50k d=2": ("exact W₂, 50 points and\n50,000 samples in the plane", {"ours, exact": "", "POT emd2": "POT"}),
    "n=100 m=100k d=16": (
        "exact W₂, 100 points and\n100,000 samples, d = 16",
        {"ours, exact": "", "POT emd2": "POT"},
    ),
    "n=500 m=5,000 d=16": (
        "a training step, 500 points\nand 5,000 samples, d = 16",
        {"ours, CoresetLoss": "", "POT emd2": "POT"},
    ),
    "pendigits 8k n=100": (
        "100 points of equal weight\nfor 8,000 rows, d = 16",
        {"ours": "", "POT free_support_barycenter": "POT", "k-means-constrained": "k-means-constrained"},
    ),
}
OURS = "torchcoreset"
INKS = {"light": ("#1f2328", "#2f6fdb", "#b6bec9"), "dark": ("#e6edf3", "#6ea8fe", "#4b5563")}  # text, ours, peers


class Bar(NamedTuple):
    """Wall-clock seconds of one method for one piece of work."""

    work: str
    method: str
    seconds: float


def bars(page: str) -> list[Bar]:
    """The chosen cells of the tables of the page. Raises KeyError where one is missing."""
    cells = _cells(page)
    found = []
    for work, (title, methods) in CHOSEN.items():
        for column, name in methods.items():
            found.append(Bar(title, name or OURS, _seconds(cells[work, column])))
    return found


def _cells(page: str) -> dict[tuple[str, str], str]:
    """Cells of all tables that have a column `work`, by its entry and the column; the first of a name counts."""
    cells: dict[tuple[str, str], str] = {}
    header: list[str] = []
    for line in page.splitlines():
        row = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if row and row[0] == "work":
            header = row
        elif header and len(row) == len(header):
            for column, cell in zip(header[1:], row[1:], strict=True):
                cells.setdefault((row[0], column), cell)
        else:
            header = []
    return cells


def _seconds(cell: str) -> float:
    """The first number of "wall / processor unit (more)", in seconds."""
    match = re.match(r"([\d.]+) / [\d.]+ (ms|s)\b", cell)
    if match is None:
        raise ValueError(f"docs/benchmarks.md: got the cell {cell!r}; expected 'SECONDS / SECONDS s (...)' or in ms")
    return float(match[1]) * (1e-3 if match[2] == "ms" else 1)


def said(seconds: float) -> str:
    """Seconds with three digits, in the unit that suits."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.09995 else f"{seconds:.3g} s"


def record(drawn: list[Bar]) -> str:
    """What the chart shows, in words, which its file keeps as its description."""
    return "; ".join(f"{bar.work.replace(chr(10), ' ')}, {bar.method}: {said(bar.seconds)}" for bar in drawn)


def draw(folder: Path) -> None:
    drawn = bars(TABLES.read_text("utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    # A fixed salt and no date: the same numbers give the same file.
    mpl.rcParams["svg.hashsalt"] = "speed"
    for name, inks in INKS.items():
        figure = chart(drawn, *inks)
        figure.savefig(
            folder / f"speed-{name}.svg", transparent=True, metadata={"Date": None, "Description": record(drawn)}
        )
        plt.close(figure)


def chart(drawn: list[Bar], ink: str, ours: str, peers: str) -> Any:
    """Horizontal bars of seconds on a logarithmic axis, a group for each piece of work."""
    figure, axes = plt.subplots(figsize=(8.2, 3.9))
    at, height, last = 0.0, 0.8, drawn[0].work
    for bar in drawn:
        if bar.work != last:
            at, last = at + 0.75, bar.work
        axes.barh(at, bar.seconds, height, left=0, color=ours if bar.method == OURS else peers)
        axes.text(bar.seconds * 1.12, at, f"{bar.method}  {said(bar.seconds)}", va="center", color=ink, fontsize=9.5,
                  fontweight="bold" if bar.method == OURS else "normal")  # fmt: skip
        if bar.method == OURS:
            axes.text(0.0088, at + 0.5, bar.work, va="center", ha="right", color=ink, fontsize=9.5)
        at += 1
    axes.set(xscale="log", xlim=(0.01, 330))
    axes.invert_yaxis()
    axes.set_yticks([])
    axes.set_xticks([0.01, 0.1, 1, 10, 100], ["10 ms", "0.1 s", "1 s", "10 s", "100 s"])
    axes.minorticks_off()
    axes.tick_params(colors=ink, labelsize=9, length=0)
    axes.xaxis.grid(color=ink, alpha=0.15)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title("Seconds on one thread, logarithmic: shorter is faster", color=ink, fontsize=10.5, loc="left")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
