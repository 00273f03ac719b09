"""`torchcoreset bound`: what no points of a number can be nearer to a table than, and how near a coreset is to that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torchcoreset as tc

from ...sources import in_words
from ..files import DataSettings, ScaleSettings, read_table
from ..outcome import Outcome
from ..settings import UsageError, option


@dataclass(frozen=True, kw_only=True)
class BoundSettings(ScaleSettings, DataSettings):
    """Settings of `bound`."""

    size: int = option("number of points", metavar="N")
    p: float = option("power of the distance", 2.0)
    point_weights: str = option(
        "weights of the points: equal, free, or LOW,HIGH in equal shares", "equal", metavar="WEIGHTS"
    )
    method: Literal["auto", "line", "semidefinite", "shift", "pairs", "blocks"] = option(
        "semidefinite is the sharpest, pairs the fastest", "auto"
    )
    distance: float | None = option("distance to compare with, such as `build` prints", None, metavar="W")
    seed: int = option("of all random numbers", 0, metavar="N")


def run(settings: BoundSettings) -> Outcome:
    """Bound, and compare."""
    table = read_table(settings)
    scaling = settings.scaling(table.source)
    found = tc.optimality_bound(
        table.source,
        settings.size,
        settings.p,
        weights=_weights(settings.point_weights),
        scale=scaling,
        method=settings.method,
        seed=settings.seed,
    )
    name = f"W{settings.p:g}"
    lines = [
        f"no {found.size} points ({found.weights} weights) are nearer to these {found.samples:,} rows than",
        f"  {name} >= {found.distance:.6g}{in_words(scaling)}    ({found.method})",
    ]
    within = None
    if settings.distance is not None:
        within = found.within(settings.distance)
        lines.append(f"  {settings.distance:g} is within {within:.2%} of the best possible")
    record = {
        "command": "bound",
        "size": found.size,
        "p": found.p,
        "weights": found.weights,
        "distance": found.distance,
        "lower": found.lower,
        "method": found.method,
        "samples": found.samples,
        "within": within,
    }
    return Outcome(record, lines)


def _weights(text: str) -> str | tuple[float, float] | None:
    """As `optimality_bound` takes them."""
    if text in ("equal", "free"):
        return None if text == "equal" else text
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = 1.0, 0.0
    if not 0 <= low <= 1 <= high:
        raise UsageError(
            f"--point-weights: got {text!r}; expected equal, free, or LOW,HIGH with 0 <= LOW <= 1 <= HIGH, "
            "such as 0.5,2."
        )
    return low, high
