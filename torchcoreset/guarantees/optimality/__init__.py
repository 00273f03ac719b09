"""Lower bounds on W_p between rows and any n points, of equal, free, bounded or given weights.

`optimality_bound` takes the best that the number of `rows` allows: exact on the `line`; from the mass nearest to each
row, `pairs`, with a shift that makes it sharper; the same for `free`, bounded and given weights; or a `semidefinite`
relaxation. `population` bounds the distance to the distribution behind the rows. `result` compares a build.
"""

from .bound import optimality_bound
from .population import fewest_points
from .result import OptimalityBound

__all__ = ["OptimalityBound", "fewest_points", "optimality_bound"]
