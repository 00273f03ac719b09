"""What a command prints, in words and as JSON, and its exit code."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

OK, NOT_REACHED, USAGE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True)
class Outcome:
    """The end of a command.

    Attributes:
        record: for --json and for the metadata of files: numbers, text, lists and dicts of them.
        lines: for people.
        code: exit code. 0: done; 1: the computation did not reach its aim; 130: interrupted.
    """

    record: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    code: int = OK

    def show(self, *, as_json: bool) -> None:
        """Print it on stdout."""
        if as_json:
            text = to_json({**self.record, "exit_code": self.code})
            print("".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text))
        else:
            print("\n".join(map(printable, self.lines)))


def to_json(record: Any, indent: int | None = 2) -> str:
    """JSON that every reader takes: numbers that are not finite become null."""
    return json.dumps(_finite(record), indent=indent, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def printable(text: str) -> str:
    r"""One line of text without what a terminal would obey, such as names from files may hold.

    Example:
        >>> printable("red \x1b[31m, next\nline")
        'red \\x1b[31m, next\\nline'
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def note(text: str, *, quiet: bool = False) -> None:
    """One line for people on stderr, where it does not mix with results."""
    if not quiet:
        print(printable(text), file=sys.stderr)


def unit_of(columns: Sequence[str], words: str | None) -> str:
    """The unit of distances between rows of these columns; `words` are those of a scaling, None without one."""
    if words is not None:
        return words
    return f"the unit of {columns[0]!r}" if len(columns) == 1 else "the unit of the columns"
