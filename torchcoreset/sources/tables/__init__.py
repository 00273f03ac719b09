"""Finite sources whose rows can be read in any order: `tensors`, map-style `datasets`, or with counts (`repeated`)."""

from .datasets import DatasetSource, stack_rows
from .random_access import POOL_ELEMENTS, RandomAccessSource
from .repeated import RepeatedRows
from .tensors import TensorSource

__all__ = ["POOL_ELEMENTS", "DatasetSource", "RandomAccessSource", "RepeatedRows", "TensorSource", "stack_rows"]
