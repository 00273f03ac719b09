"""One style for the pictures of all experiments: medians with quartiles, sizes as ticks, names at the ends of lines.

A picture is written as PNG, which is what pages show, and as SVG, for print. Panels stand in one column of 4.8 inches,
with text of 8 to 9 points, which is 9 to 10 pixels on a phone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Seven colours that differ in lightness too (after Okabe and Ito), for print in grey and for those who see few hues.
COLOURS = ("#0b3c6f", "#d55e00", "#009e73", "#56b4e9", "#a64d79", "#7f7f7f", "#000000")
DASHES = ("-", "--", ":")
PANEL = (4.8, 2.6)  # inches, with the names at the right
APART = 0.075  # least distance of two names, in heights of a panel
Row = Mapping[str, Any]
Look = tuple[str, str]  # colour and dash

STYLE = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 3.5,
    "svg.hashsalt": "torchcoreset",  # equal pictures are equal files
}


def pyplot() -> Any:
    """Matplotlib's pyplot in this style, drawing into files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(STYLE)
    return plt


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A colour for each of at most seven names.

    Raises:
        ValueError: more names than colours; put the others into the table.
    """
    found = list(names)
    if len(found) > len(COLOURS):
        raise ValueError(f"names: got {len(found)}; expected {len(COLOURS)} at most. Leave some to the table.")
    return {name: (colour, DASHES[0]) for name, colour in zip(found, COLOURS, strict=False)}


def panels(count: int, **settings: Any) -> tuple[Any, list[Any]]:
    """A figure and its axes, one below the other, so that text is as large on a phone as on a page."""
    width, height = PANEL
    figure, axes = pyplot().subplots(
        count, 1, figsize=(width, count * height), squeeze=False, layout="constrained", **settings
    )
    figure.get_layout_engine().set(w_pad=0.05, h_pad=0.06)
    return figure, list(axes[:, 0])


def curves(axis: Any, rows: Iterable[Row], value: str, look: Mapping[str, Look], across: str = "size") -> None:
    """The median of `value` against `across`, with a band between the quartiles, for each method.

    Args:
        axis: of matplotlib.
        rows: with "method", `across`, `value` (the median), and `value` with "_low" and "_high" (the quartiles).
        value, across: names of columns.
        look: of each method that is drawn.
    """
    held = list(rows)
    for method, (colour, dash) in look.items():
        line = sorted((row for row in held if row["method"] == method), key=lambda row: row[across])
        place = [row[across] for row in line]
        low, middle, high = ([row[value + end] for row in line] for end in ("_low", "", "_high"))
        axis.plot(place, middle, "o", linestyle=dash, color=colour, label=method)
        axis.fill_between(place, low, high, color=colour, alpha=0.16, linewidth=0)


def sizes(axis: Any, found: Iterable[int]) -> None:
    """A logarithmic axis of sizes, each with its number."""
    places = sorted(set(found))
    axis.set_xscale("log")
    axis.set_xticks(places, [f"{size:,}" for size in places])
    axis.minorticks_off()


def ratios(axis: Any) -> None:
    """A logarithmic axis of ratios near 1, with plain numbers that do not touch."""
    low, high = axis.get_ylim()
    wide = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
    close = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 1.7, 2)
    ticks = [tick for tick in (close if high < 2.2 * low else wide) if low <= tick <= high]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


def name_lines(axis: Any) -> None:
    """The name of each line beside its last point, in its colour, moved apart where they would lie on each other."""
    axis.margins(x=0.04)
    axis.figure.canvas.draw()  # limits and scales are settled by drawing
    lines = [line for line in axis.get_lines() if not line.get_label().startswith("_") and len(line.get_xdata())]
    places = {
        line: axis.transAxes.inverted().transform(axis.transData.transform(line.get_xydata()[-1])) for line in lines
    }
    order = sorted(lines, key=lambda line: places[line][1])
    for line, height in zip(order, spaced([places[line][1] for line in order]), strict=True):
        x, y = places[line]
        axis.annotate(
            line.get_label(), (x, y), (1.06, height), "axes fraction", "axes fraction",
            va="center", color=line.get_color(), fontsize=7.5, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.5, "shrinkA": 1, "shrinkB": 2,
                        "relpos": (0, 0.5)},  # from the left of the name, not across it
        )  # fmt: skip


def spaced(heights: Sequence[float], apart: float = APART, top: float = 1.0) -> list[float]:
    """The nearest heights, in the same order, that are `apart` at least, lowered below `top`; `heights` ascend.

    Isotonic regression of heights - k apart: neighbours that are too near become a block about their mean.
    """
    blocks: list[tuple[float, int]] = []
    for k, height in enumerate(heights):
        mean, count = height - k * apart, 1
        while blocks and blocks[-1][0] > mean:
            before, more = blocks.pop()
            mean, count = (mean * count + before * more) / (count + more), count + more
        blocks.append((mean, count))
    flat = [mean for mean, count in blocks for _ in range(count)]
    return [min(mean + k * apart, top - (len(flat) - 1 - k) * apart) for k, mean in enumerate(flat)]


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG and SVG, let go of it, and say where it is."""
    from PIL import Image

    figure.savefig(path.with_suffix(".png"), dpi=120)
    # 256 colours are enough for lines, bands and letters, in a third of the bytes.
    image = Image.open(path.with_suffix(".png")).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(path.with_suffix(".png"), optimize=True)
    vector = path.with_suffix(".svg")
    figure.savefig(vector, metadata={"Date": None})
    # Two decimals of a coordinate, in points or units of the font, are enough; more and indents are a tenth of all.
    shapes = re.sub(r' d="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), vector.read_text("utf-8"))
    vector.write_text(re.sub(r"\n +", "\n", shapes), "utf-8")
    pyplot().close(figure)
    print(f"\nfigure  {path.with_suffix('.png')}, .svg")
