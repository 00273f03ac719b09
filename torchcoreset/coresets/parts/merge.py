"""`merge`: one coreset from those of shards, days or clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from ...errors import warn_user
from ...modes import solver_modes
from ...names import Init
from ...tensors import LISTS, normalised, real_tensor
from ...transport import Cost, Transport, as_cost, transport
from ...transport.passes import EngineName
from ..build import build_coreset
from ..coreset import Coreset
from ..labeled import LabeledCoreset, build_labeled_coreset
from .bound import MergeBound, PartBound, bound_of, rounding
from .part import Part, in_units, measured, power_of, read_parts
from .result import MergeResult

ACCURACY = 1e-4  # relative gap of a transport to the union


def merge(
    coresets: Sequence[Any],
    masses: Any = None,
    size: int | None = None,
    *,
    p: float | None = None,
    weights: Any = None,
    init: Init | Tensor | None = None,
    restarts: int | None = None,
    steps: int | None = None,
    tolerance: float = 1e-3,
    seed: int | Generator = 0,
    progress: bool | None = None,
    engine: EngineName = "auto",
) -> MergeResult:
    """Merge coresets of parts of the data into one, with a bound that follows from the bounds of the parts.

    The coresets nu_k of the parts mu_k, with masses m_k that are normalised to sum 1, form the union
    nu = sum_k m_k nu_k, from which `size` points are built. If W_p(nu_k, mu_k) <= e_k, then the new coreset is near the
    mixture mu = sum_k m_k mu_k of all parts:

        W_p(new, mu) <= W_p(new, nu) + (sum_k m_k e_k^p)^(1/p).

    For p = 2 the bound is nearly the root of the sum of the squares of the two terms if points are nearly the means of
    the samples that they represent, as after a build. The data themselves are not needed. Merged coresets can be merged
    again with their bounds, so parts can be reduced in a tree. Merging a single coreset reduces it to `size` points,
    with a bound.

    Args:
        coresets: sequence of parts. Each is a `Coreset` or `LabeledCoreset`; the result of `build_coreset`, whose
            distance to the samples of its build is its bound; the result of `merge`, with its bound; or a pair
            (coreset, bound). The bound of a pair is the rows that the coreset represents (a tensor, array, DataFrame or
            `Source`), to which the distance is then computed; a `Certificate` of that coreset, for a bound to the
            population; a `MergeBound` or `PartBound`; or a number that W_p does not exceed. All points have the same
            dimension, dtype and unit of distances, and either all parts have labels or none.
        masses: (k,) mass of each part, non-negative, of any scale, such as its number of rows; equal if None. Parts of
            mass zero add nothing; if `size` is None, their points are kept with weight zero.
        size: number of points n; None keeps the points of all parts. With labels each class gets points in proportion
            to its mass, at least one, and no mass moves between classes.
        p: power of the distance; None for that of the parts, or 2 if it is not known.
        weights, init, restarts, steps, tolerance, seed, progress, engine: options of the build of `size` points, as in
            `build_coreset`; only `progress` and `engine` are allowed without a `size`. With labels `seed` is an int,
            and fixed `weights` and points as `init` are not possible.

    Returns:
        `MergeResult`: the coreset, the union, the transport between them, and the bound, whose confidence is
        1 - sum_k (1 - confidence_k) by the union bound.

    Raises:
        TypeError, ValueError: parts that cannot be read or do not fit together, or invalid arguments; the message names
            them.

    Warns:
        UserWarning: too many uncertain certificates, so that the confidence of all together is 0.

    Example:
        >>> import torch, torchcoreset as tc
        >>> generator = torch.Generator().manual_seed(0)
        >>> days = [torch.randn(500, 2, generator=generator) + shift for shift in (0.0, 3.0)]
        >>> results = [tc.build_coreset(day, 10, restarts=1) for day in days]
        >>> merged = tc.merge(results, masses=[0.7, 0.3], size=10)
        >>> merged.coreset.points.shape, len(merged.bound.parts)
        (torch.Size([10, 2]), 2)
        >>> rows = torch.cat(days)
        >>> share = torch.tensor([0.7, 0.3]).repeat_interleave(500)
        >>> tc.transport(merged, rows, sample_weights=share).value ** 0.5 <= merged.bound.upper
        True

    Source: convexity of W_p^p: Villani (2009), Optimal Transport, theorem 4.8. Composable coresets: Indyk, Mahabadi,
        Mahdian, Mirrokni (2014).
    """
    parts = read_parts(coresets)
    p = power_of(parts, p)
    cost = as_cost(p)
    parts = [measured(part, cost, engine) for part in parts]
    shares, mass = _masses(masses, len(parts))
    b = torch.cat([share * part.b for share, part in zip(shares, parts, strict=True)])
    union = _union(parts, b)
    labels = _joined_labels(parts)
    if size is None:
        _check_unused(
            weights=weights is not None, init=init is not None, restarts=restarts is not None, steps=steps is not None,
            tolerance=tolerance != 1e-3, seed=seed != 0,
        )  # fmt: skip
        coreset, labeled, build, plan = union, _labeled(union, labels), None, None
    elif labels is None:
        build = build_coreset(
            union.points, size, p, weights=weights, init=init, restarts=restarts, sample_weights=b,
            scale=union.scaling, steps=steps, tolerance=tolerance, seed=seed, progress=progress, engine=engine,
        )  # fmt: skip
        coreset, labeled = build.coreset, None
        plan = build.transport if _is_exact(coreset) else _measured(coreset, union, b, p, engine)
    else:
        name, first = _settings_of_classes(init, seed)
        used = b > 0  # classes of parts without mass are left out
        labeled = build_labeled_coreset(
            union.points.detach()[used], labels[used.cpu().numpy()], size, "proportional", p, init=name,
            restarts=restarts, weights=weights, sample_weights=b[used], scale=union.scaling, steps=steps,
            tolerance=tolerance, seed=first, progress=progress, engine=engine,
        )  # fmt: skip
        coreset, build = labeled.coreset, None
        plan = _measured(coreset, union, b, p, engine)
    coreset.built_on = union.built_on
    sizes = torch.tensor([len(part.b) for part in parts], device=b.device)
    part_of = torch.arange(len(parts), device=b.device).repeat_interleave(sizes)
    bound = _bound(parts, shares, cost, union, b, coreset, plan)
    return MergeResult(coreset, union, part_of, mass, p, bound, plan, labeled, build)


def _masses(masses: Any, count: int) -> tuple[list[float], float]:
    """Masses with sum 1, and the sum of the given masses."""
    if masses is None:
        return [1 / count] * count, float(count)
    given = real_tensor(masses, "masses").double().cpu()
    if isinstance(masses, LISTS) and given.dim() == 1:  # Python's floats, which a table of numbers rounds to float32
        given = torch.tensor([float(mass) for mass in masses], dtype=torch.float64, device="cpu")
    if given.shape != (count,):
        raise ValueError(f"masses: got shape {tuple(given.shape)} for {count} coresets; expected one mass for each.")
    return normalised(given, count, "masses").tolist(), float(given.sum())


def _union(parts: Sequence[Part], b: Tensor) -> Coreset:
    """The points of all parts with weights b (N,), in the dtype of the points."""
    union = Coreset(torch.cat([part.x for part in parts]), b)
    union.weights.copy_(b)  # normalising again would change the last digits
    seen = dict.fromkeys(name for part in parts for name in (part.built_on or "").split())
    union.built_on, union.scaling = " ".join(seen) or None, parts[0].scaling
    return union


def _joined_labels(parts: Sequence[Part]) -> NDArray[Any] | None:
    labels = [part.labels for part in parts if part.labels is not None]
    return np.concatenate(labels) if labels else None


def _labeled(coreset: Coreset, labels: NDArray[Any] | None) -> LabeledCoreset | None:
    if labels is None:
        return None
    classes, place = np.unique(labels, return_inverse=True)
    return LabeledCoreset(coreset, classes, torch.from_numpy(place.astype(np.int64)), ())


def _settings_of_classes(init: Init | Tensor | None, seed: int | Generator) -> tuple[Init | None, int]:
    """Start and seed for builds of classes; ValueError for settings that such builds do not support."""
    if isinstance(init, Tensor):
        raise ValueError("init: got points with labelled coresets; expected the name of a kind of start, or None.")
    if isinstance(seed, Generator):
        raise ValueError("seed: got a generator with labelled coresets; expected an int, for a seed of each class.")
    return init, seed


def _is_exact(coreset: Coreset) -> bool:
    """Whether rounding has left the weights as they were when the build computed its distance."""
    weights = coreset.weights
    return weights.dtype == torch.float64 or bool((weights == weights[0]).all())


def _measured(coreset: Coreset, union: Coreset, b: Tensor, p: float, engine: EngineName) -> Transport:
    """The transport between a coreset, with its rounded weights, and the union with weights b (N,)."""
    x, y = (in_units(one.points.detach(), union.scaling) for one in (coreset, union))
    with solver_modes():
        found: Transport = transport(x, y, p, coreset.weights, b, tolerance=ACCURACY, engine=engine)
    return found


def _bound(
    parts: Sequence[Part],
    shares: Sequence[float],
    cost: Cost,
    union: Coreset,
    b: Tensor,
    coreset: Coreset,
    plan: Transport | None,
) -> MergeBound | None:
    """The bound of the merged coreset; None if a part that has mass has no bound."""
    known = []
    for part, share in zip(parts, shares, strict=True):
        if share > 0:
            if part.known is None:
                return None
            of = part.known
            known.append(PartBound(share, of.upper, of.confidence, of.of, of.bias, of.merged))
    if plan is None:
        lost = rounding(in_units(union.points.detach(), union.scaling), union.weights, b, cost)
        found = bound_of(known, cost, rounding=lost, scaling=union.scaling)
    else:
        x, y = (in_units(one.points.detach(), union.scaling) for one in (coreset, union))
        ends = cost.root(max(plan.lower, 0.0)), cost.root(plan.value)
        found = bound_of(known, cost, ends, plan.plan.bias(x, y), scaling=union.scaling)
    if found.confidence <= 0:
        uncertain = sum(part.confidence < 1 for part in known)
        each = 1 - 0.05 / uncertain
        message = (
            f"coresets: {uncertain} of them are certified with confidences that leave none for all together (union "
            f"bound); the merged bound has confidence 0. Certify each with a higher one, such as {each:g}."
        )
        warn_user(UserWarning(message))
    return found


def _check_unused(**given: bool) -> None:
    """Raise ValueError for options of a build without a size, where nothing is built."""
    names = [name for name, one in given.items() if one]
    if names:
        raise ValueError(
            f"{', '.join(names)}: given without `size`; expected them with the number of points to build. Pass a size, "
            "or leave them out to keep the points of all parts."
        )
