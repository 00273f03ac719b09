"""Finite sources whose rows can be read in any order: `tensors`, map-style `datasets`, or with counts (`repeated`).

`fingerprint` knows one again.
"""

from .datasets import DatasetSource, stack_rows
from .fingerprint import fingerprint_of
from .random_access import POOL_ELEMENTS, RandomAccessSource
from .repeated import RepeatedRows
from .tensors import TensorSource

__all__ = [
    "POOL_ELEMENTS", "DatasetSource", "RandomAccessSource", "RepeatedRows", "TensorSource", "fingerprint_of",
    "stack_rows",
]  # fmt: skip
