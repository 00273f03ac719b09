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
from importlib.metadata import version
from typing import Any

from ..errors import ConvergenceError, nearest
from .commands import COMMANDS, RunSettings, read_config
from .outcome import INTERRUPTED, NOT_REACHED, USAGE, Outcome, note
from .outputs import check_settings
from .settings import UsageError, explain, parser_of

EXAMPLES = """\
examples:
  torchcoreset build example:ring --size 40 --out ring.npz --plot ring.png
  torchcoreset build data.csv --size 100 --standardise --hold-out 0.5 --out coreset.npz
  torchcoreset certify coreset.npz data.csv

exit codes: 0 done, 1 aim not reached, 2 wrong usage, 130 Ctrl-C"""
KNOWN: dict[str, tuple[type[Any], Callable[[Any], Outcome] | None, str]] = {
    **COMMANDS,
    "run": (RunSettings, None, "run the command of a YAML file"),
}
# What messages of the library call by its name in Python, in the words of the command line.
IN_WORDS = {
    "`as_source(..., features=[...])`": "--columns",
    "Pass float64 samples": "Use a file with float64 numbers",
    "weights_are='counts'": "--weights-are counts",
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
    if words == ["--version"]:
        print(f"torchcoreset {version('torchcoreset')}")
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
    name = words[0]
    if name not in KNOWN:
        raise UsageError(f"unknown command {name!r}{nearest(name, KNOWN)}")
    kind, command, text = KNOWN[name]
    parser = parser_of(kind, text[0].upper() + text[1:] + ".")
    parser.prog = f"torchcoreset {name}"
    try:
        parsed = parser.parse_args(words[1:])
    except UsageError as error:
        raise UsageError(f"{name}: {explain(str(error), kind)}") from error
    settings = kind(**{field: getattr(parsed, field) for field in kind.__dataclass_fields__})
    config = ""
    if command is None:
        config = settings.config
        name, settings = read_config(settings, {key: entry[0] for key, entry in COMMANDS.items()})
        command = COMMANDS[name][1]
    check_settings(settings, config)
    return settings, command


def _help() -> str:
    lines = [f"  {name:9}{text}" for name, (_, _, text) in KNOWN.items()]
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
    """The message of the library, with the option's name where it begins with that of an argument."""
    found = re.match(r"(\w+): ", text)
    if found is None or settings is None:
        return text
    name = found[1]
    fields = type(settings).__dataclass_fields__
    if name in fields and not fields[name].metadata["place"]:
        return "--" + name.replace("_", "-") + text[len(name) :]
    return FLAGS.get(name, name) + text[len(name) :]


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
