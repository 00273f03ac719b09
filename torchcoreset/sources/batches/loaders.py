"""Batches that can be read again and again: data loaders, iterable datasets, lists of batches."""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, WeightedRandomSampler

from ...tensors import LISTS, check_count
from ..layout import PLAIN, Layout
from ..source import Source
from ..tables import stack_rows
from .reading import Reader
from .reservoir import reservoir


class LoaderSource(Source):
    """A DataLoader, or any iterable of batches that starts again each time it is iterated.

    The batches come in the loader's own order: a loader over sorted rows should shuffle. A shuffling loader
    without a generator of its own follows the generator of each call. `size` is what the loader's sampler
    says; it is None for a custom batch sampler or an iterable without rows known in advance.

    Args:
        loader: its batches are (rows, d), or a tuple, list or dict with such features; those of a DataLoader with a
            batch_size also (rows,) for d = 1.
        layout: where in a batch the features are.

    Raises:
        ValueError: the loader has no batches; on reading, batches that cannot be used.
    """

    def __init__(self, loader: Iterable[Any], layout: Layout = PLAIN) -> None:
        self._loader = loader
        self._layout = layout
        self._finite = _has_length(loader)
        self.resampled = isinstance(loader, DataLoader) and _resamples(loader)
        self._open: Reader | None = None
        self.size = self._count_rows()
        if self.size == 0:
            raise self._no_batches()

    def draw(self, count: int, generator: Generator) -> Tensor:
        check_count(count, "count")
        pieces: list[Tensor] = []
        missing = count
        while missing > 0:
            reader = self._open = self._open or self._start()
            rows = reader.take(missing, generator)
            self._finish(reader)
            if rows is not None:
                pieces.append(rows)
                missing -= len(rows)
            if missing > 0:
                self._open = None
        return torch.cat(pieces)

    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        check_count(batch_size, "batch_size")
        reader = self._start()
        for rows in reader.read_all(generator):
            yield rows, None
        self._finish(reader)

    def materialize(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        reader = self._start()
        if limit is not None:
            check_count(limit, "limit")
        if limit is not None and self._finite:
            rows = reservoir(reader.read_all(generator), limit, generator)
        else:  # without a length it may be endless, so it is read no further than asked
            rows = reader.take(limit, generator)
        if rows is None:
            raise self._no_batches()
        self.dimension = reader.dimension
        return rows, None

    def _start(self) -> Reader:
        return Reader(self._loader, self.dimension, self._layout, batched=_gives_batches(self._loader))

    def _finish(self, reader: Reader) -> None:
        """Learn the dimension from a pass, and raise if it gave nothing: another pass would not either."""
        if reader.count == 0:
            raise self._no_batches()
        self.dimension = reader.dimension

    def _no_batches(self) -> ValueError:
        return ValueError(
            f"source: got a {type(self._loader).__name__} with no batches; expected at least one each time "
            f"it is iterated. With drop_last=True, fewer rows than batch_size give no batches."
        )

    def _count_rows(self) -> int | None:
        loader = self._loader
        if isinstance(loader, LISTS):
            reader = self._start()  # in memory already, so reading it now finds bad batches early
            rows = sum(map(len, reader.read_all(torch.Generator())))
            self._finish(reader)
            return rows
        if not isinstance(loader, DataLoader) or not _has_length(loader):
            return None
        if len(loader) == 0:
            return 0
        if loader.batch_size is None or isinstance(loader.dataset, IterableDataset):
            return None
        rows = len(loader.sampler)  # type: ignore[arg-type]  # it has a length, as the loader has one
        return rows - rows % loader.batch_size if loader.drop_last else rows

    def _parts(self) -> tuple[str, ...]:
        return (f"loader={type(self._loader).__name__}",)


class RowBatches:
    """An IterableDataset's single rows, gathered into batches each time it is iterated."""

    def __init__(self, dataset: IterableDataset[Any], layout: Layout, batch_size: int = 256) -> None:
        self._dataset = dataset
        self._layout = layout
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[Tensor]:
        rows = iter(self._dataset)
        start = 0
        while values := list(islice(rows, self._batch_size)):
            yield stack_rows(values, range(start, start + len(values)), self._layout)
            start += len(values)

    def __len__(self) -> int:
        rows = len(self._dataset)  # type: ignore[arg-type]  # raises where there is no length
        return math.ceil(rows / self._batch_size)


def _gives_batches(loader: Any) -> bool:
    """Whether it is sure to gather rows, so that what has one dimension is a batch of numbers."""
    if isinstance(loader, DataLoader):
        return loader.batch_sampler is not None or isinstance(loader.sampler, BatchSampler)
    return isinstance(loader, RowBatches)


def _resamples(loader: DataLoader[Any]) -> bool:
    """Whether its sampler draws with replacement, or some rows sooner than others."""
    samplers = (loader.sampler, getattr(loader.batch_sampler, "sampler", None))
    return any(
        isinstance(one, WeightedRandomSampler) or (isinstance(one, RandomSampler) and one.replacement)
        for one in samplers
    )


def _has_length(loader: Any) -> bool:
    try:
        len(loader)
    except (TypeError, NotImplementedError):  # loaders of an IterableDataset, and samplers without a length
        return False
    return True
