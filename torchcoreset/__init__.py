"""A few points that stand in for a distribution you can only sample, with a number that says how well."""

from .errors import ConvergenceError, ConvergenceWarning
from .losses import CoresetLoss, wasserstein
from .sources import Source, as_source
from .transport import Coupling, Status, Transport, transport

__all__ = [
    "ConvergenceError",
    "ConvergenceWarning",
    "CoresetLoss",
    "Coupling",
    "Source",
    "Status",
    "Transport",
    "as_source",
    "transport",
    "wasserstein",
]
