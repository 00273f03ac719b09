"""Batches, again and again (`loaders`) or once (`streams`): `reading` is one pass, `reservoir` a sample of it."""

from .loaders import LoaderSource, RowBatches
from .streams import StreamSource

__all__ = ["LoaderSource", "RowBatches", "StreamSource"]
