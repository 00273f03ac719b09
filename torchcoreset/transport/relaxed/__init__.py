"""Optimal transport whose marginals are not fixed: free or bounded point weights, and mass that stays unmatched.

`cells` evaluates the semi-dual of `marginals`, `network` adds to a flow the nodes that stand for what may be chosen,
and `solve` puts both together until the bounds meet.
"""

from .cells import RelaxedCells, relaxed_cells
from .solve import solve_relaxed

__all__ = ["RelaxedCells", "relaxed_cells", "solve_relaxed"]
