"""How the cost of our solver grows with n, m and d: seconds, and seconds over those of one hard pass, in a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .plans import GROWTH_METHODS, Sweep
from .record import Record

TITLES = {"n": "points", "m": "samples", "d": "dimension"}
COLOURS = {"normal": "C0", "clusters": "C1"}
STYLES = dict(zip(GROWTH_METHODS, ("-", "--"), strict=True))


def draw_growth(sweeps: Sequence[Sweep], records: Sequence[Record], path: Path) -> bool:
    """A column of log-log panels for each size that varies. Raises ImportError without matplotlib.

    Above, processor seconds, with a dotted line of slope 1. Below, the same over a hard pass, whose cost is n m d:
    where a line is flat, the cost grows as fast. What failed or was given up has no mark. Returns whether there was
    anything to draw.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = {(record.work, record.method): record for record in records if record.status == "ok"}
    if not any(sweep.plans().keys() & {work for work, _ in found} for sweep in sweeps):
        return False
    columns = [vary for vary in TITLES if any(sweep.vary == vary for sweep in sweeps)]
    figure = Figure(figsize=(4.4 * len(columns), 7.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(columns), sharey="row", sharex="col", squeeze=False)
    for vary, above, below in zip(columns, *panels, strict=True):
        mine = [sweep for sweep in sweeps if sweep.vary == vary]
        for sweep in mine:
            _draw_lines(sweep, found, above, below)
        held = ", ".join(f"{name}={getattr(mine[0], name):,}" for name in TITLES if name != vary)
        above.set(title=f"{TITLES[vary]} ({held})")
        below.set(xlabel=vary)
        for axes in above, below:
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(mine[0].sizes, [f"{size:,}" for size in mine[0].sizes])
            axes.minorticks_off()
            axes.grid(which="both", alpha=0.2)
    panels[0, 0].set_ylabel("processor seconds, cold solve")
    panels[1, 0].set_ylabel("the same over one hard pass")
    handles = {line.get_label(): line for line in panels[0, 0].lines}  # each once
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles) or 1, fontsize=8)
    figure.savefig(path, dpi=110)
    return True


def _draw_lines(sweep: Sweep, found: Mapping[tuple[str, str], Record], above: object, below: object) -> None:
    """The lines of one cloud: its methods, its hard pass and slope 1."""
    for method, style in STYLES.items():
        points = [(size, found[key]) for size in sweep.sizes if (key := (sweep.name(size), method)) in found]
        if not points:
            continue
        sizes = [size for size, _ in points]
        seconds = [record.processor for _, record in points]
        passes = [record.hard_pass for _, record in points]
        settings = {"color": COLOURS[sweep.cloud], "linestyle": style, "marker": "o", "markersize": 4}
        above.plot(sizes, seconds, label=f"{sweep.cloud}: {method}", **settings)
        below.plot(sizes, [took / one for took, one in zip(seconds, passes, strict=True)], **settings)
        if (sweep.cloud, method) == ("normal", GROWTH_METHODS[0]):
            above.plot(sizes, passes, color="0.3", linestyle="-.", label="one hard pass")
            above.plot(sizes, [seconds[0] * size / sizes[0] for size in sizes], ":", color="0.6", label="slope 1")
