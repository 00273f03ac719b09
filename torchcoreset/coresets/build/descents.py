"""How a build goes from samples in memory, or a stream of them, to points: which algorithm on which samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Generator, Tensor
from torch.nn import Parameter

from ...errors import warn_user
from ...losses import CoresetLoss, Discrepancy, DivergenceSettings, SinkhornResult
from ...names import Algorithm
from ...sources import Source, SourceExhausted
from ...tensors import wide_enough
from ...transport import DISTANCE, FREE, Status, as_cost, as_table
from ...transport.costs import Function
from ...transport.passes import EngineName
from ...transport.ranks import as_ranks
from ..algorithms import Objective, OptimizerFactory, Run, averaging, fixed_point, gradient, quasi_newton, stochastic
from ..rows import Eligible, search
from ..samples import SAMPLES_PER_POINT, LoadedSamples, loaded_rows
from ..start import Start, descended, relocated, separated
from .space import Space

COARSE = 25  # samples a point on which points move before they do on all samples; of fewer than twice as many, all
COARSE_LEAST = 2500  # the least number of these samples
COARSE_PAIRS = 1 << 18  # of a sample and a point, below which a step takes no longer on all samples
COARSE_TOLERANCE = 1e-2  # of the steps on them: a part of the samples misleads by more than this
FINEST = 1e-6  # relative gap of a transport; a build with a smaller tolerance solves no better than this
COARSEST = 1e-2  # relative gap of the last transports of a build with a larger tolerance than ten times this
RELOCATIONS = 20  # rounds, at most, in which points of chosen weights move to better places, on all samples
LEAST_GAIN = 0.01  # of the value, by a round; after one that gains less there is none
# Most samples held for another divergence, which compares all pairs; or SAMPLES_PER_POINT a point, if that is more.
OTHER_SAMPLES = 20_000
TRIAL_STEPS = 50  # of each before they are compared
TRIAL_SAMPLES = 50  # samples a point to compare them on
TRIAL_LEAST = 1000  # the least number of these samples
BATCH = 50  # samples a point in a batch of Algorithm 1: fewer, in more steps, take longer for the same accuracy
RATE = 0.1  # of the first step of the default optimizer, in units of W_p / sqrt(d) at the start
LOOKED_AT = 1000  # rows from which the unit of a step is taken, where that of the distance is another


def accuracy_of(tolerance: float) -> float:
    """Relative gap to which the transports of a run are solved in the end."""
    return min(COARSEST, max(0.1 * tolerance, FINEST))


def most_samples(other: DivergenceSettings[Any] | None, size: int) -> int | None:
    """How many samples are held for another divergence, where nobody says how many; None without one."""
    return None if other is None else max(OTHER_SAMPLES, SAMPLES_PER_POINT * size)


@dataclass(frozen=True)
class Method:
    """How points are moved; arguments as in `build_coreset`."""

    algorithm: Algorithm
    optimizer: OptimizerFactory | None
    other: DivergenceSettings[Any] | None  # settings of a divergence that is no exact transport
    engine: EngineName
    group: Any
    trials: int  # random starts of another divergence that are tried beside the one drawn


@dataclass(frozen=True)
class Placed:
    """Points that are found."""

    objective: Objective  # of their transport
    loaded: LoadedSamples  # the samples of that, coordinates in the dtype of the points
    points: Tensor  # (n, e) coordinates
    rows: Tensor | None = None  # (n, d) the same as rows, where they were moved as such
    potential: Tensor | None = None  # (n,) of an exact transport near the last
    discrepancy: Discrepancy | SinkhornResult | None = None  # what another divergence is there
    numbers: Tensor | None = None  # (n,) of the rows that were chosen
    accuracy: float | None = None  # relative gap to which their transport is to be solved, None for that of the run


def placed_on(run: Run, method: Method, start: Start, loaded: LoadedSamples, space: Space, *, fresh: bool) -> Placed:
    """Points on loaded samples; `fresh` if there are others for the last steps."""
    power = space.power(start.p)
    if method.algorithm == "gradient" and not space.can_invert:
        return _placed_among_rows(run, method, start, loaded, space)
    if not isinstance(start.init, str) and run.earlier is None:
        start = replace(start, init=space.into(as_table(start.init, "init"), "init"))
    start, loaded = replace(start, p=power), space.held(loaded)
    points, b = start.draw(loaded.rows, run.generator)
    points = wide_enough(points, loaded.y)
    if space.feasible is not None:
        points = space.feasible(points)
    loaded = replace(loaded, y=loaded.y.to(points))
    if method.other is not None and method.trials:
        points = _best_start(method.other, points, b, start, loaded, run.generator, method.trials)
    run.begin(points)
    objective = Objective(b, power, method.engine, as_ranks(method.group), start.trim, space.feasible)
    if method.other is not None:
        divergence = quasi_newton.DivergenceObjective.of(method.other, points, b, loaded.y, loaded.a)
        first = quasi_newton.init(separated(points, run.generator))  # equal points have equal gradients: never part
        points = run.descend(partial(quasi_newton.step, objective=divergence), first, loaded.count).result
        return Placed(objective, loaded, points, discrepancy=divergence.reported(points))
    if method.algorithm == "gradient":
        loss = _loss(run, method, start)
        return Placed(objective, loaded, _gradient(run, loss, points, b, loaded, method.optimizer))
    points, potential = _fixed_point(run, objective, points, loaded, space.source(loaded.read), fresh=fresh)
    return Placed(objective, loaded, points, potential=potential)


def _placed_among_rows(run: Run, method: Method, start: Start, loaded: LoadedSamples, space: Space) -> Placed:
    """Points that move as rows, along the gradient of the distance between coordinates, which lead nowhere back."""
    points, b = start.draw(loaded.rows, run.generator)
    points = wide_enough(points, loaded.y)
    loaded = replace(loaded, y=loaded.y.to(points))
    run.begin(points)
    some = loaded.y[:: max(1, len(loaded.y) // LOOKED_AT)]
    unit = float(DISTANCE.pairwise(some, points.to(some)).amin(1).double().mean())
    held = space.held(loaded)
    metric = space.metric
    loss = _loss(run, method, start, metric if isinstance(metric, Function) else None)
    rows = _gradient(run, loss, points, b, held, method.optimizer, coordinates=space.into, unit=unit)
    objective = Objective(b, space.power(start.p), method.engine, None, start.trim)
    return Placed(objective, held, space.into(rows, "points"), rows=rows)


def _loss(run: Run, method: Method, start: Start, cost: Any = None) -> CoresetLoss:
    return CoresetLoss(
        as_cost(start.p).p, trim=start.trim, tolerance=accuracy_of(run.tolerance), engine=method.engine,
        group=method.group, cost=cost,
    )  # fmt: skip


def _best_start(
    settings: DivergenceSettings[Any],
    points: Tensor,
    weights: Tensor,
    start: Start,
    loaded: LoadedSamples,
    generator: Generator,
    trials: int,
) -> Tensor:
    """Points (n, d) or some of as many random starts as `trials`: those nearest after a few steps, on few samples."""
    y, a, few = loaded.y, loaded.a, max(TRIAL_SAMPLES * len(points), TRIAL_LEAST)
    if len(y) > 2 * few:
        y, a = loaded.rows.draw(few, generator).to(points), None
    random = replace(start, init="random", restarts=1)
    starts = [points, *(random.draw(loaded.rows, generator)[0].to(points) for _ in range(trials))]
    objective = quasi_newton.DivergenceObjective.of(settings, points, weights, y, a)
    ends = []
    for candidate in starts:
        state = quasi_newton.init(separated(candidate, generator))
        for _ in range(TRIAL_STEPS):
            state, _ = quasi_newton.step(state, objective)
        ends.append(state)
    return min(ends, key=lambda state: state.lowest).result


def _fixed_point(
    run: Run, objective: Objective, points: Tensor, loaded: LoadedSamples, source: Source, *, fresh: bool
) -> tuple[Tensor, Tensor | None]:
    """Algorithm 2 on a part of the samples, if that is much smaller, then on all; points and last potential.

    If the source has `fresh` samples for it, it ends on those."""
    potential: Tensor | None = None
    loose, accuracy = max(run.tolerance, COARSE_TOLERANCE), accuracy_of(run.tolerance)
    generator = run.generator

    def descend(
        place: int, objective: Objective, y: Tensor, a: Tensor | None, count: int, tolerance: float
    ) -> tuple[Tensor, Tensor | None]:
        step = partial(fixed_point.step, on=objective.on(y, a), tolerance=accuracy)
        state = run.descend(
            step, fixed_point.init(points, accuracy, potential), count, place=place, tolerance=tolerance
        )
        return state.result, state.potential

    coarse = max(COARSE * len(points), COARSE_LEAST)
    if loaded.count > 2 * coarse and loaded.count * len(points) >= COARSE_PAIRS:
        part = loaded.rows.draw(coarse, generator).to(points)
        alone = replace(objective, ranks=None)  # every rank has drawn the same part
        points, potential = descend(0, alone, part, None, coarse, loose)
    if objective.weights == FREE and run.first_step(1) == run.done:
        points = _relocated(objective, points, loaded, generator)
    points, potential = descend(1, objective, loaded.y, loaded.a, loaded.count, loose if fresh else run.tolerance)
    steps = min(averaging.STEPS, run.steps - run.first_step(2))
    if not fresh or steps < 1:
        return points, potential
    status = run.status  # values of fresh samples scatter: they say nothing of whether points have settled
    step = partial(
        averaging.step, objective=objective, source=source, count=len(loaded.y), generator=loaded.generator,
        settling=steps // averaging.SETTLING,
    )  # fmt: skip
    averaged = run.descend(
        step, averaging.init(points, potential), loaded.count, place=2, until_settled=False, steps=steps
    )
    run.status = status
    points = averaged.result
    return points if objective.feasible is None else objective.feasible(points), averaged.potential


def _relocated(objective: Objective, points: Tensor, loaded: LoadedSamples, generator: Generator) -> Tensor:
    """Points of chosen weights after those of little use have moved, on all samples: rare ones may cost the most."""
    value, points = descended(points, objective, loaded.y, loaded.a)
    return relocated(points, value, objective, loaded.y, loaded.a, generator, rounds=RELOCATIONS, least_gain=LEAST_GAIN)


def _gradient(
    run: Run,
    loss: CoresetLoss,
    points: Tensor,
    weights: Any,
    loaded: LoadedSamples,
    optimizer: OptimizerFactory | None,
    *,
    coordinates: gradient.Coordinates | None = None,
    unit: float | None = None,
) -> Tensor:
    """A torch optimizer on the loss between `coordinates` of points, which are themselves if None, and the samples.

    `unit` is a length by which points may move, that of the value if None.
    """

    def setup(parameter: Parameter, value: float) -> gradient.Optimization:
        if optimizer is not None:
            return optimizer([parameter]), None
        length = as_cost(loss.p).root(value) if unit is None else unit
        rate = RATE * length / parameter.shape[1] ** 0.5
        return gradient.decaying_adam(parameter, rate, run.steps)

    step = partial(
        gradient.step, loss=loss, samples=loaded.y, weights=weights, sample_weights=loaded.a, setup=setup,
        coordinates=coordinates,
    )  # fmt: skip
    # The default rate falls to zero over all steps: standing still before that is only noise.
    return run.descend(step, gradient.init(points), loaded.count, until_settled=optimizer is not None).result


def rows_near(run: Run, placed: Placed, eligible: Eligible) -> Placed:
    """Distinct rows near the points, then rounds of medoid steps and swaps."""
    objective, loaded = placed.objective, placed.loaded
    step = partial(
        search.step, objective=objective, samples=loaded.y, sample_weights=loaded.a, eligible=eligible,
        generator=run.generator,
    )  # fmt: skip
    state = run.descend(step, search.init(placed.points, loaded.y, eligible, objective.p), loaded.count, place=3)
    if state.ended:
        run.status = Status.CONVERGED
    return Placed(
        objective, loaded, state.result, rows=eligible.table[state.rows], potential=state.potential,
        numbers=eligible.numbers[state.rows.cpu()],
        accuracy=min(max(run.tolerance, FINEST), search.GAP),  # the value is not to rise above that of the last round
    )  # fmt: skip


def stream_placed(
    run: Run, start: Start, read: Source, space: Space, samples: int | None, batch_size: int | None, rate: float
) -> Placed:
    """Points by Algorithm 1, and samples on which to measure the result.

    An iterator that ends early ends the run, whose result is then measured on the largest of the last batches."""
    generator, source, power = run.generator, space.source(read), space.power(start.p)
    if not isinstance(start.init, str) and run.earlier is None:
        start = replace(start, init=space.into(as_table(start.init, "init"), "init"))
    points, b = replace(start, p=power).draw(source, generator)
    run.begin(points)
    objective, batch_size = Objective(b, power, start.engine), batch_size or BATCH * start.size
    step = partial(
        stochastic.step, objective=objective, source=source, batch_size=batch_size, generator=generator, rate=rate,
        average_from=run.steps // 2,
    )  # fmt: skip
    state = run.descend(step, stochastic.init(points, power), batch_size, until_settled=False)
    used = state.largest_batch
    assert used is not None  # a step has been made
    try:
        y, a, numbers = loaded_rows(source, len(points), samples, generator)
        short = source.size is None and not source.endless and len(y) < len(used)
    except SourceExhausted:
        short = True
    if short:
        message = (
            f"source: the iterator ended after {run.done} of {run.steps} steps with too few rows left to "
            "measure on; the result is measured on a batch that was used. Pass a list of batches or a DataLoader to "
            "read them more than once."
        )
        warn_user(UserWarning(message))
        y, a, numbers = used, None, None
    points = wide_enough(state.result, y)
    loaded = LoadedSamples(y.to(points), a, source, read, numbers, source.endless, generator)
    return Placed(objective, loaded, points)
