"""From any source to a coreset: a start, an algorithm, a loop that stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from torch import Generator, Tensor
from torch.nn import Parameter

from ..errors import warn_user
from ..losses import (
    Backend,
    CoresetLoss,
    Discrepancy,
    Divergence,
    DivergenceSettings,
    KernelName,
    SinkhornResult,
    make_settings,
)
from ..modes import solver_modes
from ..sources import (
    Scale,
    Scaling,
    Source,
    SourceExhausted,
    as_source,
    fingerprint_of,
    make_generator,
    scaled,
    units_of,
)
from ..tensors import check_count, check_name, is_real, real_tensor, wide_enough
from ..transport import (
    FREE,
    Status,
    Transport,
    as_cost,
    as_table,
    check_trim,
    is_choice,
    report_unconverged,
)
from ..transport.passes import EngineName, check_engine
from ..transport.ranks import as_ranks, fingerprint, told_to
from .algorithms import Objective, OptimizerFactory, Run, averaging, fixed_point, gradient, quasi_newton, stochastic
from .coreset import Coreset
from .history import BuildResult, Step
from .progress import ProgressBar
from .rows import Eligible, RowChoice, search
from .samples import SAMPLES_PER_POINT, LoadedSamples, load, load_part, loaded_rows
from .start import Init, Start, check_size, descended, relocated, separated

Algorithm = Literal["auto", "fixed_point", "sgd", "gradient"]
DEFAULT_STEPS: dict[Algorithm, int] = {"auto": 300, "fixed_point": 300, "sgd": 1000, "gradient": 300}
COARSE = 50  # samples a point on which points move before they do on all samples; of fewer than twice as many, all
COARSE_LEAST = 10_000  # the least number of these samples
COARSE_TOLERANCE = 1e-2  # of the steps on them: a part of the samples misleads by more than this
FEW = 1000  # samples a point, loaded of an endless source, below which points are averaged over fresh ones
BATCH = 50  # samples a point in a batch of Algorithm 1: fewer, in more steps, take longer for the same accuracy
FINEST = 1e-6  # relative gap of a transport; a build with a smaller tolerance solves no better than this
COARSEST = 1e-2  # relative gap of the last transports of a build with a larger tolerance than ten times this
RELOCATIONS = 20  # rounds, at most, in which points of chosen weights move to better places, on all samples
LEAST_GAIN = 0.01  # of the value, by a round; after one that gains less there is none
# Most samples held for another divergence, which compares all pairs; or SAMPLES_PER_POINT a point, if that is more.
OTHER_SAMPLES = 20_000
TRIALS = 3  # random starts of it beside the annealed one, where none is given
TRIAL_STEPS = 50  # of each before they are compared
TRIAL_LEAST = 1000  # the least number of samples, of which there are COARSE a point, to compare them on
RATE = 0.1  # of the first step of the default optimizer, in units of W_p / sqrt(d) at the start


def build_coreset(
    source: Any,
    size: int,
    p: float | None = None,
    *,
    divergence: Divergence = "wasserstein",
    blur: float | None = None,
    relative_blur: float | None = None,
    kernel: KernelName | None = None,
    debias: bool | None = None,
    backend: Backend | None = None,
    scaling: float | None = None,
    algorithm: Algorithm = "auto",
    init: Init | Tensor | None = None,
    restarts: int | None = None,
    weights: Any = None,
    sample_weights: Any = None,
    trim: float = 0.0,
    scale: Scale | None = None,
    rows: bool = False,
    keep: Any = None,
    exclude: Any = None,
    samples: int | None = None,
    steps: int | None = None,
    tolerance: float = 1e-3,
    batch_size: int | None = None,
    rate: float = 1.0,
    optimizer: OptimizerFactory | None = None,
    seed: int | Generator = 0,
    progress: bool | None = None,
    callback: Callable[[Step], None] | None = None,
    checkpoint: Callable[[dict[str, Any]], None] | None = None,
    resume: Mapping[str, Any] | None = None,
    engine: EngineName = "auto",
    group: Any = None,
) -> BuildResult:
    """Find n points that are near a source by their Wasserstein distance, or by another divergence.

    Minimises W_p^p(sum_i b_i delta_{x_i}, mu) over the points x, with weights b fixed, free or bounded; or, with fixed
    ones, the energy distance, a maximum mean discrepancy or the Sinkhorn divergence. The problem is not convex: another
    seed may find another, slightly better or worse, local minimum. Annealed starts, and several of them where there are
    few points, end within half a per cent of the best known values on most seeds.

    Args:
        source: anything that `as_source` reads: tensor, array, DataFrame, Dataset, DataLoader, distribution,
            callable m -> (m, d), iterator of batches, path of a file, another coreset.
        size: number of points n. More than the source has distinct rows is fine: points may coincide.
        p: power of the distance, p >= 1. 2 puts points at means of cells, 1 at geometric medians. None for 2, and for 1
            with "energy", which takes 1 to 2. Not with "mmd"; its `transport` has 2.
        divergence: "wasserstein"; "energy" for support points, which minimise `energy_distance`; "mmd" for the points
            that minimise `mmd`; "sinkhorn" for those that minimise `sinkhorn_divergence`, the third algorithm of the
            paper. All but the first go by quasi-Newton steps on samples in memory, of which they compare each with each
            once; they take algorithm="auto" only, fixed weights, and no trim, engine or group.
        blur, relative_blur: for "mmd" and "sinkhorn": a length, or a fraction of the samples' scale, as in `mmd` and
            `sinkhorn_divergence`.
        kernel: for "mmd": "gaussian" (if None) or "laplace".
        debias: for "sinkhorn": False leaves the terms of a set with itself out, and points draw together.
        backend, scaling: for "sinkhorn", as in `sinkhorn_divergence`, but None is "newton".
        algorithm: "fixed_point" (Algorithm 2: points past the centres of their cells; any p), "sgd"
            (Algorithm 1: descent on fresh batches at a running potential, constant memory), "gradient" (a torch
            optimizer on the loss).
            "auto" takes "fixed_point".
        init: "annealed" (random samples moved by a softened plan that slowly sharpens), "random" (samples),
            "kmeans++" (samples far from each other), or (n, d) points to start from, whose dtype the coreset keeps
            unless the samples need float64. None takes "annealed" for "fixed_point" and "random" for the others; for
            another `divergence` the best, after 50 steps, of one annealed and three random ones.
        restarts: number of starts that are compared after a few steps on a part of the samples; the best goes on.
            None for max(1, min(8, 100 // n)) annealed starts (one on the line, where all are the same), and one of any
            other kind. With fewer than 5 samples a point these are random samples, not annealed.
        weights: None for equal ones; "free" chooses them with the points, which brings n points nearest; a tuple
            (low, high) does so within low and high equal shares, 0 <= low <= 1 <= high; and (n,) numbers, in a list,
            array or tensor, fix them. Annealed starts put heavy points where samples are dense, in whichever order
            fixed weights come: `coreset.points[i]` has weights[i]. Only fixed ones go with a `group`.
        sample_weights: (rows,) weights of the source's rows, for tables, map-style datasets and files, or the name of
            a file's column; equal if None.
        trim: share of the mass of the samples, in [0, 1), that stays unmatched: the plan leaves out whatever costs it
            most, such as outliers. Value and plan are those of the mass that is kept, W_p^p of that alone. Not with
            "sgd" or a `group`.
        scale: units of the columns for the distance: "standard" (standard deviations), "robust" (from quartiles),
            "whiten" (the covariance becomes 1), or (d,) positive numbers. Points come back in the units of the data;
            values, distances and the transport are in these. None for the data's own, or those of a coreset as the
            source. Not with a `group`.
        rows: choose n distinct rows of the source instead of free points; `result.rows` says which, and
            `coreset.points` are these rows as they are in the source. Distinct rows are taken near the free points at
            the least total cost; then each moves to the best row of its cell, and rows are swapped for others, as long
            as that lowers the exact W_p^p. The history goes on with these rounds. Equal rows count as distinct by their
            numbers. For sources whose rows have numbers: tables, map-style datasets and files, of which the rows in
            memory can be taken. Not with "sgd" or a `group`.
        keep: with `rows`, numbers of rows that have to be among them. (A callable is taken for `checkpoint`, which had
            this name before, with a DeprecationWarning.)
        exclude: with `rows`, numbers of rows that must not be. They stay a part of what is represented. Nor are rows of
            weight zero taken, unless they are kept.
        samples: most samples to hold in memory. None holds all rows of a table, dataset, loader or file, and
            max(100000, 200 n) samples of a distribution or callable, 400000 if they are one-dimensional; where these
            are fewer than 1000 a point, "fixed_point" fits them to a tolerance of 1e-2 only, goes on with as many
            fresh ones in each of 30 steps and returns the average of their points, which fits the distribution better
            than any one set of samples. A file of more than 2^26 numbers is sampled uniformly down to these, unless
            this says otherwise. For another `divergence` the default is max(20000, 200 n) rows of any source, drawn
            uniformly. Of an iterator or a loader without a length the next max(100000, 200 n) rows are held,
            which are its head: shuffle what is sorted, or give the loader a length.
        steps: most steps from the start on, which counts none; None for 300 (fixed_point, gradient) or 1000 (sgd).
        tolerance: the run has converged when five steps change the value by less than half of this, relatively; in
            [0, 1). Transports aim at a tenth of this in the end, where three tenths do, and at more while the value
            still falls; the one that is returned is solved to all of it.
        batch_size: samples a step of "sgd"; None for 50 a point. Small batches are as right as large ones.
        rate: length of the first step of "sgd", relative to the size of a cell.
        optimizer: for "gradient": from a list of parameters to an optimizer, such as
            ``lambda x: torch.optim.SGD(x, lr=0.1)``; None takes Adam with a decaying rate and no weight decay.
        seed: int or generator. The same seed gives the same bits on one machine; torch's global state is left alone.
        progress: show a bar; None shows it on a terminal if tqdm is installed.
        callback: called after each step with its `Step`, whose `points` are the result so far: to log, to draw.
        checkpoint: called once the start is drawn, and after each step, with a record of the run for `resume`: a dict
            of tensors, numbers and text, which `torch.save` writes and `torch.load` reads. Its "points" are the
            result so far, in the units of `scale`. Not with a `group`.
        resume: record of an interrupted run. With the same source and the other arguments as they were, the run goes
            on as if nothing had happened; only `steps` and `tolerance` may differ. A source that cannot be read twice,
            such as an iterator, has to stand where it stood.
        engine: "dense", "keops", "triton" or "auto", as in `transport`.
        group: None builds on the samples of this process. With "world" or a `torch.distributed.ProcessGroup` each rank
            draws from a source of its own and holds its part; every rank calls with the same settings and gets the
            coreset of all samples together, and the plan of its own. `samples` counts those of all ranks. Not with
            "sgd": for endless streams on several ranks take `CoresetLoss(online=True, group=...)`.

    Returns:
        `BuildResult`: coreset, transport to all samples held, history and status; with `rows` their numbers, with
        another divergence its value as `discrepancy`.

    Raises:
        RankError: another rank failed, has other settings, or did not call within the group's timeout.
        ValueError: unusable arguments or samples, named; `optimizer` or `batch_size` with another algorithm; several
            `restarts` with given points; `rows` of a source without row numbers, or more of them than it has; an
            option that the divergence would ignore.

    Example:
        >>> import torch, torchcoreset as tc
        >>> result = tc.build_coreset(torch.distributions.Normal(0.0, 1.0), 10, samples=20_000)
        >>> result.coreset.points.shape, round(result.distance, 2)
        (torch.Size([10, 1]), 0.2)
        >>> data = torch.tensor([[0.0], [1.0], [5.0], [9.0], [10.0], [11.0]])
        >>> result = tc.build_coreset(data, 2, rows=True)
        >>> sorted(result.rows.tolist())
        [1, 4]
        >>> y = torch.arange(1000.0) / 1000  # support points of the unit interval are at (2 i - 1) / 2 n
        >>> result = tc.build_coreset(y, 4, divergence="energy")
        >>> sorted(round(x, 1) for x in result.coreset.points[:, 0].tolist()), round(1000 * result.discrepancy.value, 1)
        ([0.1, 0.4, 0.6, 0.9], 5.2)

    Source: Claici, Genevay, Solomon (2020), Algorithms 1 and 2; Mak and Joseph (2018) for "energy".
    """
    ranks = as_ranks(group)
    units: Scaling | None = None
    keep, checkpoint = renamed_keep(keep, checkpoint)
    with told_to(ranks, "build_coreset"):
        size = check_size(size)
        other, p = _other_divergence(
            divergence,
            {
                "p": p, "blur": blur, "relative_blur": relative_blur, "kernel": kernel, "debias": debias,
                "backend": backend, "scaling": scaling,
            },
            {"algorithm": algorithm, "weights": weights, "trim": trim, "engine": engine, "group": group, "rows": rows},
        )  # fmt: skip
        check_engine(engine)
        steps = _check_settings(algorithm, steps, tolerance, samples, batch_size, rate, optimizer, trim)
        choice = _row_choice(rows, keep, exclude, algorithm, group)
        generator, scale = make_generator(seed), units_of(source) if scale is None else scale
        trials = TRIALS if other is not None and init is None and resume is None else 0
        init = init if init is not None else "annealed" if algorithm in ("auto", "fixed_point") else "random"
        settings: dict[str, Any] = {}
        if ranks is not None:
            _check_group(algorithm, weights, sample_weights, trim, scale, checkpoint is not None or resume is not None)
            settings = {
                "size": size, "p": p, "algorithm": algorithm, "steps": steps, "tolerance": tolerance,
                "samples": samples, "restarts": restarts, "engine": engine, "optimizer": optimizer is not None,
                "init": init if isinstance(init, str) else fingerprint(as_table(init, "init")),
                "weights": None if weights is None else fingerprint(real_tensor(weights, "weights")),
                "seed": seed if is_real(seed) else fingerprint(generator.get_state()),
            }  # fmt: skip
        if scale is not None:
            read = as_source(source, sample_weights)
            units = Scaling.of(read, scale)
            # Rows are returned as they are in the source, so that they are scaled once they are held.
            source, sample_weights = scaled(read, units) if choice is None else read, None
            init, callback = _in_units(units, init, callback)
        start = Start(init=init, restarts=restarts, size=size, p=p, weights=weights, engine=engine, trim=trim)
    bar = ProgressBar(steps, progress if ranks is None or ranks.rank == 0 else False, f"coreset of {size} points")
    potential: Tensor | None = None
    discrepancy: Discrepancy | SinkhornResult | None = None
    same = {"size": size, "p": float(p), "algorithm": algorithm if other is None else repr(other), "rows": rows or None}
    run = Run(steps, tolerance, bar, generator, same, callback, checkpoint, resume)  # earlier records have no rows
    if resume is not None:
        start = replace(start, init=resume["points"], restarts=None)
    with bar, solver_modes():
        if algorithm == "sgd":
            read = as_source(source, sample_weights)
            points, b = start.draw(read, generator)
            run.begin(points)
            objective = Objective(b, p, engine)
            points, loaded = _stochastic(
                run, objective, points, read, samples, batch_size or BATCH * size, rate, generator
            )
        else:
            if ranks is None:
                loaded = load(source, sample_weights, size, samples, generator, most=_most_samples(other, size))
            else:
                loaded = load_part(ranks, source, sample_weights, size, samples, generator, settings)
            if choice is not None:
                eligible, loaded = choice.among(loaded, size), loaded.scaled(units)
            few = loaded.endless and samples is None and loaded.count < FEW * size
            objective, loaded, points, potential, discrepancy = _placed(
                run, start, loaded, algorithm, optimizer, other, engine, group, trials, fresh=few
            )
            if choice is not None:
                return _rows(run, objective, points, loaded, eligible, units)
        transport = _measured(objective, points, loaded, max(tolerance, FINEST), potential)
        coreset = Coreset(points if units is None else units.undo(points), transport.weights)
    coreset.built_on, coreset.scaling = fingerprint_of(loaded.read), units
    return BuildResult(
        coreset, transport, run.history, run.status, p, loaded.numbers, trim,
        bias=transport.plan.bias(points.detach(), loaded.y) if as_cost(p).mean_is_best and ranks is None else None,
        divergence=divergence, discrepancy=discrepancy,
    )  # fmt: skip


def renamed_keep(keep: Any, checkpoint: Callable[..., None] | None) -> tuple[Any, Callable[..., None] | None]:
    """The arguments `keep` and `checkpoint`: a callable is of the second, which had the name of the first before."""
    if not callable(keep):
        return keep, checkpoint
    if checkpoint is not None:
        raise ValueError("keep: got a callable beside checkpoint; expected row numbers. Pass one callable, checkpoint.")
    message = (
        "keep: got a callable; that argument is called checkpoint now, and keep takes row numbers. Write checkpoint=."
    )
    warn_user(DeprecationWarning(message))
    return None, keep


def _in_units(
    scaling: Scaling, init: Init | Tensor, callback: Callable[[Step], None] | None
) -> tuple[Init | Tensor, Callable[[Step], None] | None]:
    """The start in the units of the distance, and the callback, which is given points in those of the data."""

    def called(step: Step) -> None:
        assert callback is not None
        assert step.points is not None  # a callback gets them
        callback(replace(step, points=scaling.undo(step.points)))

    start = init if isinstance(init, str) else scaling.apply(as_table(init, "init"))
    return start, None if callback is None else called


def _measured(
    objective: Objective, points: Tensor, loaded: LoadedSamples, accuracy: float, potential: Tensor | None
) -> Transport:
    """The transport of the result, with a warning if it is not as accurate as it should be."""
    transport = objective.transport(points, loaded.y, loaded.a, tolerance=accuracy, start=potential)
    if transport.status is not Status.CONVERGED:
        report_unconverged(transport, accuracy, exact=False)
    return transport


def _accuracy(tolerance: float) -> float:
    """Relative gap to which the transports of a run are solved in the end."""
    return min(COARSEST, max(0.1 * tolerance, FINEST))


def _most_samples(other: DivergenceSettings[Any] | None, size: int) -> int | None:
    """How many samples are held for another divergence, where nobody says how many; None without one."""
    return None if other is None else max(OTHER_SAMPLES, SAMPLES_PER_POINT * size)


def _placed(
    run: Run,
    start: Start,
    loaded: LoadedSamples,
    algorithm: Algorithm,
    optimizer: OptimizerFactory | None,
    other: DivergenceSettings[Any] | None,
    engine: EngineName,
    group: Any,
    trials: int,
    fresh: bool,
) -> tuple[Objective, LoadedSamples, Tensor, Tensor | None, Discrepancy | SinkhornResult | None]:
    """Points on loaded samples: the objective of transports, the samples in their dtype, points, and what was found.

    The last potential is that of an exact transport; the last of all what another divergence is at the points."""
    points, b = start.draw(loaded.rows, run.generator)
    points = wide_enough(points, loaded.y)
    loaded = replace(loaded, y=loaded.y.to(points))
    if other is not None and trials:
        points = _best_start(other, points, b, start, loaded, run.generator, trials)
    run.begin(points)
    objective = Objective(b, start.p, engine, as_ranks(group), start.trim)
    if other is not None:
        divergence = quasi_newton.DivergenceObjective.of(other, points, b, loaded.y, loaded.a)
        first = quasi_newton.init(separated(points, run.generator))  # equal points have equal gradients: never part
        points = run.descend(partial(quasi_newton.step, objective=divergence), first, loaded.count).result
        return objective, loaded, points, None, divergence.reported(points)
    if algorithm == "gradient":
        loss = CoresetLoss(start.p, trim=start.trim, tolerance=_accuracy(run.tolerance), engine=engine, group=group)
        return objective, loaded, _gradient(run, loss, points, b, loaded, optimizer), None, None
    return objective, loaded, *_fixed_point(run, objective, points, loaded, run.generator, fresh=fresh), None


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
    y, a, few = loaded.y, loaded.a, max(COARSE * len(points), TRIAL_LEAST)
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
    run: Run, objective: Objective, points: Tensor, loaded: LoadedSamples, generator: Generator, fresh: bool
) -> tuple[Tensor, Tensor | None]:
    """Algorithm 2 on a part of the samples, if that is much smaller, then on all; points and last potential.

    If the source has `fresh` samples for it, it ends on those."""
    potential: Tensor | None = None
    loose, accuracy = max(run.tolerance, COARSE_TOLERANCE), _accuracy(run.tolerance)

    def descend(
        place: int, objective: Objective, y: Tensor, a: Tensor | None, count: int, tolerance: float
    ) -> tuple[Tensor, Tensor | None]:
        step = partial(fixed_point.step, objective=objective, samples=y, sample_weights=a, tolerance=accuracy)
        state = run.descend(
            step, fixed_point.init(points, accuracy, potential), count, place=place, tolerance=tolerance
        )
        return state.result, state.potential

    coarse = max(COARSE * len(points), COARSE_LEAST)
    if loaded.count > 2 * coarse:
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
        averaging.step, objective=objective, source=loaded.read, count=len(loaded.y), generator=loaded.generator,
        settling=steps // averaging.SETTLING,
    )  # fmt: skip
    averaged = run.descend(
        step, averaging.init(points, potential), loaded.count, place=2, until_settled=False, steps=steps
    )
    run.status = status
    return averaged.result, averaged.potential


def _relocated(objective: Objective, points: Tensor, loaded: LoadedSamples, generator: Generator) -> Tensor:
    """Points of chosen weights after those of little use have moved, on all samples: rare ones may cost the most."""
    value, points = descended(points, objective, loaded.y, loaded.a)
    return relocated(points, value, objective, loaded.y, loaded.a, generator, rounds=RELOCATIONS, least_gain=LEAST_GAIN)


def _rows(
    run: Run,
    objective: Objective,
    points: Tensor,
    loaded: LoadedSamples,
    eligible: Eligible,
    scaling: Scaling | None,
) -> BuildResult:
    """Distinct rows near the points, then rounds of medoid steps and swaps; the result of these rows."""
    step = partial(
        search.step, objective=objective, samples=loaded.y, sample_weights=loaded.a, eligible=eligible,
        generator=run.generator,
    )  # fmt: skip
    state = run.descend(step, search.init(points, loaded.y, eligible, objective.p), loaded.count, place=3)
    if state.ended:
        run.status = Status.CONVERGED
    accuracy = min(max(run.tolerance, FINEST), search.GAP)  # the value is not to rise above that of the last round
    transport = _measured(objective, state.result, loaded, accuracy, state.potential)
    coreset = Coreset(eligible.table[state.rows], transport.weights)
    coreset.built_on, coreset.scaling = fingerprint_of(loaded.read), scaling
    return BuildResult(
        coreset, transport, run.history, run.status, objective.p, loaded.numbers, objective.trim,
        bias=transport.plan.bias(state.result, loaded.y) if as_cost(objective.p).mean_is_best else None,
        rows=eligible.numbers[state.rows.cpu()],
    )  # fmt: skip


def _gradient(
    run: Run,
    loss: CoresetLoss,
    points: Tensor,
    weights: Any,
    loaded: LoadedSamples,
    optimizer: OptimizerFactory | None,
) -> Tensor:
    """A torch optimizer on the loss."""

    def setup(parameter: Parameter, value: float) -> gradient.Optimization:
        if optimizer is not None:
            return optimizer([parameter]), None
        rate = RATE * as_cost(loss.p).root(value) / parameter.shape[1] ** 0.5
        return gradient.decaying_adam(parameter, rate, run.steps)

    step = partial(gradient.step, loss=loss, samples=loaded.y, weights=weights, sample_weights=loaded.a, setup=setup)
    # The default rate falls to zero over all steps: standing still before that is only noise.
    return run.descend(step, gradient.init(points), loaded.count, until_settled=optimizer is not None).result


def _stochastic(
    run: Run,
    objective: Objective,
    points: Tensor,
    source: Source,
    samples: int | None,
    batch_size: int,
    rate: float,
    generator: Generator,
) -> tuple[Tensor, LoadedSamples]:
    """Algorithm 1; the points, and samples on which to measure the result.

    An iterator that ends early ends the run, whose result is then measured on the largest of the last batches."""
    step = partial(
        stochastic.step, objective=objective, source=source, batch_size=batch_size, generator=generator, rate=rate,
        average_from=run.steps // 2,
    )  # fmt: skip
    state = run.descend(step, stochastic.init(points, objective.p), batch_size, until_settled=False)
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
    return points, LoadedSamples(y.to(points), a, source, source, numbers, source.endless, generator)


def _other_divergence(
    divergence: Divergence, options: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[DivergenceSettings[Any] | None, float]:
    """The settings of a divergence that is no exact transport, None for those of that; and the power of the transport.

    `options` are those of divergences, `others` arguments that only "wasserstein" takes, but for their defaults.

    Raises:
        ValueError: an option that the divergence would ignore, or that does not go with it.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if divergence == "sinkhorn":
        given.setdefault("backend", "newton")
    settings = make_settings(divergence, given)
    power = getattr(settings, "p", 2) if options["p"] is None else options["p"]
    if not isinstance(settings, DivergenceSettings) or divergence == "wasserstein":
        return None, power
    if callable(options["kernel"]):
        raise ValueError(
            f"kernel: got {options['kernel']!r}; expected 'gaussian' or 'laplace', whose steps are known. For another "
            "kernel minimise CoresetLoss(divergence='mmd', kernel=...)."
        )
    if is_choice(others["weights"]):
        raise ValueError(
            f"weights: got {others['weights']!r} with divergence={divergence!r}; expected fixed ones. Only "
            "'wasserstein' chooses them."
        )
    usual = {"algorithm": "auto", "engine": "auto", "trim": 0, "rows": False, "group": None}
    for name, expected in usual.items():
        if others[name] != expected:
            raise ValueError(
                f"{name}: got {others[name]!r} with divergence={divergence!r}; expected {expected!r}. It is for "
                "'wasserstein' only: leave it out."
            )
    return settings, power


def _check_group(algorithm: str, weights: Any, sample_weights: Any, trim: float, scale: Any, kept: bool) -> None:
    """Raise ValueError for what does not go with several ranks."""
    if trim or is_choice(weights):
        name, given = ("trim", trim) if trim else ("weights", weights)
        raise ValueError(
            f"{name}: got {given!r} with a group; expected fixed weights and trim=0. Leave one of them out."
        )
    if scale is not None:
        raise ValueError("scale: given with a group; expected samples that all ranks have scaled alike.")
    if kept:
        raise ValueError("checkpoint, resume: given with a group, of whose run no record is kept. Leave them out.")
    if algorithm == "sgd":
        raise ValueError(
            "group: given with algorithm='sgd', whose batches are drawn by one process; expected 'fixed_point' or "
            "'gradient'. For a stream on several ranks minimise CoresetLoss(online=True, group=...)."
        )
    if isinstance(sample_weights, (str, int)):
        raise ValueError(
            f"sample_weights: got the column {sample_weights!r} with a group; expected numbers, whose scale all ranks "
            "share. Read the column and pass it."
        )


def _row_choice(rows: bool, keep: Any, exclude: Any, algorithm: str, group: Any) -> RowChoice | None:
    """What is asked of rows, None for free points; ValueError for what does not go with them."""
    choice = RowChoice.of(rows, keep, exclude)
    if choice is not None and algorithm == "sgd":
        raise ValueError(
            "rows: given with algorithm='sgd', which holds no rows; expected 'fixed_point' or 'gradient'. Choose one."
        )
    if choice is not None and group is not None:
        raise ValueError("rows: given with a group, whose ranks hold other rows; expected the rows of one process.")
    return choice


def _check_settings(
    algorithm: Algorithm,
    steps: int | None,
    tolerance: float,
    samples: int | None,
    batch_size: int | None,
    rate: float,
    optimizer: OptimizerFactory | None,
    trim: float,
) -> int:
    """Raise ValueError for settings that are wrong or that the algorithm would ignore; returns the number of steps."""
    check_name(algorithm, "algorithm", DEFAULT_STEPS)
    for name, count in (("steps", steps), ("samples", samples), ("batch_size", batch_size)):
        if count is not None:
            check_count(count, name)
    if not is_real(tolerance) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance: got {tolerance!r}; expected a number in [0, 1), such as 1e-3.")
    if not is_real(rate) or not 0 < rate < math.inf:
        raise ValueError(f"rate: got {rate!r}; expected a positive number; 1 moves by about the size of a cell.")
    if check_trim(trim) and algorithm == "sgd":
        raise ValueError(
            f"trim: got {trim!r} with algorithm='sgd', whose batches do not tell which samples are farthest; "
            "expected 'fixed_point' or 'gradient'."
        )
    for name, given, needs in (
        ("optimizer", optimizer is not None, "gradient"),
        ("batch_size", batch_size is not None, "sgd"),
        ("rate", rate != 1.0, "sgd"),
    ):
        if given and algorithm != needs:
            raise ValueError(
                f"{name}: given with algorithm={algorithm!r}; expected it only with algorithm={needs!r}. "
                "Choose that algorithm or leave it out."
            )
    return DEFAULT_STEPS[algorithm] if steps is None else int(steps)
