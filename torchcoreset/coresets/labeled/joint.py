"""`joint_source`: samples and their labels or targets as one distribution, with a distance between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ...names import WeightsAre
from ...sources import Classes, Source, StreamSource, Targets, make_generator, with_labels
from ...tensors import float_tensor, is_real
from ...transport.costs import Mixed, Scaled


def joint_source(
    source: Any,
    y: Any = None,
    *,
    price: float | None = None,
    target_weight: Any = None,
    weights: Any = None,
    weights_are: WeightsAre = "importance",
    features: int | str | Sequence[int | str] | None = None,
    flatten: bool = False,
) -> Source:
    """Samples with labels as one distribution of joint rows (x, y), for builds and certificates that count both.

    The distance between two rows is, for classes and for numbers,

        sqrt(|x - x'|^2 + price^2 [y != y'])      sqrt(|x - x'|^2 + sum_j (target_weight_j (y_j - y'_j))^2),

    which `build_coreset`, `certify` and `size_for` take from the source. Classes stand in the last column as codes,
    targets as they are; `source.joint.split(rows)` gives features and labels of any joint rows, and `coreset.joint` of
    a coreset that was built on them. Targets of points are free numbers; the class of a point is, for p = 2, the
    commonest of its cell.

    Args:
        source: features, or batches of features and labels: anything that `as_source` reads.
        y: labels of the rows: whole numbers, booleans or text, (rows,), or with a `target_weight` numbers, (rows,) or
            (rows, t). Or where they are: a column of a table or file, the key of a dict, the place in a tuple. None for
            the second part of a batch or of a dataset's row, one of the keys "y", "label", "labels", "target" and
            "targets", or the labels of a `Table`.
        price: distance between two classes, in the unit of the features, positive.
        target_weight: by what differences of targets are multiplied, positive; one number, or t of them.
        weights, weights_are, features, flatten: as in `as_source`.

    Returns:
        A source of rows (d + 1,) or (d + t,).

    Raises:
        TypeError: `source` is nothing that can be sampled.
        ValueError: neither or both of `price` and `target_weight`; labels that are missing or do not fit.

    Example:
        >>> import torch, torchcoreset as tc
        >>> X = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
        >>> joint = tc.joint_source(X, ["b" if x > 0 else "a" for x in X[:, 0]], price=2.0)
        >>> coreset = tc.build_coreset(joint, 6).coreset
        >>> x, labels = coreset.joint.split(coreset.points)
        >>> x.shape, sorted(labels.tolist())
        (torch.Size([6, 2]), ['a', 'a', 'a', 'b', 'b', 'b'])
        >>> joint = tc.joint_source(X, X.sum(1), target_weight=0.5)
        >>> joint.joint.split(tc.build_coreset(joint, 6).points)[1].shape
        torch.Size([6])

    Source: Courty, Flamary, Habrard, Rakotomamonjy (2017), joint distribution optimal transport.
    """
    if (price is None) == (target_weight is None):
        raise ValueError(
            f"price, target_weight: got {price!r} and {target_weight!r}; expected one of them: the distance between "
            "two classes, or by what differences of numbers count."
        )
    if price is not None and not (is_real(price) and 0 < price < math.inf):
        raise ValueError(f"price: got {price!r}; expected a positive number, the distance between two classes.")
    options: dict[str, Any] = {"weights_are": weights_are, "features": features, "flatten": flatten}
    if price is not None:
        read = with_labels(source, y, Classes(), weights, **options)
        read.metric = Mixed([-1], price)
        return read
    targets = Targets()
    read = with_labels(source, y, targets, weights, **options)
    generator = make_generator(0)
    width = read.peek(generator) if isinstance(read, StreamSource) else read.dimension
    width = read.draw(1, generator).shape[1] if width is None else width
    of_targets = float_tensor(target_weight, "target_weight").double().reshape(-1)
    if len(of_targets) not in (1, targets.width) or not bool(((of_targets > 0) & of_targets.isfinite()).all()):
        raise ValueError(
            f"target_weight: got {target_weight!r} with {targets.width} columns of targets; expected a positive "
            "number, or as many."
        )
    of_features = torch.ones(width - targets.width, dtype=torch.float64, device="cpu")
    read.metric = Scaled(torch.cat((of_features, of_targets.cpu().expand(targets.width))))
    return read
