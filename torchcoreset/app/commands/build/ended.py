"""The ends of a run: its file, a run that had ended before, and one that is interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import torchcoreset as tc

from ....coresets import allocate
from ...files import CoresetFile, save_picture, write_coreset
from ...outcome import INTERRUPTED, Outcome
from ...settings import UsageError
from .job import Job
from .picture import picture_of
from .record import kind_of, record_of


def write(job: Job, held: CoresetFile) -> None:
    """Write the coreset; where that fails, the checkpoint keeps what was done."""
    try:
        write_coreset(Path(job.settings.out), held)
    except OSError as error:
        kept = job.checkpoint.write()
        remedy = f"{job.checkpoint.path} keeps the run: make room, and pass --resume." if kept else "Make room."
        raise UsageError(
            f"--out: {job.settings.out} cannot be written ({error.strerror or error}). {remedy}"
        ) from error


def complete(job: Job, held: CoresetFile) -> Outcome:
    """The run had ended: nothing is done again but a picture that it was stopped at."""
    settings, checkpoint, out = job.settings, job.checkpoint, Path(job.settings.out)
    known = held.metadata
    lines = [
        f"already complete: {settings.out} ({known.get('steps')} steps, {known.get('status')}). To build it anew, pass "
        "--force without --resume."
    ]
    if settings.plot is not None and not Path(settings.plot).exists():
        save_picture(picture_of(job, held), settings.plot)
        lines.append(f"written  {settings.plot}")
    if checkpoint.found and checkpoint.path.stat().st_mtime_ns <= out.stat().st_mtime_ns:  # not of a later run
        checkpoint.remove()
    return Outcome(
        {"command": "build", **known, "out": settings.out, "plot": settings.plot, "already_complete": True}, lines
    )


def interrupted(job: Job) -> Outcome:
    """Ctrl-C: write the points so far, and what it takes to go on."""
    settings, checkpoint = job.settings, job.checkpoint
    record: dict[str, Any] = {"command": "build", "status": "interrupted", "out": None}
    if not checkpoint.classes:
        checkpoint.remove()
        return Outcome(record, ["interrupted before the first step: nothing was written."], INTERRUPTED)
    kept = checkpoint.write()
    go_on = f"The same command with --resume goes on from {checkpoint.path}." if kept else "There is no checkpoint."
    if not checkpoint.has_steps:
        return Outcome(record, ["interrupted before the first step.", go_on], INTERRUPTED)
    steps = sum(map(checkpoint.steps, checkpoint.classes))
    if settings.force and Path(settings.out).exists():
        lines = [f"interrupted after {steps} steps; {settings.out} is left as it was.", go_on]
        return Outcome(record, lines, INTERRUPTED)
    held = _so_far(job)
    held.metadata.update(status="interrupted", steps=steps)
    write(job, held)
    lines = [f"interrupted after {steps} steps; the best points so far are in {settings.out}"]
    if job.labels is not None and len(checkpoint.classes) < len(np.unique(job.labels)):
        lines.append("Classes that had not begun are represented by random rows.")
    return Outcome(record | held.metadata | {"out": settings.out}, [*lines, go_on], INTERRUPTED)


def _so_far(job: Job) -> CoresetFile:
    """The points that the checkpoint keeps."""
    if job.labels is None:
        best = job.checkpoint.classes[None]
        _, value, lower, _, samples, _ = best["history"][-1]
        record = record_of(job, value, lower) | {"rows": samples}
        points = best["points"]
        return CoresetFile(job.undo(points), points.new_full((len(points),), 1 / len(points)), None, record)
    points, weights, labels = _partly(job)
    record = record_of(job, float("nan"), float("nan")) | {"rows": job.source.size, "label_kind": kind_of(labels)}
    return CoresetFile(job.undo(points), weights, labels, record)


def _partly(job: Job) -> tuple[Tensor, Tensor, NDArray[Any]]:
    """A labelled coreset of which some classes have not begun: random rows stand in for those."""
    settings, known = job.settings, job.checkpoint.classes
    rows, mass = job.source.materialize(None, torch.Generator().manual_seed(settings.seed))
    classes, place = np.unique(np.asarray(job.labels), return_inverse=True)
    plain = np.full(len(rows), 1 / len(rows)) if mass is None else mass.numpy()
    shares: NDArray[np.float64] = np.bincount(place, weights=plain) / plain.sum()
    if settings.allocation == "equal":
        shares = np.full(len(classes), 1 / len(classes))
    counts = allocate(settings.size, shares, settings.allocation)
    points = [
        known[label]["points"]
        if label in known
        else tc.Coreset.from_source(
            rows[torch.from_numpy(place == k)], int(counts[k]), seed=settings.seed
        ).points.detach()
        for k, label in enumerate(classes.tolist())
    ]
    return torch.cat(points), torch.from_numpy(np.repeat(shares / counts, counts)), np.repeat(classes, counts)
