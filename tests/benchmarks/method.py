"""What a method is: a name, a task, and a way to get ready for work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .problems import Unavailable, Work


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a method returned; its true worth is computed from it afterwards.

    Attributes:
        potential: (n,) dual potential of the points in units of |y - x|^p; judged by its semi-dual value.
        value: W_p^p as the method reports it, the cost of a feasible plan; None where it has none.
        points: (n, d) of a coreset; judged by their exact W_2^2.
        note: what the method says about itself.
        own: how far it is from the optimum by its own measure, in words; called when the clock has stopped.
    """

    potential: Tensor | None = None
    value: float | None = None
    points: Tensor | None = None
    note: str = ""
    own: Callable[[], str] | None = None


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to do a task.

    Attributes:
        name: as the table prints it.
        task: as in `Work`.
        prepare: everything that is not counted, such as conversion of arrays and compilation; returns the run that
            is. Raises ImportError where the peer is missing and Unavailable where it cannot do this work.
        rival: name of the method of ours that does the same job, to which the table's ratio refers.
        threads_as_cores: it takes a thread for each core that it sees, so that its process is held to as many cores as
            others have threads.
        device: "cuda" for one that runs on a GPU alone.
    """

    name: str
    task: str
    prepare: Callable[[Work], Callable[[], Outcome]]
    rival: str = ""
    threads_as_cores: bool = False
    device: str = "any"


def need_squares(work: Work) -> None:
    """For methods that know squared distances alone. Raises Unavailable where p is not 2."""
    if work.p != 2:
        raise Unavailable("for p = 2 only")


def need_costs(work: Work, most: int) -> None:
    """For methods that hold the matrix of costs. Raises Unavailable where it has more elements than these."""
    elements = work.points.shape[-2] * work.samples.shape[-2]
    if elements > most:
        raise Unavailable(f"too large: its matrix of costs has {elements:.0e} elements, and {most:.0e} are tried")
