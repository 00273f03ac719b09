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

from .build import build_coreset
from .compare import Comparison, compare_divergences
from .coreset import Coreset
from .history import BuildResult, Step
from .labeled import LabeledCoreset, build_labeled_coreset

__all__ = [
    "BuildResult",
    "Comparison",
    "Coreset",
    "LabeledCoreset",
    "Step",
    "build_coreset",
    "build_labeled_coreset",
    "compare_divergences",
]
