"""One batch of a stream: measured at the potential of the batches before it, then added to what is remembered."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from .choose import make_engine
from .drift import Moments, features, first_moments, watched
from .engine import HardPass
from .idle import ceiling, with_idle, without_idle
from .multiscale import LEAST_SAMPLES
from .problem import Problem
from .result import Coupling
from .running import FINE, Running, advance, batch_sums, begin, least_smoothing, moved, rejuvenated

# Batches remembered, and samples a point among them, before a stream is tracked.
WARM_BATCHES, WARM_SAMPLES = 10.0, 10.0
SHOWN = 32.0  # batches for which a lag or a drift is shown after it was last seen


class StreamStatus(enum.Enum):
    """How well a running potential knows its stream. `remedy` says what to do about it.

    A lag is shown and not warned of: it passes by itself where it can, large steps at the beginning of a training cause
    it as well as a stream that changes, and values stay lower bounds. A drift is in the data, and is warned of.
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
    StreamStatus.WARMING_UP: "Give it more batches: values are lower bounds, and gradients are still rough.",
    StreamStatus.TRACKING: "Nothing to do: the cells hold the mass that they should, as far as the batches can tell.",
    StreamStatus.LAGGING: "The points move faster than the potential follows, or the stream has changed: it now learns "
    "faster; if this lasts, lower the learning rate, use larger batches, or set `forgetting`.",
    StreamStatus.DRIFTING: "The stream's distribution has moved and the potential follows it. Shuffle the data if it "
    "should not move; if it always does, set `forgetting` to the weight that a batch shall have.",
}


RUNNING = tuple(field.name for field in fields(Running))
MOMENTS = tuple(field.name for field in fields(Moments))


@dataclass(frozen=True, kw_only=True)
class Memory:
    """All that is remembered of a stream.

    Attributes:
        running: the potential and its curvature.
        moments: of the samples, for the drift test.
        drifts: (2,) number of the last batch that showed a drift, and of the batch that began the last run of such, or
            zeros.
    """

    running: Running
    moments: Moments
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
        """The same back."""
        return cls(
            running=Running(**{name: tensors[name] for name in RUNNING}),
            moments=Moments(**{name: tensors[name] for name in MOMENTS}),
            drifts=tensors["drifts"],
        )


# Number of dimensions of each tensor of a memory.
MEMORY_DIMENSIONS = {
    "potential": 1, "curvature": 2, "coupling": 2, "pull": 2, "anchor": 2, "residual": 1, "overdue": 1, "counters": 1,
    "origin": 1, "long": 2, "recent": 2, "spans": 1, "drifts": 1,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class StreamTransport:
    """A batch of a stream, measured at the running potential.

    Attributes:
        value: the semi-dual of the batch at `potential`, which the batch has had no part in (but for the first). Its
            expectation is a lower bound of W_p^p(points, stream), and W_p^p itself at the best potential.
        estimate: running mean of the values of this batch and those before it, over about a third of the batches
            remembered; the points may have moved meanwhile.
        standard_error: of `estimate`, from the spread of the samples; infinite before the second batch.
        potential: (n,) float64 v, centred: that of the batches before this one, moved along with the points.
        transform: (m,) float64 c-transform min_i(c_ki - v_i).
        assignment: (m,) int64 point in whose cell each sample lies.
        cell_mass: (n,) float64 mass of the batch's cells.
        weights: (n,) float64, of the points.
        surplus: (n,) float64, by how much those exceed the cells' masses, averaged over the batches remembered.
        noise: variance of that average, in units of that of one sample.
        batches: batches since the stream began, this one included.
        gain: weight of a batch like this in the running means.
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
    surplus: Tensor
    noise: float
    batches: int
    gain: float
    status: StreamStatus

    @property
    def marginal_error(self) -> float:
        """Total variation distance, in [0, 1], between the averaged masses of the cells and the point weights."""
        return float(self.surplus.abs().sum()) / 2

    @property
    def marginal_noise(self) -> float:
        """The expectation of that for independent samples and a perfect potential.

        Batches cannot tell errors below it from none.
        """
        deviations = (self.weights * (1 - self.weights)).sqrt()
        return float(deviations.sum()) * math.sqrt(self.noise / (2 * math.pi))

    def __repr__(self) -> str:
        return (
            f"StreamTransport({len(self.potential)} points, {len(self.transform)} samples, value={self.value:.6g}, "
            f"estimate={self.estimate:.6g} +- {self.standard_error:.1g}, marginal_error={self.marginal_error:.1e}, "
            f"batches={self.batches}, status={self.status.value})"
        )


def follow(
    memory: Memory | None, problem: Problem, points: Tensor, samples: Tensor, *, forgetting: float, engine: str
) -> tuple[StreamTransport, Coupling, Memory, bool]:
    """Measure a batch, and remember it.

    Args:
        memory: of the batches before it; None, or one that does not fit the points, begins a stream.
        problem: the checked points and batch.
        points: (n, d), and
        samples: (m, d), as they came, in coordinates that do not change from batch to batch.
        forgetting: least gain of a batch of average size, in [0, 1).
        engine: as in `transport`.

    Returns:
        The result, the assignment as a plan, what is remembered after the batch, and whether this batch is the first
        that shows a drift.
    """
    if not float(problem.b.min()) > 0:
        return _without_idle(memory, problem, points, samples, problem.b > 0, forgetting, engine)
    if memory is None or not memory.running.fits(points, problem.p):
        return _first(problem, points, samples, engine)
    passes = make_engine(problem, engine)
    running = moved(memory.running, points, problem.b)
    cells = passes.hard(running.potential)
    sums = batch_sums(passes, running, cells)
    means = problem.totals(features(samples, problem.a, memory.moments.origin))
    least = 0.0 if sums.overlap is None else least_smoothing(problem)
    after = advance(running, sums, problem.b, least, forgetting)
    share = sums.worth / after.numbers.typical
    moments, has_moved = watched(memory.moments, means, sums.worth, share, forgetting)
    drifts, is_new = _drifts(memory.drifts, after.numbers.batches, has_moved)
    if has_moved:
        after = rejuvenated(after)
    memory = Memory(running=after, moments=moments, drifts=drifts)
    return (*_result(problem, running, cells, memory), memory, is_new)


def _first(
    problem: Problem, points: Tensor, samples: Tensor, engine: str
) -> tuple[StreamTransport, Coupling, Memory, bool]:
    """The first batch, which is measured at its own potential."""
    passes = make_engine(problem, engine)
    small = problem.count <= max(LEAST_SAMPLES, FINE * len(problem.x))
    running = begin(make_engine(problem.whole(), engine) if small else passes, points)
    cells = passes.hard(running.potential)
    origin = problem.totals(problem.a @ samples.double())
    means = problem.totals(features(samples, problem.a, origin))
    moments = first_moments(origin, means, running.numbers.samples)
    memory = Memory(running=running, moments=moments, drifts=problem.b.new_zeros(2))
    return (*_result(problem, running, cells, memory), memory, False)


def _drifts(drifts: Tensor, batch: float, has_moved: bool) -> tuple[Tensor, bool]:
    """When drifts were seen, after this batch, and whether this one is new."""
    if not has_moved:
        return drifts, False
    last, began = drifts.tolist()
    is_new = last == 0 or batch - last > SHOWN
    return drifts.new_tensor([batch, batch if is_new else began]), is_new


def _result(problem: Problem, running: Running, cells: HardPass, memory: Memory) -> tuple[StreamTransport, Coupling]:
    """What is told of a batch with the cells of `running`, after which `memory` is what is known."""
    after = memory.running
    now = after.numbers
    b = problem.b
    first = now.batches == 1
    variance = max(0.0, now.square - now.mean**2)
    result = StreamTransport(
        value=cells.dual,
        estimate=cells.dual if first else now.mean,
        standard_error=math.inf if first else math.sqrt(variance * now.mean_noise),
        potential=running.potential,
        transform=cells.cost - running.potential[cells.cell],
        assignment=cells.cell,
        cell_mass=cells.mass,
        weights=b,
        surplus=b - cells.mass if first else after.residual,
        noise=now.noise if now.noise > 0 else 1 / now.typical,
        batches=int(now.batches),
        gain=now.gain,
        status=_status(memory, len(b)),
    )
    rows = torch.arange(len(cells.cell), device=cells.cell.device)
    return result, Coupling(rows, cells.cell, problem.a, (len(rows), len(b)))


def _status(memory: Memory, n: int) -> StreamStatus:
    now = memory.running.numbers
    drifted = float(memory.drifts[0])
    if drifted and now.batches - drifted < SHOWN:
        return StreamStatus.DRIFTING
    if now.lagged and now.batches - now.lagged < SHOWN:
        return StreamStatus.LAGGING
    if now.age < WARM_BATCHES or now.age * now.typical < WARM_SAMPLES * n:
        return StreamStatus.WARMING_UP
    return StreamStatus.TRACKING


def _without_idle(
    memory: Memory | None, problem: Problem, points: Tensor, samples: Tensor, support: Tensor, *settings: Any
) -> tuple[StreamTransport, Coupling, Memory, bool]:
    """The same with points of weight zero left out: they are given the highest potential that leaves them empty.

    What is remembered is that of the other points, so a stream begins anew when a weight becomes zero or ceases to be.
    """
    forgetting, engine = settings
    inner = without_idle(problem, support)
    result, plan, memory, is_new = follow(memory, inner, points[support], samples, forgetting=forgetting, engine=engine)
    used = support.nonzero()[:, 0]
    result = replace(
        result,
        potential=with_idle(result.potential, support, ceiling(problem, result.transform, ~support)),
        assignment=used[result.assignment],
        cell_mass=with_idle(result.cell_mass, support, 0.0),
        weights=problem.b,
        surplus=with_idle(result.surplus, support, 0.0),
    )
    return result, Coupling(plan.rows, result.assignment, plan.mass, (len(samples), len(support))), memory, is_new
