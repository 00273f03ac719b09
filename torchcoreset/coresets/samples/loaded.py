"""The samples that a build loads into memory: all rows of a finite source, or a sample of an infinite one; in one
process or on several ranks, each of which holds a part.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from ...sources import Scaling, Source, as_source, weighted_source
from ...transport.ranks import Ranks, agree, total_of
from .ranked_rows import WHY, RankedRows, generator_of, share_of

DEFAULT_SAMPLES = 100_000  # minimum default number of samples from a source without a size
SAMPLES_PER_POINT = 200  # default number of samples per point of the coreset, if that is more
LINE_SAMPLES = 400_000  # minimum default number of samples in one dimension
FILE_NUMBERS = 1 << 26  # numbers loaded of a file, 256 MiB in float32; larger files are subsampled uniformly
ALIKE = ("columns of samples", "use of sample_weights", "dtype of samples")  # on all ranks


@dataclass(frozen=True)
class LoadedSamples:
    """The samples of a build."""

    y: Tensor  # (m, d) samples of this process
    a: Tensor | None  # (m,) their weights, on one scale for all ranks; None for equal ones
    rows: Source  # the samples of all ranks, to draw from; every rank draws the same
    read: Source  # the source of this process
    numbers: Tensor | None  # (m,) row number of each sample in its table; None if rows have no numbers
    endless: bool  # whether the sources of all ranks are endless
    generator: Generator  # for more samples of this process: ranks differ in it

    @property
    def count(self) -> int:
        """Number of samples on all ranks."""
        return self.rows.size or len(self.y)

    def scaled(self, scaling: Scaling | None) -> LoadedSamples:
        """The samples of one process in other units; unchanged if None."""
        if scaling is None:
            return self
        y = scaling.apply(self.y)
        return replace(self, y=y, rows=as_source(y, self.a))


def load(
    source: Any,
    sample_weights: Any,
    size: int,
    samples: int | None,
    generator: Generator,
    most: int | None = None,
) -> LoadedSamples:
    """The samples that this process loads to build `size` points; `most` replaces the default number and all rows."""
    read = weighted_source(source, sample_weights)
    y, a, numbers = loaded_rows(read, size, samples, generator, most=most)
    return LoadedSamples(y, a, as_source(y, a), read, numbers, read.endless, generator)


def load_part(
    ranks: Ranks,
    source: Any,
    sample_weights: Any,
    size: int,
    samples: int | None,
    generator: Generator,
    settings: Mapping[str, Any],
) -> LoadedSamples:
    """The part of `samples` that this rank loads; `settings` have to be equal on all ranks. Otherwise as `load`."""

    def look() -> tuple[Source, tuple[()]]:
        return weighted_source(source, sample_weights), ()

    read, _ = agree(ranks, "build_coreset", look, why=WHY, settings=settings)
    share = share_of(ranks, read, samples, sample_weights)
    own = generator_of(ranks, generator)

    def draw() -> tuple[tuple[Tensor, Tensor | None, Tensor | None], tuple[float, ...]]:
        y, a, numbers = loaded_rows(read, size, share, own, ranks.size)
        # By its precision: float16 and bfloat16 have as many bits, and rows travel as bytes.
        facts = (y.shape[1], a is not None, torch.finfo(y.dtype).eps, read.endless)
        return (y, a, numbers), tuple(map(float, facts))

    (y, a, numbers), facts = agree(ranks, "build_coreset", draw, same=ALIKE, why=WHY)
    if a is not None:
        a = a * total_of(sample_weights)
    return LoadedSamples(y, a, RankedRows(ranks, y, a), read, numbers, bool(facts[:, len(ALIKE)].all()), own)


def loaded_rows(
    source: Source, size: int, samples: int | None, generator: Generator, parts: int = 1, most: int | None = None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Samples (m, d) to build `size` points on, their weights and row numbers; the default is divided by `parts`.

    If `samples` is None, at most `most` samples, if that is given."""
    if samples is None and source.size is not None:
        samples = most
    if samples is None and source.on_disk:
        samples = most_of_file(size, source.dimension)
    if samples is not None or source.size is not None:
        return source.numbered(samples, generator)
    with warnings.catch_warnings():
        # The default number was not asked for: an iterator that ends earlier is loaded whole, without a warning.
        warnings.filterwarnings("ignore", message="source: the .* ended after", category=UserWarning)
        y, a = source.materialize(most or max(DEFAULT_SAMPLES, SAMPLES_PER_POINT * size) // parts, generator)
        missing = LINE_SAMPLES // parts - len(y) if most is None else 0
        if source.endless and y.shape[1] == 1 and missing > 0:
            # On the line sorting is cheap, and more samples are needed: their quantiles err by 1 / sqrt(m) however
            # many points there are, which has to be small against the width of a cell.
            y = torch.cat((y, source.materialize(missing, generator)[0]))
        return y, a, None


def most_of_file(size: int, dimension: int | None) -> int:
    """Default for the maximum number of rows that are loaded of a file."""
    return max(DEFAULT_SAMPLES, SAMPLES_PER_POINT * size, 0 if dimension is None else FILE_NUMBERS // dimension)
