"""Many transport problems of one shape: checked together, with stacked results.

`problems` checks points (B, n, d) and samples (B, m, d); `result` has the results with a leading dimension B. Each pair
is solved as it would be in a call of its own, by `solve_batch`.
"""

from .problems import (
    BATCH,
    PAIR,
    ProblemBatch,
    broadcast,
    is_batch,
    make_problems,
    refuse_choices,
    refuse_group,
    shape_of,
)
from .result import CouplingBatch, TransportBatch, check_starts

__all__ = [
    "BATCH", "PAIR", "CouplingBatch", "ProblemBatch", "TransportBatch", "broadcast", "check_starts", "is_batch",
    "make_problems", "refuse_choices", "refuse_group", "shape_of",
]  # fmt: skip
