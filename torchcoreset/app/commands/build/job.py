"""What a build works on; everything that can be wrong is found here, before the work begins."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import torchcoreset as tc

from ....sources import Scaling, Source, Table, scaled
from ....sources.tables import RandomAccessSource
from ....transport.costs import Metric
from ...choices import choices_of, divergence_of, row_numbers
from ...files import (
    Checkpoint,
    CoresetFile,
    check_assignment,
    check_measurable,
    check_out,
    check_picture,
    check_table,
    metric_for,
    read_coreset,
    read_table,
    scaling_of,
    units_of,
)
from ...outcome import note, to_json
from ...outputs import checkpoint_of, refuse_existing, written_by
from ...settings import BuildSettings, UsageError, flag_of
from ...stored import check_format

# What has to be the same for a run to be taken up again, beside the data; steps and tolerance may differ.
SAME = (
    "size", "p", "label", "weights", "weights_are", "units", "one_hot", "dates", "allocation", "algorithm", "init",
    "restarts", "samples", "batch_size", "hold_out", "seed", "point_weights", "trim",
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """Rows in the units of the distance, and how to keep and describe them.

    Attributes:
        settings: of the command.
        p: power of the distance, where none is given that of the divergence.
        table: that the rows are from.
        source: rows to build on.
        unscaled: the same in the units of the data.
        labels: of these rows, or None.
        scaling: units of the columns for the distance, if they are not those of the data.
        metric: the distance, if it is not the Euclidean one; at most one of the two.
        checkpoint: progress of the run.
        mark: of the run: equal for the same settings and data.
        began: when, in the seconds of `time.perf_counter`.
    """

    settings: BuildSettings
    p: float
    table: Table
    source: Source
    unscaled: Source
    labels: NDArray[Any] | None
    scaling: Scaling | None
    metric: Metric | None
    checkpoint: Checkpoint
    mark: str
    began: float

    def undo(self, points: Tensor) -> Tensor:
        """Points of the build, which are in the units of the distance, as rows in those of the data."""
        if self.metric is not None:
            return self.metric.rows(points)
        return points if self.scaling is None else self.scaling.undo(points)

    @property
    def unit(self) -> str | None:
        """The unit of distances in words; None for that of the data."""
        if self.metric is not None:
            return self.metric.unit
        return None if self.scaling is None else self.scaling.words


def prepare(settings: BuildSettings) -> Job:
    """Check, read the table, and the checkpoint of an earlier run if it is to be resumed."""
    began = time.perf_counter()
    _check(settings)
    table = read_table(settings)
    metric = metric_for(settings)
    check_measurable(table, metric, quiet=settings.quiet)
    check_out(Path(settings.out), "--out", [*table.columns, *([] if table.label is None else [table.label])])
    source: Source = table.source
    labels = table.labels
    if settings.hold_out != 0:
        source, _ = tc.hold_out(source, settings.hold_out, seed=settings.seed)
    if labels is not None:
        assert isinstance(source, RandomAccessSource), "it is a table"
        labels = labels[source.row_numbers.numpy()]
        if settings.hold_out != 0:
            _check_classes(table, labels)
    scaling = scaling_of(settings, source)
    p = settings.p if settings.p is not None else 1.0 if settings.divergence == "energy" else 2.0
    run: dict[str, Any] = {"data": table.fingerprint, "columns": list(table.columns)}
    resolved = {"p": p, "units": units_of(settings)}
    run |= {name: resolved[name] if name in resolved else getattr(settings, name) for name in SAME}
    # What earlier versions did not know is left out where it is not asked for, so that their runs are still known.
    later = {"rows": settings.rows, "keep": settings.keep, "exclude": settings.exclude, "cost": settings.cost}
    later |= divergence_of(settings)
    run |= {name: value for name, value in later.items() if value}
    mark = hashlib.sha256(to_json(run).encode()).hexdigest()[:16]
    checkpoint = Checkpoint(checkpoint_of(settings.out), run, settings.checkpoint_every)
    if settings.resume:
        checkpoint.load()
    return Job(settings, p, table, scaled(source, scaling), source, labels, scaling, metric, checkpoint, mark, began)


def earlier_result(job: Job) -> CoresetFile | None:
    """With --resume: what the same run has written at its end; None if there is something left to do.

    Raises:
        UsageError, ValueError: there are files that the run would replace and that it has not left itself.
    """
    settings, out, goes_on = job.settings, Path(job.settings.out), job.checkpoint.found
    if out.exists():
        try:
            held = read_coreset(settings.out)
        except UsageError:
            held = None
        ours = held is not None and held.metadata.get("run_mark") == job.mark
        ended = held is not None and held.metadata.get("status") != "interrupted"
        if ours and ended and not (settings.force and goes_on):
            return held
        if ours and not (settings.force or goes_on):
            raise UsageError(
                f"--resume: {settings.out} holds the best points of an interrupted run, whose checkpoint "
                f"{job.checkpoint.path} is gone. Keep them, or pass --force to begin anew."
            )
        if not (settings.force or ours):
            raise UsageError(
                f"--resume: {settings.out} is not of this run: settings or data differ. Name another file (--out), or "
                "pass --force to replace it."
            )
    if not settings.force:  # a run that has not ended has drawn no picture yet
        refuse_existing([one for one in written_by(settings) if one[0] == "--plot" or not goes_on])
    if not goes_on:
        note(f"note: there is no {job.checkpoint.path}; the run begins at the start.", quiet=settings.quiet)
    return None


def _check(settings: BuildSettings) -> None:
    """Raise for what can be seen without the table."""
    check_format(Path(settings.out), "--out")
    choices_of(settings)
    for name in ("keep", "exclude"):
        row_numbers(f"--{name}", getattr(settings, name))
    check_picture(settings.plot)
    check_assignment(settings.assignment)
    other = [flag_of(name) for name, value in divergence_of(settings).items() if value != "wasserstein"]
    if other and settings.label is not None:
        raise UsageError(f"{', '.join(other)}: given with --label, whose builds minimise wasserstein; leave one out.")
    if metric_for(settings) is not None:
        _check_cost(settings)
    for flag, given, needs in (
        ("--allocation", settings.allocation != "proportional" and settings.label is None, "--label"),
        ("--rows", settings.rows and settings.algorithm == "sgd", "another --algorithm than sgd"),
        ("--batch-size", settings.batch_size is not None and settings.label is not None, "no --label"),
    ):
        if given:
            raise UsageError(f"{flag}: given where nothing uses it; expected it with {needs}.")
    if not settings.checkpoint_every >= 0:
        raise UsageError(f"--checkpoint-every: got {settings.checkpoint_every}; expected seconds, 0 or more.")
    check_table(settings)
    if settings.resume or settings.force:
        return
    *written, (_, checkpoint) = written_by(settings)
    if checkpoint.exists():
        raise UsageError(
            f"--out: {str(checkpoint)!r} holds the progress of a run that was interrupted or is still going on. Pass "
            "--resume to go on with it, --force to begin anew, or name another file."
        )
    refuse_existing(written)


def _check_cost(settings: BuildSettings) -> None:
    """Raise for what goes with the Euclidean distance only."""
    for flag, given, instead in (
        ("--label", settings.label is not None, "the features alone (--columns)"),
        ("--divergence", settings.divergence != "wasserstein", "the Wasserstein distance"),
        ("--algorithm", settings.algorithm not in ("auto", "fixed_point"), "--algorithm auto"),
    ):
        if given:
            raise UsageError(f"{flag}: given with --cost {settings.cost}; expected {instead}, or no --cost.")


def _check_classes(table: Table, left: NDArray[Any]) -> None:
    """Raise if a class of the table is not among the labels left: it would have no points."""
    classes, counts = np.unique(np.asarray(table.labels), return_counts=True)
    for place in np.flatnonzero(~np.isin(classes, left))[:1]:
        rows = "its only row is" if counts[place] == 1 else f"all of its {counts[place]} rows are"
        raise UsageError(
            f"--hold-out: class {classes.tolist()[place]!r} of {table.name} would have no points: {rows} held out, or "
            "weightless. Pass a smaller --hold-out or another --seed, or leave the class out of the table."
        )
