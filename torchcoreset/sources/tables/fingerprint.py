"""A fingerprint of a finite source, by which `certify` notices that its rows have built the coreset."""

from __future__ import annotations

import hashlib

import torch

from ..source import Source
from .points import PointsSource
from .random_access import RandomAccessSource

ROWS = 64  # that the hash reads


def fingerprint_of(source: Source) -> str | None:
    """A short hash of the size and of 64 evenly spaced rows of a table or dataset; None for any other source.

    Of a file the rows are those of its first block: others would ask for a reading of all that comes before. A copy of
    the same values has the same fingerprint; rows that are changed at random on reading have none to rely on. The
    points of a coreset have that of the table that they were built on, or those of several, with blanks between them.

    Example:
        >>> import torch
        >>> from torchcoreset.sources import as_source
        >>> table = torch.arange(6.0).reshape(3, 2)
        >>> (
        ...     fingerprint_of(as_source(table)) == fingerprint_of(as_source(table.clone())),
        ...     fingerprint_of(as_source(table)) == fingerprint_of(as_source(table[:2])),
        ... )
        (True, False)
    """
    unscaled: Source | None = getattr(source, "unscaled", None)
    if unscaled is not None:  # the same rows in other units
        return fingerprint_of(unscaled)
    if isinstance(source, PointsSource) and source.built_on is not None:
        return source.built_on
    if not isinstance(source, RandomAccessSource):
        return None
    reach = source.near
    index = torch.linspace(0, reach - 1, min(ROWS, reach), dtype=torch.float64, device="cpu").round().long()
    rows = source._read(index, torch.Generator().manual_seed(0)).to("cpu", torch.float64).contiguous()
    found = hashlib.sha256(f"{source.size} x {rows.shape[1]}".encode())
    found.update(rows.numpy().tobytes())
    return found.hexdigest()[:16]
