"""What goes wrong, by name: warnings and errors that carry the result they speak of."""

from __future__ import annotations

from typing import Any


class ConvergenceWarning(UserWarning):
    """A loop stopped before it reached the tolerance asked for; the result is usable and says how good it is.

    Attributes:
        result: the result that the loop stopped with (a `Transport` or a `BuildResult`), or None.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class ConvergenceError(RuntimeError):
    """A guarantee that was asked for could not be given.

    Attributes:
        result: the best result found, with its true gap.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class DriftWarning(UserWarning):
    """The distribution behind a stream has moved; the running potential follows it.

    Attributes:
        result: the `StreamTransport` of the batch that showed it.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class RankError(RuntimeError):
    """The ranks of a process group could not go on together: one failed, ended, or holds something else."""
