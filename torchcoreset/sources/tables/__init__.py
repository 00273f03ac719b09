"""Finite sources whose rows can be read in any order: `tensors`, map-style `datasets`, with counts (`repeated`), with
labels in columns after the features (`labeled`), or the `points` of a coreset.

`fingerprint` knows one again.
"""

from .datasets import DatasetSource, stack_rows
from .fingerprint import fingerprint_of
from .labeled import LabeledRows
from .points import PointsSource
from .random_access import POOL_ELEMENTS, RandomAccessSource
from .repeated import RepeatedRows
from .tensors import TensorSource

__all__ = [
    "POOL_ELEMENTS", "DatasetSource", "LabeledRows", "PointsSource", "RandomAccessSource", "RepeatedRows",
    "TensorSource", "fingerprint_of", "stack_rows",
]  # fmt: skip
