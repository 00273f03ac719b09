"""Min-cost flow on the Laguerre cells: the excess of some is sent to those that lack mass, along cheapest paths.

`min_cost_flow` is the solver, over residual `arcs` between all cells (`dense_arcs`) or along lists (`list_arcs`,
`candidate_arcs`). Only samples near the boundary of their cell take part (`boundary`). Mass that finds no path is moved
by the north-west corner rule.
"""

from .arcs import MASS_TOLERANCE, Floats, Ints
from .boundary import BoundarySamples, boundary_samples, within_limits
from .candidate_arcs import candidate_arcs
from .list_arcs import ArcLists
from .min_cost_flow import balance
from .north_west_corner import north_west_corner

__all__ = [
    "MASS_TOLERANCE", "ArcLists", "BoundarySamples", "Floats", "Ints", "balance", "boundary_samples",
    "candidate_arcs", "north_west_corner", "within_limits",
]  # fmt: skip
