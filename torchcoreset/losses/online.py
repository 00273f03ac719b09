"""The exact loss on a stream: each batch is evaluated at the potential of the previous batches.

    D(v) = E min_i [|Y - x_i|^p - v_i] + sum_i b_i v_i <= W_p^p      v the running potential

A dual that is solved on each batch fits the noise of the batch: its value is too large, and its gradient pulls the
points inwards. At a potential that does not depend on the batch, value and gradients are unbiased estimates of those of
D(v).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import DriftWarning, warn_user
from ..transport import Cost, within_range
from ..transport.passes import EngineName
from ..transport.ranks import as_ranks, engine_on, problem_on, told_to
from ..transport.stream import Followed, Memory, follow, see
from .envelope import Derivatives, Inputs, Needed, Solved, attach, position_gradients
from .options import CostChoice, CostPower, Forgetting, Group, Options
from .wasserstein import as_pair, by_coordinates

CALL = "CoresetLoss(online=True)"


@dataclass(frozen=True, kw_only=True)
class OnlineSettings(Options):
    """Settings for a stream; arguments as in `CoresetLoss`."""

    p: CostPower = 2
    forgetting: Forgetting = 0.0
    engine: EngineName = "auto"
    group: Group = None
    cost: CostChoice = None


class MemoryBuffers:
    """The state of a stream, and by name the tensors of a module from which it was read or in which it is saved."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.tensors = memory.tensors()
        self._written = self._writes()

    def is_in(self, attributes: Mapping[str, Any]) -> bool:
        """Whether these are still its tensors, neither replaced nor written to."""
        return self._written == self._writes() and all(attributes[name] is own for name, own in self.tensors.items())

    def _writes(self) -> int:
        return sum([tensor._version for tensor in self.tensors.values()])


def report(found: Followed) -> None:
    """Warn of a drift."""
    if found.is_new:
        message = (
            f"the stream's distribution has moved, as batch {found.transport.batches} shows: means or spreads "
            "of the columns of the last batches differ significantly from those of all batches in the running average. "
            f"{found.transport.status.remedy}"
        )
        warn_user(DriftWarning(message, found.transport))


def _in_samples(inputs: Inputs, found: Followed, a: Tensor, cost: Cost) -> Tensor:
    """Gradient (m, d) of the value in the samples, of weights a (m,)."""
    x, y, plan = inputs[0], inputs[1], found.plan
    if plan is None:
        return cost.paired_gradient(y, x[found.transport.assignment]).mul_(-a[:, None])
    _, gradient = position_gradients(x, y, plan, cost, False, True)
    assert gradient is not None  # asked for
    return gradient.mul_(a.sum())  # a plan of this process alone holds a mass of 1


def stream_value(
    settings: OnlineSettings,
    read: Callable[[], Memory | None],
    points: Any,
    samples: Any,
    point_weights: Any,
    sample_weights: Any,
) -> tuple[Tensor, Followed]:
    """The semi-dual of a batch at the running potential, with its gradients, and the state after the batch.

    `read` returns the state before it. It is called outside of autograd: what a transform of torch.func makes is a
    wrapper, which has no address.

    The gradients are those of the value with the potential held fixed. They neglect only the change of the potential,
    whose contribution vanishes at the optimal potential (envelope theorem).
    """
    ranks = as_ranks(settings.group)
    agreed = {"forgetting": settings.forgetting, "engine": settings.engine}
    with told_to(ranks, CALL):
        *rows, b, a = as_pair(CALL, points, samples, point_weights, sample_weights)
        x, y = by_coordinates(settings.cost, CALL, *rows)
        inputs = (x, y, b, a)

    def solve_now(x: Tensor, y: Tensor, point_weights: Tensor | None, sample_weights: Tensor | None) -> Solved:
        memory = read()
        problem, seen = problem_on(
            ranks, CALL, x, y, settings.p, point_weights, sample_weights,
            lambda problem: see(memory, within_range(problem), x, y, settings.engine), settings=agreed,
        )  # fmt: skip
        engine = engine_on(ranks, settings.engine)
        problem = within_range(problem)
        found = follow(memory, problem, x, y, seen, forgetting=settings.forgetting, engine=engine)
        result = found.transport

        def derivatives(inputs: Inputs, needed: Needed) -> Derivatives:
            in_samples = None
            if needed[1]:
                in_samples = _in_samples(inputs, found, problem.a, problem.cost)
            return found.gradient, in_samples, result.potential, result.transform

        # For a centred potential the mean of the transform over all samples is the value.
        union = None if ranks is None else (result.value, float(problem.a.sum()))
        return Solved(result.value, found, derivatives, union)

    return attach(CALL, solve_now, *inputs)
