"""The points: what a coreset is, and the algorithms that place it.

`coreset` is the module; `build` goes from a source to one: `samples` in memory, a `start`, the `algorithms`, and the
`history` that they leave; `cell_sizes` are those of a stream. `labeled` merges a coreset of each class; `compare`
judges several divergences alike. `files` and `atomic` write arrays whole or not at all; `progress` is a bar.
"""

from .atomic import replacing
from .build import DEFAULT_STEPS, Algorithm, build_coreset
from .cell_sizes import CellSizes
from .compare import Comparison, compare_divergences
from .coreset import Coreset
from .files import FORMATS as ARRAY_FORMATS
from .files import (
    labels_of,
    load_npz,
    load_tensors,
    names_in_npz,
    read_arrays,
    require_safetensors,
    wide,
    write_arrays,
)
from .history import BuildResult, Step
from .labeled import Allocation, LabeledCoreset, allocate, build_labeled_coreset
from .start import Init

__all__ = [
    "ARRAY_FORMATS", "DEFAULT_STEPS", "Algorithm", "Allocation", "BuildResult", "CellSizes", "Comparison", "Coreset",
    "Init", "LabeledCoreset", "Step", "allocate", "build_coreset", "build_labeled_coreset", "compare_divergences",
    "labels_of", "load_npz", "load_tensors", "names_in_npz", "read_arrays", "replacing", "require_safetensors", "wide",
    "write_arrays",
]  # fmt: skip
