"""A few points that stand in for a distribution you can only sample, with a number that says how well."""

from .coresets import BuildResult, Comparison, Coreset, Step, build_coreset, compare_divergences
from .errors import ConvergenceError, ConvergenceWarning, DriftWarning
from .losses import CoresetLoss, Discrepancy, SinkhornResult, energy_distance, mmd, sinkhorn_divergence, wasserstein
from .sources import Source, as_source
from .transport import Coupling, Status, StreamStatus, StreamTransport, Transport, transport

__all__ = [
    "BuildResult",
    "Comparison",
    "ConvergenceError",
    "ConvergenceWarning",
    "Coreset",
    "CoresetLoss",
    "Coupling",
    "Discrepancy",
    "DriftWarning",
    "SinkhornResult",
    "Source",
    "Status",
    "Step",
    "StreamStatus",
    "StreamTransport",
    "Transport",
    "as_source",
    "build_coreset",
    "compare_divergences",
    "energy_distance",
    "mmd",
    "sinkhorn_divergence",
    "transport",
    "wasserstein",
]
