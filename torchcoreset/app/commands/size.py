"""`torchcoreset size`: how many points a distance needs, and the certificate that shows it."""

from __future__ import annotations

import torchcoreset as tc

from ...pictures import draw_certificates
from ..choices import choices_of
from ..files import check_measurable, check_picture, check_table, metric_for, read_table, save_picture, scaling_of
from ..outcome import NOT_REACHED, OK, Outcome
from ..settings import SizeSettings
from .certify import certificate_record


def run(settings: SizeSettings) -> Outcome:
    """Search, say what was found, draw."""
    check_picture(settings.plot)
    check_table(settings)
    choices_of(settings)
    metric = metric_for(settings)
    table = read_table(settings)
    check_measurable(table, metric, quiet=settings.quiet)
    found = tc.size_for(
        settings.epsilon,
        table.source,
        settings.p,
        confidence=settings.confidence,
        **choices_of(settings),
        scale=scaling_of(settings, table.source),
        cost=metric,
        samples=settings.samples,
        max_size=settings.max_size,
        max_builds=settings.max_builds,
        seed=settings.seed,
    )
    tried = sorted(found.tried, key=lambda one: one[0])
    lines, unit = [found.message], "" if metric is None else f" {metric.unit}"
    lines += [f"  {size:>6} points: {one.lower:.5g} <= W{settings.p:g} <= {one.upper:.5g}{unit}" for size, one in tried]
    if settings.plot is not None:
        save_picture(draw_certificates(found), settings.plot)
        lines.append(f"written  {settings.plot}")
    record = {
        "command": "size",
        "epsilon": settings.epsilon,
        "cost": settings.cost,
        "size": found.size,
        "message": found.message,
        "certificate": certificate_record(found.certificate),
        "tried": [{"size": size, "lower": one.lower, "upper": one.upper} for size, one in tried],
    }
    return Outcome(record, lines, OK if found.reached else NOT_REACHED)
