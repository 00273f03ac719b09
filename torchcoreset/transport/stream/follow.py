"""One batch of a stream: evaluated at the potential of the previous batches, then used to update it."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from ...tensors import described
from ..passes import EngineChoice, make_engine
from ..problem import Problem
from ..reductions import c_transform, extend, restrict
from ..result import Coupling
from .batch import BatchCells, effective_size, evaluate_batch, smoothed, unseen_cells
from .drift import FeatureMoments, features, first_moments, watched
from .state import StreamState
from .update import advance, advect, begin, forget, is_due

WARM_BATCHES = 10.0  # age below which a stream is WARMING_UP
WARM_SAMPLES = 10.0  # samples per point in the running averages, below which it is WARMING_UP too
SHOWN = 32.0  # batches for which the status shows a lag or a drift after it was last detected


class StreamStatus(enum.Enum):
    """How well the running potential fits its stream; `remedy` says what to do about it.

    A lag is only a status, without a warning: values are still lower bounds, it often passes, and large steps at the
    beginning of training cause it as well as a stream that changes. A drift is a change of the data: it gives a
    `DriftWarning`.
    """

    WARMING_UP = "warming_up"
    TRACKING = "tracking"
    LAGGING = "lagging"
    DRIFTING = "drifting"

    @property
    def remedy(self) -> str:
        """What to do, in one sentence."""
        return _REMEDIES[self]


_REMEDIES = {
    StreamStatus.WARMING_UP: "Pass more batches: values are lower bounds, and gradients are still rough.",
    StreamStatus.TRACKING: "Nothing to do: the masses of the cells agree with the weights up to noise.",
    StreamStatus.LAGGING: "The points move faster than the potential follows, or the stream has changed. The potential "
    "adapts faster now; if this lasts, lower the learning rate, use larger batches, or set `forgetting`.",
    StreamStatus.DRIFTING: "The stream's distribution has moved and the potential follows it. Shuffle the data if it "
    "should not move; if it moves all the time, set `forgetting` to the minimum weight of a batch.",
}


RUNNING = tuple(field.name for field in fields(StreamState))
MOMENTS = tuple(field.name for field in fields(FeatureMoments))


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The state of a stream."""

    running: StreamState  # the potential and its curvature
    moments: FeatureMoments  # of the samples, for the drift test
    # (2,) number of the last batch that showed a drift, and of the batch that began the last run of such, or zeros.
    drifts: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {
            **{name: getattr(self.running, name) for name in RUNNING},
            **{name: getattr(self.moments, name) for name in MOMENTS},
            "drifts": self.drifts,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Memory:
        """The memory whose `tensors` these are."""
        return cls(
            running=StreamState(**{name: tensors[name] for name in RUNNING}),
            moments=FeatureMoments(**{name: tensors[name] for name in MOMENTS}),
            drifts=tensors["drifts"],
        )


# Number of dimensions of each tensor of a memory.
MEMORY_DIMENSIONS = {
    "potential": 1, "curvature": 2, "coupling": 2, "pull": 2, "anchor": 2, "residual": 1, "overdue": 1, "counters": 1,
    "origin": 1, "long": 2, "recent": 2, "spans": 1, "drifts": 1,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class StreamTransport:
    """A batch of a stream, evaluated at the running potential.

    Attributes:
        value: the semi-dual of the batch at `potential`, which does not depend on this batch (except for the first).
            Its expectation is a lower bound of W_p^p(points, stream), and equal to it at the optimal potential.
        estimate: running mean of the values of this batch and the previous ones, over about a third of the batches in
            the running averages; the points may have moved in the meantime.
        standard_error: standard error of `estimate`, from the spread of the samples; infinite for the first batch.
        potential: (n,) float64 potential v, centred: that of the previous batches, updated as the points moved.
        transform: (m,) float64 c-transform min_i(c_ki - v_i).
        assignment: (m,) int64, the point in whose cell each sample lies.
        cell_mass: (n,) float64 mass of the cells of the batch; samples that are equally near to several points are
            shared among them as in an optimal plan.
        weights: (n,) float64 weights of the points.
        excess: (n,) float64, point weights minus the masses of the cells, averaged over the batches.
        noise: variance of this average, relative to the variance of one sample.
        batches: number of batches since the stream began, this one included.
        gain: weight of a batch like this in the running averages.
        status: see `StreamStatus`.
    """

    value: float
    estimate: float
    standard_error: float
    potential: Tensor
    transform: Tensor
    assignment: Tensor
    cell_mass: Tensor
    weights: Tensor
    excess: Tensor
    noise: float
    batches: int
    gain: float
    status: StreamStatus

    @property
    def marginal_error(self) -> float:
        """Total variation distance, in [0, 1], between the averaged masses of the cells and the point weights."""
        return float(self.excess.abs().sum()) / 2

    @property
    def marginal_noise(self) -> float:
        """The expectation of `marginal_error` for independent samples and the optimal potential.

        Smaller errors cannot be distinguished from noise.
        """
        deviations = (self.weights * (1 - self.weights)).sqrt()
        return float(deviations.sum()) * math.sqrt(self.noise / (2 * math.pi))

    def __repr__(self) -> str:
        sizes, value = f"{len(self.potential)} points, {len(self.transform)} samples", f"value={self.value:.6g}"
        estimate = f"estimate={self.estimate:.6g} +- {self.standard_error:.1g}"
        return described(self, sizes, value, estimate, marginal_error=".1e", batches="", status="")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A batch at the potential of the previous batches, which does not depend on this batch."""

    running: StreamState  # that potential, moved to where the points are
    cells: BatchCells  # of the batch
    features: Tensor  # (2, 2 d) its means of `drift.features`

    @property
    def state(self) -> Tensor:
        """Of what is remembered, all that decides which way a batch takes; ranks have to agree in it."""
        running = self.running
        return torch.cat((running.counters, running.potential, running.overdue))

    @property
    def means(self) -> tuple[Tensor, ...]:
        """All that are means over samples."""
        cells = self.cells
        return cells.mass, cells.gradient, cells.moments, self.features

    def with_means(self, *means: Tensor) -> Seen:
        """The same with means over more samples than those here."""
        mass, gradient, moments, features = means
        cells = replace(self.cells, mass=mass, gradient=gradient, moments=moments)
        return replace(self, cells=cells, features=features)


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A batch after its evaluation, and the updated state."""

    transport: StreamTransport  # what is told of it
    gradient: Tensor  # (n, d) float64, of its value in the points
    plan: Coupling | None  # of the samples here, where some are tied; None where each goes to its cell
    memory: Memory  # what is remembered after it
    is_new: bool  # whether it is the first to show a drift


def see(memory: Memory | None, problem: Problem, points: Tensor, samples: Tensor, engine: str) -> Seen | None:
    """Look at the samples here with what is remembered; arguments as in `follow`.

    None if this batch begins a stream: nothing is remembered, or nothing that fits the points and is finite.
    """
    if problem.support is not None:
        inner = restrict(problem, problem.support)
        return see(memory, inner, points[problem.support], samples, engine)
    if memory is None or not memory.running.fits(points, problem.cost):
        return None
    if memory.moments.origin.shape != points.shape[1:]:
        return None
    running = advect(memory.running, points, problem.b)
    if running is None:
        return None
    passes = make_engine(problem, engine, running.numbers.mean)
    cells = evaluate_batch(passes, running.potential, running.numbers.tie_tolerance)
    return Seen(running=running, cells=cells, features=features(samples, problem.a, memory.moments.origin))


def follow(
    memory: Memory | None,
    problem: Problem,
    points: Tensor,
    samples: Tensor,
    seen: Seen | None,
    *,
    forgetting: float,
    engine: EngineChoice,
) -> Followed:
    """Measure a batch, and remember it.

    Args:
        memory: of the batches before it.
        problem: the checked points and batch.
        points, samples: (n, d) and (m, d), as they came, in coordinates that do not change from batch to batch.
        seen: what `see` has seen, with means over all samples of the batch; None begins a stream.
        forgetting: least gain of a batch of average size, in [0, 1).
        engine: of all samples of the batch, as in `make_engine`.
    """
    support = problem.support
    if support is not None:
        # The other points alone are remembered: a stream begins anew when a weight becomes zero or ceases to be.
        inner = restrict(problem, support)
        found = follow(memory, inner, points[support], samples, seen, forgetting=forgetting, engine=engine)
        return _extended(found, problem, points, support, engine)
    if seen is None:
        return _first(problem, points, samples, engine)
    assert memory is not None  # it has been looked at with one
    due, late = is_due(seen.running), unseen_cells(seen.running)
    renewal = raised = None
    if due or late is not None:
        passes = make_engine(problem, engine, seen.running.numbers.mean)
        renewal = smoothed(passes, seen.running) if due else None
        raised = None if late is None else passes.least(c_transform(problem, seen.cells.transform, late))
    after = advance(seen.running, problem, seen.cells, renewal, raised, forgetting)
    size = effective_size(problem)
    moments, has_moved = watched(memory.moments, seen.features, size, size / after.numbers.typical, forgetting)
    drifts, is_new = _drifts(memory.drifts, after.numbers.batches, has_moved)
    if has_moved:
        after = forget(after)
    memory = Memory(running=after, moments=moments, drifts=drifts)
    return _followed(problem.b, seen.running.potential, seen.cells, memory, is_new)


def _first(problem: Problem, points: Tensor, samples: Tensor, engine: EngineChoice) -> Followed:
    """The first batch, which is measured at its own potential."""
    mean = make_engine(problem, engine).hard(torch.zeros_like(problem.b)).mean
    passes = make_engine(problem, engine, mean)
    running = begin(passes, points, mean)
    (origin,) = passes.total(problem.mean(samples.double()))
    here = evaluate_batch(passes, running.potential)
    seen = Seen(running=running, cells=here, features=features(samples, problem.a, origin))
    seen = seen.with_means(*passes.total(*seen.means))
    moments = first_moments(origin, seen.features, running.numbers.samples)
    memory = Memory(running=running, moments=moments, drifts=problem.b.new_zeros(2))
    return _followed(problem.b, running.potential, seen.cells, memory, False)


def _drifts(drifts: Tensor, batch: float, has_moved: bool) -> tuple[Tensor, bool]:
    """When drifts were seen, after this batch, and whether this one is new."""
    if not has_moved:
        return drifts, False
    last, began = drifts.tolist()
    is_new = last == 0 or batch - last > SHOWN
    return drifts.new_tensor([batch, batch if is_new else began]), is_new


def _followed(b: Tensor, v: Tensor, cells: BatchCells, memory: Memory, is_new: bool) -> Followed:
    """What is told of a batch that was looked at with the potential v (n,), after which `memory` is what is known."""
    after = memory.running
    now = after.numbers
    first, value = now.batches == 1, cells.moments.tolist()[0]
    variance = max(0.0, now.square - now.mean**2)
    transport = StreamTransport(
        value=value,
        estimate=value if first else now.mean,
        standard_error=math.inf if first else math.sqrt(variance * now.mean_noise),
        potential=v.clone() if first else v,  # the state is not shared with the caller
        transform=cells.transform,
        assignment=cells.cell,
        cell_mass=cells.mass,
        weights=b,
        excess=b - cells.mass if first else after.residual.clone(),
        noise=now.noise if now.noise > 0 else 1 / now.typical,
        batches=int(now.batches),
        gain=now.gain,
        status=_status(memory, len(b)),
    )
    return Followed(transport=transport, gradient=cells.gradient, plan=cells.plan, memory=memory, is_new=is_new)


def _status(memory: Memory, n: int) -> StreamStatus:
    now = memory.running.numbers
    drifted, _ = memory.drifts.tolist()
    if drifted and now.batches - drifted < SHOWN:
        return StreamStatus.DRIFTING
    if now.lagged and now.batches - now.lagged < SHOWN:
        return StreamStatus.LAGGING
    if now.age < WARM_BATCHES or now.age * now.typical < WARM_SAMPLES * n:
        return StreamStatus.WARMING_UP
    return StreamStatus.TRACKING


def _extended(found: Followed, problem: Problem, points: Tensor, support: Tensor, engine: EngineChoice) -> Followed:
    """The same with points of weight zero: they are given the highest potential that leaves them empty."""
    result, used = found.transport, support.nonzero()[:, 0]
    highest = make_engine(problem, engine).least(c_transform(problem, result.transform, ~support))
    transport = replace(
        result,
        potential=extend(result.potential, support, highest),
        assignment=used[result.assignment],
        cell_mass=extend(result.cell_mass, support, 0.0),
        weights=problem.b,
        excess=extend(result.excess, support, 0.0),
    )
    gradient = torch.zeros_like(points, dtype=torch.float64)
    gradient[support] = found.gradient
    plan = found.plan
    if plan is not None:
        plan = Coupling(plan.rows, used[plan.cols], plan.mass, (plan.shape[0], len(points)))
    return replace(found, transport=transport, gradient=gradient, plan=plan)
