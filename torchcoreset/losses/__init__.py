"""Differentiable losses between points and samples.

envelope        attaches value and gradients of a solve to the graph
wasserstein     the exact loss as a function        coreset_loss     losses as a module with memory
"""

from .coreset_loss import CoresetLoss
from .wasserstein import wasserstein

__all__ = ["CoresetLoss", "wasserstein"]
