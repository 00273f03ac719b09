"""`Metric`: a distance between rows, as the Euclidean distance of coordinates, or as a function of two rows.

    y, x rows (k, d)      phi coordinates (k, e)      |phi(y) - phi(x)| distance

Whatever moves points moves them among coordinates, and goes back to the nearest place that has a row: the projection
of the mean of a cell is the best place in it for squared distances.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...tensors import float_tensor
from .cost import Cost
from .euclidean import EuclideanPower

OF_DATA = "the unit of the data"
SYMMETRIC = 1e-6  # of the largest entry, by which a matrix may differ from its transpose
DEFINITE = 1e-12  # of the largest eigenvalue; a smaller one is taken for zero


class Metric(ABC):
    """A distance between rows, of which the power p is the cost.

    Attributes:
        unit: of distances, in words.
        can_invert: whether coordinates lead back to rows, so that points can be moved among coordinates. If not, points
            are rows of the data, or move along gradients.
        is_linear: whether coordinates are a linear image of rows, so that means go with means.
    """

    unit: str = OF_DATA
    can_invert: ClassVar[bool] = True
    is_linear: ClassVar[bool] = False

    @abstractmethod
    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        """Coordinates (k, e) of rows (k, d), differentiable, in their dtype; batches (B, k, d) too.

        Raises:
            ValueError: rows that have none; the message calls them `name`.
        """

    def rows(self, coordinates: Tensor) -> Tensor:
        """The rows (k, d) whose coordinates are nearest to these, (k, e).

        Raises:
            NotImplementedError: without `can_invert`.
        """
        raise NotImplementedError(f"{self!r} does not lead back from coordinates to rows.")

    def feasible(self, coordinates: Tensor) -> Tensor:
        """The nearest coordinates (k, e) that belong to a row."""
        return coordinates if self.is_linear else self.coordinates(self.rows(coordinates))

    def power(self, p: float) -> Cost:
        """The p-th power as a cost between coordinates."""
        return EuclideanPower(float(p))

    def fitted(self, points: Tensor, *others: Tensor) -> Metric:
        """The metric with what it has to know of the points and other rows, such as the values of their categories."""
        return self

    def check_repeatable(self) -> None:
        """Raise ValueError where the coordinates of a row depend on other rows or on chance, or change what makes them.

        A loss in a training loop may ask for that; a build or a certificate, which measures rows again, may not.
        """
        return

    def record(self) -> dict[str, Any]:
        """For the metadata of a file, in JSON; of a metric that a file cannot hold its name."""
        return {"unsaved": repr(self)}

    def settings(self) -> tuple[object, ...]:
        """What makes two metrics of one class the same."""
        return (self.record(),)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Metric) and self.settings() == other.settings()

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def is_euclidean(self) -> bool:
        """Whether distances are those of coordinates, as they are."""
        return type(self.power(1)) is EuclideanPower

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _check_width(self, rows: Tensor, width: int, name: str) -> None:
        if rows.shape[-1] != width:
            raise ValueError(
                f"{name}: got shape {tuple(rows.shape)} with cost={self!r}; expected rows of {width} columns. Select "
                "them first, or give the cost as many."
            )


class Euclidean(Metric):
    """|y - x|, the distance that is taken where no other is asked for.

    Example:
        >>> import torch, torchcoreset as tc
        >>> tc.wasserstein(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), cost=tc.costs.Euclidean()).item()
        25.0
    """

    is_linear = True

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        return rows

    def rows(self, coordinates: Tensor) -> Tensor:
        return coordinates

    def record(self) -> dict[str, Any]:
        return {"metric": "Euclidean"}


class Scaled(Metric):
    """sqrt(sum_j (w_j (y_j - x_j))^2): each column counts by its weight.

    Args:
        weights: (d,) positive numbers: by what differences in each column are multiplied. The square roots of weights
            of squares, if these are what is known. To leave a column out, leave it out of the data.

    Raises:
        ValueError: weights that are not positive and finite.

    Example:
        >>> import torch, torchcoreset as tc
        >>> cost = tc.costs.Scaled([1.0, 10.0])
        >>> tc.wasserstein(torch.zeros(1, 2), torch.tensor([[3.0, 0.4]]), p=1, cost=cost).item()
        5.0
    """

    is_linear = True
    unit = "weighted units of the columns"

    def __init__(self, weights: Any) -> None:
        w = float_tensor(weights, "weights").detach().to("cpu", torch.float64)
        if w.dim() != 1 or not len(w) or not bool(((w > 0) & w.isfinite()).all()):
            odd = w[~((w > 0) & w.isfinite())] if w.dim() == 1 else w[:0]
            got = f"the number {float(odd[0]):g}" if len(odd) else f"shape {tuple(w.shape)}"
            raise ValueError(
                f"weights: got {got}; expected (d,), a positive number for each column. Leave out columns that are "
                "not to count."
            )
        self.weights = w

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        self._check_width(rows, len(self.weights), name)
        return rows * self.weights.to(rows)

    def rows(self, coordinates: Tensor) -> Tensor:
        return coordinates / self.weights.to(coordinates)

    def record(self) -> dict[str, Any]:
        return {"metric": "Scaled", "weights": self.weights.tolist()}

    def __repr__(self) -> str:
        return f"Scaled({short(self.weights)})"


class Mahalanobis(Metric):
    """sqrt((y - x)' M (y - x)).

    Args:
        matrix: M, (d, d), symmetric and positive definite: an inverse covariance, as in SciPy's `mahalanobis`. For that
            of the data itself see `of`.

    Raises:
        ValueError: another shape, or a matrix that is not symmetric or not positive definite.

    Example:
        >>> import torch, torchcoreset as tc
        >>> cost = tc.costs.Mahalanobis([[2.0, 1.0], [1.0, 2.0]])
        >>> round(tc.wasserstein(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]), cost=cost).item(), 4)
        2.0

    Source: Mahalanobis (1936), on the generalised distance in statistics. Coordinates are M^(1/2) y, by the symmetric
        root, which is computed in float64.
    """

    is_linear = True
    unit = "Mahalanobis distances"

    def __init__(self, matrix: Any) -> None:
        m = float_tensor(matrix, "matrix").detach().to("cpu", torch.float64)
        if m.dim() != 2 or m.shape[0] != m.shape[1] or not m.numel():
            raise ValueError(f"matrix: got shape {tuple(m.shape)}; expected (d, d), such as an inverse covariance.")
        if not bool(m.isfinite().all()) or float((m - m.T).abs().max()) > SYMMETRIC * float(m.abs().max()):
            raise ValueError("matrix: got one that is not symmetric; expected M = M'. Take (M + M.T) / 2.")
        squares, axes = torch.linalg.eigh((m + m.T) / 2)
        if not float(squares[0]) > DEFINITE * float(squares[-1]):
            raise ValueError(
                f"matrix: got eigenvalues from {float(squares[0]):.3g} to {float(squares[-1]):.3g}; expected all of "
                "them positive. Add a small multiple of the identity, or leave out columns that follow from others."
            )
        self.matrix = (m + m.T) / 2
        self._root = axes * squares.sqrt() @ axes.T
        self._inverse_root = axes * squares.rsqrt() @ axes.T

    @classmethod
    def of(cls, rows: Any) -> Mahalanobis:
        """That of the inverse covariance of rows (m, d): distances in standard deviations along the principal axes.

        Raises:
            ValueError: rows whose covariance is singular.
        """
        y = float_tensor(rows, "rows").detach().double()
        if y.dim() != 2 or len(y) < 2:
            raise ValueError(f"rows: got shape {tuple(y.shape)}; expected (m, d) with m >= 2.")
        centred = y - y.mean(0)
        covariance = centred.T @ centred / (len(y) - 1)
        squares, axes = torch.linalg.eigh(covariance)
        if not float(squares[0]) > DEFINITE * float(squares[-1]):
            raise ValueError(
                "rows: their covariance is singular; expected columns that do not follow from each other. Leave out "
                "constant and redundant ones."
            )
        return cls(axes / squares @ axes.T)

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        self._check_width(rows, len(self.matrix), name)
        found: Tensor = rows.double() @ self._root.to(rows.device)  # nobody autocasts float64, or takes fewer bits
        return found.to(rows.dtype)

    def rows(self, coordinates: Tensor) -> Tensor:
        found: Tensor = coordinates.double() @ self._inverse_root.to(coordinates.device)
        return found.to(coordinates.dtype)

    def record(self) -> dict[str, Any]:
        return {"metric": "Mahalanobis", "matrix": self.matrix.tolist()}

    def __repr__(self) -> str:
        return f"Mahalanobis({len(self.matrix)} x {len(self.matrix)})"


class Cosine(Metric):
    """|y / |y| - x / |x||, the chord between directions: sqrt(2 - 2 cos) of the angle.

    Its square is twice the cosine distance, 1 - cos, so that W_2^2 / 2 is the mean cosine distance of the best plan.
    Only directions count: points of a coreset have length 1, and gradients are at right angles to rows.

    Raises:
        ValueError: on reading, a row of zeros, which has no direction.

    Example:
        >>> import torch, torchcoreset as tc
        >>> value = tc.wasserstein(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 7.0]]), cost=tc.costs.Cosine())
        >>> round(value.item(), 4)
        2.0
    """

    unit = "chords between directions"

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        largest = rows.abs().amax(-1, keepdim=True)  # squares of large and small numbers leave the range of their dtype
        if not bool((largest > 0).all()):
            where = int((largest[..., 0] == 0).flatten().nonzero()[0])
            raise ValueError(
                f"{name}: row {where} is zero, which has no direction; expected other rows with cost=Cosine(). Leave "
                "it out."
            )
        units = rows / largest
        found: Tensor = units / units.square().sum(-1, keepdim=True).sqrt()
        return found

    def rows(self, coordinates: Tensor) -> Tensor:
        length = coordinates.square().sum(-1, keepdim=True).sqrt()
        first = torch.zeros_like(coordinates)
        first[..., 0] = 1  # all directions are as good for a mean of zero
        return torch.where(length > 0, coordinates / length.where(length > 0, 1.0), first)

    def record(self) -> dict[str, Any]:
        return {"metric": "Cosine"}


def short(numbers: Tensor, most: int = 6) -> str:
    """The first numbers of a vector, for a repr."""
    shown = ", ".join(f"{x:g}" for x in numbers[:most].tolist())
    return f"[{shown}{', ...' * (len(numbers) > most)}]"


def is_positive(number: float) -> bool:
    """Whether it is a positive finite number."""
    return 0 < number < math.inf
