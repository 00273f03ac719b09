"""Entropic transport at a given eta, by Newton and Sinkhorn steps (`sinkhorn`) or geomloss' iteration (`geomloss`).

`evaluation` computes value, marginals and derivatives of the plan that a potential makes.
"""

from .evaluation import Entropic, cost_blocks, displacement_sums
from .geomloss import ENGINES, geomloss_entropic
from .sinkhorn import self_entropic, solve_entropic

__all__ = [
    "ENGINES", "Entropic", "cost_blocks", "displacement_sums", "geomloss_entropic", "self_entropic", "solve_entropic",
]  # fmt: skip
