"""What a bound is computed from: `fresh` rows, a `potential` from others, its cells, a feasible `plan`."""

from .cell_statistics import CellRows, CellStatistics, cell_rows, joined
from .fresh import FreshRows, Rows, put_together
from .plan import Plan, feasible_plan, near_optimal_plan
from .potential import Fitted, fit_potential
from .shared_rows import WHY, SharedRows, generator_of

__all__ = [
    "WHY", "CellRows", "CellStatistics", "Fitted", "FreshRows", "Plan", "Rows", "SharedRows", "cell_rows",
    "feasible_plan", "fit_potential", "generator_of", "joined", "near_optimal_plan", "put_together",
]  # fmt: skip
