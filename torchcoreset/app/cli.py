"""The command line: `torchcoreset COMMAND ...`, also as `python -m torchcoreset`. Needs the extra `cli`.

Exit codes: 0 done; 1 the computation did not reach its aim; 2 it was asked for wrongly; 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ConvergenceError, nearest
from .commands import COMMANDS, read_config
from .outcome import INTERRUPTED, NOT_REACHED, USAGE, Outcome, note
from .outputs import check_settings
from .settings import UsageError, explain, flag_of, parser_of

EXAMPLES = """\
examples:
  torchcoreset build example:ring -n 40 --out ring.npz --plot ring.png
  torchcoreset build data.csv -n 100 --standardise --hold-out 0.5 --out coreset.npz
  torchcoreset certify coreset.npz data.csv
  torchcoreset info coreset.npz

exit codes: 0 done, 1 aim not reached, 2 wrong usage, 130 Ctrl-C"""
# What messages of the library call by its name in Python, in the words of the command line.
IN_WORDS = {
    "`as_source(..., features=[...])`": "--columns",
    "Pass float64 samples": "Use a file with float64 numbers",
    "weights_are='counts'": "--weights-are counts",
    "cost=GreatCircle()": "--cost great-circle",
    "cost=Cosine()": "--cost cosine",
}
FLAGS = {
    "features": "--columns",
    "source": "DATA",
    "rows": "DATA",
    "samples": "--samples",
    "y": "--label",
    "found": "--distance",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    Args:
        arguments: without the name of the program; None for those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    show_all = "--traceback" in words or bool(os.environ.get("TORCHCORESET_TRACEBACK"))
    if words in ([], ["-h"], ["--help"]):
        print(_help())
        return 0
    settings: Any = None
    try:
        settings, command = _parse(words)
        with _short_warnings():
            outcome = command(settings)
        outcome.show(as_json=settings.json)
        return outcome.code
    except KeyboardInterrupt:
        note("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if show_all:
            traceback.print_exc()
        return _report(error, settings)


def _parse(words: list[str]) -> tuple[Any, Callable[[Any], Outcome]]:
    """Settings, and the command that takes them."""
    if words[0] not in COMMANDS:
        raise UsageError(f"unknown command {words[0]!r}{nearest(words[0], COMMANDS)}")
    command = COMMANDS[words[0]]
    parser = parser_of(
        command.settings, command.name, f"{command.text[0].upper()}{command.text[1:]}.", command.examples
    )
    try:
        parsed = parser.parse_args(words[1:])
    except UsageError as error:
        raise UsageError(f"{command.name}: {explain(str(error), command.settings)}") from error
    settings = command.settings(**{field: getattr(parsed, field) for field in command.settings.__dataclass_fields__})
    config = ""
    if command.name == "run":
        config = settings.config
        known = {name: other.settings for name, other in COMMANDS.items() if name not in ("run", "completion")}
        name, settings = read_config(settings, known)
        command = COMMANDS[name]
    check_settings(settings, config)
    return settings, command.run


def _help() -> str:
    lines = [f"  {name:12}{command.text}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: torchcoreset COMMAND ...    (torchcoreset COMMAND --help says what it takes)",
            "",
            "A few points that stand in for a distribution, with a number that says how well.",
            "",
            *lines,
            "",
            EXAMPLES,
        ]
    )


def _report(error: Exception, settings: Any) -> int:
    """One line on stderr, and the exit code."""
    text = " ".join(str(error).split())
    for python, words in IN_WORDS.items():
        text = text.replace(python, words)
    if isinstance(error, ConvergenceError):
        note(f"error: {text}")
        return NOT_REACHED
    if isinstance(error, MemoryError) or "can't allocate memory" in text:
        note("error: there is not enough memory. Hold fewer rows (--samples), or build fewer points (--size).")
        return NOT_REACHED
    if isinstance(error, (ValueError, TypeError, ImportError, OSError)):
        note(f"error: {text if isinstance(error, UsageError) else _with_flag(text, settings)}")
        return USAGE
    note(
        f"error: {type(error).__name__}: {text.rstrip('.')}. This is a fault of torchcoreset: --traceback shows where."
    )
    return NOT_REACHED


def _with_flag(text: str, settings: Any) -> str:
    """The message of the library, with options where it names arguments: at its beginning, and those with values."""
    found = re.match(r"(\w+): ", text)
    if found is None or settings is None:
        return text
    name, fields = found[1], type(settings).__dataclass_fields__
    options = [field for field in fields if not fields[field].metadata["place"]]
    given = rf"\b({'|'.join(options)})=('?)(\w(?:[\w.+-]*\w)?)\2(?![\w(])"
    text = re.sub(given, lambda said: _as_typed(flag_of(said[1]), said[3]), text)
    return (flag_of(name) if name in options else FLAGS.get(name, name)) + text[len(name) :]


def _as_typed(flag: str, value: str) -> str:
    """An option with its value, as one types it."""
    return {"True": flag, "False": f"no {flag}"}.get(value, f"{flag} {value}")


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings as one line each on stderr, without the place in the code; the filters are put back."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        note("warning: " + " ".join(str(message).split()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of libraries do not concern users of a command
        warnings.filterwarnings("default", category=UserWarning)
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
