"""How many points, and how many rows to build on, each class gets."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...names import Allocation
from ...tensors import check_count, check_name


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


def samples_of_classes(samples: int | None, counts: NDArray[np.int64], rows: NDArray[np.int64]) -> list[int | None]:
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


def shares_of(mass: Tensor | None, place: NDArray[np.int64], classes: NDArray[Any]) -> NDArray[np.float64]:
    """The share of the mass that each class has, (k,)."""
    weights = np.full(len(place), 1 / len(place)) if mass is None else mass.cpu().numpy()
    shares = np.bincount(place, weights=weights, minlength=len(classes))
    if (shares <= 0).any():
        label = classes.tolist()[int(np.argmin(shares))]
        raise ValueError(f"sample_weights: all rows of class {label!r} have weight zero. Leave its rows out.")
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised
