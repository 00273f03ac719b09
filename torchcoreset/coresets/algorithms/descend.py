"""The loop of all outer algorithms: step, record, stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from torch import Generator, Tensor

from ...losses import Discrepancy, LossResult, SinkhornResult
from ...tensors import check_callables
from ...transport import Status, Transport
from ..history import Step
from ..progress import ProgressBar

WINDOW = 5  # steps over which an improvement is measured
# Of the tolerance: the last of three falls, each at most half of the one before. What comes after gains less than it.
# Measured on 15 sets: clusters and heavy tails take a fifth fewer steps, and none ends more than 2e-4 higher.
LAST_FALL = 0.05


class AlgorithmState(Protocol):
    """The state of an algorithm between two steps."""

    @property
    def result(self) -> Tensor:
        """(n, d) what a run returns that stops here."""

    def record(self) -> dict[str, Any]:
        """All of it as tensors, numbers, and dicts of them, which no later step writes to."""

    def resumed(self: State, record: Mapping[str, Any]) -> State:
        """The state that made the record, from a first one."""


State = TypeVar("State", bound=AlgorithmState)


@dataclass
class Run:
    """A run of one or several algorithms, one after another, with one history."""

    steps: int  # maximum number of steps of all algorithms together
    tolerance: float  # relative change of the value below which it has settled
    progress: ProgressBar  # shows value and gap of each step
    generator: Generator  # of all random draws
    settings: Mapping[str, Any]  # arguments that have to be the same in a run that resumes this one
    callback: Callable[[Step], None] | None = None  # called after each step with its `Step`, points included
    checkpoint: Callable[[dict[str, Any]], None] | None = None  # gets a record at the start and after each step
    earlier: Mapping[str, Any] | None = None  # the record of the run that is resumed
    history: list[Step] = field(default_factory=list)  # the steps so far; of an earlier run the last ones
    status: Status = Status.MAX_STEPS  # of the last algorithm
    began: float = field(default_factory=time.perf_counter)  # time of the start, by `time.perf_counter`
    _first_steps: dict[int, int] = field(default_factory=dict)  # first step of each algorithm, by its place
    _statuses: dict[int, str] = field(default_factory=dict)  # status of each algorithm that has ended, by its place
    _drawn: Tensor | None = None  # state of the generator after the start was drawn

    def __post_init__(self) -> None:
        check_callables(callback=self.callback, checkpoint=self.checkpoint)
        if self.earlier is None:
            return
        earlier: Any = self.earlier
        if not isinstance(earlier, Mapping):
            kind = type(earlier).__name__
            raise TypeError(f"resume: got {kind}; expected a record that `checkpoint` got. Load the file first.")
        for name, ours in self.settings.items():
            theirs = self.earlier.get(name)
            if theirs != ours:
                raise ValueError(
                    f"resume: got a record of a run with {name}={theirs!r}, and this one has {ours!r}; expected a "
                    "record that `checkpoint` got in a run with the same arguments."
                )

    @property
    def done(self) -> int:
        """Number of steps so far, including those before an interruption."""
        return self.history[-1].step + 1 if self.history else 0

    def begin(self, points: Tensor) -> None:
        """Begin the run at the starting points (n, d), or restore the history of the run that is resumed."""
        if self.earlier is None:
            self._drawn = self.generator.get_state()
            self._keep(0, None, points)
            return
        self._drawn = self.earlier["drawn"]
        self.generator.set_state(self.earlier["drawn"])
        self.history += [Step(*numbers) for numbers in self.earlier["history"]]
        self._first_steps, self._statuses = dict(self.earlier["first_steps"]), dict(self.earlier["statuses"])
        if self.history:
            self.began -= self.history[-1].seconds
            self.progress.start_at(self.done)

    def first_step(self, place: int) -> int:
        """Number of the first step of an algorithm, or of the next step if it has not begun."""
        return self._first_steps.get(place, self.done)

    def descend(
        self,
        step: Callable[[State], tuple[State, LossResult | None]],
        state: State,
        samples: int,
        *,
        place: int = 0,
        until_settled: bool = True,
        tolerance: float | None = None,
        steps: int | None = None,
    ) -> State:
        """Repeat a step until the value has settled or the steps are used up.

        Args:
            step: from a state to the next one and what was measured at the points of the first; None in place of the
                latter if the source has ended, which ends the run too.
            state: to begin with.
            samples: that each step uses, for the record.
            place: of this algorithm among those of the run. What an earlier run has done of them is not done again.
            until_settled: False makes all steps.
            tolerance, steps: in place of those of the run, for this algorithm.
        """
        tolerance = self.tolerance if tolerance is None else tolerance
        earlier = None if self.earlier is None or self.earlier["state"] is None else self.earlier
        if earlier is not None and place < earlier["place"]:
            self.status = Status(self._statuses[place])
            return state
        stands = False
        if earlier is not None and place == earlier["place"]:
            state = state.resumed(earlier["state"])
            self.generator.set_state(earlier["generator"])
            stands = until_settled and settled(self.history, tolerance, self.tolerance)
        self._first_steps[place] = self.first_step(place)
        last = self.steps if steps is None else self._first_steps[place] + steps
        self.status = Status.MAX_STEPS
        while self.done < last and not stands:
            state, measured = step(state)
            if measured is None:
                return state
            self._record(measured, samples, state.result)
            self._keep(place, state, state.result)
            stands = until_settled and settled(self.history, tolerance, self.tolerance)
        if settled(self.history, tolerance, self.tolerance):
            self.status = Status.CONVERGED
        self._statuses[place] = self.status.value
        return state

    def _keep(self, place: int, state: AlgorithmState | None, points: Tensor) -> None:
        """Pass a record to `checkpoint` from which the run can be resumed; O(1) in the number of steps."""
        if self.checkpoint is not None:
            self.checkpoint(
                {
                    **self.settings,
                    "points": points.clone(),
                    "place": place,
                    "state": None if state is None else state.record(),
                    "generator": self.generator.get_state(),
                    "drawn": self._drawn,
                    "history": [astuple(step)[:-1] for step in self.history[-WINDOW - 1 :]],
                    "first_steps": dict(self._first_steps),
                    "statuses": dict(self._statuses),
                }
            )

    def _record(self, measured: LossResult, samples: int, points: Tensor) -> None:
        # Nothing else than an exact transport has a bound: of a batch of a stream only the semi-dual is known.
        lower, gap = measured.value, math.nan
        if isinstance(measured, Transport):
            lower, gap = measured.lower, measured.gap
        elif isinstance(measured, (Discrepancy, SinkhornResult)):
            lower = math.nan
        step = Step(
            step=self.done,
            value=measured.value,
            lower=lower,
            gap=gap,
            samples=samples,
            seconds=time.perf_counter() - self.began,
        )
        self.history.append(step)
        self.progress.update(step.value, step.gap)
        if self.callback is not None:
            self.callback(replace(step, points=points.clone()))


def settled(history: Sequence[Step], tolerance: float, finest: float) -> bool:
    """Whether the value has settled: within half of `tolerance` for WINDOW steps, equal three times, or nearly there.

    It is where the last falls, LAST_FALL of `finest` in the end, have each been at most half of the one before.
    """
    if not history or history[-1].value == 0:
        return bool(history)
    recent = [step.value for step in history[-WINDOW - 1 :] if step.samples == history[-1].samples]
    falls = [before - after for before, after in pairwise(recent[-4:])]
    if len(falls) >= 2 and falls[-1] == falls[-2] == 0:
        return True
    halves = len(falls) == 3 and falls[0] >= 2 * falls[1] >= 4 * falls[2] >= 0
    if halves and falls[2] <= LAST_FALL * finest * recent[-1]:
        return True
    return len(recent) > WINDOW and max(recent) - min(recent) <= 0.5 * tolerance * min(recent)
