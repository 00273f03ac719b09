"""Coresets of parts of the data, such as shards, days or clients, made one.

`merge` is the way in, `part` reads what is to be merged, `bound` says how far the result can be from all that the parts
stand for, and `result` is what comes back.
"""

from .bound import MergeBound, PartBound
from .merge import merge
from .result import MergeResult

__all__ = ["MergeBound", "MergeResult", "PartBound", "merge"]
