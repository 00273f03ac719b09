"""`torchcoreset build`: from a table to a coreset in a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import torchcoreset as tc

from ...coresets import DEFAULT_STEPS, Algorithm, Allocation, Init, allocate
from ...pictures import draw_cells, draw_classes, draw_coreset
from ...sources import Source
from ...sources.tables import RandomAccessSource
from ...transport import as_cost
from ..files import (
    Checkpoint,
    CoresetFile,
    DataSettings,
    Scaling,
    Table,
    check_format,
    check_out,
    check_picture,
    read_table,
    save_picture,
    scaled,
    write_coreset,
)
from ..outcome import INTERRUPTED, NOT_REACHED, OK, Outcome, note
from ..settings import UsageError, option

LOOKED_AT = 1 << 22  # numbers; the columns of larger tables are not compared: it would take a second
UNEVEN = 10.0  # ratio of the deviations of two columns; beyond it a note suggests --standardise


@dataclass(frozen=True, kw_only=True)
class BuildSettings(DataSettings):
    """Settings of `build`."""

    size: int = option("number of points", metavar="N")
    p: float = option("power of the distance, at least 1", 2.0)
    out: str = option("file to write: .npz, .pt, .safetensors, .csv or .parquet", "coreset.npz", metavar="FILE")
    plot: str | None = option("picture to draw: .png, .pdf or .svg", None, metavar="FILE")
    standardise: bool = option("give all columns mean 0 and deviation 1 for the distance; points are put back", False)
    allocation: Allocation = option(
        "with --label: points of a class by its share of the rows, or as many for each", "proportional"
    )
    algorithm: Algorithm = option("how points move; auto takes fixed_point", "auto")
    init: Init | None = option("how points begin: annealed, random or kmeans++", None)
    restarts: int | None = option("number of starts, of which the best goes on", None, metavar="N")
    steps: int | None = option("most steps; 300, or 1000 of sgd, if not given", None, metavar="N")
    tolerance: float = option("relative change of the value that counts as none", 1e-3)
    samples: int | None = option("most rows to hold in memory, or with --label to build on", None, metavar="N")
    batch_size: int | None = option("rows of a step of sgd", None, metavar="N")
    hold_out: float = option("share of the rows left for `certify`", 0.0, metavar="SHARE")
    seed: int = option("of all random numbers", 0, metavar="N")
    resume: bool = option("go on from OUT.checkpoint, which an interrupted run has left", False)
    checkpoint_every: float = option("seconds between two checkpoints", 10.0, metavar="SECONDS")


@dataclass(frozen=True)
class _Job:
    """What a build works on: rows in the units of the distance, and how to keep and describe them."""

    settings: BuildSettings
    table: Table
    source: Source
    labels: NDArray[Any] | None
    scaling: Scaling | None
    checkpoint: Checkpoint
    began: float


def run(settings: BuildSettings) -> Outcome:
    """Build, write, draw."""
    job = _prepare(settings)
    try:
        held, outcome = _labeled(job) if job.labels is not None else _plain(job)
    except KeyboardInterrupt:
        return _interrupted(job)
    write_coreset(Path(settings.out), held)
    job.checkpoint.remove()
    if job.scaling is None and job.table.rows * len(job.table.columns) <= LOOKED_AT:
        _say_if_uneven(Scaling.of(job.source), job.table.columns, quiet=settings.quiet)
    if settings.plot is not None:
        save_picture(_picture(job, held), settings.plot)
    return outcome


def _prepare(settings: BuildSettings) -> _Job:
    """Everything that can be wrong is found here, before the work begins."""
    began = time.perf_counter()
    check_format(Path(settings.out), "--out")
    check_picture(settings.plot)
    for flag, given, needs in (
        ("--allocation", settings.allocation != "proportional" and settings.label is None, "--label"),
        ("--batch-size", settings.batch_size is not None and settings.label is not None, "no --label"),
    ):
        if given:
            raise UsageError(f"{flag}: given where nothing uses it; expected it with {needs}.")
    if not settings.checkpoint_every >= 0:
        raise UsageError(f"--checkpoint-every: got {settings.checkpoint_every}; expected seconds, 0 or more.")
    table = read_table(settings)
    check_out(Path(settings.out), "--out", [*table.columns, *([] if table.label is None else [table.label])])
    source, labels = table.source, table.labels
    if settings.hold_out != 0:
        source, _ = tc.hold_out(source, settings.hold_out, seed=settings.seed)
    if labels is not None:
        assert isinstance(source, RandomAccessSource), "it is a table"
        labels = labels[source.row_numbers.numpy()]
    scaling = Scaling.of(source) if settings.standardise else None
    checkpoint = Checkpoint(Path(f"{settings.out}.checkpoint"), _identity(settings, table), settings.checkpoint_every)
    if settings.resume:
        if not checkpoint.load():
            note(f"note: there is no {checkpoint.path}; the run begins at the start.", quiet=settings.quiet)
    elif checkpoint.path.exists():
        note(f"note: {checkpoint.path} of an earlier run is replaced.", quiet=settings.quiet)
    return _Job(settings, table, scaled(source, scaling), labels, scaling, checkpoint, began)


def _say_if_uneven(scaling: Scaling, columns: Sequence[str], *, quiet: bool) -> None:
    """A note if columns seem to be in unlike units: a usual mistake that the result does not show."""
    wide, narrow = int(scaling.deviation.argmax()), int(scaling.deviation.argmin())
    ratio = float(scaling.deviation[wide] / scaling.deviation[narrow])
    if ratio > UNEVEN:
        note(
            f"note: column {columns[wide]!r} spreads {ratio:,.0f} times as wide as {columns[narrow]!r}, and decides "
            "the distance. --standardise makes columns alike.",
            quiet=quiet,
        )


def _identity(settings: BuildSettings, table: Table) -> dict[str, Any]:
    """What has to be the same for a run to be taken up again."""
    names = ("size", "p", "label", "weights", "standardise", "allocation", "algorithm", "samples", "hold_out", "seed")
    same = {
        "data": table.fingerprint,
        "columns": list(table.columns),
        **{name: getattr(settings, name) for name in names},
    }
    return same if settings.weights_are is None else {**same, "weights_are": settings.weights_are}


def _plain(job: _Job) -> tuple[CoresetFile, Outcome]:
    """Without labels."""
    settings, done = job.settings, job.checkpoint.classes.get(None)
    steps = settings.steps or DEFAULT_STEPS[settings.algorithm]
    # A batch that was used before the interruption is not drawn again; what else is drawn must stay the same.
    again = done.steps if done is not None and settings.algorithm == "sgd" else 0
    result = tc.build_coreset(
        job.source,
        settings.size,
        settings.p,
        algorithm=settings.algorithm,
        init=settings.init if done is None else done.points,
        restarts=settings.restarts if done is None else None,
        samples=settings.samples,
        steps=steps if done is None else max(1, steps - done.steps),
        tolerance=settings.tolerance,
        batch_size=settings.batch_size,
        rate=(1 + again) ** -0.5,
        seed=settings.seed + again,
        progress=False if settings.quiet else None,
        callback=lambda step: job.checkpoint.record(None, step),
    )
    plan = result.transport
    taken = len(result.history) + (0 if done is None else done.steps)
    more = {"rows": len(plan.transform), "steps": taken, "status": result.status.value}
    record = _record(job, plan.value, plan.lower) | more
    held = CoresetFile(_undo(job, result.coreset.points.detach()), result.coreset.weights, None, record)
    return held, _outcome(job, record, result.status is tc.Status.CONVERGED)


def _labeled(job: _Job) -> tuple[CoresetFile, Outcome]:
    """A coreset of each class, merged."""
    settings, earlier = job.settings, job.checkpoint.classes
    rows, mass = job.source.materialize(None, torch.Generator().manual_seed(settings.seed))
    starts: Any = {label: progress.points for label, progress in earlier.items()}
    labeled = tc.build_labeled_coreset(
        rows,
        job.labels,
        settings.size,
        settings.allocation,
        settings.p,
        algorithm=settings.algorithm,
        init=starts or settings.init,
        restarts=None if starts else settings.restarts,
        sample_weights=mass,
        samples=settings.samples,
        steps=settings.steps,
        tolerance=settings.tolerance,
        seed=settings.seed,
        progress=False if settings.quiet else None,
        callback=job.checkpoint.record,
    )
    plan = tc.transport(labeled.points.detach(), rows, settings.p, labeled.weights, mass)
    classes = {
        str(label): {"points": result.coreset.size, "distance": result.distance, "status": result.status.value}
        for label, result in zip(labeled.classes.tolist(), labeled.results, strict=True)
    }
    done = all(result.status is tc.Status.CONVERGED for result in labeled.results)
    more = {
        "rows": len(rows),
        "steps": sum(len(result.history) for result in labeled.results),
        "status": "converged" if done else "max_steps",
        "label_kind": _kind(labeled.labels),
        "classes": classes,
    }
    record = _record(job, plan.value, plan.lower) | more
    held = CoresetFile(_undo(job, labeled.points.detach()), labeled.weights, labeled.labels, record)
    return held, _outcome(job, record, done)


def _interrupted(job: _Job) -> Outcome:
    """Ctrl-C: write the points so far, and what it takes to go on."""
    settings, known = job.settings, job.checkpoint.classes
    if not known:
        text = "interrupted before the first step: nothing was written."
        return Outcome({"command": "build", "status": "interrupted", "out": None}, [text], INTERRUPTED)
    job.checkpoint.write()
    if job.labels is None:
        best = known[None]
        points, weights, labels = best.points, torch.full((len(best.points),), 1 / len(best.points), device="cpu"), None
        record = _record(job, best.value, best.lower) | {"rows": best.samples, "steps": best.steps}
    else:
        points, weights, labels = _partly(job)
        record = _record(job, float("nan"), float("nan")) | {
            "rows": job.source.size,
            "steps": sum(progress.steps for progress in known.values()),
            "label_kind": _kind(labels),
        }
    record["status"] = "interrupted"
    write_coreset(Path(settings.out), CoresetFile(_undo(job, points), weights, labels, record))
    lines = [f"interrupted after {record['steps']} steps; the best points so far are in {settings.out}"]
    if job.labels is not None and len(known) < len(np.unique(job.labels)):
        lines.append("Classes that had not begun are represented by random rows.")
    lines.append("The same command with --resume goes on from here.")
    return Outcome(record | {"command": "build", "out": settings.out}, lines, INTERRUPTED)


def _partly(job: _Job) -> tuple[Tensor, Tensor, NDArray[Any]]:
    """A labelled coreset of which some classes have not begun: random rows stand in for those."""
    settings, known = job.settings, job.checkpoint.classes
    rows, mass = job.source.materialize(None, torch.Generator().manual_seed(settings.seed))
    starts: Any = {label: progress.points for label, progress in known.items()}
    classes, place = np.unique(np.asarray(job.labels), return_inverse=True)
    plain = np.full(len(rows), 1 / len(rows)) if mass is None else mass.numpy()
    shares: NDArray[np.float64] = np.bincount(place, weights=plain) / plain.sum()
    if settings.allocation == "equal":
        shares = np.full(len(classes), 1 / len(classes))
    counts = allocate(settings.size, shares, settings.allocation)
    points = [
        starts[label]
        if label in starts
        else tc.Coreset.from_source(
            rows[torch.from_numpy(place == k)], int(counts[k]), seed=settings.seed
        ).points.detach()
        for k, label in enumerate(classes.tolist())
    ]
    return torch.cat(points), torch.from_numpy(np.repeat(shares / counts, counts)), np.repeat(classes, counts)


def _undo(job: _Job, points: Tensor) -> Tensor:
    return points if job.scaling is None else job.scaling.undo(points)


def _kind(labels: NDArray[Any]) -> str:
    return "text" if labels.dtype.kind in "UO" else "number"


def _record(job: _Job, value: float, lower: float) -> dict[str, Any]:
    """What a file says of its coreset."""
    settings, table, root = job.settings, job.table, as_cost(job.settings.p).root
    return {
        "format": 1,
        "version": version("torchcoreset"),
        "size": settings.size,
        "dimension": len(table.columns),
        "p": settings.p,
        "distance": root(value),
        "bounds": [root(max(lower, 0.0)), root(value)],
        "distance_unit": "standard deviations of the columns" if settings.standardise else "the data's own",
        "seed": settings.seed,
        "algorithm": settings.algorithm,
        "data": table.name,
        "data_mark": table.fingerprint,
        "columns": list(table.columns),
        "label": table.label,
        "allocation": settings.allocation if job.labels is not None else None,
        "key": settings.key,
        "row_weights": table.weights,
        "row_weights_are": settings.weights_are,
        "scaling": None if job.scaling is None else job.scaling.to_record(),
        "hold_out": settings.hold_out or None,
    }


def _outcome(job: _Job, record: dict[str, Any], converged: bool) -> Outcome:
    settings = job.settings
    seconds = time.perf_counter() - job.began
    low, high = record["bounds"]
    columns = "column" if record["dimension"] == 1 else "columns"
    lines = [
        f"{settings.size} points for {record['rows']:,} rows of {record['dimension']} {columns} ({record['data']}), "
        f"{record['steps']} steps, {seconds:.1f} s",
        f"W{settings.p:g} to these rows: {high:.6g}, and at least {low:.6g}"
        + (", in standard deviations of the columns" if settings.standardise else ""),
    ]
    for label, found in record.get("classes", {}).items():
        lines.append(f"  class {label}: {found['points']} points, W{settings.p:g} = {found['distance']:.4g}")
    lines.append(f"written  {settings.out}" + (f", {settings.plot}" if settings.plot is not None else ""))
    if settings.hold_out:
        lines.append(f"next     torchcoreset certify {settings.out} {settings.data}   (on the rows held out)")
    short = not converged and settings.algorithm != "sgd"  # which takes the steps that it is given
    if short:
        lines.append("The steps ran out while the value may still fall: allow more (--steps), or a larger --tolerance.")
    record_out = {"command": "build", **record, "out": settings.out, "plot": settings.plot, "seconds": seconds}
    return Outcome(record_out, lines, NOT_REACHED if short else OK)


def _picture(job: _Job, held: CoresetFile) -> Any:
    """The points over the rows, in the units of the distance: raw columns in unlike units would show one of them."""
    p, generator = job.settings.p, torch.Generator().manual_seed(job.settings.seed)
    scaling = job.scaling if held.points.shape[1] > 1 else None  # one column has an axis with numbers
    coreset, note_on_units = held.coreset(scaling), " (standardised columns)" if scaling is not None else ""
    labels = job.labels if coreset.points.shape[1] > 1 else None
    rows = job.source.materialize(None, generator)[0] if labels is not None else _some_rows(job, generator)
    if scaling is None:
        rows = _undo(job, rows)
    if labels is not None and held.labels is not None:
        figure = draw_classes(coreset, held.labels, rows, labels, columns=held.columns)
        title = f"{coreset.size} points for {len(rows):,} rows in {len(np.unique(labels))} classes{note_on_units}"
        figure.axes[0].set_title(title, fontsize=12)
        return figure
    if coreset.points.shape[1] == 2 and scaling is None:
        return draw_cells(coreset, rows, tc.transport(coreset.points, rows, p, coreset.weights).potential, p)
    title = f"{coreset.size} points, W{p:g} = {held.metadata['distance']:.4g}{note_on_units}"
    return draw_coreset(coreset, rows, columns=held.columns, title=title)


def _some_rows(job: _Job, generator: torch.Generator) -> Tensor:
    return job.source.draw(min(20_000, job.source.size or 20_000), generator)
