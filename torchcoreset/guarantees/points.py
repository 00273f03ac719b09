"""What is certified: points and weights, read from whatever holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ..sources import Classes, Labels, Pushforward, Scaling, Source, fingerprint_of, same_units, scaled
from ..tensors import LISTS, check_finite, normalised
from ..transport import Cost, as_cost, as_table
from ..transport.costs import Metric, Mixed, as_metric, same_metric
from .certificate import OF_DATA


@dataclass(frozen=True)
class Points:
    """Checked points that carry weight."""

    x: Tensor  # (n, d), detached, in their own dtype
    b: Tensor  # (n,) weights, float64, positive, sum 1
    built_on: str | None  # fingerprints of the finite sources that they were built on, if known
    scaling: Scaling | None = None  # the units of distances to them, if these are not those of the data
    metric: Metric | None = None  # the distance that they are for, if it is not the Euclidean one
    joint: Labels | None = None  # what the last columns of joint rows (features, labels) hold

    @property
    def unit(self) -> str:
        """Of distances, in words."""
        if self.metric is not None:
            return self.metric.unit
        return OF_DATA if self.scaling is None else self.scaling.words

    def by(self, cost: Any) -> Points:
        """For distances by another cost, as users give it; as they are for None."""
        metric = as_metric(cost)
        if metric is not None and self.scaling is not None:
            raise ValueError(
                f"cost: got {metric!r} with a coreset whose distances are in {self.unit}; expected one of them. Pass "
                "its points and weights as tc.Coreset(points, weights) for another cost."
            )
        return self if metric is None else replace(self, metric=metric)

    def cost(self, p: float) -> Cost:
        """The power of the distance."""
        return as_cost(p) if self.metric is None else self.metric.power(as_cost(p).p)

    def in_units(self, source: Source) -> tuple[Points, Source]:
        """Points and source in the units of distances; ValueError for a coreset as a source whose units are others."""
        if source.units is not None and not same_units(source.units, self.scaling):
            raise ValueError(
                f"source: got a coreset whose distances are in {source.units.words}, with points for distances in "
                f"{self.unit}; expected the same units. Build both with the same `scale=`, such as "
                "scale=coreset.scaling, or pass as_source(coreset.points, coreset.weights) for the units of the points."
            )
        if source.metric is not None and not same_metric(source.metric, self.metric):
            raise ValueError(
                f"source: got {'a coreset' if source.joint is None else 'labels'} for distances by {source.metric!r}, "
                "with points for "
                f"{'the Euclidean distance' if self.metric is None else repr(self.metric)}; expected the same. Pass "
                "cost=..., or as_source(coreset.points, coreset.weights)."
            )
        if self.metric is not None:
            self.metric.check_repeatable()
            metric = self.metric.fitted(self.x)
            x = metric.coordinates(self.x, "coreset")
            return replace(self, x=x), Pushforward(source, metric.coordinates)
        if self.scaling is None:
            return self, source
        return replace(self, x=self.scaling.apply(self.x)), scaled(source, self.scaling)

    def in_our_codes(self, source: Source) -> Source:
        """Joint rows with the codes that the points have for their classes; ValueError if only one has labels."""
        ours, theirs = self.joint, source.joint
        if type(ours) is not type(theirs):
            raise ValueError(
                f"source: got {'rows without labels' if theirs is None else repr(theirs)} for "
                f"{'points without labels' if ours is None else repr(ours)}; expected both with labels of one kind. "
                "Give tc.joint_source(...) with a labelled coreset, or with one that was built on such a source."
            )
        if not isinstance(ours, Classes) or not isinstance(theirs, Classes) or ours is theirs:
            return source
        coded = Pushforward(source, theirs.into(ours))
        coded.metric, coded.joint = source.metric, ours
        return coded


def read_points(coreset: Any) -> Points:
    """Points from a coreset, the result of a build, or a tensor; those of weight zero are left out."""
    held = getattr(coreset, "coreset", coreset)
    points, weights = getattr(held, "points", None), getattr(held, "weights", None)
    if points is None:
        if not (isinstance(held, Tensor) or hasattr(held, "__array__") or isinstance(held, LISTS)):
            raise TypeError(
                f"coreset: got {type(coreset).__name__}; expected something with .points and .weights, such as a "
                "Coreset or the result of build_coreset, or a tensor of points (n, d)."
            )
        points = held
    x = as_table(points, "coreset")
    check_finite(x, "coreset")
    b = normalised(weights, len(x), "coreset.weights", x.device)
    used = b > 0
    known = (getattr(held, name, None) for name in ("built_on", "scaling", "cost", "joint"))
    return Points(x[used], b[used], *known)


def with_labels_of(coreset: Any, source: Source) -> Any:
    """The joint rows of a labelled coreset, at the price of the source, where that has classes; others as they are."""
    if not isinstance(source.joint, Classes) or not hasattr(coreset, "to_joint"):
        return coreset
    assert isinstance(source.metric, Mixed), "it is made for classes"
    return coreset.to_joint(source.metric.prices[0])


def check_dimension(points: Points, rows: Tensor) -> None:
    """Raise ValueError unless the rows of the source have as many columns as the points."""
    if len(rows) and rows.shape[1] != points.x.shape[1]:
        raise ValueError(
            f"source: got samples of dimension {rows.shape[1]} for points of dimension {points.x.shape[1]}; expected "
            "the same. Give the data that the points stand in for, with the same columns."
        )


def saw_the_source(points: Points, source: Source) -> bool:
    """Whether the points are known to have been built on the very rows of this source."""
    seen, rows = points.built_on or "", fingerprint_of(source) or ""
    return not set(seen.split()).isdisjoint(rows.split())  # coresets that were merged have several fingerprints
