"""Stein thinning by `stein_thinning`: greedily the draw that leaves the least kernel Stein discrepancy to a posterior.

It knows the posterior by its scores, not by the draws, so that draws of a chain that has not converged do no harm. A
draw can be taken more than once.

Source: Riabiz and others (2022), Optimal thinning of MCMC output; package stein-thinning.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray


def missing() -> str | None:
    """Why it cannot be used, if it cannot."""
    return None if find_spec("stein_thinning") else "Stein thinning is left out: pip install stein-thinning"


def stein(
    X: NDArray[np.float64], scores: NDArray[np.float64], size: int, preconditioner: str = "id"
) -> NDArray[np.int64]:
    """`size` row numbers of X (N, d), equally weighted.

    Args:
        X: draws, whitened.
        scores: (N, d) gradients of the log density in these coordinates.
        size: how many.
        preconditioner: "id", as whitened draws need no other; or "med", "sclmed", lengths of the median distance.
    """
    from stein_thinning.thinning import thin

    return np.asarray(thin(X, scores, size, standardize=False, preconditioner=preconditioner), np.int64)
