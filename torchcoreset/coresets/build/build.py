"""From any source to a coreset: a start, an algorithm, a loop that stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Generator, Tensor

from ...losses import Backend, Divergence, KernelName
from ...modes import solver_modes
from ...names import Algorithm, Init
from ...sources import Scale, fingerprint_of, make_generator, units_of, weighted_source
from ...tensors import check_flag
from ...transport import Status, Transport, as_cost, report_unconverged
from ...transport.costs import identity
from ...transport.passes import EngineName, check_engine
from ...transport.ranks import as_ranks, told_to
from ..algorithms import OptimizerFactory, Run
from ..coreset import Coreset
from ..history import BuildResult, Step
from ..progress import ProgressBar
from ..samples import load, load_part
from ..start import Start, check_size
from .descents import FINEST, Method, Placed, most_samples, placed_on, rows_near, stream_placed
from .settings import (
    alike,
    check_group,
    check_settings,
    check_space,
    other_divergence,
    renamed_keep,
    row_choice,
)
from .space import Space, open_space

FEW = 1000  # samples a point, loaded of an endless source, below which points are averaged over fresh ones
TRIALS = 3  # random starts of another divergence beside the annealed one, where none is given


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
    cost: Any = None,
    embed: Any = None,
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
            "auto" takes "fixed_point", and "gradient" for a `cost` or `embed` that does not lead back to rows.
        init: "annealed" (means of n parts of the samples, of equal mass, moved by a softened plan that slowly
            sharpens), "random" (samples), "kmeans++" (samples far from each other), or (n, d) points to start from,
            whose dtype the coreset keeps unless the samples need float64. None takes "annealed" for "fixed_point" and
            "random" for the others; for another `divergence` the best, after 50 steps, of one annealed and three random
            ones.
        restarts: number of starts that are compared after a few steps on a part of the samples; the best goes on.
            None for max(1, min(8, 100 // n)) annealed starts (one on the line, where all are the same), and one of any
            other kind. With fewer than 5 samples a point they are not annealed: these means or, for points of given
            unequal weights, random samples.
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
        tolerance: the run has converged when five steps change the value by less than half of this, relatively, or one
            does by less than a twentieth and the last three have each halved the change; in [0, 1). Transports aim at a
            tenth of this in the end, where three tenths do, and at more while the value still falls; the one that is
            returned is solved to all of it.
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
        engine: "auto", "compiled", "dense", "keops" or "triton", as in `transport`.
        group: None builds on the samples of this process. With "world" or a `torch.distributed.ProcessGroup` each rank
            draws from a source of its own and holds its part; every rank calls with the same settings and gets the
            coreset of all samples together, and the plan of its own. `samples` counts those of all ranks. Not with
            "sgd": for endless streams on several ranks take `CoresetLoss(online=True, group=...)`.
        cost: the distance of which p is the power: one of `tc.costs`, or a function of two tensors of rows; None for
            the Euclidean one, or that of a coreset as the source. Points are rows as the data has them: on the globe
            (latitude, longitude), with categories the commonest. `Scaled` and `Mahalanobis` go with all algorithms and
            divergences, other distances with "fixed_point", and those that do not lead back to rows, functions and
            `embed`, with "gradient" and `rows`. Not with `scale` or a `group`.
        embed: a network f, for the distance between features, |f(y) - f(x)|, or that of `cost` between these: the same
            as cost=tc.costs.Embedded(f). Points are rows of the data (`rows=True`), or move along the gradient through
            the network, whose parameters stay as they are.

    Returns:
        `BuildResult`: coreset, transport to all samples held, history and status; with `rows` their numbers, with
        another divergence its value as `discrepancy`.

    Raises:
        RankError: another rank failed, has other settings, or did not call within the group's timeout.
        ValueError: unusable arguments or samples, named; `optimizer` or `batch_size` with another algorithm; several
            `restarts` with given points; `rows` of a source without row numbers, or more of them than it has; an
            option that the divergence or the distance would ignore.
        TypeError: a `cost` or `embed` that is none.

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
    keep, checkpoint = renamed_keep(keep, checkpoint)
    with told_to(ranks, "build_coreset"):
        size = check_size(size)
        other, p = other_divergence(
            divergence,
            {
                "p": p, "blur": blur, "relative_blur": relative_blur, "kernel": kernel, "debias": debias,
                "backend": backend, "scaling": scaling,
            },
            {"algorithm": algorithm, "weights": weights, "trim": trim, "engine": engine, "group": group, "rows": rows},
        )  # fmt: skip
        check_engine(engine)
        check_flag(progress, "progress", or_none=True)
        steps = check_settings(algorithm, steps, tolerance, samples, batch_size, rate, optimizer, trim)
        choice = row_choice(rows, keep, exclude, algorithm, group)
        generator, scale = make_generator(seed), units_of(source) if scale is None else scale
        settings: dict[str, Any] = {}
        if ranks is not None:
            check_group(algorithm, weights, sample_weights, trim, scale, checkpoint is not None or resume is not None)
            settings = {
                "size": size, "p": p, "algorithm": algorithm, "steps": steps, "tolerance": tolerance,
                "samples": samples, "restarts": restarts, "engine": engine, "optimizer": optimizer is not None,
                **alike(init, weights, seed, generator),
            }  # fmt: skip
        space, read, sample_weights = open_space(source, sample_weights, scale, cost, embed)
        metric = space.metric
        algorithm = check_space(space, algorithm, rows, other, group)
        trials = TRIALS if other is not None and init is None and resume is None else 0
        init = init if init is not None else "annealed" if algorithm in ("auto", "fixed_point") else "random"
        start = Start(init=init, restarts=restarts, size=size, p=p, weights=weights, engine=engine, trim=trim)
    bar = ProgressBar(steps, progress if ranks is None or ranks.rank == 0 else False, f"coreset of {size} points")
    # Earlier records have no rows and no cost.
    same = {
        "size": size, "p": float(p), "algorithm": algorithm if other is None else repr(other), "rows": rows or None,
        "cost": identity(metric),
    }  # fmt: skip
    run = Run(steps, tolerance, bar, generator, same, callback, checkpoint, resume)
    if resume is not None:
        start = replace(start, init=resume["points"], restarts=None, resumes=True)
    method = Method(algorithm, optimizer, other, engine, group, trials)
    with bar, solver_modes():
        if algorithm == "sgd":
            run.callback = in_rows(space, algorithm, callback)
            placed = stream_placed(run, start, weighted_source(read, sample_weights), space, samples, batch_size, rate)
        else:
            if ranks is None:
                loaded = load(read, sample_weights, size, samples, generator, most=most_samples(other, size))
            else:
                loaded = load_part(ranks, read, sample_weights, size, samples, generator, settings)
            space = space.fitted(loaded.y)
            run.callback = in_rows(space, algorithm, callback)
            eligible = None if choice is None else choice.among(loaded, size)
            few = loaded.endless and samples is None and loaded.count < FEW * size
            placed = placed_on(run, method, start, loaded, space, fresh=few)
            if eligible is not None:
                placed = rows_near(run, placed, eligible)
        transport = _measured(placed, placed.accuracy or max(tolerance, FINEST))
        points = space.back(placed.points) if placed.rows is None else placed.rows
        coreset = Coreset(points, transport.weights)
    coreset.built_on, coreset.scaling, coreset.cost = fingerprint_of(placed.loaded.read), space.scaling, metric
    coreset.joint = placed.loaded.read.joint
    means = space.is_linear and ranks is None and as_cost(space.power(p)).mean_is_best
    return BuildResult(
        coreset, transport, run.history, run.status, p, placed.loaded.numbers, trim,
        bias=transport.plan.bias(placed.points.detach(), placed.loaded.y) if means else None,
        rows=placed.numbers, divergence=divergence, discrepancy=placed.discrepancy,
    )  # fmt: skip


def in_rows(
    space: Space, algorithm: Algorithm, callback: Callable[[Step], None] | None
) -> Callable[[Step], None] | None:
    """A callback that is given points as rows of the data."""
    if callback is None or space.is_data or (algorithm == "gradient" and not space.can_invert):
        return callback

    def called(step: Step) -> None:
        assert step.points is not None  # a callback gets them
        if space.can_invert:
            callback(replace(step, points=space.back(step.points)))
        else:  # on the way to rows they are places among features, of which there is no row
            callback(replace(step, points=None))

    return called


def _measured(placed: Placed, accuracy: float) -> Transport:
    """The transport of the result, with a warning if it is not as accurate as it should be."""
    on = placed.objective.on(placed.loaded.y, placed.loaded.a)
    transport = on.transport(placed.points, tolerance=accuracy, start=placed.potential)
    if transport.status is not Status.CONVERGED:
        report_unconverged(transport, accuracy, exact=False)
    return transport
