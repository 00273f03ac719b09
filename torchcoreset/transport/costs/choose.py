"""From what users give to a cost: the metric, its power, and rows in its coordinates."""

from __future__ import annotations

import json
import math
from functools import cache
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from ...tensors import check_finite, is_real
from .cost import Cost
from .euclidean import EuclideanPower
from .globe import GreatCircle
from .learned import Embedded, Function, Unsaved
from .metric import Cosine, Euclidean, Mahalanobis, Metric, Scaled
from .mixed import Mixed


def as_cost(p: float | Cost) -> Cost:
    """The cost itself, or the power of the Euclidean distance; ValueError unless that is a finite number >= 1."""
    if isinstance(p, Cost):
        return p
    check_power(p)
    return _euclidean(float(p))


_euclidean = cache(EuclideanPower)  # a step of a stream takes as long to make one as for two products


def check_power(p: float) -> None:
    """Raise ValueError unless p is a finite number >= 1."""
    if not is_real(p) or not 1 <= p < math.inf:
        raise ValueError(f"p: got {p!r}; expected a number >= 1. The main choices are 1 and 2.")


def as_metric(cost: Any, embed: Any = None) -> Metric | None:
    """The metric of the arguments `cost` and `embed`; None where neither is given.

    Raises:
        TypeError: a cost that is no metric, class or function.
    """
    if isinstance(cost, type) and issubclass(cost, Metric):
        raise TypeError(f"cost: got the class {cost.__name__}; expected an instance: {cost.__name__}(...).")
    if cost is None or isinstance(cost, Metric):
        metric = cost
    elif callable(cost):
        metric = Function(cost)
    else:
        raise TypeError(
            f"cost: got {cost!r}; expected one of tc.costs ({', '.join(NAMES)}), or a function of two tensors of rows. "
            "The power of the Euclidean distance is `p`."
        )
    if embed is None:
        return metric
    if isinstance(metric, (Embedded, Function)):
        raise ValueError(f"embed: given with cost={metric!r}; expected one of them. Leave one out.")
    return embed if isinstance(embed, Embedded) and metric is None else Embedded(embed, metric=metric)


def measured(cost: Any, p: float | Cost, x: Tensor, y: Tensor) -> tuple[float | Cost, Tensor, Tensor]:
    """The power of the cost between points (n, d) and samples (m, d), and both in its coordinates, in their graphs.

    `cost` is what users give; as they are for None. Batches (B, n, d) and (B, m, d) are taken too.

    Raises:
        TypeError, ValueError: a cost that is none, or rows that it cannot measure.
    """
    metric = as_metric(cost)
    if metric is None:
        return p, x, y
    if not isinstance(p, Cost):
        check_power(p)
        p = metric.power(p)
    x, y = _readable(x, "points"), _readable(y, "samples")
    metric = metric.fitted(x)
    return p, metric.coordinates(x, "points"), metric.coordinates(y, "samples")


def in_coordinates(cost: Any, call: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same for what has costs of its own, `call`: ValueError unless distances are those of coordinates."""
    check_euclidean(cost, call)
    metric = as_metric(cost)
    if metric is None:
        return x, y
    x, y = _readable(x, "points"), _readable(y, "samples")
    metric = metric.fitted(x, y)  # samples are compared with each other too
    return metric.coordinates(x, "points"), metric.coordinates(y, "samples")


def is_rowwise(cost: Any) -> bool:
    """Whether distances are those of coordinates that each row has by itself, whatever other rows there are."""
    metric = as_metric(cost)
    return metric is None or (metric.is_euclidean and not isinstance(metric, Mixed))


def same_metric(first: Metric | None, second: Metric | None) -> bool:
    """Whether distances by both are the same; None is the Euclidean one."""
    return (first or Euclidean()) == (second or Euclidean())


def identity(metric: Metric | None) -> str | None:
    """What tells a metric from others in the record of a run, as text: its name and a digest of its settings.

    Of functions and networks the name is all that there is.
    """
    if metric is None:
        return None
    return f"{metric!r} {sha256(json.dumps(metric.record()).encode()).hexdigest()[:12]}"


def term_key(cost: Any) -> object:
    """What a term of the samples with themselves, kept between calls, has to have in common: another thing each time
    for a network, which may have learnt since."""
    return object() if isinstance(cost, Embedded) else cost


def check_euclidean(cost: Any, call: str) -> None:
    """Raise ValueError for a cost that is no Euclidean distance of coordinates, which `call` needs."""
    metric = as_metric(cost)
    if metric is not None and not metric.is_euclidean:
        raise ValueError(
            f"cost: got {metric!r} with {call}; expected a distance of coordinates, such as Mahalanobis, Cosine or "
            "Mixed. Great circles and functions go with the exact Wasserstein distance of one process only."
        )


def _readable(rows: Tensor, name: str) -> Tensor:
    """Finite rows in a dtype that holds coordinates, which whole numbers and half precision do not."""
    check_finite(rows.detach(), name)
    if not rows.is_floating_point():
        return rows.double()
    return rows.to(torch.promote_types(rows.dtype, torch.float32))


def metric_of(record: dict[str, Any]) -> Metric:
    """The metric of a record.

    Raises:
        ValueError, TypeError, KeyError: it is none.
    """
    if "unsaved" in record:
        return Unsaved(str(record["unsaved"]))
    known: dict[str, type[Metric]] = {kind.__name__: kind for kind in RECORDED}
    settings = dict(record)
    return known[settings.pop("metric")](**settings)


RECORDED = (Euclidean, Scaled, Mahalanobis, Cosine, GreatCircle, Mixed)  # what a file may hold
NAMES = [kind.__name__ for kind in (*RECORDED, Embedded)]
