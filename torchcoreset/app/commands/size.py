"""`torchcoreset size`: how many points a distance needs, and the certificate that shows it."""

from __future__ import annotations

import torchcoreset as tc

from ...pictures import draw_certificates
from ..choices import choices_of
from ..files import check_picture, check_table, read_table, save_picture, scaling_of
from ..outcome import NOT_REACHED, OK, Outcome
from ..settings import SizeSettings
from .certify import certificate_record


def run(settings: SizeSettings) -> Outcome:
    """Search, say what was found, draw."""
    check_picture(settings.plot)
    check_table(settings)
    choices_of(settings)
    table = read_table(settings)
    found = tc.size_for(
        settings.epsilon,
        table.source,
        settings.p,
        confidence=settings.confidence,
        **choices_of(settings),
        scale=scaling_of(settings, table.source),
        samples=settings.samples,
        max_size=settings.max_size,
        max_builds=settings.max_builds,
        seed=settings.seed,
    )
    tried = sorted(found.tried, key=lambda one: one[0])
    lines = [found.message]
    lines += [f"  {size:>6} points: {one.lower:.5g} <= W{settings.p:g} <= {one.upper:.5g}" for size, one in tried]
    if settings.plot is not None:
        save_picture(draw_certificates(found), settings.plot)
        lines.append(f"written  {settings.plot}")
    record = {
        "command": "size",
        "epsilon": settings.epsilon,
        "size": found.size,
        "message": found.message,
        "certificate": certificate_record(found.certificate),
        "tried": [{"size": size, "lower": one.lower, "upper": one.upper} for size, one in tried],
    }
    return Outcome(record, lines, OK if found.reached else NOT_REACHED)
