"""Where points are moved: among the rows as they are, in the units of a scaling, or in the coordinates of a metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ...sources import Pushforward, Scaling, Source, as_source, row_shape, scaled, weighted_source
from ...tensors import weighted_points
from ...transport import Cost, as_cost
from ...transport.costs import Embedded, Metric, as_metric
from ..samples import LoadedSamples


@dataclass(frozen=True)
class Space:
    """Rows (k, d) of the data, coordinates (k, e) in which points are moved, and the way there and back."""

    scaling: Scaling | None = None  # units of the columns
    metric: Metric | None = None  # the distance; at most one of the two

    @property
    def is_data(self) -> bool:
        """Whether coordinates are the rows themselves."""
        return self.scaling is None and self.metric is None

    @property
    def is_linear(self) -> bool:
        """Whether coordinates are an affine image of rows."""
        return self.metric is None or self.metric.is_linear

    @property
    def can_invert(self) -> bool:
        """Whether coordinates lead back to rows."""
        return self.metric is None or self.metric.can_invert

    @property
    def feasible(self) -> Callable[[Tensor], Tensor] | None:
        """From coordinates to the nearest ones that belong to a row; None where all do, or where rows are chosen."""
        return None if self.metric is None or self.is_linear or not self.can_invert else self.metric.feasible

    def power(self, p: float | Cost) -> float | Cost:
        """The cost between coordinates."""
        return p if self.metric is None else self.metric.power(as_cost(p).p)

    def fitted(self, rows: Tensor) -> Space:
        """With what the metric has to know of the rows."""
        return self if self.metric is None else replace(self, metric=self.metric.fitted(rows))

    def into(self, rows: Tensor, name: str = "samples") -> Tensor:
        """Coordinates of rows."""
        if self.metric is not None:
            return self.metric.coordinates(rows, name)
        return rows if self.scaling is None else self.scaling.apply(rows)

    def back(self, coordinates: Tensor) -> Tensor:
        """Rows of coordinates."""
        if self.metric is not None:
            return self.metric.rows(coordinates)
        return coordinates if self.scaling is None else self.scaling.undo(coordinates)

    def source(self, read: Source) -> Source:
        """A source of coordinates."""
        return scaled(read, self.scaling) if self.metric is None else Pushforward(read, self.metric.coordinates)

    def held(self, loaded: LoadedSamples) -> LoadedSamples:
        """The coordinates of the samples of one process, which go on to be read as rows."""
        if self.is_data:
            return loaded
        y = self.into(loaded.y)
        return replace(loaded, y=y, rows=as_source(y, loaded.a))


def read_rows(metric: Metric | None, source: Any, weights: Any) -> tuple[Metric | None, Source]:
    """A source of rows, images as vectors where a network takes them in their own shape, and the metric that does."""
    shape = row_shape(source) if isinstance(metric, Embedded) else None
    if not isinstance(metric, Embedded) or shape is None or len(shape) < 2:
        return metric, weighted_source(source, weights)
    return metric.shaped(shape), as_source(source, weights, flatten=True)


def cost_of(source: Any) -> Metric | None:
    """The distance that a coreset, as a source, was built for; None for the Euclidean one."""
    held = weighted_points(source)
    metric: Metric | None = getattr(source, "metric", None) if held is None else held.cost
    return metric


def open_space(source: Any, weights: Any, scale: Any, cost: Any, embed: Any) -> tuple[Space, Any, Any]:
    """The space of the arguments of a build, and the source and the weights of its rows, read if that is asked for.

    Of a coreset as the source, distances are by what that was built for, unless others are given.

    Raises:
        TypeError, ValueError: a scale or cost that cannot be used, or both.
    """
    metric = as_metric(cost, embed)
    if metric is None and scale is None:
        return Space(metric=cost_of(source)), source, weights
    if metric is not None and scale is not None:
        raise ValueError(
            "scale: given with a cost; expected one of them. Weigh the columns in the cost: Scaled(w), Mahalanobis(M), "
            "or Mixed(..., weights=w)."
        )
    if metric is not None:
        metric.check_repeatable()
    metric, read = read_rows(metric, source, weights)
    if scale is not None and read.joint is not None:
        raise ValueError(
            "scale: given with labels, whose price is in the unit of the features; expected features that are scaled "
            "already, and scale=None."
        )
    if scale is not None and cost_of(source) is not None:
        raise ValueError(
            f"scale: given with a coreset for distances by {cost_of(source)!r}; expected one of them. Pass "
            "as_source(coreset.points, coreset.weights) for the Euclidean distance in these units."
        )
    return Space(None if scale is None else Scaling.of(read, scale), metric), read, None
