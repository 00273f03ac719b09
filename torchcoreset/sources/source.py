"""The interface of all sources of samples."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import Generator, Tensor

from ..tensors import described

if TYPE_CHECKING:
    from .labels import Labels
    from .scaling import Scaling


class Source(abc.ABC):
    """A distribution that can only be sampled.

    All random numbers come from the generator passed in: the same source and the same seed give the same
    samples, and torch's global random state is left as it was. Samples are detached floating point tensors of
    shape (rows, d). `materialize` may return memory that the user's data share: never write to it.

    Attributes:
        size: rows of a finite source; None for an endless one or one whose rows are not known before reading.
        dimension: d, or None while nothing has been read yet.
        on_disk: whether `materialize(None)` would read a file that may be larger than memory.
        weighted: whether rows have weights of their own; `draw` then follows them.
        weights_are: "importance" where `weighted`; "counts" where a row stands for several equal ones, which are all
            counted in `size`; else None. See `as_source`.
        weightless: rows of weight zero, which no draw gives.
        mass: sum of the weights as they were given; 0 without weights.
        resampled: whether a pass is known to repeat rows, or to draw some more often than others, as samplers of
            loaders can; its rows are then not independent samples.
        endless: whether the source can never run out (distributions and callables). False says nothing about
            loaders and iterators of unknown length.
        units: of distances between rows, where these are the points of a coreset that was built with `scale=`; None for
            those of the data.
        metric: the distance that these are for; None for the Euclidean one.
        joint: what the last columns of joint rows (features, labels) hold, with `split` to tell them apart; None for
            features alone: see `joint_source`.
    """

    size: int | None = None
    dimension: int | None = None
    weighted: bool = False
    weights_are: str | None = None
    weightless: int = 0
    mass: float = 0.0
    resampled: bool = False
    endless: bool = False
    on_disk: bool = False
    units: Scaling | None = None
    metric: Any = None
    joint: Labels | None = None

    @abc.abstractmethod
    def draw(self, count: int, generator: Generator) -> Tensor:
        """Draw up to `count` samples, all of equal weight.

        A table or dataset gives a random subset without replacement, and all its rows, shuffled, when `count`
        is at least its size; with weights, `count` rows with replacement, each with probability proportional
        to its weight. A distribution or callable gives fresh samples. A loader or iterator gives its next
        rows in its own order; rows of a batch that are not needed are kept for the next draw, and a loader
        starts a new pass when one ends.

        Args:
            count: number of samples, at least 1.
            generator: where the random numbers come from.

        Returns:
            Samples, (count, d); fewer rows only from a table or dataset that is smaller, or an iterator that
            ends.

        Raises:
            ValueError: `count` is not a positive integer, the source is exhausted, or its rows cannot be
                used.

        Warns:
            UserWarning: an iterator ended before `count` rows.
        """

    @abc.abstractmethod
    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Go once through a finite source in batches, or through an endless one without end.

        A table or dataset is shuffled and its short last batch is kept; a file is shuffled in parts. A loader or
        iterator yields its own batches in its own order, whatever `batch_size` says: shuffle in the loader if the
        rows are sorted.

        Args:
            batch_size: rows of a batch, at least 1.
            generator: where the random numbers come from.

        Yields:
            Samples, (rows, d), and their weights, (rows,) in float64, or None for equal weights. The weights
            sum to 1 over the whole pass.

        Raises:
            ValueError: as for `draw`.
        """

    @abc.abstractmethod
    def materialize(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        """Hold the source in memory, with at most `limit` rows.

        A source known to be finite gives all its rows in their own order, or a uniform random sample of
        `limit` of them (with weights: `limit` rows drawn in proportion to the weights, and no weights
        returned). A distribution or callable gives `limit` fresh samples. An iterator, or a loader without a
        length, may be endless, so it gives its next `limit` rows: if they come sorted, give the loader a
        `__len__` and it is sampled uniformly.

        Args:
            limit: most rows to hold, at least 1; None for all rows.
            generator: where the random numbers come from.

        Returns:
            Samples, (rows, d), and their weights, (rows,) in float64 summing to 1, or None for equal weights.

        Raises:
            ValueError: `limit` is None and the source is endless, and as for `draw`.

        Warns:
            UserWarning: an iterator ended before `limit` rows.
        """

    def numbered(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """What `materialize` gives, and the number (rows,) of each row in the table that it comes from.

        The numbers are those of the whole table, whatever was held out of it; None where rows have none, as those of a
        loader, an iterator or a distribution.
        """
        return *self.materialize(limit, generator), None

    def _parts(self) -> tuple[str, ...]:
        """What `repr` says beside the size."""
        return ()

    def __repr__(self) -> str:
        size, dimension = ("unknown" if number is None else number for number in (self.size, self.dimension))
        return described(self, f"size={'endless' if self.endless else size}", f"dimension={dimension}", *self._parts())


class SourceExhausted(ValueError):
    """An iterator has given all its batches, and none is left for this call."""
