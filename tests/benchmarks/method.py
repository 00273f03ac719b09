"""What a method is: a name, a task, and a way to get ready for work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .problems import Work


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a method returned; its true worth is computed from it afterwards.

    Attributes:
        potential: (n,) dual potential of the points in units of |y - x|^2; judged by its semi-dual value.
        value: W_2^2 as the method reports it; judged only where there is no potential.
        points: (n, d) of a coreset; judged by their exact W_2^2.
        note: what the method says about itself.
    """

    potential: Tensor | None = None
    value: float | None = None
    points: Tensor | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to do a task.

    Attributes:
        name: as the table prints it.
        task: as in `Work`.
        prepare: everything that is not counted, such as conversion of arrays and compilation; returns the run that
            is. Raises ImportError where the peer is missing and Unavailable where it cannot do this work.
        rival: name of the method of ours that does the same job, to which the table's ratio refers.
    """

    name: str
    task: str
    prepare: Callable[[Work], Callable[[], Outcome]]
    rival: str = ""
