"""How far a weighted mean may be from its expectation: `moments` of a stream give an `interval`.

`weights` tells which weights are too heavy for any.
"""

from .interval import bernstein, clt, hall, hoeffding
from .moments import WeightedMoments, size_of
from .weights import warn_of_weights

__all__ = ["WeightedMoments", "bernstein", "clt", "hall", "hoeffding", "size_of", "warn_of_weights"]
