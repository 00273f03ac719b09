"""A solve: from points and samples to an optimal plan, by Newton on subsamples, on all samples, and min-cost flow.

`run` puts three parts together until the bounds of a `SolveState` meet:

    approach    Newton, coarse on subsamples and fine on all samples: a nearly optimal potential
    balance     a flow of the excess of its cells, which gives a feasible plan; `rounds` of several
    all_pairs   a flow of all samples, which alone solves small problems, and takes over where the others do not do

What chooses between them is the size of the problem (`limits`) and the mass in wrong cells of a potential
(`wrong_mass`). Each pass over all samples yields a lower bound D(v), each plan an upper bound.
"""

from .all_pairs import solve_directly
from .approach import FINE, MOST, ascend
from .limits import is_direct, is_for_one_rank, is_one_call, is_small, may_start_from_cells
from .run import find_transport
from .state import BLUNT, Settings, SolveState, plan_cost

__all__ = [
    "BLUNT", "FINE", "MOST", "Settings", "SolveState", "ascend", "find_transport", "is_direct",
    "is_for_one_rank", "is_one_call", "is_small", "may_start_from_cells", "plan_cost", "solve_directly",
]  # fmt: skip
