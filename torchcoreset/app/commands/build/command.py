"""Build, write, draw."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import torchcoreset as tc

from ...files import CoresetFile, save_picture
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
        held, outcome = _labeled(job) if job.labels is not None else _plain(job)
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
    job.checkpoint.remove()
    return outcome


def _plain(job: Job) -> tuple[CoresetFile, Outcome]:
    """Without labels."""
    settings = job.settings
    result = tc.build_coreset(
        job.source,
        settings.size,
        settings.p,
        algorithm=settings.algorithm,
        init=settings.init,
        restarts=settings.restarts,
        samples=settings.samples,
        steps=settings.steps,
        tolerance=settings.tolerance,
        batch_size=settings.batch_size,
        seed=settings.seed,
        progress=False if settings.quiet else None,
        keep=partial(job.checkpoint.keep, None),
        resume=job.checkpoint.classes.get(None),
    )
    plan = result.transport
    more = {"rows": len(plan.transform), "steps": _steps(result), "status": result.status.value}
    record = record_of(job, plan.value, plan.lower) | more
    held = CoresetFile(job.undo(result.coreset.points.detach()), result.coreset.weights, None, record)
    return held, outcome_of(job, record, result.status is tc.Status.CONVERGED)


def _labeled(job: Job) -> tuple[CoresetFile, Outcome]:
    """A coreset of each class, merged."""
    settings = job.settings
    rows, mass = job.source.materialize(None, torch.Generator().manual_seed(settings.seed))
    labeled = tc.build_labeled_coreset(
        rows,
        job.labels,
        settings.size,
        settings.allocation,
        settings.p,
        algorithm=settings.algorithm,
        init=settings.init,
        restarts=settings.restarts,
        sample_weights=mass,
        samples=settings.samples,
        steps=settings.steps,
        tolerance=settings.tolerance,
        seed=settings.seed,
        progress=False if settings.quiet else None,
        keep=job.checkpoint.keep,
        resume=job.checkpoint.classes,
    )
    plan = tc.transport(labeled.points.detach(), rows, settings.p, labeled.weights, mass)
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
    }
    record = record_of(job, plan.value, plan.lower) | more
    held = CoresetFile(job.undo(labeled.points.detach()), labeled.weights, labeled.labels, record)
    return held, outcome_of(job, record, done)


def _steps(result: tc.BuildResult) -> int:
    return result.history[-1].step + 1
