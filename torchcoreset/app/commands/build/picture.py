"""The picture of a build."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import torchcoreset as tc

from ....pictures import draw_cells, draw_classes, draw_coreset
from ....transport.costs import GreatCircle, Metric
from ...files import CoresetFile
from .job import Job

DRAWN = 20_000  # rows, at most


def picture_of(job: Job, held: CoresetFile) -> Any:
    """The points over the rows, in the units of the distance: raw columns in unlike units would show one of them."""
    p, generator = job.p, torch.Generator().manual_seed(job.settings.seed)
    scaling = job.scaling if held.points.shape[1] > 1 else None  # one column has an axis with numbers
    coreset, note_on_units = held.coreset(scaling), f" (in {scaling.words})" if scaling is not None else ""
    if job.metric is not None:
        return _by_metric(job.metric, coreset, _some_rows(job, generator), held)
    labels = job.labels if coreset.points.shape[1] > 1 else None
    rows = job.source.materialize(None, generator)[0] if labels is not None else _some_rows(job, generator)
    if scaling is None:
        rows = job.undo(rows)
    if labels is not None and held.labels is not None:
        figure = draw_classes(coreset, held.labels, rows, labels, columns=held.columns)
        title = f"{coreset.size} points for {len(rows):,} rows in {len(np.unique(labels))} classes{note_on_units}"
        figure.axes[0].set_title(title, fontsize=12)
        return figure
    if coreset.points.shape[1] == 2 and scaling is None:
        return draw_cells(coreset, rows, tc.transport(coreset.points, rows, p, coreset.weights).potential, p)
    title = f"{coreset.size} points, W{p:g} = {held.metadata['distance']:.4g}{note_on_units}"
    return draw_coreset(coreset, rows, columns=held.columns, title=title)


def _by_metric(metric: Metric, coreset: tc.Coreset, rows: Tensor, held: CoresetFile) -> Any:
    """Points over rows as the distance sees them, such as directions; cells are drawn of the Euclidean one only."""
    points, rows = (metric.rows(metric.coordinates(table)) for table in (coreset.points.detach(), rows))
    columns = held.columns
    if isinstance(metric, GreatCircle):  # on a map longitudes go to the right
        points, rows, columns = points.flip(1), rows.flip(1), columns[::-1]
    title = f"{coreset.size} points, W{held.metadata['p']:g} = {held.metadata['distance']:.4g} (in {metric.unit})"
    return draw_coreset(tc.Coreset(points, coreset.weights), rows, columns=columns, title=title)


def _some_rows(job: Job, generator: torch.Generator) -> Tensor:
    return job.source.draw(min(DRAWN, job.source.size or DRAWN), generator)
