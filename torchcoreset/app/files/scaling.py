"""Standardised columns, (y - mean) / deviation, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ...sources import Pushforward, Source

ROWS = 1 << 16  # read at once


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of each column.

    Attributes:
        mean: (d,) float64.
        deviation: (d,) float64, 1 where a column is constant.
    """

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, source: Source) -> Scaling:
        """Those of all rows of a finite source, read once in blocks, with its weights.

        Example:
            >>> import torch
            >>> from torchcoreset.sources import as_source
            >>> scaling = Scaling.of(as_source(torch.tensor([[1.0, 5.0], [3.0, 5.0]])))
            >>> scaling.mean.tolist(), scaling.deviation.tolist()
            ([2.0, 5.0], [1.0, 1.0])
        """
        total, mean, squares = 0.0, torch.zeros(0, device="cpu"), torch.zeros(0, device="cpu")
        for rows, weights in source.batches(ROWS, Generator().manual_seed(0)):
            y = rows.double()
            a = torch.ones(len(y), dtype=torch.float64, device=y.device) if weights is None else weights
            mass = float(a.sum())
            if mass == 0:
                continue
            here = (a @ y) / mass
            spread = a @ (y - here).square()
            if total == 0:
                total, mean, squares = mass, here, spread
                continue
            # Blocks are joined by their means (Chan, Golub, LeVeque 1983): sums of squares would lose digits.
            shift = here - mean
            squares += spread + shift.square() * (total * mass / (total + mass))
            mean = mean + shift * (mass / (total + mass))
            total += mass
        deviation = (squares / total).sqrt()
        return cls(mean, deviation.where(deviation > 1e-12 * mean.abs(), 1.0))

    def apply(self, rows: Tensor) -> Tensor:
        """Rows (m, d) in units of the deviations, in their own dtype."""
        return ((rows.double() - self.mean) / self.deviation).to(rows.dtype)

    def undo(self, rows: Tensor) -> Tensor:
        """Rows (n, d) in the units of the data, in their own dtype."""
        return (rows.double() * self.deviation + self.mean).to(rows.dtype)

    def to_record(self) -> dict[str, list[float]]:
        """For the metadata of a file."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}

    @classmethod
    def from_record(cls, record: dict[str, list[float]]) -> Scaling:
        """From the metadata of a file."""
        mean, deviation = (
            torch.tensor(record[key], dtype=torch.float64, device="cpu") for key in ("mean", "deviation")
        )
        return cls(mean, deviation)


def scaled(source: Source, scaling: Scaling | None) -> Source:
    """The source in units of the deviations, read and scaled as needed; as it is for None."""
    return source if scaling is None else Pushforward(source, scaling.apply, batch_size=ROWS)
