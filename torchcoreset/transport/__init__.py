"""Optimal transport between n points and m samples: no autograd, no modules.

problem     the door: checks, weights, shift          cost      |y - x|^p, pairwise and paired
engine      hard and soft passes over all samples     newton    annealed Newton on the smoothed semi-dual
balance     surplus mass along shortest paths         solve     the way from a problem to bounds that meet
result      what comes back
"""

from .result import Coupling, Status, Transport
from .solve import transport

__all__ = ["Coupling", "Status", "Transport", "transport"]
