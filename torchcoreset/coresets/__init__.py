"""The points: what a coreset is, and the algorithms that place it.

`coreset` is the module; `build` goes from a source to one: `samples` in memory, a `start`, the `algorithms`, and the
`history` that they leave; `cell_sizes` are those of a stream. `labeled` puts a coreset of each class together, and
`parts` those of shards, days or clients; `compare` judges several divergences alike. `files` and `atomic` write arrays
whole or not at all; `progress` is a bar.
"""

from ..archives import labels_of, read_arrays
from ..names import Algorithm, Allocation, Init
from .atomic import remove, replacing
from .build import DEFAULT_STEPS, build_coreset
from .cell_sizes import CellSizes
from .compare import Comparison, compare_divergences
from .coreset import Coreset
from .files import write_arrays
from .history import BuildResult, Step
from .labeled import LabeledCoreset, allocate, build_labeled_coreset, joint_source
from .parts import MergeBound, MergeResult, PartBound, merge

__all__ = [
    "DEFAULT_STEPS", "Algorithm", "Allocation", "BuildResult", "CellSizes", "Comparison", "Coreset",
    "Init", "LabeledCoreset", "MergeBound", "MergeResult", "PartBound", "Step", "allocate", "build_coreset",
    "build_labeled_coreset", "compare_divergences", "joint_source", "labels_of", "merge", "read_arrays", "remove",
    "replacing", "write_arrays",
]  # fmt: skip
