"""`torchcoreset size`: how many points a distance needs, and the certificate that shows it."""

from __future__ import annotations

from dataclasses import dataclass

import torchcoreset as tc

from ...pictures import draw_certificates
from ..choices import ChoiceSettings
from ..files import DataSettings, ScaleSettings, check_picture, check_table, read_table, save_picture
from ..outcome import NOT_REACHED, OK, Outcome
from ..settings import Writes, option
from .certify import certificate_record


@dataclass(frozen=True, kw_only=True)
class SizeSettings(Writes, ChoiceSettings, ScaleSettings, DataSettings):
    """Settings of `size`."""

    epsilon: float = option("distance to reach, in the unit of the data or of --scale", metavar="W")
    p: float = option("power of the distance", 2.0)
    confidence: float = option("with which the distance is at most epsilon", 0.95)
    samples: int = option("most rows of each certificate", 100_000, metavar="N")
    max_size: int = option("most points to try", 1000, metavar="N")
    max_builds: int = option("most coresets to build", 8, metavar="N")
    plot: str | None = option("picture of distance against size: .png, .pdf or .svg", None, metavar="FILE")
    seed: int = option("of all random numbers", 0, metavar="N")


def run(settings: SizeSettings) -> Outcome:
    """Search, say what was found, draw."""
    check_picture(settings.plot)
    check_table(settings)
    settings.choices()
    table = read_table(settings)
    found = tc.size_for(
        settings.epsilon,
        table.source,
        settings.p,
        confidence=settings.confidence,
        **settings.choices(),
        scale=settings.scaling(table.source),
        samples=settings.samples,
        max_size=settings.max_size,
        max_builds=settings.max_builds,
        seed=settings.seed,
    )
    tried = sorted(found.tried, key=lambda one: one[0])
    lines = [found.message]
    lines += [f"  {size:>6} points: {one.lower:.5g} <= W{settings.p:g} <= {one.upper:.5g}" for size, one in tried]
    if settings.plot is not None:
        save_picture(draw_certificates(tried, epsilon=settings.epsilon), settings.plot)
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
