"""Optimal transport between n points and m samples: no autograd, no modules.

problem     the door: checks, weights, shift          cost      |y - x|^p, pairwise and paired
engine      hard and soft passes over all samples     choose    which engine makes them
dense       the engine of matrix products             fused     engines that never write c - v down
keops       one of these, compiled by KeOps           triton    another, in CUDA kernels
newton      annealed Newton on the smoothed semi-dual
balance     surplus mass along shortest paths         line      one dimension: sorting
solver      from a problem to bounds that meet        solve     `transport`: the public way in
result      what comes back
"""

from .result import Coupling, Status, Transport
from .solve import transport

__all__ = ["Coupling", "Status", "Transport", "transport"]
