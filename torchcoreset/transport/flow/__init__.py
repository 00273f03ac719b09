"""Min-cost flow on the Laguerre cells: the excess of some is sent to those that lack mass, along cheapest paths.

`network` is the primal-dual method, with arcs between all cells (`dense`, `cell_samples`) or along lists (`sparse`,
`candidate_arcs`). Only samples near the boundary of their cell take part (`boundary`, `movable`).
"""

from .boundary import offered
from .candidate_arcs import listed
from .cell_samples import Floats, Ints
from .dense import balance, spread
from .movable import Movable, within_quota
from .network import DUST
from .sparse import Lists, balance_lists

__all__ = [
    "DUST",
    "Floats",
    "Ints",
    "Lists",
    "Movable",
    "balance",
    "balance_lists",
    "listed",
    "offered",
    "spread",
    "within_quota",
]
