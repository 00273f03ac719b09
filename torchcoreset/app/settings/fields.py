"""Settings are fields of frozen dataclasses: what each is called, what it means, and how the command line shows it."""

from __future__ import annotations

import dataclasses
from typing import Any


class UsageError(ValueError):
    """The command cannot be understood, or asks for what cannot be; the message is one line that says what to do."""


def argument(text: str, default: Any = dataclasses.MISSING) -> Any:
    """A field that is given by its place; a list takes all that is left."""
    return _field(text, default, None, None, place=True)


def option(
    text: str, default: Any = dataclasses.MISSING, *, metavar: str | None = None, short: str | None = None
) -> Any:
    """A field that is given by its name, --like-this, or by a short one; it must be given if there is no default."""
    return _field(text, default, metavar, short, place=False)


def _field(text: str, default: Any, metavar: str | None, short: str | None, *, place: bool) -> Any:
    metadata = {"text": text, "metavar": metavar, "short": short, "place": place}
    if default == []:
        return dataclasses.field(default_factory=list, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def flag_of(name: str) -> str:
    """What the command line calls a field."""
    return "--" + name.replace("_", "-")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Common:
    """What every command takes."""

    json: bool = option("print one JSON object on stdout instead of words", False)
    quiet: bool = option("no progress bar and no notes", False)
    traceback: bool = option("show where an error came from, for developers", False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Writes(Common):
    """What every command takes that writes files."""

    force: bool = option("replace files that are there already (never those that are read)", False)
