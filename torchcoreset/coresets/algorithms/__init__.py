"""The outer algorithms, which move the points.

Each is a module with a `State`, an `init` that creates the first state, and a `step` from a state to the next one and
the result at its points. `descend` repeats the step of any algorithm, decides when to stop and keeps the history;
`objective` is the function that they minimise.

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
