"""Coresets of labelled data: one for each class, merged, or one of features and labels together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ...names import Algorithm, Allocation, Init
from ...sources import Classes, Scale, Scaling, of_sample_weights
from ...tensors import check_name
from ...transport import is_choice
from ...transport.passes import EngineName
from ..build import build_coreset, renamed_keep
from ..coreset import Coreset
from ..history import BuildResult, Step
from ..rows import RowChoice
from ..start import check_size
from .allocation import allocate, samples_of_classes, shares_of
from .coreset import LabeledCoreset
from .joint import joint_source
from .rows import read_labeled


def build_labeled_coreset(
    X: Any,
    y: Any,
    size: int,
    allocation: Allocation = "proportional",
    p: float = 2,
    *,
    price: float | None = None,
    algorithm: Algorithm = "auto",
    init: Init | Mapping[Any, Tensor] | None = None,
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
    seed: int = 0,
    progress: bool | None = None,
    callback: Callable[[Any, Step], None] | None = None,
    checkpoint: Callable[[Any, dict[str, Any]], None] | None = None,
    resume: Mapping[Any, Mapping[str, Any]] | None = None,
    engine: EngineName = "auto",
    features: int | str | Sequence[int | str] | None = None,
    flatten: bool = False,
) -> LabeledCoreset:
    """Find points with labels: a coreset of each class, or one of features and labels together.

    Without a `price` each class is built by itself. By default its points have equal weights, and these add up to its
    share of the rows if the allocation is "proportional", and to 1 / k for k classes if it is "equal". So
    "proportional" stands for the data as they are, and "equal" for data in which all classes are equally frequent.

    With a `price` all points are built together by the distance sqrt(|x - x'|^2 + price^2 [y != y']). A point has, for
    p = 2, the commonest label of its cell. The higher the price, the more do cells follow the classes; a rare class may
    have no point. For targets that are numbers see `joint_source`.

    Args:
        X: rows (rows, d) of a table, file or dataset, with labels as y; or what gives batches of rows and labels, a
            dataset whose rows are such pairs, a loader, an iterator: anything that `as_source` reads. Without a `price`
            all rows are held, of an iterator or a loader without a length the next `samples`, 100000 if None.
        y: (rows,) labels: whole numbers, booleans or text. None, or a name or place, says where they are in X, as in
            `joint_source`.
        size: number of points n of all classes together; without a `price` at least one for each class.
        allocation: "proportional" gives a class points in proportion to its share of the rows (its weight, with
            `sample_weights`), "equal" as many as any other. Both are rounded by largest remainders, and no class gets
            fewer than one point. Not with a `price`, where points follow from the distance.
        p: power of the distance, as in `build_coreset`.
        price: distance between two labels, in the unit of the features; None for no price that is high enough.
        algorithm, restarts, steps, tolerance, progress, engine: of each class, as in `build_coreset`.
        init: name of a kind of start for every class, or a dict from labels to the points that those classes start
            from; classes that it lacks start as for None. With a `price` a name only.
        weights: None, "free" or bounds (low, high) within each class, as in `build_coreset`; with a `price` among all.
        sample_weights: (rows,) weights of the rows; equal if None.
        trim: share of the mass of each class that stays unmatched, as in `build_coreset`; with a `price` of all.
        scale: units of the columns for the distance, as in `build_coreset`; those of all rows, for every class. Not
            with a `price`: scale the columns first.
        rows, keep, exclude: choose distinct rows of X instead of free points, as in `build_coreset`; `rows` of the
            result says which. They keep their own labels.
        samples: most rows to build on, of all classes together, at least one for each; all if None. A class gets as
            many for each of its points as any other, or all that it has, and they are drawn as `build_coreset` does.
            The number of points of a class and its weight still follow all rows. With a `price` as in `build_coreset`.
        seed: class k, counted in the order of the sorted labels, is built with seed + k.
        callback: called after each step with the label and the `Step`; with a `price` the label is None, and points are
            joint rows.
        checkpoint: called as in `build_coreset`, with the label, or None, and a record of the run of its class.
        resume: the last such record of each class, by label, or None; classes that it lacks begin at the start.
        features, flatten: which part of a batch, row or table holds the features, and whether images become vectors, as
            in `as_source`.

    Returns:
        `LabeledCoreset`: points, labels, weights, and the result of each class or of all.

    Raises:
        TypeError: X is nothing that can be sampled.
        ValueError: invalid arguments, with their names; labels that do not fit the rows, or are missing; without a
            price fewer points or samples than classes; a class whose rows all have weight zero.

    Example:
        >>> import torch, torchcoreset as tc
        >>> X = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> labeled = tc.build_labeled_coreset(X, ["b"] * 100 + ["a"] * 200, 6)
        >>> labeled
        LabeledCoreset(6 points, a: 4, b: 2)
        >>> labeled.points.shape, labeled.labels.tolist()
        (torch.Size([6, 2]), ['a', 'a', 'a', 'a', 'b', 'b'])
        >>> tc.build_labeled_coreset(X, (X[:, 0] > 0.5).int(), 6, price=3.0)
        LabeledCoreset(6 points, 0: 4, 1: 2, price=3)

    Source: Claici, Genevay, Solomon (2020), whose support vector machines see as many points of each class; the
        joint distance is that of Courty, Flamary, Habrard, Rakotomamonjy (2017).
    """
    check_size(size)
    if weights is not None and not is_choice(weights):
        raise ValueError(
            "weights: got one for each point; expected None, 'free' or bounds (low, high), for how many points a class "
            "gets follows from its rows. For fixed weights build each class by `build_coreset`."
        )
    keep, checkpoint = renamed_keep(keep, checkpoint)
    check_name(allocation, "allocation", get_args(Allocation))
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"seed: got {seed!r}; expected an int, from which each class gets a seed of its own.")
    alike: dict[str, Any] = {
        "algorithm": algorithm, "restarts": restarts, "weights": weights, "trim": trim, "rows": rows, "steps": steps,
        "tolerance": tolerance, "progress": progress, "engine": engine,
    }  # fmt: skip

    def of_class(label: Any, k: int) -> dict[str, Any]:
        """The options of one build."""
        return alike | {
            "seed": seed + k,
            "init": init.get(label) if isinstance(init, Mapping) else init,
            "callback": None if callback is None else partial(callback, label),
            "checkpoint": None if checkpoint is None else partial(checkpoint, label),
            "resume": None if resume is None else resume.get(label),
        }

    if price is not None:
        _check_joint(allocation, init, scale)
        with of_sample_weights():
            source = joint_source(X, y, price=price, weights=sample_weights, features=features, flatten=flatten)
        options = of_class(None, 0) | {"samples": samples, "keep": keep, "exclude": exclude}
        return _jointly(build_coreset(source, size, p, **options), float(price))
    with of_sample_weights():
        read = read_labeled(X, y, sample_weights, size, samples, features, flatten)
    choice = RowChoice.of(rows, keep, exclude)
    if choice is not None:
        choice.check(read.numbers, read.source.size)
    scaling = read.source.units if scale is None else Scaling.of(read.source, scale)
    shares = shares_of(read.mass, read.place, read.classes)
    wanted = shares if allocation == "proportional" else np.full(len(read.classes), 1 / len(read.classes))
    counts = allocate(size, wanted, allocation)
    unknown = set(init) - set(read.classes.tolist()) if isinstance(init, Mapping) else set()
    if unknown:
        raise ValueError(
            f"init: got points for {sorted(map(str, unknown))}; expected labels among {read.classes.tolist()}."
        )
    loaded = samples_of_classes(samples, counts, np.bincount(read.place, minlength=len(read.classes)))
    results = []
    for k, label in enumerate(read.classes.tolist()):
        chosen = torch.from_numpy(np.flatnonzero(read.place == k))
        numbers = None if read.numbers is None else read.numbers[chosen]
        own = None if choice is None or numbers is None else choice.within(numbers)
        result = build_coreset(
            read.table[chosen.to(read.table.device)],
            int(counts[k]),
            p,
            sample_weights=None if read.mass is None else read.mass[chosen.to(read.mass.device)],
            scale=scaling,
            keep=None if own is None else own.keep,
            exclude=None if own is None else own.exclude,
            samples=loaded[k],
            **of_class(label, k),
        )
        if numbers is not None and result.row_numbers is not None:
            taken = None if result.rows is None else numbers[result.rows]
            result = replace(result, row_numbers=numbers[result.row_numbers], rows=taken)
        results.append(result)
    points = torch.cat([result.coreset.points.detach() for result in results])
    of_points = torch.from_numpy(np.repeat(wanted / counts, counts))
    if is_choice(weights):
        within = [result.coreset.weights.double().cpu() for result in results]
        of_points = torch.cat([share * part for share, part in zip(wanted.tolist(), within, strict=True)])
    class_of = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    merged = Coreset(points, of_points)
    merged.scaling = scaling
    return LabeledCoreset(merged, read.classes, class_of, tuple(results), shares=shares)


def _check_joint(allocation: str, init: Any, scale: Any) -> None:
    """Raise ValueError for what goes with classes that are built one by one, and not with a price."""
    if allocation != "proportional":
        raise ValueError(
            f"allocation: got {allocation!r} with a price; expected 'proportional': points follow from the distance. "
            "For classes that are equally frequent give their rows sample_weights."
        )
    if init is not None and not isinstance(init, str):
        raise ValueError(f"init: got a {type(init).__name__} with a price; expected the name of a kind of start.")
    if scale is not None:
        raise ValueError(
            "scale: given with a price, which is in the unit of the features; expected features that are scaled "
            "already."
        )


def _jointly(result: BuildResult, price: float) -> LabeledCoreset:
    """Points and labels of a build on joint rows."""
    joint = result.coreset.joint
    assert isinstance(joint, Classes), "the source has classes"
    x, labels = joint.split(result.points)
    classes = np.unique(joint.classes)  # a stream has seen them in another order
    coreset = Coreset(x, result.coreset.weights)
    coreset.weights.copy_(result.coreset.weights)  # normalising again would change their last digits
    coreset.built_on = result.coreset.built_on
    class_of = torch.from_numpy(np.searchsorted(classes, labels).astype(np.int64))
    return LabeledCoreset(coreset, classes, class_of, (result,), price)
