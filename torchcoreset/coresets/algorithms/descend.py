"""The loop of all outer algorithms: step, record, stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from torch import Tensor

from ...losses import LossResult
from ...transport import Status, Transport
from ..history import Step
from ..progress import ProgressBar

WINDOW = 5  # steps over which an improvement is measured


class AlgorithmState(Protocol):
    """What an algorithm carries from step to step."""

    @property
    def result(self) -> Tensor:
        """(n, d) what a run returns that stops here."""


State = TypeVar("State", bound=AlgorithmState)


@dataclass
class Run:
    """One or several algorithms, one after another, and the record of them all."""

    steps: int  # most steps of all of them together
    tolerance: float  # relative change of the value that counts as none
    progress: ProgressBar  # shows value and gap of each step
    callback: Callable[[Step], None] | None = None  # called after each step with its `Step`, points included
    history: list[Step] = field(default_factory=list)  # the steps so far
    status: Status = Status.MAX_STEPS  # of the last algorithm
    began: float = field(default_factory=time.perf_counter)  # when, in the seconds of `time.perf_counter`

    def descend(
        self,
        step: Callable[[State], tuple[State, LossResult | None]],
        state: State,
        samples: int,
        *,
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
            until_settled: False makes all steps.
            tolerance, steps: in place of those of the run, for this algorithm.
        """
        tolerance = self.tolerance if tolerance is None else tolerance
        last = self.steps if steps is None else len(self.history) + steps
        self.status = Status.MAX_STEPS
        while len(self.history) < last:
            state, measured = step(state)
            if measured is None:
                return state
            self._record(measured, samples, state.result)
            if until_settled and settled(self.history, tolerance):
                break
        if settled(self.history, tolerance):
            self.status = Status.CONVERGED
        return state

    def _record(self, measured: LossResult, samples: int, points: Tensor) -> None:
        # Nothing else than an exact transport has a bound: of a batch of a stream only the semi-dual is known.
        lower, gap = (measured.lower, measured.gap) if isinstance(measured, Transport) else (measured.value, math.nan)
        step = Step(
            step=len(self.history),
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


def settled(history: Sequence[Step], tolerance: float) -> bool:
    """Whether the value stands still: within half of `tolerance` for WINDOW steps, or three times the same."""
    last = history[-3:]
    if last and (last[-1].value == 0 or (len(last) == 3 and len({(step.value, step.samples) for step in last}) == 1)):
        return True
    recent = history[-WINDOW - 1 :]
    if len(recent) <= WINDOW or recent[0].samples != recent[-1].samples:
        return False
    values = [step.value for step in recent]
    return max(values) - min(values) <= 0.5 * tolerance * min(values)
