"""Warnings and errors that carry the result that they refer to, and the ends of messages."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any


class _WithResult(Exception):
    """What carries a result beside its message."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class ConvergenceWarning(_WithResult, UserWarning):
    """A solver stopped before it reached the tolerance; the result is usable, and its bounds are valid.

    Attributes:
        result: the result that the loop stopped with (a `Transport`, a `TransportBatch` or a `BuildResult`), or None.
    """


class ConvergenceError(_WithResult, RuntimeError):
    """A requested guarantee could not be given.

    Attributes:
        result: the best result found, with its true gap.
    """


class DriftWarning(_WithResult, UserWarning):
    """The distribution of a stream has changed; the running potential adapts to it.

    Attributes:
        result: the `StreamTransport` of the batch in which it was detected.
    """


class RankError(RuntimeError):
    """The ranks of a process group cannot continue together: one failed, ended, or has other data or settings."""


# Code between the user and a fault: this package, and what calls it for the user, such as `nn.Module.__call__`,
# DistributedDataParallel, a compiled graph or a pipeline.
BETWEEN = ("torchcoreset", "torch", "sklearn")


def warn_user(warning: Warning) -> None:
    """Give a warning at the line of the user's code that led to it, whatever lies between."""
    # Only Python 3.12 knows `skip_file_prefixes`.
    loaded = [getattr(sys.modules.get(name), "__file__", None) for name in BETWEEN]
    folders = tuple(os.path.dirname(file) + os.sep for file in loaded if file is not None)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folders):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known word that was probably meant, or all of them."""
    words = list(known)
    return meant(word, words) or f"; expected one of {', '.join(words)}."


def meant(word: Any, known: Iterable[Any], end: str = "") -> str:
    """The end of a message about an unknown word: the known word that was probably meant, or `end` if none is near.

    Example:
        >>> meant("gradeint", ["sgd", "gradient"]), meant("newton", ["sgd", "gradient"], end=".")
        ("; did you mean 'gradient'?", '.')
    """
    close = difflib.get_close_matches(str(word), [str(one) for one in known], n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else end


def no_file(name: str | os.PathLike[str]) -> str:
    """A message about a file that is not there, with the one in its folder that was probably meant."""
    path = os.fspath(name)
    folder, base = os.path.split(path)
    beside = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    return f"there is no file {path!r}{meant(base, beside, '.')}"
