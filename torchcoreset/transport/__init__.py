"""Optimal transport between n points and m samples: no autograd, no modules.

problem     the door: checks, weights, shift          cost      |y - x|^p, pairwise and paired
engine      hard and soft passes over all samples     choose    which engine makes them
dense       engine of matrix products, for any device fused     engines that never write c - v down:
keops       ... compiled by KeOps                     triton    ... one CUDA kernel
newton      annealed Newton on the smoothed semi-dual
balance     surplus mass along shortest paths         solve     the way from a problem to bounds that meet
result      what comes back
"""

from .result import Coupling, Status, Transport
from .solve import transport

__all__ = ["Coupling", "Status", "Transport", "transport"]
