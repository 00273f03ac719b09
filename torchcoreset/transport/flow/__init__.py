"""Min-cost flow on the Laguerre cells: excess mass is sent to cells that lack mass, along cheapest paths.

`network_simplex` is the solver, over all costs or the lists that `candidate_arcs` makes. `all_pairs` decides where it
starts on all costs; on lists only samples near the boundary of their cell take part (`boundary`). Mass that finds no
path is moved by the north-west corner rule.
"""

from .all_pairs import SolvedPairs, nearest_cells, solve_pairs
from .boundary import BoundarySamples, boundary_samples, cheapest_moves, least_margin, priced_samples, within_limits
from .candidate_arcs import candidate_arcs
from .network_simplex import MASS_TOLERANCE, Balanced, CandidateArcs, Floats, Ints, balance
from .north_west_corner import north_west_corner

__all__ = [
    "MASS_TOLERANCE", "Balanced", "BoundarySamples", "CandidateArcs", "Floats", "Ints", "SolvedPairs", "balance",
    "boundary_samples", "candidate_arcs", "cheapest_moves", "least_margin", "nearest_cells", "north_west_corner",
    "priced_samples", "solve_pairs", "within_limits",
]  # fmt: skip
