"""Numbers and categories in one row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...tensors import LISTS, float_tensor, is_real
from .metric import Metric, is_positive, short

MOST = 1000  # values of a category; a column of more is an identifier, or a number


class Mixed(Metric):
    """sqrt(sum_j (w_j (y_j - x_j))^2 + sum_c price_c^2 [y_c != x_c]): numbers, and categories that agree or do not.

    A category is a column of codes, whole numbers without an order; two different ones are `price` apart. For p = 2
    this is the cost of k-prototypes: a point has the means of the numbers and the commonest category in its cell.
    Categories move by steps to the centres only: they have no gradient. Coordinates have a column for each category
    that occurs, so that memory grows with their number.

    Args:
        categorical: numbers of the columns that hold categories, counted from 0; -1 is the last.
        price: distance between two different categories, in the unit of the numbers; one for all columns, or one each.
        weights: (d,) by what differences of numbers are multiplied, as in `Scaled`; those of categories do not count.
            None for 1.

    Raises:
        ValueError: no columns, or one twice; a price or weight that is not positive; on reading, a category that is not
            a whole number, or has more than 1,000 values.

    Example:
        >>> import torch, torchcoreset as tc
        >>> cost = tc.costs.Mixed([1], price=3.0)  # a number, and a category
        >>> x, y = torch.tensor([[0.0, 1.0]]), torch.tensor([[4.0, 2.0]])
        >>> tc.wasserstein(x, y, p=1, cost=cost).item()
        5.0

    Source: Huang (1997), clustering large data sets with mixed numeric and categorical values.
    """

    def __init__(
        self, categorical: Sequence[int] | int, price: float | Sequence[float] = 1.0, weights: Any = None
    ) -> None:
        columns = list(categorical) if isinstance(categorical, LISTS) or hasattr(categorical, "__iter__") else None
        columns = [categorical] if columns is None else columns
        whole = all(is_real(column) and math.isfinite(column) and int(column) == column for column in columns)
        if not columns or not whole or len(set(columns)) < len(columns):
            raise ValueError(
                f"categorical: got {categorical!r}; expected numbers of columns that hold categories, each once."
            )
        self.categorical = tuple(int(column) for column in columns)
        prices: list[Any] = list(price) if isinstance(price, LISTS) else [price] * len(columns)
        if len(prices) != len(columns) or not all(is_real(one) and is_positive(one) for one in prices):
            raise ValueError(
                f"price: got {price!r} with {len(columns)} categorical columns; expected a positive number, or one for "
                "each of them: the distance between two different categories."
            )
        self.prices = tuple(float(one) for one in prices)
        self.weights = None if weights is None else float_tensor(weights, "weights").detach().to("cpu", torch.float64)
        if self.weights is not None and not bool(((self.weights > 0) & self.weights.isfinite()).all()):
            raise ValueError("weights: got one that is not positive and finite; expected a positive number a column.")
        self._levels: tuple[Tensor, ...] | None = None  # the codes of each category, ascending

    unit = "units of the numbers"

    def fitted(self, points: Tensor, *others: Tensor) -> Mixed:
        """With the codes that occur in the rows of points (n, d), and of others where points are still to be found.

        Codes that occur only elsewhere are as far from all of these as from each other of them, which is all that is
        asked: distances are taken to points.
        """
        tables = [points.detach(), *(rows.detach() for rows in others)]
        tables = [rows.flatten(0, -2) for rows in tables]
        found = Mixed(self.categorical, self.prices, self.weights)
        levels = []
        for column in self._columns(points):
            codes = torch.unique(torch.cat([rows[:, column].double().cpu() for rows in tables]))
            if not bool((codes == codes.round()).all()):
                raise ValueError(
                    f"cost: column {column} holds {float(codes[codes != codes.round()][0]):g}; expected whole numbers, "
                    "the codes of categories. Is it a number?"
                )
            if len(codes) > MOST:
                raise ValueError(
                    f"cost: column {column} has {len(codes)} values; expected at most {MOST} categories. Leave an "
                    "identifier out, or let it be a number."
                )
            levels.append(codes)
        found._levels = tuple(levels)
        return found

    def coordinates(self, rows: Tensor, name: str = "rows") -> Tensor:
        metric = self if self._levels is not None else self.fitted(rows)
        assert metric._levels is not None
        parts = [metric._numbers(rows, name)]
        for column, price, levels in zip(metric._columns(rows), metric.prices, metric._levels, strict=True):
            codes = rows[..., column].detach()
            place = torch.bucketize(codes.double().contiguous(), levels.to(rows.device)).clamp(max=len(levels) - 1)
            known = levels.to(rows.device)[place] == codes
            place = torch.where(known, place, len(levels))  # whatever the points do not have is one more category
            one_hot = torch.nn.functional.one_hot(place, len(levels) + 1)
            parts.append(one_hot.to(rows.dtype) * (price / math.sqrt(2)))
        return torch.cat(parts, -1)

    def rows(self, coordinates: Tensor) -> Tensor:
        assert self._levels is not None, "coordinates have been made"
        width = coordinates.shape[-1] - sum(len(levels) + 1 for levels in self._levels) + len(self._levels)
        columns = [column % width for column in self.categorical]
        numeric = [column for column in range(width) if column not in columns]
        result = coordinates.new_empty(*coordinates.shape[:-1], width)
        scale = 1.0 if self.weights is None else self.weights[numeric].to(coordinates)
        result[..., numeric] = coordinates[..., : len(numeric)] / scale
        start = len(numeric)
        for column, levels in zip(columns, self._levels, strict=True):
            shares = coordinates[..., start : start + len(levels)]  # never the category that no point has
            result[..., column] = levels.to(coordinates)[shares.argmax(-1)]
            start += len(levels) + 1
        return result

    def record(self) -> dict[str, Any]:
        return {
            "metric": "Mixed",
            "categorical": list(self.categorical),
            "price": list(self.prices),
            "weights": None if self.weights is None else self.weights.tolist(),
        }

    def __repr__(self) -> str:
        weights = "" if self.weights is None else f", weights={short(self.weights)}"
        return f"Mixed({list(self.categorical)}, price={list(self.prices)}{weights})"

    def _columns(self, rows: Tensor) -> list[int]:
        """The categorical columns, counted from 0, of rows (..., d)."""
        d = rows.shape[-1]
        odd = [column for column in self.categorical if not -d <= column < d]
        columns = [column % d for column in self.categorical if not odd]
        if odd or len(set(columns)) < len(columns) or (self.weights is not None and len(self.weights) != d):
            raise ValueError(
                f"cost: got rows of {d} columns with cost={self!r}"
                + ("" if self.weights is None else f" and {len(self.weights)} weights")
                + "; expected categorical columns among them, and as many weights."
            )
        return columns

    def _numbers(self, rows: Tensor, name: str) -> Tensor:
        columns = self._columns(rows)
        numeric = [column for column in range(rows.shape[-1]) if column not in columns]
        numbers = rows[..., numeric]
        return numbers if self.weights is None else numbers * self.weights[numeric].to(rows)
