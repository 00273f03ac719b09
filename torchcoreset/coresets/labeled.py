"""Coresets of labelled data: one for each class, merged, so that every point has a label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from ..archives import labels_of, read_arrays
from ..html import card, draw_points
from ..names import Algorithm, Allocation, Init
from ..sources import Scale, Scaling, weighted_source
from ..tensors import check_count, check_name, described
from ..transport import is_choice
from ..transport.passes import EngineName
from .build import build_coreset, renamed_keep
from .coreset import Coreset
from .history import BuildResult, Step
from .rows import RowChoice
from .start import check_size

SHOWN = 12  # classes in a notebook


@dataclass(frozen=True, repr=False)
class LabeledCoreset:
    """Weighted points with labels.

    Attributes:
        coreset: points and weights, class after class.
        classes: (k,) the different labels, sorted, as numbers or text.
        class_of: (n,) int64, the place of each point's label in `classes`.
        results: the `BuildResult` of each class, in the order of `classes`; none of a coreset from a file.
    """

    coreset: Coreset
    classes: NDArray[Any]
    class_of: Tensor
    results: tuple[BuildResult, ...]

    @property
    def points(self) -> Tensor:
        """(n, d), an `nn.Parameter`."""
        return self.coreset.points

    @property
    def weights(self) -> Tensor:
        """(n,), sum 1."""
        return self.coreset.weights

    @property
    def rows(self) -> Tensor | None:
        """(n,) int64, which row of X each point is; None unless rows were asked for, and of a coreset from a file."""
        taken = [result.rows for result in self.results if result.rows is not None]
        return torch.cat(taken) if taken else None

    @property
    def labels(self) -> NDArray[Any]:
        """(n,) the label of each point, of the dtype that the labels came in; scikit-learn takes them as they are."""
        labels: NDArray[Any] = self.classes[self.class_of.numpy()]
        return labels

    def to_dataset(self) -> TensorDataset:
        """Points, places of their labels in `classes`, and weights, as a `TensorDataset` of detached copies."""
        return TensorDataset(self.points.detach().clone(), self.class_of.clone(), self.weights.clone())

    def save(self, path: str | Path) -> None:
        """Write points, weights and labels to a .pt, .npz or .safetensors file, as `Coreset.save` does.

        `Coreset.load` and the command line read the file too.
        """
        self.coreset._write(path, self.labels)

    @classmethod
    def load(cls, path: str | Path) -> LabeledCoreset:
        """Read what `save` or `torchcoreset build --label` wrote, without `results`. Nothing in the file is executed.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged, or has no points, weights or labels.

        Example:
            >>> import tempfile, torch, torchcoreset as tc
            >>> labeled = tc.build_labeled_coreset(torch.rand(20, 2), ["a"] * 8 + ["b"] * 12, 5)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     labeled.save(f"{folder}/points.npz")
            ...     tc.LabeledCoreset.load(f"{folder}/points.npz")
            LabeledCoreset(5 points, a: 2, b: 3)
        """
        arrays = read_arrays(path)
        coreset, labels = Coreset._from_arrays(arrays, path), labels_of(arrays)
        if labels is None or labels.shape != (coreset.size,):
            what = "no labels" if labels is None else f"labels of shape {labels.shape} for {coreset.size} points"
            raise ValueError(f"path: {path} holds {what}; expected a file by LabeledCoreset.save, one label a point.")
        classes, place = np.unique(labels, return_inverse=True)
        return cls(coreset, classes, torch.from_numpy(place.astype(np.int64)), ())

    def __repr__(self) -> str:
        counts = torch.bincount(self.class_of, minlength=len(self.classes)).tolist()
        parts = [f"{label}: {count}" for label, count in zip(self.classes.tolist(), counts, strict=True)]
        return described(self, f"{len(self.class_of)} points", *parts)

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, points of each class, and the points."""
        counts = torch.bincount(self.class_of, minlength=len(self.classes)).tolist()
        classes = ", ".join(
            f"{label}: {count}" for label, count in zip(self.classes[:SHOWN].tolist(), counts[:SHOWN], strict=True)
        )
        numbers = {**self.coreset._numbers(), "classes": classes + ", ..." * (len(counts) > SHOWN)}
        return card("LabeledCoreset", numbers, draw_points(self.points, self.weights))


def build_labeled_coreset(
    X: Any,
    y: Any,
    size: int,
    allocation: Allocation = "proportional",
    p: float = 2,
    *,
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
) -> LabeledCoreset:
    """Find a coreset of each class and put them together.

    By default points of a class have equal weights, and the weights of a class add up to its
    share of the rows if the allocation is "proportional", and to 1 / k for k classes if it is "equal". So
    "proportional" stands for the data as they are, and "equal" for data in which all classes are equally frequent.

    Args:
        X: (rows, d) table that fits into memory: tensor, array, DataFrame or lists of numbers.
        y: (rows,) labels: whole numbers, booleans or text.
        size: number of points n of all classes together, at least one for each class.
        allocation: "proportional" gives a class points in proportion to its share of the rows (its weight, with
            `sample_weights`), "equal" as many as any other. Both are rounded by largest remainders, and no class gets
            fewer than one point.
        p: power of the distance, as in `build_coreset`.
        algorithm, restarts, steps, tolerance, progress, engine: of each class, as in `build_coreset`.
        init: name of a kind of start for every class, or a dict from labels to the points that those classes start
            from; classes that it lacks start as for None.
        weights: None, "free" or bounds (low, high) within each class, as in `build_coreset`.
        sample_weights: (rows,) weights of the rows; equal if None.
        trim: share of the mass of each class that stays unmatched, as in `build_coreset`.
        scale: units of the columns for the distance, as in `build_coreset`; those of all rows, for every class.
        rows, keep, exclude: choose distinct rows of X instead of free points, as in `build_coreset`; `rows` of the
            result says which.
        samples: most rows to build on, of all classes together, at least one for each; all if None. A class gets as
            many for each of its points as any other, or all that it has, and they are drawn as `build_coreset` does.
            The number of points of a class and its weight still follow all rows.
        seed: class k, counted in the order of the sorted labels, is built with seed + k.
        callback: called after each step with the label and the `Step`.
        checkpoint: called as in `build_coreset`, with the label and a record of the run of its class.
        resume: the last such record of each class, by label; classes that it lacks begin at the start.

    Returns:
        `LabeledCoreset`: points, labels, weights, and the result of each class.

    Raises:
        ValueError: invalid arguments, with their names; labels that do not fit the rows; fewer points or samples than
            classes; a class whose rows all have weight zero.

    Example:
        >>> import torch, torchcoreset as tc
        >>> X = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> labeled = tc.build_labeled_coreset(X, ["b"] * 100 + ["a"] * 200, 6)
        >>> labeled
        LabeledCoreset(6 points, a: 4, b: 2)
        >>> labeled.points.shape, labeled.labels.tolist()
        (torch.Size([6, 2]), ['a', 'a', 'a', 'a', 'b', 'b'])

    Source: Claici, Genevay, Solomon (2020), whose support vector machines see as many points of each class.
    """
    check_size(size)
    if weights is not None and not is_choice(weights):
        raise ValueError(
            "weights: got one for each point; expected None, 'free' or bounds (low, high), for how many points a class "
            "gets follows from its rows. For fixed weights build each class by `build_coreset`."
        )
    keep, checkpoint = renamed_keep(keep, checkpoint)
    choice = RowChoice.of(rows, keep, exclude)
    source = weighted_source(X, sample_weights)
    table, mass, numbers = source.numbered(None, torch.Generator())
    if choice is not None:
        choice.check(numbers, source.size)
    scaling = source.units if scale is None else Scaling.of(source, scale)
    classes, place = _read_labels(y, len(table))
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"seed: got {seed!r}; expected an int, from which each class gets a seed of its own.")
    shares = _shares(mass, place, classes)
    wanted = shares if allocation == "proportional" else np.full(len(classes), 1 / len(classes))
    counts = allocate(size, wanted, allocation)
    unknown = set(init) - set(classes.tolist()) if isinstance(init, Mapping) else set()
    if unknown:
        raise ValueError(f"init: got points for {sorted(map(str, unknown))}; expected labels among {classes.tolist()}.")
    loaded = _samples_of_classes(samples, counts, np.bincount(place, minlength=len(classes)))
    results = []
    for k, (label, count) in enumerate(zip(classes.tolist(), counts.tolist(), strict=True)):
        chosen = torch.from_numpy(np.flatnonzero(place == k)).to(table.device)
        own = None if choice is None or numbers is None else choice.within(numbers[chosen.cpu()])
        result = build_coreset(
            table[chosen],
            count,
            p,
            algorithm=algorithm,
            init=init.get(label) if isinstance(init, Mapping) else init,
            restarts=restarts,
            weights=weights,
            sample_weights=None if mass is None else mass[chosen],
            trim=trim,
            scale=scaling,
            rows=rows,
            keep=None if own is None else own.keep,
            exclude=None if own is None else own.exclude,
            samples=loaded[k],
            steps=steps,
            tolerance=tolerance,
            seed=seed + k,
            progress=progress,
            callback=None if callback is None else partial(callback, label),
            checkpoint=None if checkpoint is None else partial(checkpoint, label),
            resume=None if resume is None else resume.get(label),
            engine=engine,
        )
        if numbers is not None and result.row_numbers is not None:
            of_class = numbers[chosen.cpu()]
            taken = None if result.rows is None else of_class[result.rows]
            result = replace(result, row_numbers=of_class[result.row_numbers], rows=taken)
        results.append(result)
    points = torch.cat([result.coreset.points.detach() for result in results])
    of_points = torch.from_numpy(np.repeat(wanted / counts, counts))
    if is_choice(weights):
        within = [result.coreset.weights.double().cpu() for result in results]
        of_points = torch.cat([share * part for share, part in zip(wanted.tolist(), within, strict=True)])
    class_of = torch.from_numpy(np.repeat(np.arange(len(classes)), counts))
    merged = Coreset(points, of_points)
    merged.scaling = scaling
    return LabeledCoreset(merged, classes, class_of, tuple(results))


def allocate(size: int, shares: NDArray[np.float64], allocation: Allocation = "proportional") -> NDArray[np.int64]:
    """Whole numbers of points, at least 1 for each class, that sum to `size`: largest remainders.

    Args:
        size: number of points.
        shares: (k,) positive, sum 1.
        allocation: checked, for its message.

    Raises:
        ValueError: another allocation, or fewer points than classes.

    Example:
        >>> import numpy as np
        >>> allocate(10, np.array([0.55, 0.44, 0.01])).tolist()
        [5, 4, 1]
    """
    check_name(allocation, "allocation", get_args(Allocation))
    if size < len(shares):
        raise ValueError(f"size: got {size} points for {len(shares)} classes; expected at least one for each class.")
    # A class whose quota is below one point has it already; the others share what is left by their quotas.
    small = np.zeros(len(shares), dtype=bool)
    while True:
        left = size - int(small.sum())
        quota = np.where(small, 1.0, left * shares / shares[~small].sum())
        more = (quota < 1 - 1e-9) & ~small
        if not more.any():
            break
        small |= more
    counts = np.floor(quota + 1e-9).astype(np.int64)
    order = np.argsort(-(quota - counts), kind="stable")
    counts[order[: size - int(counts.sum())]] += 1
    return counts


def _samples_of_classes(samples: int | None, counts: NDArray[np.int64], rows: NDArray[np.int64]) -> list[int | None]:
    """How many of a class's `rows` (k,) it is built on: as many for each of all points, as far as there are rows."""
    if samples is None:
        return [None] * len(counts)
    left = check_count(samples, "samples")
    if left < len(counts):
        raise ValueError(
            f"samples: got {left} for {len(counts)} classes; expected at least one for each class. Pass more, or None "
            "to build on all rows."
        )
    taken, open_ = rows.copy(), np.ones(len(counts), dtype=bool)
    while open_.any():
        parts = allocate(left, counts[open_] / counts[open_].sum())
        if (parts < rows[open_]).all():
            taken[open_] = parts
            break
        # A class that has no more gives what it lacks to the others.
        full = np.flatnonzero(open_)[parts >= rows[open_]]
        open_[full] = False
        left -= int(rows[full].sum())
    return [int(count) for count in taken]


def _read_labels(y: Any, rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different labels, sorted, and the place of each row's label among them."""
    values = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if values.dtype == object:
        kinds = {type(value) for value in values.flat}
        if kinds != {str}:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"y: got labels of {names}; expected whole numbers, booleans or text, none missing.")
        values = values.astype(str)
    if values.shape != (rows,):
        raise ValueError(f"y: got shape {values.shape} for {rows} rows; expected one label for each row.")
    if values.dtype.kind == "f" and not np.array_equal(values, np.round(values)):
        raise ValueError("y: got fractions or NaN; expected labels: whole numbers, booleans or text.")
    classes, place = np.unique(values, return_inverse=True)
    return classes, place


def _shares(mass: Tensor | None, place: NDArray[np.int64], classes: NDArray[Any]) -> NDArray[np.float64]:
    weights = np.full(len(place), 1 / len(place)) if mass is None else mass.cpu().numpy()
    shares = np.bincount(place, weights=weights, minlength=len(classes))
    if (shares <= 0).any():
        label = classes.tolist()[int(np.argmin(shares))]
        raise ValueError(f"sample_weights: all rows of class {label!r} have weight zero. Leave its rows out.")
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised
