"""The length at which a divergence blurs: as given, or in proportion to the data."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..errors import warn_user
from ..tensors import is_real
from ..transport.deterministic import column_medians
from ..transport.problem import Problem
from ..transport.sinkhorn import cost_scale

LEAST = 1e-100  # so that squares and inverses are finite
LEAST_ETA = 1e-12  # of the cost scale; float64 rounds costs to 1e-16 of it


def check_blur(blur: float | None, relative_blur: float | None) -> None:
    """Raise ValueError unless at most one of them is given, and that one is positive and finite."""
    if blur is not None and relative_blur is not None:
        raise ValueError(
            f"blur: got {blur!r} with relative_blur={relative_blur!r}; expected one of them. "
            "Give a length as blur, or a fraction of the data's scale as relative_blur."
        )
    for name, number in (("blur", blur), ("relative_blur", relative_blur)):
        if number is None:
            continue
        if not is_real(number) or not LEAST < number < 1 / LEAST:
            raise ValueError(f"{name}: got {number!r}; expected a positive, finite number, {LEAST} to {1 / LEAST}.")


def data_scale(samples: Tensor) -> float:
    """Median distance of the samples (m, d) to their coordinate-wise median, in their unit; one outlier is no matter.

    Where half of the samples coincide, the mean distance; where all do, 1.
    """
    y = samples.double()
    distance = (y - column_medians(y)).norm(dim=1)
    return float(distance.median()) or float(distance.mean()) or 1.0


def blur_length(problem: Problem, blur: float | None, relative_blur: float) -> float:
    """The blur as a length: `blur` if given, else a fraction of the samples' scale."""
    return float(blur) if blur is not None else relative_blur * data_scale(problem.y)


def regularisation(problem: Problem, blur: float) -> float:
    """eta = p blur^p; ValueError where float64 cannot hold it beside the costs.

    Samples that are all one have no scale: costs fall to nothing as points reach them, which is no fault of the blur.
    """
    try:
        eta = float(problem.p * blur**problem.p)
    except OverflowError:
        eta = math.inf
    cost = cost_scale(problem)
    fits = LEAST_ETA * cost <= eta <= cost / LEAST_ETA
    if not fits and cost > 0 and not (cost < eta < math.inf and _coincide(problem)):
        raise ValueError(
            f"blur: got a length of {blur:.3g} for data whose mean cost is about {cost:.3g}; expected eta = p blur^p "
            f"between {LEAST_ETA:.0e} and {1 / LEAST_ETA:.0e} of that. Give blur in the unit of the data, or use their "
            "limits, wasserstein and energy_distance."
        )
    return eta


def _coincide(problem: Problem) -> bool:
    """Whether all samples are one, but for rounding."""
    y = problem.y[problem.a > 0]
    return float((y - y[0]).abs().max()) <= 4 * torch.finfo(y.dtype).eps * problem.largest


def diameter(problem: Problem) -> float:
    """Diagonal of the bounding box of points and samples, at least the largest distance between two of them."""
    lowest = torch.minimum(problem.x.amin(0), problem.y.amin(0)).double()
    highest = torch.maximum(problem.x.amax(0), problem.y.amax(0)).double()
    return float((highest - lowest).norm())


def warn_if_beyond(blur: float, diameter: float, name: str) -> None:
    """Warn if the blur exceeds the diameter of the data, so that little is left.

    Data that all coincide have no diameter, and nothing to lose.
    """
    if 0 < diameter < blur:
        message = (
            f"{name}: a blur of {blur:.3g} exceeds the diameter of the data, {diameter:.3g}: little more than means is "
            "compared. Give blur in the unit of the data, or relative_blur as a fraction of their scale."
        )
        warn_user(UserWarning(message))
