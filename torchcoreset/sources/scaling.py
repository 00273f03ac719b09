"""Columns in units of their own for the distance, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from ..names import ScaleName as How
from ..tensors import check_name, float_tensor, weighted_points
from .batches import StreamSource
from .convert import as_source
from .pushforward import Pushforward
from .randomness import make_generator
from .source import Source

ROWS = 1 << 16  # read at once
ROBUST_ROWS = 1 << 18  # of which quartiles are taken; of more rows, a uniform sample
NORMAL_QUARTILES = 1.3489795003921634  # between the quartiles of N(0, 1), so that a normal column gets deviation 1
CONSTANT = 1e-12  # of the mean; a column that spreads less is constant up to rounding, and keeps its unit
FLAT = 1e-7  # of the widest direction; one that is narrower is rounding of the covariance, and keeps its unit


UNITS = {
    "standard": "standard deviations of the columns",
    "robust": "robust deviations of the columns",
    "whiten": "standard deviations along the principal axes",
    "numbers": "the units given",
}


@dataclass(frozen=True)
class Scaling:
    """An affine change of coordinates, z = (y - centre) / unit, or unit^-1 (y - centre) for a matrix.

    Attributes:
        how: "standard" (mean and standard deviation), "robust" (median and quartiles), "whiten" (mean and the symmetric
            root of the covariance) or "numbers" (units that were given).
        centre: (d,) float64.
        unit: (d,) or (d, d) float64; 1 where a column, or direction, is constant.
    """

    how: str
    centre: Tensor
    unit: Tensor

    @classmethod
    def of(cls, source: Source, how: Scale = "standard") -> Scaling:
        """That of all rows of a finite source, read once in blocks, with its weights.

        Args:
            source: of rows (d,). One that may be endless gives 2^18 rows.
            how: as above, or d positive numbers, the unit of each column; or a scaling, which is returned.

        Raises:
            ValueError: another name, or not d positive finite numbers.

        Example:
            >>> import torch
            >>> from torchcoreset.sources import Scaling, as_source
            >>> scaling = Scaling.of(as_source(torch.tensor([[1.0, 5.0], [3.0, 5.0]])))
            >>> scaling.centre.tolist(), scaling.unit.tolist()
            ([2.0, 5.0], [1.0, 1.0])
        """
        if isinstance(how, Scaling):
            return how
        if not isinstance(how, str):
            return cls._given(source, how)
        check_name(how, "scale", get_args(How))
        if isinstance(source, StreamSource):
            raise ValueError(
                "scale: an iterator can be read only once; expected numbers, one unit a column, or a source that can "
                "be read again, such as a list of batches."
            )
        if source.size is None:
            source = as_source(source.materialize(ROBUST_ROWS, make_generator(0))[0])
        if how == "robust":
            return cls._robust(*source.materialize(ROBUST_ROWS, make_generator(0)))
        return cls._of_moments(how, *_moments(source.batches(ROWS, make_generator(0)), full=how == "whiten"))

    @classmethod
    def _of_moments(cls, how: str, mean: Tensor, covariance: Tensor) -> Scaling:
        if covariance.dim() == 1:
            deviation = covariance.sqrt()
            return cls(how, mean, deviation.where(deviation > CONSTANT * mean.abs(), 1.0))
        squares, axes = torch.linalg.eigh(covariance)
        lengths = squares.clamp(min=0).sqrt()
        least = max(CONSTANT * float(mean.abs().max()), FLAT * float(lengths.max()))
        return cls(how, mean, axes * lengths.where(lengths > least, 1.0) @ axes.T)

    @classmethod
    def _given(cls, source: Source, units: Any) -> Scaling:
        unit = float_tensor(units, "scale").to("cpu", torch.float64)
        width = source.dimension or source.draw(1, make_generator(0)).shape[1]
        odd = unit[~((unit > 0) & unit.isfinite())]
        if unit.shape != (width,) or len(odd):
            found = f"numbers of shape {tuple(unit.shape)}" if unit.shape != (width,) else f"the unit {odd[0]:g}"
            raise ValueError(
                f"scale: got {found}; expected ({width},), a positive unit a column, "
                f"or one of {', '.join(map(repr, get_args(How)))}."
            )
        return cls("numbers", torch.zeros_like(unit), unit)

    @classmethod
    def _robust(cls, rows: Tensor, weights: Tensor | None) -> Scaling:
        y, order = rows.double().cpu().sort(dim=0)
        a = torch.full((len(y),), 1 / len(y), dtype=torch.float64, device="cpu") if weights is None else weights.cpu()
        reached = a[order].cumsum(0)
        low, centre, high = (
            y.gather(0, (reached < share * reached[-1]).sum(0, keepdim=True).clamp(max=len(y) - 1))[0]
            for share in (0.25, 0.5, 0.75)
        )
        unit = (high - low) / NORMAL_QUARTILES
        if not bool((unit > 0).all()):  # half of a column on one value: its standard deviation has to serve
            deviation = cls._of_moments("standard", *_moments([(rows, weights)], full=False)).unit
            unit = unit.where(unit > 0, deviation)
        return cls("robust", centre, unit)

    def apply(self, rows: Tensor) -> Tensor:
        """Rows (m, d) in these units, in their own dtype."""
        centred = rows.double() - self.centre.to(rows.device)
        unit = self.unit.to(rows.device)
        return (centred / unit if unit.dim() == 1 else torch.linalg.solve(unit, centred.T).T).to(rows.dtype)

    def undo(self, rows: Tensor) -> Tensor:
        """Rows (n, d) in the units of the data, in their own dtype."""
        unit = self.unit.to(rows.device)
        scaled = rows.double() * unit if unit.dim() == 1 else rows.double() @ unit.T
        return (scaled + self.centre.to(rows.device)).to(rows.dtype)

    @property
    def words(self) -> str:
        """The unit of distances, in words."""
        return UNITS[self.how]

    def to_record(self) -> dict[str, Any]:
        """For the metadata of a file."""
        return {"how": self.how, "centre": self.centre.tolist(), "unit": self.unit.tolist()}

    @classmethod
    def from_record(cls, record: dict[str, Any], dimension: int | None = None) -> Scaling:
        """From the metadata of a file; also as the first version wrote it, by the names of mean and deviation.

        Raises:
            ValueError, TypeError, KeyError: it is none, or not for this dimension.
        """
        numbers = (record["centre"], record["unit"]) if "how" in record else (record["mean"], record["deviation"])
        centre, unit = (torch.tensor(part, dtype=torch.float64, device="cpu") for part in numbers)
        width = len(centre) if dimension is None else dimension
        if centre.shape != (width,) or unit.shape not in ((width,), (width, width)):
            raise ValueError(f"got a centre of shape {tuple(centre.shape)} and units of shape {tuple(unit.shape)}")
        how = record.get("how", "standard")
        check_name(how, "scaling", UNITS)
        return cls(how, centre, unit)


Scale = How | Sequence[float] | Tensor | Scaling  # what `scale` may be


class ScaledSource(Pushforward):
    """A source in other units, read and scaled as needed."""

    def __init__(self, source: Source, scaling: Scaling) -> None:
        super().__init__(source, scaling.apply, batch_size=ROWS)
        self.scaling, self.unscaled = scaling, self.source

    def over(self, source: Source) -> Pushforward:
        return ScaledSource(source, self.scaling)


def scaled(source: Source, scaling: Scaling | None) -> Source:
    """The source in these units; as it is for None."""
    return source if scaling is None else ScaledSource(source, scaling)


def units_of(source: Any) -> Scaling | None:
    """The units of distances that go with a coreset as a source; None for those of the data."""
    held = weighted_points(source)
    units: Scaling | None = getattr(source, "units", None) if held is None else held.scaling
    return units


def same_units(first: Scaling | None, second: Scaling | None) -> bool:
    """Whether distances in both are the same; where their centres are does not matter to these."""
    if first is None or second is None:
        return first is second
    return torch.equal(first.unit, second.unit)


def in_words(scaling: Scaling | None) -> str:
    """What is said of a distance: in which unit it is, unless that is the data's own."""
    return "" if scaling is None else f" {scaling.words}"


def _moments(batches: Iterable[tuple[Tensor, Tensor | None]], *, full: bool) -> tuple[Tensor, Tensor]:
    """Mean (d,), and variances (d,) or the covariance (d, d), of all batches."""
    total, mean, squares = 0.0, torch.zeros(0, device="cpu"), torch.zeros(0, device="cpu")
    for rows, weights in batches:
        y = rows.double().cpu()
        a = torch.ones(len(y), dtype=torch.float64, device="cpu") if weights is None else weights.cpu()
        mass = float(a.sum())
        if mass == 0:
            continue
        here = (a @ y) / mass
        centred = y - here
        spread = (centred * a[:, None]).T @ centred if full else a @ centred.square()
        if total == 0:
            total, mean, squares = mass, here, spread
            continue
        # Blocks are joined by their means (Chan, Golub, LeVeque 1983): sums of squares would lose digits.
        shift = here - mean
        between = torch.outer(shift, shift) if full else shift.square()
        squares = squares + spread + between * (total * mass / (total + mass))
        mean = mean + shift * (mass / (total + mass))
        total += mass
    return mean, squares / total
