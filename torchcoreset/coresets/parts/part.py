"""The parts of a merge, read from coresets, results and pairs, with the known bounds of their distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from ...modes import solver_modes
from ...sources import UNITS, Scaling, Source, as_source, make_generator, same_units
from ...tensors import check_finite, is_array, is_real, normalised, weighted_points
from ...transport import Cost, Transport, as_cost, transport
from ...transport.passes import EngineName
from ..history import BuildResult
from ..labeled import LabeledCoreset
from .bound import MergeBound, Of, PartBound, mean_length, rounding
from .result import MergeResult

KINDS = (
    "a Coreset, a LabeledCoreset, the result of build_coreset or merge, or a pair (coreset, bound) with rows, a "
    "Certificate, a MergeBound or a number"
)


@dataclass(frozen=True)
class Known:
    """A known bound of W_p between a part and the data that it represents."""

    upper: float
    confidence: float
    of: Of
    p: float | None  # None if the bound does not say: then the power of all other parts
    bias: float  # as in `PartBound`
    merged: MergeBound | None = None


@dataclass(frozen=True)
class Part:
    """A coreset to be merged."""

    x: Tensor  # (n, d)
    b: Tensor  # (n,) float64, sum 1
    labels: NDArray[Any] | None  # (n,)
    built_on: str | None
    scaling: Scaling | None
    p: float | None  # power of the distance of its build or bound
    known: Known | None
    rows: Source | None  # the data that it represents, to which its distance is to be computed


def read_parts(coresets: Any) -> list[Part]:
    """Read all parts, and check that they fit together.

    Raises:
        TypeError: not a sequence of coresets.
        ValueError: no coreset, or different dimensions, dtypes, devices, units or powers, or labels in only some.
    """
    if weighted_points(coresets) is not None or isinstance(coresets, (str, bytes)):
        raise TypeError(f"coresets: got a {type(coresets).__name__}; expected a list of them: [first, second].")
    try:
        items = list(coresets)
    except TypeError as error:
        raise TypeError(f"coresets: got {type(coresets).__name__}; expected a list of {KINDS}.") from error
    if not items:
        raise ValueError("coresets: got none; expected at least one.")
    parts = [_read(item, f"coresets[{place}]") for place, item in enumerate(items)]
    for place, part in enumerate(parts[1:], start=1):
        _check_alike(parts[0], part, f"coresets[{place}]")
    return parts


def power_of(parts: Sequence[Part], p: float | None) -> float:
    """The given power, or that of all parts, or 2 if none is known; ValueError if powers differ."""
    known = {place: part.p for place, part in enumerate(parts) if part.p is not None}
    wanted = next(iter(known.values()), 2.0) if p is None else p
    for place, other in known.items():
        if other != wanted:
            said = (
                f"p={wanted:g} was asked for" if p is not None else f"coresets[{next(iter(known))}] is of p={wanted:g}"
            )
            raise ValueError(
                f"coresets[{place}]: its distance is of p={other:g}, and {said}; expected one power. Build and certify "
                "all with the same p, or pass the `.coreset` of each, which has no bound."
            )
    return wanted


def _read(item: Any, name: str) -> Part:
    """Read one part; `name` is its name in error messages."""
    given = None
    if isinstance(item, tuple) and len(item) == 2:
        item, given = item
    held = weighted_points(item)
    if held is None:
        raise TypeError(f"{name}: got {type(item).__name__}; expected {KINDS}.")
    if held.cost is not None:
        raise ValueError(
            f"{name}: got a coreset for distances by {held.cost!r}; expected the Euclidean one, which the bound of a "
            "merge is for. Merge tc.Coreset(points, weights) of each, or build on the rows of all."
        )
    labeled = item if isinstance(item, LabeledCoreset) else getattr(item, "labeled", None)
    check_finite(held.points, name)
    b = normalised(held.weights, len(held.points), f"{name}.weights", held.points.device)
    rows = as_source(given) if isinstance(given, (Tensor, Source)) or (is_array(given) and not is_real(given)) else None
    if rows is not None:
        known = None
    elif given is not None:
        known = _given(given, held.scaling, int((b > 0).sum()), name)
    else:
        known = _known(item, name)
    built, bounded = _power(item), None if known is None else known.p
    if built is not None and bounded is not None and built != bounded:
        raise ValueError(
            f"{name}: built with p={built:g}, and its bound is of p={bounded:g}; expected one power. Certify it with "
            "the p of its build."
        )
    return Part(
        x=held.points,
        b=b,
        labels=None if labeled is None else labeled.labels,
        built_on=held.built_on,
        scaling=held.scaling,
        p=bounded if built is None else built,
        known=known,
        rows=rows,
    )


def measured(part: Part, cost: Cost, engine: EngineName) -> Part:
    """The part with its distance to the rows that were given with it, if there are any."""
    if part.rows is None:
        return part
    if part.rows.units is not None and not same_units(part.rows.units, part.scaling):
        raise ValueError(
            "coresets: got rows in other units of distances than those of their coreset; expected the same."
        )
    y, a = part.rows.materialize(None, make_generator(0))
    x, y = (in_units(rows, part.scaling) for rows in (part.x, y.to(part.x.device)))
    with solver_modes():
        found: Transport = transport(x, y, cost.p, part.b, a, engine=engine)
    upper = cost.root(found.value)
    bias = min(found.plan.bias(x, y), upper) if cost.mean_is_best else upper
    return replace(part, known=Known(upper, 1.0, "rows", cost.p, bias))


def in_units(points: Tensor, scaling: Scaling | None) -> Tensor:
    """Points (n, d) in the units of distances."""
    return points if scaling is None else scaling.apply(points)


def _power(item: Any) -> float | None:
    if isinstance(item, LabeledCoreset):
        return item.results[0].p if item.results else None
    return item.p if isinstance(item, (BuildResult, MergeResult)) else None


def _known(item: Any, name: str) -> Known | None:
    """The bound that a result itself contains; ValueError if it leaves out a share of the mass (trim)."""
    if isinstance(item, MergeResult):
        bound = item.bound
        return None if bound is None else Known(bound.upper, bound.confidence, "merged", bound.p, bound.bias, bound)
    if isinstance(item, BuildResult):
        _check_whole(item.trim, name)
        coreset, cost = item.coreset, as_cost(item.p)
        points = in_units(coreset.points.detach(), coreset.scaling)
        # The distance was computed with the weights before they were rounded to the dtype of the points. Results that
        # an earlier version pickled do not have them.
        exact = getattr(item.transport, "weights", None)
        lost = 0.0 if exact is None else rounding(points, coreset.weights, exact, cost)
        upper = item.distance + lost
        return Known(upper, 1.0, "samples", item.p, upper if item.bias is None else min(item.bias + lost, upper))
    if isinstance(item, LabeledCoreset) and item.results:
        for result in item.results:
            _check_whole(result.trim, name)
        if item.price is not None:  # the distance of features and labels together is at least that of the features
            return Known(item.distance, 1.0, "samples", item.results[0].p, item.distance)
        # Each class is a part of the coreset, whose mass is the sum of its weights.
        shares = [float(item.weights.double()[item.class_of == k].sum()) for k in range(len(item.classes))]
        p = item.results[0].p
        upper = mean_length(shares, [result.distance for result in item.results], as_cost(p))
        biases = [result.distance if result.bias is None else result.bias for result in item.results]
        return Known(upper, 1.0, "samples", p, mean_length(shares, biases, as_cost(p)))
    return None


def _given(bound: Any, scaling: Scaling | None, points: int, name: str) -> Known:
    """A bound given with the coreset: a certificate, a `MergeBound`, a `PartBound` or a number."""
    if isinstance(bound, MergeBound):
        _check_unit(None if bound.scaling is None else bound.scaling.words, scaling, name)
        return Known(bound.upper, bound.confidence, "merged", bound.p, bound.bias, bound)
    if isinstance(bound, PartBound):
        return Known(bound.upper, bound.confidence, bound.of, None, bound.bias, bound.merged)
    if is_real(bound):
        if not 0 <= bound < math.inf:
            raise ValueError(f"{name}: got the bound {bound!r}; expected a distance, W_p, not negative and finite.")
        return Known(float(bound), 1.0, "given", None, float(bound))
    # Certificates belong to a higher layer, which cannot be imported here.
    numbers: list[Any] = [getattr(bound, field, None) for field in ("upper", "confidence", "p")]
    if not all(map(is_real, numbers)):
        raise TypeError(
            f"{name}: got a {type(bound).__name__} as its bound; expected a Certificate, from tc.certify, a "
            "MergeBound, or a number that W_p does not exceed."
        )
    _check_whole(getattr(bound, "trim", 0.0), name)
    certified = len(getattr(bound, "potential", ()))
    if certified not in (0, points):
        raise ValueError(
            f"{name}: {points} points with weight, and a certificate of {certified}; expected that of these points."
        )
    unit = getattr(bound, "unit", None)
    _check_unit(unit if unit in UNITS.values() else None, scaling, name)
    upper, confidence, p = numbers
    return Known(float(upper), float(confidence), "population", float(p), float(upper))


def _check_whole(trim: float, name: str) -> None:
    """Raise ValueError for a distance that leaves out a share of the mass."""
    if trim > 0:
        raise ValueError(
            f"{name}: got a distance with trim={trim:g}, which leaves out that share of the mass; expected one "
            "to all of it. Pass the `.coreset`, which has no bound, or a pair with a certificate without trim."
        )


def _check_unit(unit: str | None, scaling: Scaling | None, name: str) -> None:
    """Raise ValueError unless a bound is in the unit of the coreset's distances."""
    own = None if scaling is None else scaling.words
    if unit != own:
        words = [one or "the unit of the data" for one in (unit, own)]
        raise ValueError(
            f"{name}: got a bound in {words[0]} for a coreset whose distances are in {words[1]}; expected one unit. "
            "Certify the coreset itself, not its points, and in Python, where its `scaling` is known."
        )


def _check_alike(first: Part, other: Part, name: str) -> None:
    """Raise ValueError unless a part fits the first one."""
    for what, one, two, todo in (
        ("points of dimension", first.x.shape[1], other.x.shape[1], "Build all on the same columns"),
        ("points of dtype", first.x.dtype, other.x.dtype, "Build all on data of one dtype"),
        ("points on", first.x.device, other.x.device, "Bring all to one device: `coreset.to(device)`"),
    ):
        if one != two:
            raise ValueError(f"{name}: got {what} {two}, and {one} in coresets[0]; expected the same. {todo}.")
    if not same_units(first.scaling, other.scaling):
        units = ["the units of the data" if part.scaling is None else part.scaling.words for part in (other, first)]
        own = ", of other rows" if units[0] == units[1] else ""
        raise ValueError(
            f"{name}: got distances in {units[0]}{own}, and in {units[1]} in coresets[0]; expected the same units. "
            "Build all with the same `scale=`, such as scale=first.scaling, where first is the first coreset."
        )
    if (first.labels is None) != (other.labels is None):
        has, lacks = (name, "coresets[0]") if first.labels is None else ("coresets[0]", name)
        raise ValueError(
            f"{name}: {has} has labels, and {lacks} has none; expected labels in all or in none. Pass `.coreset` of "
            "those with labels to merge points alone."
        )
    if first.labels is not None and other.labels is not None and _kind(first.labels) != _kind(other.labels):
        kinds = [_kind(labels) for labels in (other.labels, first.labels)]
        raise ValueError(
            f"{name}: got labels that are {kinds[0]}, and {kinds[1]} in coresets[0]; expected one kind. Build all with "
            "labels of one kind."
        )


def _kind(labels: NDArray[Any]) -> str:
    return "text" if labels.dtype.kind in "UO" else "numbers"
