"""One-shot streams: iterators and generators of batches."""

from collections.abc import Iterator
from typing import Any

from torch import Generator, Tensor

from ...errors import warn_user
from ...tensors import check_count
from ..layout import PLAIN, Layout
from ..source import Source, SourceExhausted
from .reading import Reader


class StreamSource(Source):
    """An iterator of batches, each of which can be read once.

    It may be endless, so no call reads further than it was asked to, except `batches` and
    `materialize(None)`.

    Args:
        iterator: its batches are (rows, d), or a tuple, list or dict with such features; those of a DataLoader with a
            batch_size also (rows,) for d = 1.
        layout: where in a batch the features are.

    Raises:
        ValueError: on reading, no batches are left, or one cannot be used.
    """

    def __init__(self, iterator: Iterator[Any], layout: Layout = PLAIN) -> None:
        self._kind = type(iterator).__name__
        # torch's iterator over a DataLoader says whether it gathers rows.
        self._reader = Reader(iterator, layout=layout, batched=getattr(iterator, "_auto_collation", False) is True)

    @property
    def dimension(self) -> int | None:  # type: ignore[override]  # read-only, known after the first batch
        return self._reader.dimension

    def draw(self, count: int, generator: Generator) -> Tensor:
        check_count(count, "count")
        return self._take(count, generator)

    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        check_count(batch_size, "batch_size")
        rows = self._reader.read(generator)
        if rows is None:
            raise self._ended()
        while rows is not None:
            yield rows, None
            rows = self._reader.read(generator)

    def materialize(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        if limit is not None:
            check_count(limit, "limit")
        return self._take(limit, generator), None

    def peek(self, generator: Generator) -> int:
        """d, of the next rows, which are still to be read."""
        dimension = self._reader.peek(generator)
        if dimension is None:
            raise self._ended()
        return dimension

    def _take(self, count: int | None, generator: Generator) -> Tensor:
        rows = self._reader.take(count, generator)
        if rows is None:
            raise self._ended()
        if count is not None and len(rows) < count:
            message = (
                f"source: the {self._kind} ended after {len(rows)} of {count} rows; going on with these. "
                f"Pass a list of batches or a DataLoader to read them more than once."
            )
            warn_user(UserWarning(message))
        return rows

    def _ended(self) -> ValueError:
        if self._reader.count == 0:
            return ValueError(
                f"source: got a {self._kind} with no batches; expected at least one. It may have been read "
                f"before, or come from a loader with drop_last=True and fewer rows than batch_size."
            )
        return SourceExhausted(
            f"source: the {self._kind} is exhausted after {self._reader.count} batches; expected more. "
            f"Pass a list of batches or a DataLoader to read them more than once."
        )

    def _parts(self) -> tuple[str, ...]:
        return (f"iterator={self._kind}",)
