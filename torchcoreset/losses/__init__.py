"""Differentiable losses between points and samples.

envelope        attaches value and gradients of a solve to the graph
wasserstein     the exact loss as a function              sinkhorn    the Sinkhorn divergence
kernels         kernels and their sums over samples       discrepancy energy distance and MMD
options         names, types and ranges of all options    memory      the term that no point changes
online          a batch of a stream, at a running potential
coreset_loss    any of them as a module with memory
"""

from ..names import Backend, Divergence, KernelName
from .coreset_loss import CoresetLoss, LossResult, make_settings
from .discrepancy import Discrepancy, energy_distance, mmd
from .envelope import position_gradients
from .memory import CachedSelfTerm
from .options import DivergenceSettings, check_blur
from .sinkhorn import SinkhornResult, sinkhorn_divergence
from .wasserstein import wasserstein

__all__ = [
    "Backend", "CachedSelfTerm", "CoresetLoss", "Discrepancy", "Divergence", "DivergenceSettings", "KernelName",
    "LossResult", "SinkhornResult", "check_blur", "energy_distance", "make_settings", "mmd", "position_gradients",
    "sinkhorn_divergence", "wasserstein",
]  # fmt: skip
