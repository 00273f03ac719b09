"""Min-cost flow on the Laguerre cells: the excess of some is sent to those that lack mass, along cheapest paths.

`network` is the primal-dual method, with arcs between all cells (`dense`, `cell_samples`) or along lists (`sparse`,
`candidate_arcs`). Only samples near the boundary of their cell take part (`boundary`).
"""

from .boundary import BoundarySamples, boundary_samples, within_limits
from .candidate_arcs import candidate_arcs
from .cell_samples import Floats, Ints
from .dense import balance, spread
from .network import MASS_TOLERANCE
from .sparse import ArcLists, balance_lists

__all__ = [
    "MASS_TOLERANCE", "ArcLists", "BoundarySamples", "Floats", "Ints", "balance", "balance_lists", "boundary_samples",
    "candidate_arcs", "spread", "within_limits",
]  # fmt: skip
