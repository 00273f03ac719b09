"""Newton on the semi-dual: from a cold start to a nearly optimal potential.

`newton` anneals the smoothing, with directions from `hessian`; `coarse_to_fine` begins with few points, and `start`
with a flow if Newton would not converge; on the `line` sorting solves the problem.
"""

from .coarse_to_fine import COARSE, LEAST_SAMPLES, coarse_potential, coarse_sample
from .hessian import LEAST_DEGREE, Curvature, Factorised, LazyHessian, LimitedMemory, curvature_of
from .line import sorted_transport, widest_direction
from .newton import LOOSE, UNDECIDED, eps_scaling, has_failed, newton_steps, next_eta, target_softness, tune_eta

__all__ = [
    "COARSE", "LEAST_DEGREE", "LEAST_SAMPLES", "LOOSE", "UNDECIDED", "Curvature", "Factorised", "LazyHessian",
    "LimitedMemory", "coarse_potential", "coarse_sample", "curvature_of", "eps_scaling", "has_failed", "newton_steps",
    "next_eta", "sorted_transport", "target_softness", "tune_eta", "widest_direction",
]  # fmt: skip
