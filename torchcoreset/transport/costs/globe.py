"""Distances along the surface of the Earth, or of another sphere."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...tensors import is_real
from .arc import ArcPower
from .cost import Cost
from .metric import Metric, is_positive

EARTH = 6371.0088  # km, the mean radius (Moritz 2000, Geodetic Reference System 1980)


class GreatCircle(Metric):
    """Distance along the great circle between places, rows (latitude, longitude) in degrees.

    Costs are arcs, not chords; cells, means and gradients are those of the sphere, and the date line is no border.
    Longitudes of points come back in [-180, 180). Gradients are costs per degree; at a pole, where longitudes mean
    nothing, theirs is zero up to rounding, and between antipodes, where the slope has no limit, it is cut off.

    Args:
        radius: of the sphere, in the unit that distances are to have. None for the Earth's mean radius, 6371.0088 km.
        unit: its name, for texts; "km" if no radius is given.

    Raises:
        ValueError: a radius that is not positive; on reading, rows of other than two columns, or latitudes beyond 90.

    Example:
        >>> import torch, torchcoreset as tc
        >>> paris, tokyo = torch.tensor([[48.8566, 2.3522]]), torch.tensor([[35.6762, 139.6503]])
        >>> round(tc.wasserstein(paris, tokyo, p=1, cost=tc.costs.GreatCircle()).item())
        9712

    Source: places as unit vectors, so that no pole or date line matters: Gade (2010), a non-singular horizontal
        position representation.
    """

    def __init__(self, radius: float | None = None, unit: str | None = None) -> None:
        if radius is not None and not (is_real(radius) and is_positive(radius)):
            raise ValueError(f"radius: got {radius!r}; expected a positive number, or None for the Earth's in km.")
        self.radius = EARTH if radius is None else float(radius)
        self.unit = unit or ("km" if radius is None else "units of the radius")

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        if rows.shape[-1] != 2:
            raise ValueError(
                f"{name}: got shape {tuple(rows.shape)} with cost=GreatCircle(); expected two columns, latitude and "
                "longitude in degrees."
            )
        latitude, longitude = rows[..., 0], rows[..., 1]
        highest, widest = float(latitude.detach().abs().max()), float(longitude.detach().abs().max())
        if highest > 90 or widest > 360:
            which, size = ("a latitude", highest) if highest > 90 else ("a longitude", widest)
            raise ValueError(
                f"{name}: got {which} of size {size:g}; expected (latitude, longitude) in degrees, latitudes within "
                "-90 and 90. Are the two columns exchanged, or in another unit?"
            )
        phi, lam = torch.deg2rad(latitude.double()), torch.deg2rad(longitude.double())
        places = torch.stack((phi.cos() * lam.cos(), phi.cos() * lam.sin(), phi.sin()), -1)
        return (self.radius * places).to(rows.dtype)

    def rows(self, coordinates: Tensor) -> Tensor:
        x, y, z = coordinates.double().unbind(-1)
        latitude = torch.rad2deg(torch.atan2(z, torch.hypot(x, y)))
        longitude = torch.rad2deg(torch.atan2(y, x))
        longitude = torch.where(longitude >= 180, longitude - 360, longitude)
        return torch.stack((latitude, longitude), -1).to(coordinates.dtype)

    def power(self, p: float) -> Cost:
        return ArcPower(float(p), self.radius)

    def record(self) -> dict[str, Any]:
        return {"metric": "GreatCircle", "radius": self.radius, "unit": self.unit}

    def __repr__(self) -> str:
        return "GreatCircle()" if self.radius == EARTH else f"GreatCircle(radius={self.radius:g})"

    @property
    def farthest(self) -> float:
        """Distance between antipodes."""
        return math.pi * self.radius
