"""`torchcoreset compare`: several coresets beside random rows, on one table."""

from __future__ import annotations

from typing import Any

import torch

from ...pictures import Panel, draw_comparison
from ...sources import scaled
from ..files import check_picture, read_coreset, save_picture
from ..measure import DRAWS, Measured, measure, measure_random_rows
from ..outcome import Outcome, unit_of
from ..settings import CompareSettings, UsageError
from .certify import check_columns, power, read_as_built


def run(settings: CompareSettings) -> Outcome:
    """W_p of each file, and of random rows of each size, all in the units of the first file."""
    check_picture(settings.plot)
    if not settings.coresets:
        raise UsageError("compare: got no coreset files; name some. Divergences: tc.compare_divergences in Python.")
    held = [read_coreset(name) for name in settings.coresets]
    table = read_as_built(settings, held[0])
    for name, one in zip(settings.coresets, held, strict=True):
        check_columns(one, table, name)
        if one.cost is not None:
            raise UsageError(
                f"compare: {name} is for distances by {one.cost!r}; expected the Euclidean one. In Python: "
                "tc.transport(coreset, data, cost=coreset.cost)."
            )
    p, scaling = power(settings.p, held[0]), held[0].scaling
    source = scaled(table.source, scaling)
    rows, mass = source.materialize(settings.samples, torch.Generator().manual_seed(settings.seed))
    found = [
        measure(name, one.coreset(scaling), rows, mass, p) for name, one in zip(settings.coresets, held, strict=True)
    ]
    sizes = sorted({one.coreset.size for one in found})
    found += [measure_random_rows("random rows", size, rows, mass, p, settings.seed) for size in sizes]
    unit = unit_of(held[0].columns, None if scaling is None else scaling.words)
    width = max(len(one.name) for one in found)
    of_all = "" if len(rows) >= table.rows else f" of {table.rows:,}"
    lines = [
        f"{len(rows):,}{of_all} rows of {table.name}, in {unit}",
        f"{'':{width}}  points  {f'W{p:g}':>10}  {'at least':>10}",
    ]
    for line in found:
        spread = "" if line.spread is None else f"   (+- {line.spread:.2g})"
        lines.append(
            f"{line.name:{width}}  {line.coreset.size:>6}  {line.distance:>10.5g}  {line.lower:>10.5g}{spread}"
        )
    if settings.plot is not None:
        save_picture(draw_comparison(rows, [_panel(one, p) for one in found]), settings.plot)
        lines.append(f"written  {settings.plot}")
    return Outcome({"command": "compare", "p": p, "rows": len(rows), "coresets": [*map(_record, found)]}, lines)


def _panel(one: Measured, p: float) -> Panel:
    mean = "" if one.spread is None else "mean "
    name = one.name.replace(f"mean of {DRAWS}", f"one of {DRAWS}")
    return Panel(name, one.coreset, f"{one.coreset.size} points, {mean}W{p:g} = {one.distance:.4g}")


def _record(one: Measured) -> dict[str, Any]:
    record: dict[str, Any] = {"name": one.name, "size": one.coreset.size, "distance": one.distance, "lower": one.lower}
    return record if one.spread is None else {**record, "spread": one.spread}
