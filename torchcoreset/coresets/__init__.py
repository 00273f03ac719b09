"""The points: what a coreset is, and the algorithms that place it.

coreset        the module        starts        where points begin        cells       the best place in a cell
arrangement    which weight goes where
annealing      better starts     restarts      the best of several       gradient    any torch optimizer
fixed_point    Algorithm 2       stochastic    Algorithm 1               progress    a bar
history        what a run says   build         from a source to a coreset
held           samples in memory averaging     on fresh samples, for sources without end
ranked_rows    those of ranks    files, atomic    arrays in files, whole or not at all
compare        one start, one judge, several divergences        labeled    a coreset of each class, merged
"""

from .atomic import replacing
from .build import DEFAULT_STEPS, build_coreset
from .compare import Comparison, compare_divergences
from .coreset import Coreset
from .files import labels_of, load_npz, load_tensors, read_arrays, require_safetensors, wide, write_arrays
from .history import BuildResult, Step
from .labeled import LabeledCoreset, allocate, build_labeled_coreset

__all__ = [
    "DEFAULT_STEPS",
    "BuildResult",
    "Comparison",
    "Coreset",
    "LabeledCoreset",
    "Step",
    "allocate",
    "build_coreset",
    "build_labeled_coreset",
    "compare_divergences",
    "labels_of",
    "load_npz",
    "load_tensors",
    "read_arrays",
    "replacing",
    "require_safetensors",
    "wide",
    "write_arrays",
]
