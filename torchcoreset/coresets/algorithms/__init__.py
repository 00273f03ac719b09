"""The outer algorithms: how points move.

Each is a module with a `State`, an `init` that makes the first one, and a `step` from a state to the next one and to
what was measured at its points. `descend` repeats the step of any of them, stops and keeps the record; `objective` is
what they minimise.

fixed_point   Algorithm 2 on one set of samples       averaging   the same on fresh samples, points averaged
stochastic    Algorithm 1, on the batches of a stream  gradient   any torch optimizer on any `CoresetLoss`
quasi_newton  any other divergence, on one set of samples
cells         the best place of a point in its cell
"""

from . import averaging, fixed_point, gradient, quasi_newton, stochastic
from .descend import Run
from .gradient import OptimizerFactory
from .objective import Objective

__all__ = [
    "Objective", "OptimizerFactory", "Run", "averaging", "fixed_point", "gradient", "quasi_newton", "stochastic",
]  # fmt: skip
