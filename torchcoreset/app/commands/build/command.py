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
from ...files import CoresetFile, save_picture, write_assignment
from ...outcome import Outcome
from .ended import complete, interrupted, write
from .job import Job, earlier_result, prepare
from .picture import picture_of
from .record import kind_of, outcome_of, record_of, say_if_uneven
from .settings import BuildSettings


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


def _alike(settings: BuildSettings) -> dict[str, Any]:
    """What a build takes in the same way with labels and without."""
    names = ("algorithm", "init", "restarts", "samples", "steps", "tolerance", "seed")
    alike = {name: getattr(settings, name) for name in names} | {"progress": False if settings.quiet else None}
    return alike | settings.choices()


def _plain(job: Job) -> Built:
    """Without labels."""
    settings = job.settings
    result = tc.build_coreset(
        job.source,
        settings.size,
        settings.p,
        **_alike(settings),
        batch_size=settings.batch_size,
        keep=partial(job.checkpoint.keep, None),
        resume=job.checkpoint.classes.get(None),
    )
    plan = result.transport
    more = {
        "rows": len(plan.transform),
        "steps": _steps(result),
        "status": result.status.value,
        "bias": result.bias,  # makes the bound of `merge` sharper
    }
    record = record_of(job, plan.value, plan.lower) | more
    held = CoresetFile(job.undo(result.coreset.points.detach()), result.coreset.weights, None, record)
    assert result.row_numbers is not None, "the source is a table"
    outcome = outcome_of(job, record, result.status is tc.Status.CONVERGED)
    return held, outcome, result.row_numbers, result.transport.assignment


def _labeled(job: Job) -> Built:
    """A coreset of each class, merged."""
    settings = job.settings
    rows, mass, numbers = job.source.numbered(None, torch.Generator().manual_seed(settings.seed))
    assert numbers is not None, "the source is a table"
    labeled = tc.build_labeled_coreset(
        rows,
        job.labels,
        settings.size,
        settings.allocation,
        settings.p,
        **_alike(settings),
        sample_weights=mass,
        keep=job.checkpoint.keep,
        resume=job.checkpoint.classes,
    )
    plan = tc.transport(labeled.points.detach(), rows, settings.p, labeled.weights, mass, trim=settings.trim)
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
        "bias": plan.plan.bias(labeled.points.detach(), rows) if as_cost(settings.p).mean_is_best else None,
    }
    record = record_of(job, plan.value, plan.lower) | more
    held = CoresetFile(job.undo(labeled.points.detach()), labeled.weights, labeled.labels, record)
    built_on = torch.cat([result.row_numbers for result in labeled.results if result.row_numbers is not None])
    starts = np.cumsum([0, *(result.coreset.size for result in labeled.results)])
    points = [(result.transport.assignment, int(k)) for result, k in zip(labeled.results, starts, strict=False)]
    point = torch.cat([torch.where(own < 0, own, own + k) for own, k in points])
    return held, outcome_of(job, record, done), numbers[built_on], point


def _steps(result: tc.BuildResult) -> int:
    return result.history[-1].step + 1
