"""Options of what a plan may choose: weights of the points, and mass that stays unmatched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..transport import check_trim
from .settings import Common, UsageError, option


@dataclass(frozen=True, kw_only=True)
class ChoiceSettings(Common):
    """Settings of commands that build."""

    point_weights: str = option(
        "weights of the points: equal, free, or LOW:HIGH in equal shares, such as 0.5:2", "equal", metavar="WEIGHTS"
    )
    trim: float = option("share of the rows, by weight, that may stay unmatched: outliers", 0.0, metavar="SHARE")

    def choices(self) -> dict[str, Any]:
        """The arguments `weights` and `trim` of a build; UsageError if they cannot be read."""
        try:
            check_trim(self.trim)
        except ValueError as error:
            raise UsageError(f"--{error}") from error
        return {"weights": _weights(self.point_weights), "trim": self.trim}


def _weights(text: str) -> Any:
    if text in ("equal", "free"):
        return None if text == "equal" else text
    low, _, high = text.partition(":")
    try:
        bounds = (float(low), float(high))
    except ValueError:
        bounds = (1.0, 0.0)
    if not 0 <= bounds[0] <= 1 <= bounds[1]:
        raise UsageError(
            f"--point-weights: got {text!r}; expected equal, free, or LOW:HIGH in equal shares with LOW <= 1 <= HIGH, "
            "such as 0.5:2. The column of row weights is --weights."
        )
    return bounds
