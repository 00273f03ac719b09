"""Which rows may be chosen and which have to be: row numbers of the source, mapped to the samples in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...tensors import real_tensor
from ..samples import LoadedSamples

SHOWN = 5  # row numbers in a message


@dataclass(frozen=True)
class Eligible:
    """Which of the samples (m, d) of a build may be chosen."""

    table: Tensor  # (m, d) the samples as they are in the source
    numbers: Tensor  # (m,) their row numbers there
    kept: Tensor  # (k,) places among them of the rows that have to be taken
    free: Tensor  # (f,) places of those that may be taken beside them, ascending


@dataclass(frozen=True)
class RowChoice:
    """The arguments `keep` and `exclude` of a build of rows."""

    keep: Tensor  # (k,) numbers of rows that have to be taken
    exclude: Tensor  # (e,) numbers of rows that must not be

    @classmethod
    def of(cls, rows: bool, keep: Any, exclude: Any) -> RowChoice | None:
        """From the arguments of a build; None if points are free.

        Raises:
            ValueError: `keep` or `exclude` without `rows`, values that are not row numbers, or a row in both.
        """
        if not isinstance(rows, bool):
            raise ValueError(f"rows: got {type(rows).__name__}; expected True or False. Rows to take go into keep.")
        for name, given in (("keep", keep), ("exclude", exclude)):
            if given is not None and not rows:
                raise ValueError(f"{name}: given without rows; expected row numbers with rows=True. Add it.")
        if not rows:
            return None
        keep, exclude = as_row_numbers(keep, "keep"), as_row_numbers(exclude, "exclude")
        both = keep[torch.isin(keep, exclude)]
        if len(both):
            raise ValueError(f"keep, exclude: got row {int(both[0])} in both; expected it in one of them.")
        return cls(keep, exclude)

    def check(self, numbers: Tensor | None, rows: int | None) -> Tensor:
        """Check the row numbers (m,) of the samples in memory; the source has a known number of rows or None.

        Raises:
            ValueError: the source has no row numbers, or a row of `keep` or `exclude` is not in memory.
        """
        if numbers is None:
            raise ValueError(
                "rows: got a source whose rows have no numbers, such as a distribution, a loader or an iterator; "
                "expected a table, a map-style dataset or a file. Draw a table of samples first, or pass a loader's "
                "dataset."
            )
        for name, given in (("keep", self.keep), ("exclude", self.exclude)):
            _check_known(given, numbers.cpu(), name, rows)
        return numbers.cpu()

    def within(self, numbers: Tensor) -> RowChoice:
        """The same for some rows with these numbers (k,), which are then counted as they come."""
        keep, exclude = (torch.isin(numbers, given).nonzero()[:, 0] for given in (self.keep, self.exclude))
        return RowChoice(keep, exclude)

    def among(self, loaded: LoadedSamples, size: int) -> Eligible:
        """Which samples may become one of `size` rows.

        Rows of weight zero are not part of the distribution and are chosen only if they are in `keep`. A row that was
        drawn more than once is represented by its first sample.

        Raises:
            ValueError: as in `check`; fewer than `size` rows may be chosen, or more have to be.
        """
        numbers = self.check(loaded.numbers, loaded.read.size)
        if len(self.keep) > size:
            raise ValueError(f"keep: got {len(self.keep)} rows for size={size}; expected at most as many as points.")
        order = torch.argsort(numbers, stable=True)
        first = torch.ones(len(numbers), dtype=torch.bool, device="cpu")
        first[order[1:]] = numbers[order].diff() > 0
        kept = order[torch.searchsorted(numbers[order], self.keep)]
        weightless = torch.zeros_like(first) if loaded.a is None else loaded.a.cpu() == 0
        free = (first & ~weightless & ~torch.isin(numbers, torch.cat((self.keep, self.exclude)))).nonzero()[:, 0]
        if len(kept) + len(free) < size:
            counts = {"excluded": len(self.exclude), "of weight zero": int((first & weightless).sum())}
            why = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
            raise ValueError(
                f"size: got {size} with rows=True for {int(first.sum())} different rows{f' ({why})' if why else ''}; "
                f"expected at most {len(kept) + len(free)}. Ask for fewer, or for free points (rows=False)."
            )
        return Eligible(loaded.y, numbers, kept, free)


def as_row_numbers(values: Any, name: str) -> Tensor:
    """Row numbers as int64 on the CPU, (k,), none for None; ValueError unless whole, not negative and different."""
    if values is None or (hasattr(values, "__len__") and len(values) == 0):
        return torch.empty(0, dtype=torch.long, device="cpu")
    listed = sorted(values) if isinstance(values, (range, set, frozenset)) else values
    numbers = real_tensor(listed, name).cpu().flatten()
    whole = numbers.long()
    odd = numbers[(whole != numbers) | (whole < 0)]
    if numbers.dtype == torch.bool or len(odd):
        got = "a mask" if numbers.dtype == torch.bool else f"{odd[0].item():g}"
        raise ValueError(f"{name}: got {got}; expected row numbers, whole and counted from 0.")
    ordered = whole.sort().values
    twice = ordered[1:][ordered.diff() == 0]
    if len(twice):
        raise ValueError(f"{name}: got row {int(twice[0])} more than once; expected different row numbers.")
    return whole


def _check_known(given: Tensor, numbers: Tensor, name: str, rows: int | None) -> None:
    """Raise ValueError for numbers that are not those of samples in memory."""
    unknown = given[~torch.isin(given, numbers)]
    if not len(unknown):
        return
    shown = ", ".join(map(str, unknown[:SHOWN].tolist())) + (", ..." if len(unknown) > SHOWN else "")
    if rows is not None and len(numbers) < rows:
        raise ValueError(
            f"{name}: got row {shown}, not among the {len(numbers)} rows in memory of {rows}; expected rows that are. "
            f"Pass samples={rows} to hold all."
        )
    raise ValueError(
        f"{name}: got row {shown}; expected numbers of the source's rows, {int(numbers.min())} to {int(numbers.max())}."
    )
