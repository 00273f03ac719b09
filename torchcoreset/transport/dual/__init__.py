"""Newton on the semi-dual: from nothing to a potential that is nearly the best.

`newton` anneals the smoothing, with directions from `hessian`; `coarse_to_fine` begins with few points, `start` with a
flow where Newton would be lost; on the `line` sorting solves the problem.
"""

from .coarse_to_fine import COARSE, LEAST_SAMPLES, coarse_potential, coarse_sample
from .hessian import HELD, Curvature, Factorised, LazyHessian, LimitedMemory, curvature_of
from .line import sorted_transport
from .newton import LOOSE, UNDECIDED, anneal, newton_steps, next_eta, settle, target_softness

__all__ = [
    "COARSE",
    "HELD",
    "LEAST_SAMPLES",
    "LOOSE",
    "UNDECIDED",
    "Curvature",
    "Factorised",
    "LazyHessian",
    "LimitedMemory",
    "anneal",
    "coarse_potential",
    "coarse_sample",
    "curvature_of",
    "newton_steps",
    "next_eta",
    "settle",
    "sorted_transport",
    "target_softness",
]
