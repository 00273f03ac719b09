"""`torchcoreset bound`: what no points of a number can be nearer to a table than, and how near a coreset is to that."""

from __future__ import annotations

import torchcoreset as tc

from ..choices import weights_of
from ..files import check_measurable, metric_for, read_table, scaling_of
from ..outcome import Outcome, unit_of
from ..settings import BoundSettings, UsageError


def run(settings: BoundSettings) -> Outcome:
    """Bound, and compare."""
    metric = metric_for(settings)
    if metric is not None and not metric.is_euclidean:
        raise UsageError(f"--cost: got {settings.cost}, for which no bound is known; expected cosine, or none.")
    table = read_table(settings)
    check_measurable(table, metric, quiet=settings.quiet)
    scaling = scaling_of(settings, table.source)
    found = tc.optimality_bound(
        table.source,
        settings.size,
        settings.p,
        weights=weights_of(settings.point_weights),
        scale=scaling,
        cost=metric,
        method=settings.method,
        seed=settings.seed,
    )
    name = f"W{settings.p:g}"
    words = metric.unit if metric is not None else None if scaling is None else scaling.words
    lines = [
        f"no {found.size} points ({found.weights} weights) are nearer to these {found.samples:,} rows than",
        f"  {name} >= {found.distance:.6g}, in {unit_of(table.columns, words)}    ({found.method})",
    ]
    within = None
    if settings.distance is not None:
        within = found.within(settings.distance)
        lines.append(f"  {settings.distance:g} is within {within:.2%} of the best possible")
    record = {
        "command": "bound",
        "size": found.size,
        "p": found.p,
        "cost": settings.cost,
        "weights": found.weights,
        "distance": found.distance,
        "lower": found.lower,
        "method": found.method,
        "samples": found.samples,
        "within": within,
    }
    return Outcome(record, lines)
