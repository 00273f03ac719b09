"""The exact loss on a stream: each batch is measured at the potential of the batches before it.

    D(v) = E min_i [|Y - x_i|^p - v_i] + sum_i b_i v_i <= W_p^p      v the running potential

A dual solved afresh on each batch fits the batch's noise: its value is too large and its gradient pulls the points
inwards. At a potential that the batch has had no part in, the batch's value and gradients are those of D(v) on average.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import DriftWarning
from ..tensors import is_real
from ..transport.choose import check_engine
from ..transport.problem import check_power
from ..transport.ranks import as_ranks, check_group
from ..transport.shard import problem_on
from ..transport.stream import Memory, StreamTransport, follow
from .envelope import Solved, attach, solved_plan
from .wasserstein import as_inputs


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """How a stream is followed; arguments as in `CoresetLoss`."""

    p: float = 2
    forgetting: float = 0.0
    engine: str = "auto"
    group: Any = None

    def __post_init__(self) -> None:
        check_group(self.group)
        check_power(self.p)
        check_engine(self.engine)
        if not is_real(self.forgetting) or not 0 <= self.forgetting < 1:
            raise ValueError(
                f"forgetting: got {self.forgetting!r}; expected a number in [0, 1): the least weight of a batch, such "
                "as 0.01 to remember about a hundred. 0 remembers all until the stream is seen to move."
            )


@dataclass(frozen=True)
class Followed:
    """What a call has found out.

    Attributes:
        transport: the batch, measured.
        memory: what is remembered after it.
        drift: whether this batch is the first to show a drift.
    """

    transport: StreamTransport
    memory: Memory
    drift: bool

    def report(self) -> None:
        """Warn of a drift."""
        if self.drift:
            message = (
                f"the stream's distribution has moved, as batch {self.transport.batches} shows: means or spreads "
                "of the last batches' columns differ from those of all remembered by more than chance explains. "
                f"{self.transport.status.remedy}"
            )
            warnings.warn(DriftWarning(message, self.transport), stacklevel=3)


def stream_value(
    settings: OnlineSettings, memory: Memory | None, points: Any, samples: Any, point_weights: Any, sample_weights: Any
) -> tuple[Tensor, Followed]:
    """The semi-dual of a batch at the running potential, with its gradients, and what is remembered after it.

    The gradients are those of the value itself with the potential held fixed: nothing is neglected but the potential's
    own motion, whose part vanishes at the best potential (envelope theorem).
    """

    def solve_now(x: Tensor, y: Tensor, point_weights: Tensor | None, sample_weights: Tensor | None) -> Solved:
        state = None if memory is None else memory.running.counters
        problem = problem_on(
            as_ranks(settings.group), "CoresetLoss(online=True)", x, y, settings.p, point_weights, sample_weights,
            state=state,
        )  # fmt: skip
        result, plan, after, drift = follow(
            memory, problem, x.detach(), y.detach(), forgetting=settings.forgetting, engine=settings.engine
        )
        found = Followed(result, after, drift)
        return solved_plan(problem, result.value, found, plan, result.potential, result.transform, x, y)

    return attach("CoresetLoss(online=True)", solve_now, *as_inputs(points, samples, point_weights, sample_weights))
