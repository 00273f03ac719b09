"""The outer algorithms: `fixed_point`, `gradient`, `stochastic`, and `averaging` on fresh samples.

`cells` finds the best place for a point in its cell, `cell_sizes` follows how large cells are.
"""

from . import averaging
from .averaging import AveragedFixedPoint
from .cell_sizes import CellSizes
from .fixed_point import LOOSEST, FixedPoint
from .gradient import GradientDescent, OptimizerFactory
from .stochastic import StochasticDescent

__all__ = [
    "LOOSEST",
    "AveragedFixedPoint",
    "CellSizes",
    "FixedPoint",
    "GradientDescent",
    "OptimizerFactory",
    "StochasticDescent",
    "averaging",
]
