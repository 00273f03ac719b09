"""How near random rows are by the same measure to the same samples: what the number of a build is worth."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import torchcoreset as tc

from ....sources import as_source
from ....transport import as_cost
from ...choices import choices_of, divergence_of
from .job import Job

SETS = 3  # of random rows, whose mean is given
GAP = 1e-2  # relative, of their transports: half as much in the distance, and their sets differ by more


def random_rows(job: Job, numbers: Tensor, ours: float) -> dict[str, Any] | None:
    """The mean over some sets of random rows, as many as there are points, and how many times ours that is.

    Args:
        job: what was asked for.
        numbers: (m,) of the rows that were built on.
        ours: what the build has ended with: W_p, or the value of another divergence.

    Returns:
        None where the rows that were built on cannot be read again.
    """
    size, seed = job.settings.size, job.settings.seed
    limit = None if len(numbers) >= (job.source.size or 0) else len(numbers)
    y, a, found = job.source.numbered(limit, torch.Generator().manual_seed(seed))
    if found is None or not torch.equal(found, numbers):
        return None
    measure, rows = _measure(job, y, a), as_source(y, a)
    sets = [tc.Coreset.from_source(rows, size, seed=seed + k).points.detach() for k in range(SETS)]
    mean = statistics.fmean(measure(points) for points in sets)
    return {"sets": SETS, "distance": mean, "ratio": mean / ours if ours > 0 else None}


def _measure(job: Job, y: Tensor, a: Tensor | None) -> Callable[[Tensor], float]:
    """From points (n, d) to what the build has minimised, with weights chosen and samples trimmed as there."""
    other = divergence_of(job.settings)
    if other:
        loss = tc.CoresetLoss(job.settings.p, **other)
        return lambda points: float(loss(points.to(y), y, None, a))
    choices, root = choices_of(job.settings), as_cost(job.p).root

    def distance(points: Tensor) -> float:
        plan = tc.transport(
            points, y, job.p, choices["weights"], a, trim=choices["trim"], tolerance=GAP, cost=job.metric
        )
        return root(plan.value)

    return distance
