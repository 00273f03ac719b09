"""Starting points of a build: drawn (`draw`), cut (`bisection`), annealed, arranged, or the best (`restarts`)."""

from ...names import Init
from .draw import check_size, pool_size, repeat_to, separated, start_points
from .relocation import descended, relocated
from .restarts import Start

__all__ = [
    "Init", "Start", "check_size", "descended", "pool_size", "relocated", "repeat_to", "separated",
    "start_points",
]  # fmt: skip
