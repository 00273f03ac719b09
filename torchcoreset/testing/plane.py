"""Known values in the plane: the best W2^2 that n points of weight 1/n reach, and the limits for many points.

"normal" is N(0, I_2), "square" the uniform distribution on the unit square. Costs are |x - y|^2, not halved.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BEST_KNOWN", "HEXAGON_W1", "HEXAGON_W2", "KnownValue", "sample_normal", "sample_square"]


@dataclass(frozen=True, kw_only=True)
class KnownValue:
    """The smallest known W2^2, not rooted, of n points of weight 1/n.

    Arguments:
        value: W2^2.
        exact: True for a closed form; False for the best of many restarts, which another may still undercut.
        tolerance: relative error to allow in a comparison: rounding if exact, else 0.5 %.
    """

    value: float
    exact: bool
    tolerance: float


def _exact(value: float) -> KnownValue:
    return KnownValue(value=value, exact=True, tolerance=1e-9)


def _found(value: float) -> KnownValue:
    return KnownValue(value=value, exact=False, tolerance=5e-3)


def _sectors(size: int) -> float:
    """W2^2 of N(0, I_2) cut into `size` equal sectors: 2 less the squared norm of a sector's mean."""
    angle = math.pi / size
    return 2 - math.pi / 2 * (math.sin(angle) / angle) ** 2


BEST_KNOWN: Mapping[str, Mapping[int, KnownValue]] = {
    "normal": {
        1: _exact(2.0),
        2: _exact(2 - 2 / math.pi),
        3: _exact(_sectors(3)),
        4: _exact(_sectors(4)),
        5: _found(0.61898),
        6: _found(0.51831),
        7: _found(0.46445),
        10: _found(0.34916),
        20: _found(0.19752),
        50: _found(0.09317),
    },
    "square": {
        1: _exact(1 / 6),
        2: _exact(5 / 48),
        3: _found(0.066624),
        4: _exact(1 / 24),
        5: _found(0.035658),
        10: _found(0.017229),
    },
}
"""By distribution and by number of points.

Up to n=4 the normal's cells are equal sectors (2 - (pi/2) (sin(pi/n) / (pi/n))^2) and the square's, at n=2
and 4, equal rectangles. The others were found by fixed points of exact balanced transport from many starts.

>>> BEST_KNOWN["square"][4]
KnownValue(value=0.041666666666666664, exact=True, tolerance=1e-09)
"""

HEXAGON_W2 = 5 / (18 * math.sqrt(3))
"""Limit of n W2^2, uniform distribution on unit area: the second moment of a hexagon about its centre."""

HEXAGON_W1 = (2 / 3 + math.log(3) / 2) / (12**0.75 * 0.5)
"""Limit of sqrt(n) W1, uniform distribution on unit area: the mean distance to a hexagon's centre.

It is 4 h^3 times the integral of sec^3 over [0, pi/6], with h = 12^{-1/4} the hexagon's inner radius.
"""


def sample_normal(count: int, dimension: int, generator: torch.Generator) -> Tensor:
    """Independent draws from N(0, I), (count, dimension), float64, from `generator` and on its device."""
    return torch.randn(count, dimension, dtype=torch.float64, device=generator.device, generator=generator)


def sample_square(count: int, generator: torch.Generator) -> Tensor:
    """Independent draws from the unit square, (count, 2), float64, from `generator` and on its device."""
    return torch.rand(count, 2, dtype=torch.float64, device=generator.device, generator=generator)
