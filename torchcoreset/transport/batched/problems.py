"""Checks of batches: inputs are checked and converted for all pairs together where possible.

    x (B, n, d) points, b (B, n) their weights      y (B, m, d) samples, a (B, m) their weights

Inputs that all pairs share may lack the leading B. Each pair becomes the same problem as in a call of its own: its own
offset is subtracted, and its own values decide in which dtype it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...tensors import LISTS, check_finite, normalised, real_tensor
from ..costs import Cost, as_cost
from ..marginals import is_choice
from ..problem import Problem, as_tables, check_devices, check_shape, place, warn_if_too_coarse

PAIR, BATCH = 2, 3  # dimensions of a table of rows, and of a batch of tables

Weights = Tensor | None  # None for equal ones


@dataclass(frozen=True)
class ProblemBatch:
    """Checked problems; shared tensors are expanded with stride 0."""

    x: Tensor  # (B, n, d) points
    b: Tensor  # (B, n) point weights, float64, each row of sum 1
    y: Tensor  # (B, m, d) samples
    a: Tensor  # (B, m) sample weights, float64, each row of sum 1
    cost: Cost
    equal: list[bool]  # of each pair, whether all its sample weights are the same
    largest: list[float]  # of each pair, the size of its largest number
    dtype: torch.dtype | None  # to compute in; None for that which each pair needs

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[Problem]:
        """The problem of each pair."""
        return map(self.problem, range(len(self)))

    def problem(self, i: int) -> Problem:
        """The problem of one pair, made when it is asked for: shifted copies of all would double the memory."""
        return place(
            self.x[i], self.b[i], self.y[i], self.a[i], self.cost,
            equal=self.equal[i], largest=self.largest[i], dtype=self.dtype,
        )  # fmt: skip

    @property
    def rounds_nothing(self) -> bool:
        """Whether the problems hold all numbers as they are, but for a shift of both clouds."""
        work = self.dtype or torch.promote_types(self.x.dtype, torch.float32)
        wide = torch.promote_types(self.x.dtype, self.y.dtype)
        return torch.promote_types(wide, work) == work and 2 * max(self.largest) <= torch.finfo(work).max


def is_batch(points: Any, samples: Any) -> bool:
    """Whether one of these has three or more dimensions; more than three are rejected by the checks of a batch."""
    return max(len(shape_of(points)), len(shape_of(samples))) >= BATCH


def shape_of(values: Any) -> tuple[int, ...]:
    """The shape of a tensor, an array or nested lists; () of what has none, such as a nested tensor."""
    if isinstance(values, Tensor) and values.is_nested:
        return ()
    shape = getattr(values, "shape", None)
    if isinstance(shape, tuple):
        return shape
    if isinstance(values, LISTS) and values:
        return (len(values), *shape_of(values[0]))
    return ()


def refuse_group(group: Any) -> None:
    """Raise ValueError for a batch with a process group."""
    if group is not None:
        raise ValueError(
            f"group: got {group!r} with a batch of clouds; expected None: a group shares the samples of one pair. "
            "Call once for each pair, or give every rank its own pairs and leave group out."
        )


def refuse_choices(point_weights: Any, trim: float) -> None:
    """Raise ValueError for a batch with marginals that its plans would choose."""
    if trim or is_choice(point_weights):
        name, given = ("trim", trim) if trim else ("point_weights", point_weights)
        raise ValueError(
            f"{name}: got {given!r} with a batch of clouds; expected fixed weights and trim=0. Loop over its pairs."
        )


def make_problems(
    points: Any,
    samples: Any,
    p: float | Cost = 2,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    dtype: torch.dtype | None = None,
) -> ProblemBatch:
    """Check a batch of pairs; arguments as in `make_problem`, each with a leading B or shared by all pairs.

    Raises:
        ValueError: as `make_problem`, or batches of different sizes. Of a row or a weight it says in which pair.

    Warns:
        UserWarning: once, where `make_problem` would warn for some pairs.
    """
    cost = as_cost(p)
    x, y = as_tables(points, samples, most=BATCH)
    b = None if point_weights is None else real_tensor(point_weights, "point_weights")
    a = None if sample_weights is None else real_tensor(sample_weights, "sample_weights")
    x, y, b, a = broadcast(x, y, b, a)
    count = len(x)
    largest = torch.maximum(_largest(x, "points"), _largest(y, "samples"))
    b, a = _normalised(b, x, "point_weights"), _normalised(a, y, "sample_weights")
    equal = (a == a[:, :1]).all(1)
    any(warn_if_too_coarse(*pair) for pair in zip(x, y, strict=True))  # until one has
    return ProblemBatch(
        x, b.expand(count, -1), y, a.expand(count, -1), cost, equal.expand(count).tolist(),
        largest.expand(count).tolist(), dtype,
    )  # fmt: skip


def broadcast(x: Tensor, y: Tensor, b: Weights, a: Weights) -> tuple[Tensor, Tensor, Weights, Weights]:
    """Points, samples and the weights of both, each with a leading B; what is shared is expanded, in its graph.

    Weights that are equal stay None.

    Raises:
        ValueError: no dense tensors, no rows, batches of different sizes, or weights of other shapes.
    """
    check_devices(x, y)
    for name, rows in (("points", x), ("samples", y)):
        check_shape(real_tensor(rows, name), name, BATCH)
    sizes = {name: len(rows) for name, rows in (("points", x), ("samples", y)) if rows.dim() == BATCH}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"samples: got a batch of {sizes['samples']} clouds, shape {tuple(y.shape)}, with {sizes['points']} of "
            f"points, shape {tuple(x.shape)}; expected as many, or (rows, dimension) for one cloud that all share. Are "
            "these images? Then flatten each of them: .flatten(1)."
        )
    count = max(sizes.values())
    x, y = x.expand(count, *x.shape[-PAIR:]), y.expand(count, *y.shape[-PAIR:])
    return x, y, _expanded(b, x, "point_weights"), _expanded(a, y, "sample_weights")


def _expanded(weights: Weights, rows: Tensor, name: str) -> Weights:
    """Weights of all rows (B, k, d), (B, k), of (B, k) or (k,)."""
    if weights is None:
        return None
    shape = rows.shape[:-1]
    if real_tensor(weights, name).shape not in (shape, shape[1:]):
        raise ValueError(
            f"{name}: got shape {tuple(weights.shape)}; expected {tuple(shape)}, one weight for each row of each "
            f"pair, or {tuple(shape[1:])} for weights that all pairs share."
        )
    return weights.expand(shape)


def _distinct(tensor: Tensor) -> Tensor:
    """The same without repetitions: (1, ...) of what all pairs share, else (B, ...)."""
    return tensor[:1] if tensor.stride(0) == 0 else tensor


def _largest(rows: Tensor, name: str) -> Tensor:
    """Size of the largest number of each table (B, k, d), (B,) or (1,) float64; ValueError if one is not finite."""
    tables = _distinct(rows)
    numbers = tables.flatten(1)
    largest = torch.maximum(-numbers.amin(1), numbers.amax(1)).double()  # aminmax along rows takes ten times as long
    finite = torch.isfinite(largest)
    if not bool(finite.all()):
        first = _first(~finite)
        check_finite(tables[first], _name(name, rows, first))
    return largest


def _normalised(weights: Weights, rows: Tensor, name: str) -> Tensor:
    """Weights (B, k) of rows (B, k, d) as float64 on their device, each row of sum 1, (B, k) or (1, k)."""
    if weights is None:
        return normalised(None, rows.shape[1], name, rows.device)[None]
    w = _distinct(weights).to(device=rows.device, dtype=torch.float64)
    usable = (torch.isfinite(w) & (w >= 0)).all(1) & (w > 0).any(1)
    if not bool(usable.all()):
        first = _first(~usable)
        normalised(w[first], rows.shape[1], _name(name, weights, first), rows.device)
    w = w / w.amax(1, keepdim=True)  # so that neither huge nor tiny weights overflow the sum
    return w / w.sum(1, keepdim=True)


def _first(which: Tensor) -> int:
    """The first pair that is marked."""
    return int(which.to(torch.uint8).argmax())


def _name(name: str, values: Tensor, pair: int) -> str:
    """What a message calls the part of an argument that belongs to a pair."""
    return name if values.stride(0) == 0 else f"{name}[{pair}]"
