"""`torchcoreset compare`: several coresets beside random rows, or coresets by several divergences, on one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

import torchcoreset as tc

from ...pictures import Panel, draw_comparison
from ...transport import as_cost
from ..files import DataSettings, Scaling, check_picture, read_coreset, read_table, save_picture, scaled
from ..outcome import Outcome
from ..settings import UsageError, argument, option
from .certify import as_built, check_columns, power

SUBSETS = 5  # sets of random rows to compare with


@dataclass(frozen=True, kw_only=True)
class CompareSettings(DataSettings):
    """Settings of `compare`."""

    data: str = argument("table that the coresets stand for")
    coresets: list[str] = argument("coreset files to compare; none compares divergences", [])
    size: int | None = option("without files: points of a coreset by each divergence", None, metavar="N")
    p: float | None = option("power of the distance; that of the first file, or 2", None)
    samples: int = option("most rows to measure on", 100_000, metavar="N")
    steps: int = option("without files: of each descent", 300, metavar="N")
    backend: Literal["newton", "geomloss"] = option("without files: of the Sinkhorn divergences", "newton")
    standardise: bool = option("without files: give all columns mean 0 and deviation 1", False)
    plot: str | None = option("with files: picture of them beside random rows", None, metavar="FILE")
    seed: int = option("of all random numbers", 0, metavar="N")


def run(settings: CompareSettings) -> Outcome:
    """Measure and print a table."""
    check_picture(settings.plot)
    if settings.coresets:
        for flag, given in (("--size", settings.size is not None), ("--standardise", settings.standardise)):
            if given:
                raise UsageError(
                    f"{flag}: given with coreset files; expected it without them. Leave one of the two out."
                )
        return _files(settings)
    if settings.size is None:
        raise UsageError("compare: got no coreset files; name some, or give --size to compare divergences.")
    if settings.plot is not None:
        raise UsageError("--plot: given without coreset files; expected it with them.")
    return _divergences(settings, settings.size)


def _files(settings: CompareSettings) -> Outcome:
    """W_p of each file, and of random rows of each size, all in the units of the first file."""
    held = [read_coreset(name) for name in settings.coresets]
    table = read_table(as_built(settings, held[0]))
    for name, one in zip(settings.coresets, held, strict=True):
        check_columns(one, table, name)
    p, scaling = power(settings.p, held[0]), held[0].scaling
    source = scaled(table.source, scaling)
    rows, mass = source.materialize(settings.samples, torch.Generator().manual_seed(settings.seed))
    entries = [
        {"name": name, **_measure(one.coreset(scaling), rows, mass, p)}
        for name, one in zip(settings.coresets, held, strict=True)
    ]
    entries += [_random(size, rows, mass, p, settings.seed) for size in sorted({len(one.points) for one in held})]
    unit = ", standardised" if scaling is not None else ""
    width = max(len(entry["name"]) for entry in entries)
    lines = [f"{len(rows):,} rows of {table.name}{unit}", f"{'':{width}}  points  {f'W{p:g}':>10}  {'at least':>10}"]
    for entry in entries:
        spread = f"   (+- {entry['spread']:.2g})" if "spread" in entry else ""
        lines.append(
            f"{entry['name']:{width}}  {entry['size']:>6}  {entry['distance']:>10.5g}  {entry['lower']:>10.5g}{spread}"
        )
    record = {"command": "compare", "p": p, "rows": len(rows), "coresets": entries}
    if settings.plot is not None:
        shown = [one.coreset(scaling) for one in held]
        sizes = sorted({one.size for one in shown})
        shown += [tc.Coreset.from_source(tc.as_source(rows, mass), size, seed=settings.seed) for size in sizes]
        panels = [
            Panel(entry["name"].replace(f"mean of {SUBSETS}", f"one of {SUBSETS}"), coreset, _caption(entry, p))
            for entry, coreset in zip(entries, shown, strict=True)
        ]
        save_picture(draw_comparison(rows, panels), settings.plot)
        lines.append(f"written  {settings.plot}")
    return Outcome(record, lines)


def _caption(entry: dict[str, Any], p: float) -> str:
    mean = "mean " if "spread" in entry else ""
    return f"{entry['size']} points, {mean}W{p:g} = {entry['distance']:.4g}"


def _measure(coreset: tc.Coreset, rows: torch.Tensor, mass: Any, p: float) -> dict[str, Any]:
    plan = tc.transport(coreset.points.detach(), rows, p, coreset.weights, mass)
    root = as_cost(p).root
    return {"size": coreset.size, "distance": root(plan.value), "lower": root(max(plan.lower, 0.0))}


def _random(size: int, rows: torch.Tensor, mass: Any, p: float, seed: int) -> dict[str, Any]:
    """The mean over random subsets of the rows."""
    source = tc.as_source(rows, mass)
    found = [_measure(tc.Coreset.from_source(source, size, seed=seed + k), rows, mass, p) for k in range(SUBSETS)]
    distances = torch.tensor([one["distance"] for one in found], dtype=torch.float64, device="cpu")
    lower = sum(one["lower"] for one in found) / SUBSETS
    return {
        "name": f"random rows (mean of {SUBSETS})",
        "size": size,
        "distance": float(distances.mean()),
        "lower": lower,
        "spread": float(distances.std()),
    }


def _divergences(settings: CompareSettings, size: int) -> Outcome:
    """`tc.compare_divergences`."""
    table = read_table(settings)
    source = scaled(table.source, Scaling.of(table.source) if settings.standardise else None)
    found = tc.compare_divergences(
        source,
        size,
        p=settings.p or 2,
        backend=settings.backend,
        samples=settings.samples,
        steps=settings.steps,
        seed=settings.seed,
    )
    names = ("name", "divergence", "p", "blur", "debias", "value", "w1", "w2", "distinct", "seconds")
    entries = [{name: getattr(one, name) for name in names} for one in found]
    lines = [
        f"{size} points by each divergence, judged on rows held out",
        f"{'':24}{'W1':>10}{'W2':>10}{'distinct':>10}",
    ]
    lines += [f"{one.name:24}{one.w1:>10.4g}{one.w2**0.5:>10.4g}{one.distinct:>10}" for one in found]
    return Outcome({"command": "compare", "size": size, "divergences": entries}, lines)
