"""What a call with a group begins with: one message, after which each rank has its part of one problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ...tensors import real_tensor
from ..costs import Cost
from ..dual import COARSE, LEAST_SAMPLES
from ..passes import EngineChoice
from ..problem import Problem, as_table, make_problem, square_with_offset, with_offset
from ..result import Transport
from ..solving import FINE, MOST, is_direct, is_for_one_rank
from ..stream import Seen
from .group import Ranks, agree, fingerprint
from .shard import Shard, engine_on

WHY = "Skip the step on every rank, or repair that rank's input."
SAME = (
    "number of points", "dimension", "dtype of the points", "use of sample_weights", "points", "point_weights", "state"
)  # fmt: skip


class Solve(Protocol):
    """What solves a checked problem."""

    def __call__(self, problem: Problem, *, engine: EngineChoice) -> Transport: ...


def solve_on(
    ranks: Ranks | None,
    call: str,
    solve: Solve,
    points: Any,
    samples: Any,
    p: float | Cost,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    trim: float = 0.0,
    engine: str = "auto",
    dtype: torch.dtype | None = None,
    state: Tensor | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Problem, Transport]:
    """Solve the problem that all ranks hold together, or that of this process alone; arguments as in `problem_on`.

    Returns this rank's part of the problem, and the result, with the plan and transform of this rank's samples.
    """
    problem, _ = problem_on(
        ranks, call, points, samples, p, point_weights, sample_weights, lambda _: None,
        trim=trim, dtype=dtype, state=state, settings=settings,
    )  # fmt: skip
    if not isinstance(problem, Shard):
        return problem, solve(problem, engine=engine)
    n = len(problem.x)
    # As many samples as the largest subsample of n points has, or as are solved directly: on every rank.
    few = (
        problem.count <= max(LEAST_SAMPLES, COARSE * n, min(FINE * n, MOST))
        or is_direct(n, problem.count, state is not None)
        or is_for_one_rank((*problem.x.shape, problem.count))
    )
    if few or problem.ranks.size == 1:
        return problem, problem.own_result(solve(problem.whole(), engine=engine))
    return problem, solve(problem, engine=engine_on(ranks, engine))


def problem_on(
    ranks: Ranks | None,
    call: str,
    points: Any,
    samples: Any,
    p: float | Cost,
    point_weights: Any,
    sample_weights: Any,
    look: Callable[[Problem], Seen | None],
    *,
    trim: float = 0.0,
    dtype: torch.dtype | None = None,
    state: Tensor | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Problem, Seen | None]:
    """The checked problem of this process, or this rank's part of the problem of all ranks.

    Args:
        ranks: None for this process alone.
        call: the name of the call, one of `CALLS`.
        points, samples, p, point_weights, sample_weights, trim, dtype: as in `make_problem`; weights of samples have
            one scale on all ranks, and marginals have to be fixed if there are several.
        look: evaluates the samples of the checked problem of this process; its means are sent with the first message of
            the call. It returns None on all ranks or on none.
        state: (k,) state of earlier calls, such as a potential, which has to be equal on all ranks; if `look` returns a
            result, the state of that result is compared instead.
        settings: further values by name that have to be equal on all ranks.

    Returns:
        The problem, and the result of `look`, with means over the samples of all ranks.

    Raises:
        ValueError: invalid inputs.
        RankError: invalid inputs on another rank, or points or settings that differ between ranks.
    """

    def looked() -> tuple[Problem, Seen | None]:
        problem = make_problem(points, samples, p, point_weights, sample_weights, trim=trim, dtype=dtype)
        if ranks is not None and problem.marginals is not None:
            raise ValueError(
                f"group: given with {'trim' if trim else 'point_weights that the plan chooses'}; expected fixed "
                "weights and trim=0 on several ranks. Gather the samples on one of them, or fix the weights."
            )
        return problem, look(problem)

    if ranks is None:
        return looked()

    def prepare() -> tuple[tuple[Problem, Seen | None], Tensor]:
        problem, seen = looked()
        x, known = as_table(points, "points"), state if seen is None else seen.state
        facts = problem.a.new_tensor((
            *problem.x.shape, max(32, torch.finfo(dtype or x.dtype).bits), sample_weights is not None,
            fingerprint(x), fingerprint(problem.b),  # so far as in SAME
            0.0 if known is None else 1 + fingerprint(known),
            problem.equal, problem.square, problem.concentration, problem.largest, problem.count,
            problem.count if sample_weights is None else total_of(sample_weights),
            torch.finfo(problem.x.dtype).bits, fingerprint(problem.x), square_with_offset(problem, points),
        ))  # fmt: skip
        means = () if seen is None else seen.means
        return (problem, seen), torch.cat((facts, *(mean.flatten() for mean in means)))

    settings = {"p": p.p if isinstance(p, Cost) else p, **(settings or {})}
    (problem, seen), told = agree(ranks, call, prepare, same=SAME, why=WHY, settings=settings)
    alike, square, concentration, largest, count, weight, bits, place, own_square = told[:, len(SAME) :][:, :9].t()
    if torch.finfo(problem.x.dtype).bits < bits.max():  # the samples of another rank need float64
        problem = make_problem(points, samples, p, point_weights, sample_weights, dtype=torch.float64)
    each, shares = weight / count, weight / weight.sum()
    if not bool((place == place[0]).all()):  # what can be shifted without rounding differs between ranks
        problem, square = with_offset(problem, points), own_square
    # In a union of equal weights each is 1/M exactly; so is a sum of counts.
    equal = bool(alike.all()) and bool((each == each[0]).all())
    counts = tuple(count.long().tolist())
    a = torch.full_like(problem.a, 1 / sum(counts)) if equal else problem.a * float(shares[ranks.rank])
    shard = Shard(
        x=problem.x, b=problem.b, y=problem.y, a=a, equal=equal, cost=problem.cost, largest=float(largest.max()),
        ranks=ranks, counts=counts, square_norm=float(square @ shares),
        square_weight=float(concentration @ shares.square()),
    )  # fmt: skip
    if seen is None:
        return shard, None
    return shard, seen.with_means(*_joined(ranks, seen.means, told[:, len(SAME) + 9 :], shares))


def _joined(ranks: Ranks, means: Sequence[Tensor], rows: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
    """The means over all ranks: as far as they came with the `rows` (size, k), and the rest in a message."""
    own = torch.cat([mean.flatten() for mean in means])
    joined = (shares @ rows[:, : len(own)]).to(own)
    if len(own) > len(joined):
        joined = torch.cat((joined, *ranks.total(own[len(joined) :] * float(shares[ranks.rank]))))
    pieces = torch.split(joined, [mean.numel() for mean in means])
    return tuple(piece.view(mean.shape) for piece, mean in zip(pieces, means, strict=True))


def total_of(weights: Any) -> float:
    """Sum of weights in any form, on the scale on which they were given."""
    return float(real_tensor(weights, "sample_weights").double().sum())
