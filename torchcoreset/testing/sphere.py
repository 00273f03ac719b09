"""Distances along a sphere with closed forms: from the centre of a cap to all of it.

Symbols:
    alpha  angle from the centre of a cap to its rim      theta  angle from the centre to a place in it
    R      radius of the sphere                           t      angle around the centre
"""

import math

import numpy as np
import torch
from torch import Generator, Tensor

__all__ = ["cap_value", "sample_cap"]

NODES = 100  # of the quadrature, which is exact to rounding for theta^p sin(theta), p >= 1


def cap_value(angle: float, p: float, radius: float = 1.0) -> float:
    """E (R theta)^p for a uniform distribution on a cap: W_p^p from one point at its centre.

        int_0^alpha (R theta)^p sin(theta) dtheta / (1 - cos(alpha))

    For p = 1 this is R (sin(alpha) - alpha cos(alpha)) / (1 - cos(alpha)), and of half a sphere R. It is also that of
    the two poles, of equal weight, to all of the sphere, whose cells are its halves: angle = 90.

    Args:
        angle: alpha, in degrees, in (0, 180].
        p: power, p >= 1.
        radius: R, in the unit that distances are to have.

    >>> round(cap_value(90, 1), 12), round(cap_value(90, 2), 12) == round(math.pi - 2, 12)
    (1.0, True)
    """
    if not 0 < angle <= 180 or not p >= 1:
        raise ValueError(f"angle, p: got {angle} and {p}; expected degrees in (0, 180], and p >= 1")
    alpha = math.radians(angle)
    at, weight = np.polynomial.legendre.leggauss(NODES)
    theta = alpha * (at + 1) / 2
    mean = float(weight @ ((radius * theta) ** p * np.sin(theta))) * alpha / 2
    return mean / (2 * math.sin(alpha / 2) ** 2)


def sample_cap(
    count: int, angle: float, centre: tuple[float, float] = (90.0, 0.0), generator: Generator | None = None
) -> Tensor:
    """Places drawn uniformly from the cap of this angle, in degrees, about a centre (latitude, longitude).

    Returns: (count, 2), float64, latitudes in [-90, 90] and longitudes in [-180, 180].

    >>> places = sample_cap(1000, 10, (0.0, 180.0), torch.Generator().manual_seed(0))
    >>> bool((places[:, 0].abs() < 10).all()), bool((places[:, 1].abs() > 170).all())
    (True, True)
    """
    share, turn = torch.rand(2, count, generator=generator, dtype=torch.float64, device="cpu")
    height = 1 - share * (1 - math.cos(math.radians(angle)))  # of equal bands of a sphere the areas are equal
    reach, t = (1 - height.square()).clamp(min=0).sqrt(), 2 * math.pi * turn
    latitude, longitude = (math.radians(degrees) for degrees in centre)
    # The pole turned down to the latitude of the centre, then to its longitude.
    east, north = reach * t.sin(), reach * t.cos()
    x = height * math.cos(latitude) - north * math.sin(latitude)
    z = height * math.sin(latitude) + north * math.cos(latitude)
    around = torch.atan2(east, x) + longitude
    around = torch.atan2(around.sin(), around.cos())
    return torch.stack((torch.rad2deg(z.clamp(-1, 1).asin()), torch.rad2deg(around)), 1)
