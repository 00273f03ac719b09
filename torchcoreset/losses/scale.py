"""The length at which a divergence blurs: as given, or in proportion to the data; and whether it makes sense there."""

from __future__ import annotations

import math

import torch

from ..deterministic import column_medians
from ..errors import warn_user
from ..tensors import is_real
from ..transport import Problem, data_scale, diameter, distances, weighted_median

LEAST = 1e-100  # so that squares and inverses are finite
LEAST_ETA = 1e-12  # of the typical cost; float64 rounds costs to 1e-16 of it
MOST_ETA = 1e8  # of the mean cost: there a divergence is within 1e-8 of its limit


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


def blur_length(problem: Problem, blur: float | None, relative_blur: float) -> float:
    """The blur as a length: `blur` if given, else a fraction of the samples' scale."""
    return float(blur) if blur is not None else relative_blur * data_scale(problem.y, problem.a)


def resolved(problem: Problem, blur: float) -> float:
    """The blur to compute with: as asked for, or less where no more of it makes a difference.

    Raises:
        ValueError: float64 does not hold eta = p blur^p beside the costs.
    """
    centre = column_medians(problem.x).double()
    typical = [
        weighted_median(distances(rows, centre).square(), weights)
        for rows, weights in ((problem.x, problem.b), (problem.y, problem.a))
    ]
    length = float(sum(typical)) ** 0.5  # one outlier does not decide whether the others can be told apart
    cost, mean = problem.cost, problem.spread**0.5
    least, most = length * cost.blur(LEAST_ETA), mean * cost.blur(1 / LEAST_ETA)
    if blur < least or (blur > most > 0 and not coincide(problem)):
        raise ValueError(
            f"blur: got a length of {blur:.3g} for data whose mean cost is about {cost.of_length(length):.3g}, outliers"
            f" aside; expected {least:.0e} to {most:.0e}, that eta = p blur^p is between {LEAST_ETA:.0e} and "
            f"{1 / LEAST_ETA:.0e} of that. Give blur in the unit of the data, or use their limits, wasserstein and "
            "energy_distance."
        )
    # As the costs fall to rounding in a loop that succeeds, eta falls with them: float64 rounds to 1e-16 of it.
    return min(blur, mean * cost.blur(MOST_ETA)) if mean > 0 else blur


def coincide(problem: Problem) -> bool:
    """Whether all samples are one, but for rounding: then a mean is all there is to compare."""
    used = problem.a > 0
    one = problem.y[used.to(torch.uint8).argmax()]
    apart = torch.cdist(problem.y, one[None], p=math.inf)[:, 0].where(used, 0.0)
    return float(apart.max()) <= 4 * torch.finfo(problem.y.dtype).eps * problem.largest


def extent(problem: Problem) -> float:
    """Diameter of points and samples; 0 where all samples coincide, and no blur is too large."""
    return 0.0 if coincide(problem) else diameter(problem)


def warn_if_beyond(blur: float, diameter: float, name: str) -> None:
    """Warn if the blur exceeds the diameter of the data, so that little is left.

    Samples that all coincide have nothing to lose.
    """
    if 0 < diameter < blur:
        message = (
            f"{name}: a blur of {blur:.3g} exceeds the diameter of the data, {diameter:.3g}: little more than means is "
            "compared. Give blur in the unit of the data, or relative_blur as a fraction of their scale."
        )
        warn_user(UserWarning(message))
