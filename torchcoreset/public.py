"""All public names: what `torchcoreset` gives when the first of them is used."""

from . import costs
from .coresets import (
    BuildResult,
    Comparison,
    Coreset,
    LabeledCoreset,
    MergeBound,
    MergeResult,
    PartBound,
    Step,
    build_coreset,
    build_labeled_coreset,
    compare_divergences,
    joint_source,
    merge,
)
from .errors import ConvergenceError, ConvergenceWarning, DriftWarning, RankError
from .guarantees import (
    Certificate,
    ExpectationError,
    OptimalityBound,
    PushforwardCertificate,
    certify,
    certify_pushforward,
    expectation_error,
    lipschitz_constant,
    optimality_bound,
)
from .losses import CoresetLoss, Discrepancy, SinkhornResult, energy_distance, mmd, sinkhorn_divergence, wasserstein
from .planning import Preflight, Report, SizeResult, doctor, preflight, size_for
from .sources import Pushforward, Source, Table, as_source, hold_out, read_table
from .transport import (
    Coupling,
    CouplingBatch,
    Status,
    StreamStatus,
    StreamTransport,
    Transport,
    TransportBatch,
    transport,
)

__all__ = [
    "BuildResult", "Certificate", "Comparison", "ConvergenceError", "ConvergenceWarning", "Coreset", "CoresetLoss",
    "Coupling", "CouplingBatch", "Discrepancy", "DriftWarning", "ExpectationError", "LabeledCoreset", "MergeBound",
    "MergeResult", "OptimalityBound", "PartBound", "Preflight", "Pushforward", "PushforwardCertificate", "RankError",
    "Report", "SinkhornResult", "SizeResult", "Source", "Status", "Step", "StreamStatus", "StreamTransport", "Table",
    "Transport", "TransportBatch", "as_source", "build_coreset", "build_labeled_coreset", "certify",
    "certify_pushforward", "compare_divergences", "costs", "doctor", "energy_distance", "expectation_error", "hold_out",
    "joint_source", "lipschitz_constant", "merge", "mmd", "optimality_bound", "preflight", "read_table",
    "sinkhorn_divergence", "size_for", "transport", "wasserstein",
]  # fmt: skip
