"""A few points that stand in for a distribution you can only sample, with a number that says how well."""

from .coresets import BuildResult, Coreset, Step, build_coreset
from .errors import ConvergenceError, ConvergenceWarning
from .losses import CoresetLoss, wasserstein
from .sources import Source, as_source
from .transport import Coupling, Status, Transport, transport

__all__ = [
    "BuildResult",
    "ConvergenceError",
    "ConvergenceWarning",
    "Coreset",
    "CoresetLoss",
    "Coupling",
    "Source",
    "Status",
    "Step",
    "Transport",
    "as_source",
    "build_coreset",
    "transport",
    "wasserstein",
]
