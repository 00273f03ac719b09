"""Build, write, draw."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import torchcoreset as tc

from ....transport import as_cost
from ...choices import choices_of, divergence_of, row_numbers
from ...files import CoresetFile, save_picture, write_assignment
from ...outcome import Outcome
from ...settings import BuildSettings, UsageError, flag_of
from .baseline import random_rows
from .ended import complete, interrupted, write
from .job import Job, earlier_result, prepare
from .picture import picture_of
from .record import kind_of, outcome_of, record_of, say_if_uneven


def run(settings: BuildSettings) -> Outcome:
    """Build, write, draw."""
    job = prepare(settings)
    if settings.resume and (held := earlier_result(job)) is not None:
        return complete(job, held)
    if not job.checkpoint.found:
        job.checkpoint.write()  # from the first minute on: another run of this name is then told
    try:
        held, outcome, rows, points = _labeled(job) if job.labels is not None else _plain(job)
    except KeyboardInterrupt:
        return interrupted(job)
    except Exception:
        if not job.checkpoint.classes:  # it keeps nothing
            job.checkpoint.remove()
        raise
    write(job, held)
    say_if_uneven(job)
    if settings.plot is not None:
        save_picture(picture_of(job, held), settings.plot)
    if settings.assignment is not None:
        write_assignment(Path(settings.assignment), job.table, rows, points)
    job.checkpoint.remove()
    return outcome


# A coreset, what is said of it, and which point each row went to: numbers (m,) of the rows and of their points.
Built = tuple[CoresetFile, Outcome, Tensor, Tensor]


def _alike(job: Job) -> dict[str, Any]:
    """What a build takes in the same way with labels and without.

    Rows are returned as they are in the table, so that the build itself is to scale them.
    """
    settings = job.settings
    names = ("algorithm", "init", "restarts", "samples", "steps", "tolerance", "seed", "rows")
    alike = {name: getattr(settings, name) for name in names} | {"progress": False if settings.quiet else None}
    alike |= {name: row_numbers(f"--{name}", getattr(settings, name)) for name in ("keep", "exclude")}
    return alike | choices_of(settings) | ({"scale": job.scaling} if settings.rows else {})


def _in_units_of_data(job: Job, coreset: tc.Coreset) -> Tensor:
    """The points of a build, (n, d)."""
    points = coreset.points.detach()
    return points if job.settings.rows or job.metric is not None else job.undo(points)


def _rows_of(job: Job, rows: Tensor | None) -> dict[str, Any]:
    """What the record says of rows that were chosen: their numbers in the table, and ids if it has some."""
    if rows is None:
        return {}
    ids = job.table.ids
    return {"row_numbers": rows.tolist(), "row_ids": None if ids is None else ids[rows.numpy()].tolist()}


def _plain(job: Job) -> Built:
    """Without labels."""
    settings = job.settings
    result = tc.build_coreset(
        job.unscaled if settings.rows else job.source,
        settings.size,
        settings.p,
        **divergence_of(settings),
        **_alike(job),
        cost=job.metric,
        batch_size=settings.batch_size,
        checkpoint=partial(job.checkpoint.keep, None),
        resume=job.checkpoint.classes.get(None),
    )
    plan = result.transport
    more: dict[str, Any] = {
        "rows": len(plan.transform),
        "steps": _steps(result),
        "status": result.status.value,
        "bias": result.bias,  # makes the bound of `merge` sharper
    }
    assert result.row_numbers is not None, "the source is a table"
    if result.discrepancy is not None:
        more |= {"divergence": result.divergence, "value": result.discrepancy.value, **divergence_of(settings)}
    minimised = result.distance if result.discrepancy is None else result.discrepancy.value
    more["random_rows"] = random_rows(job, result.row_numbers, minimised)
    record = record_of(job, plan.value, plan.lower) | more | _rows_of(job, result.rows)
    held = CoresetFile(_in_units_of_data(job, result.coreset), result.coreset.weights, None, record)
    outcome = outcome_of(job, record, result.status is tc.Status.CONVERGED)
    return held, outcome, result.row_numbers, result.transport.assignment


def _labeled(job: Job) -> Built:
    """A coreset of each class, merged."""
    settings = job.settings
    source = job.unscaled if settings.rows else job.source
    rows, mass, numbers = source.numbered(None, torch.Generator().manual_seed(settings.seed))
    assert numbers is not None, "the source is a table"
    alike = _alike(job)
    for name in ("keep", "exclude"):
        alike[name] = _places(job, name, alike[name], numbers)
    labeled = tc.build_labeled_coreset(
        rows,
        job.labels,
        settings.size,
        settings.allocation,
        job.p,
        **alike,
        sample_weights=mass,
        checkpoint=job.checkpoint.keep,
        resume=job.checkpoint.classes,
    )
    points = labeled.points.detach()
    if settings.rows and job.scaling is not None:
        points, rows = job.scaling.apply(points), job.scaling.apply(rows)
    plan = tc.transport(points, rows, job.p, labeled.weights, mass, trim=settings.trim)
    classes = {
        str(label): {"points": result.coreset.size, "distance": result.distance, "status": result.status.value}
        for label, result in zip(labeled.classes.tolist(), labeled.results, strict=True)
    }
    done = all(result.status is tc.Status.CONVERGED for result in labeled.results)
    more: dict[str, Any] = {
        "rows": len(rows),
        "rows_built_on": sum(len(result.transport.transform) for result in labeled.results),
        "steps": sum(map(_steps, labeled.results)),
        "status": "converged" if done else "max_steps",
        "label_kind": kind_of(labeled.labels),
        "classes": classes,
        "bias": plan.plan.bias(points, rows) if as_cost(job.p).mean_is_best else None,
        "random_rows": random_rows(job, numbers, as_cost(job.p).root(plan.value)),
    }
    chosen = labeled.rows
    record = record_of(job, plan.value, plan.lower) | more | _rows_of(job, None if chosen is None else numbers[chosen])
    held = CoresetFile(_in_units_of_data(job, labeled.coreset), labeled.weights, labeled.labels, record)
    built_on = torch.cat([result.row_numbers for result in labeled.results if result.row_numbers is not None])
    starts = np.cumsum([0, *(result.coreset.size for result in labeled.results)])
    assigned = [(result.transport.assignment, int(k)) for result, k in zip(labeled.results, starts, strict=False)]
    point = torch.cat([torch.where(own < 0, own, own + k) for own, k in assigned])
    return held, outcome_of(job, record, done), numbers[built_on], point


def _places(job: Job, name: str, rows: list[int] | None, numbers: Tensor) -> list[int] | None:
    """Where rows with these numbers in the table stand among those that are built on, whose numbers are (m,)."""
    if rows is None:
        return None
    place = {number: k for k, number in enumerate(numbers.tolist())}
    for row in rows:
        if row not in place:
            known = 0 <= row < job.table.rows
            why = "which is held out" if known else f"and {job.table.name} has rows 0 to {job.table.rows - 1}"
            raise UsageError(f"{flag_of(name)}: got row {row}, {why}; expected rows that are built on.")
    return [place[row] for row in rows]


def _steps(result: tc.BuildResult) -> int:
    return result.history[-1].step + 1
