"""From an experiment to its page: quartiles as CSV, the picture and the tables.

    python examples/report.py kmeans        # after `python examples/kmeans.py`: what it wrote, put into docs/results

The CSV of a page begins with lines of `#` that say where and how it was run; `pandas.read_csv(path, comment="#")`.
The page's tables stand between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import os
import platform
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import figures
import torch

Row = dict[str, Any]
DOCS = Path(__file__).resolve().parents[1] / "docs"
ENDS = ("_low", "", "_high")
PACKAGES = ("torchcoreset", "torch", "numpy", "scipy", "scikit-learn", "goodpoints", "stein-thinning",
            "kmedoids", "POT", "geomloss")  # fmt: skip


def quartiles(rows: Iterable[Row], by: Sequence[str], values: Sequence[str]) -> list[Row]:
    """Rows with equal values of `by` made one: the median of each of `values`, with quartiles as _low and _high.

    A value that is not a number was not measured in that run, and is left out.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in by), []).append(row)
    found = []
    for key, group in groups.items():
        line: Row = {**dict(zip(by, key, strict=True)), "runs": len(group)}
        for name in values:
            held = [row[name] for row in group if not math.isnan(row[name])] or [math.nan]
            three = statistics.quantiles(held, n=4, method="inclusive") if len(held) > 1 else held * 3
            line.update({name + end: number for end, number in zip(ENDS, three, strict=True)})
        found.append(line)
    return found


def conclude(name: str, rows: Sequence[Row], found: Sequence[Row], tables: Mapping[str, str], out: Path) -> None:
    """At the end of a run: the quartiles as CSV, the tables printed, and what was kept to go on from removed."""
    write(out / f"{name}_quartiles.csv", found, about(rows))
    (out / f"{name}_kept.jsonl").unlink()
    for title, text in tables.items():
        print(f"\n{title}\n\n{text}")


def wins(rows: Iterable[Row], value: str, one: str, other: str) -> tuple[int, int]:
    """In how many runs the method `one` has less than `other`, and how many both have, paired by their seeds."""
    held: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        held.setdefault((row.get("data"), row["size"], row["seed"]), {})[row["method"]] = row[value]
    pairs = [(found[one], found[other]) for found in held.values() if one in found and other in found]
    return sum(a < b for a, b in pairs), len(pairs)


def table(rows: Iterable[Row], value: str, down: str = "size", across: str = "method", digits: int = 3) -> str:
    """Markdown: the median with its quartiles, a line for each `down`, a column for each `across`."""
    return grid(rows, lambda row: cell(row, value, digits), down, across)


def grid(rows: Iterable[Row], text: Callable[[Row], str], down: str = "method", across: str = "size") -> str:
    """Markdown: what `text` says of each row, a line for each `down`, a column for each `across`."""
    cells = {(row[down], row[across]): text(row) for row in rows}
    lines, columns = (list(dict.fromkeys(key[place] for key in cells)) for place in (0, 1))
    made = [[down, *map(str, columns)], ["---"] * (len(columns) + 1)]
    made += [[str(line), *(cells.get((line, column), "") for column in columns)] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in made)


def intervals(rows: Iterable[Row], lower: str, upper: str) -> str:
    """Markdown, by method and size: "4.78 to 5.17", the medians of both ends of an interval."""
    return grid(rows, lambda row: f"{row[lower]:.3g} to {row[upper]:.3g}")


def counts(rows: Iterable[Row], *names: str) -> str:
    """Markdown, by method and size: "9, 7 of 10", each of `names` as a number of runs."""
    return grid(rows, lambda row: f"{', '.join(str(row[name]) for name in names)} of {row['runs']}")


def cell(row: Mapping[str, Any], value: str, digits: int = 3) -> str:
    """ "0.021 (0.018, 0.025)": a median and its quartiles."""
    low, middle, high = (f"{row[value + end]:.{digits}g}" for end in ENDS)
    return middle if low == high else f"{middle} ({low}, {high})"


def about(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where and how an experiment was run, as lines of text; `rows` have their "seed" and "seconds"."""
    held = []
    for package in PACKAGES:
        try:
            held.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    last, seconds = max(row["seed"] for row in rows), sum(row["seconds"] for row in rows)
    return [
        f"{time.strftime('%d %B %Y')}, {processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread",
        f"Seeds 0 to {last}; {seconds:,.0f} processor seconds to build",
        f"Python {platform.python_version()}, {', '.join(held)}",
    ]


def processor() -> str:
    """The name of the processor, as Linux tells it."""
    path = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", path.read_text("utf-8")) if path.exists() else []
    return names[0].strip() if names else platform.processor() or platform.machine()


def write(path: Path, rows: Sequence[Row], lines: Sequence[str]) -> None:
    """Rows as CSV, numbers with five digits, under lines of `#`."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in lines)
        found = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        found.writeheader()
        found.writerows({key: f"{x:.5g}" if isinstance(x, float) else x for key, x in row.items()} for row in rows)


def read(path: Path) -> tuple[list[Row], list[str]]:
    """The rows that `write` wrote, with numbers as numbers, and its lines of `#`."""
    text = path.read_text("utf-8").splitlines()
    lines = [line.removeprefix("# ") for line in text if line.startswith("#")]
    rows = csv.DictReader(line for line in text if not line.startswith("#"))
    return [{key: number(x) for key, x in row.items()} for row in rows], lines


def number(text: str) -> Any:
    """An int, a float, or the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def fill(page: str, tables: Mapping[str, str]) -> str:
    """The page with each table between its marks.

    Raises:
        ValueError: the page has no place for a table.
    """
    for name, text in tables.items():
        marks = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marks.search(page):
            raise ValueError(f"page: has no '<!-- table: {name} -->' ... '<!-- end -->'.")
        page = marks.sub(lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}", page)  # type: ignore[misc]
    return page


def main(arguments: list[str] | None = None) -> None:
    """Put the results of experiments into the documentation."""
    parser = argparse.ArgumentParser(description="Put what an experiment wrote into its page.")
    parser.add_argument("names", nargs="+", help="experiments, as their files in examples are called")
    parser.add_argument("--out", type=Path, default=Path("example_output"), help="where they wrote (%(default)s)")
    options = parser.parse_args(arguments)
    for name in options.names:
        experiment = importlib.import_module(name)
        rows, lines = read(options.out / f"{name}_quartiles.csv")
        write(DOCS / "results" / f"{name}.csv", rows, lines)
        page = DOCS / "results" / f"{name}.md"
        page.write_text(fill(page.read_text("utf-8"), {**experiment.tables(rows), "about": told(lines)}), "utf-8")
        figures.save(experiment.draw(rows), DOCS / "images" / f"{name}.png")
        for path in options.out.glob(f"{name}_*.*"):
            if path.suffix in (".png", ".svg"):  # pictures of what the CSV does not hold, such as points
                shutil.copy(path, DOCS / "images")


def told(lines: Sequence[str]) -> str:
    """The lines of a CSV as a paragraph."""
    return ". ".join(lines) + "."


if __name__ == "__main__":
    main()
