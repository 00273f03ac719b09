"""What is done to a checked problem before Newton and the flow see it, and to their result afterwards: the presolve.

`plan` finds an optimal plan, `potential` the dual side alone. Equal points are merged, and points without weight left
out, before the problem goes on:

    small        solves a small problem in one call, and all small ones of a batch together
    arithmetic   has any other solved in float32 or float64, as the gap that is asked for needs
    parts        solves near points as one, and far groups by themselves: there the solve of the whole begins

`reductions` makes problems smaller and their results whole again; `solving` solves what is left.
"""

from .plan import reduce_and_solve
from .potential import reduce_and_ascend
from .small import solve_small

__all__ = ["reduce_and_ascend", "reduce_and_solve", "solve_small"]
