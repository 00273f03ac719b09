"""What a bound is computed from: `fresh` rows, a `potential` from others, its cells, a feasible `plan`."""

from .cell_statistics import Candidates, CellStatistics, candidates, joined
from .fresh import FreshRows, Rows
from .plan import Plan, feasible_plan, solved_plan
from .potential import Fitted, fit_potential
from .shared_rows import WHY, SharedRows, generator_of

__all__ = [
    "WHY",
    "Candidates",
    "CellStatistics",
    "Fitted",
    "FreshRows",
    "Plan",
    "Rows",
    "SharedRows",
    "candidates",
    "feasible_plan",
    "fit_potential",
    "generator_of",
    "joined",
    "solved_plan",
]
