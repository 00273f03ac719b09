"""What a plan may choose, and what is minimised: from the settings to the arguments of the library."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..transport import check_trim
from .settings import ChoiceSettings, DivergenceSettings, UsageError


def choices_of(settings: ChoiceSettings) -> dict[str, Any]:
    """The arguments `weights` and `trim` of a build; UsageError if they cannot be read."""
    try:
        check_trim(settings.trim)
    except ValueError as error:
        raise UsageError(f"--{error}") from error
    return {"weights": weights_of(settings.point_weights), "trim": settings.trim}


def divergence_of(settings: DivergenceSettings) -> dict[str, Any]:
    """The arguments of a build that say what is minimised: the name and those of its options that are given."""
    names = [field.name for field in dataclasses.fields(DivergenceSettings)]
    given = {name: value for name in names if (value := getattr(settings, name)) is not None}
    return {} if given == {"divergence": "wasserstein"} else given


def row_numbers(flag: str, rows: str | list[int] | None) -> list[int] | None:
    """Numbers of rows, from a list or from text such as 3,8."""
    if not isinstance(rows, str):
        return rows
    try:
        return [int(number) for number in rows.split(",")]
    except ValueError:
        raise UsageError(f"{flag}: got {rows!r}; expected numbers of rows, counted from 0, such as 3,8.") from None


def weights_of(text: str) -> Any:
    """The argument `weights` of a build, or of a bound; 0.5,2 is read as 0.5:2 is."""
    if text in ("equal", "free"):
        return None if text == "equal" else text
    low, _, high = text.replace(",", ":").partition(":")
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
