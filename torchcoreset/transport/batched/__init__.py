"""Many transport problems of one shape: checked at once, solved one by one, and their results side by side.

`problems` is the door for points (B, n, d) and samples (B, m, d), `result` what comes back with a leading B. Each pair
is solved as it would be by itself; what solves it is passed in.
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
from .result import CouplingBatch, TransportBatch, solve_each

__all__ = [
    "BATCH", "PAIR", "CouplingBatch", "ProblemBatch", "TransportBatch", "broadcast", "is_batch", "make_problems",
    "refuse_choices", "refuse_group", "shape_of", "solve_each",
]  # fmt: skip
