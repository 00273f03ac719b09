"""Distances for tests: each with rows that it can measure, and its matrix computed by SciPy or by a formula here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

import torchcoreset as tc
from tests.data import cloud, normal

RADIUS = 6371.0088  # km
WEIGHTS = [1.0, 2.0, 0.5]
MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.2], [0.0, -0.2, 3.0]])


@dataclass(frozen=True)
class Distance:
    """A distance, its matrix (m, n) from arrays, and how rows (k, 3) of a cloud become rows that it measures."""

    name: str
    cost: Any
    matrix: Callable[[np.ndarray, np.ndarray], np.ndarray]
    rows: Callable[[Tensor], Tensor] = lambda y: y

    def powers(self, x: Tensor, y: Tensor, p: float) -> np.ndarray:
        """Costs (m, n), float64."""
        return self.matrix(y.double().numpy(), x.double().numpy()) ** p

    def cloud(self, kind: str, m: int) -> Tensor:
        """Rows (m, 2 or 3) of a kind of data, float64."""
        return self.rows(cloud(kind, m))


def haversine(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    (phi, lam), (psi, mu) = np.radians(y[:, None]).transpose(2, 0, 1), np.radians(x[None]).transpose(2, 0, 1)
    half = np.sin((phi - psi) / 2) ** 2 + np.cos(phi) * np.cos(psi) * np.sin((lam - mu) / 2) ** 2
    return 2 * RADIUS * np.arcsin(np.sqrt(half.clip(0, 1)))


def mixed(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.sqrt(cdist(y[:, :2], x[:, :2]) ** 2 + 9 * (y[:, None, 2] != x[None, :, 2]))


def places(y: Tensor) -> Tensor:
    """Directions of rows (k, 3) as latitudes and longitudes."""
    y = y.double()
    return torch.rad2deg(torch.stack((torch.atan2(y[:, 2], y[:, :2].norm(dim=1)), torch.atan2(y[:, 1], y[:, 0])), 1))


def with_category(y: Tensor) -> Tensor:
    """The last column as one of four categories."""
    return torch.cat((y[:, :2], y[:, 2:].round().remainder(4)), 1)


def away_from_zero(y: Tensor) -> Tensor:
    """Rows without a zero one, which has no direction."""
    return torch.where((y == 0).all(1, keepdim=True), 1.0, y)


def city_block(y: Tensor, x: Tensor) -> Tensor:
    return (y - x).abs().sum(-1)


DISTANCES = (
    Distance("euclidean", tc.costs.Euclidean(), cdist),
    Distance("scaled", tc.costs.Scaled(WEIGHTS), lambda y, x: cdist(y * WEIGHTS, x * WEIGHTS)),
    Distance("mahalanobis", tc.costs.Mahalanobis(MATRIX), lambda y, x: cdist(y, x, "mahalanobis", VI=MATRIX)),
    Distance(
        "cosine",
        tc.costs.Cosine(),
        lambda y, x: np.sqrt(2 * cdist(y, x, "cosine").clip(min=0)),  # errs by 1e-8, the root of rounding
        away_from_zero,
    ),
    Distance("great circle", tc.costs.GreatCircle(), haversine, places),
    Distance("mixed", tc.costs.Mixed([2], price=3.0), mixed, with_category),
    Distance("function", city_block, lambda y, x: cdist(y, x, "cityblock")),
)
BY_NAME = {distance.name: distance for distance in DISTANCES}


def some_weights(count: int, seed: int = 3) -> Tensor:
    """Weights (count,) of which one is very light, and one zero where there are several."""
    weights = normal(count, seed=seed).exp()
    weights[0] *= 1e-9
    if count > 2:
        weights[1] = 0
    return weights
