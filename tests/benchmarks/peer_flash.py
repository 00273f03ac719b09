"""flash-sinkhorn: Sinkhorn iterations in fused Triton kernels, on a GPU; judged as geomloss is."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .method import Method, Outcome, need_squares
from .peer_geomloss import BLUR, scaling_for
from .peer_pot import nearest_cost
from .problems import Work


def sinkhorn(work: Work) -> Callable[[], Outcome]:
    """One transport problem with the blur and scaling of geomloss, whose cost, half the square, it takes here, too.

    Products are in float32: with its default, TF32, potentials lose digits that a gap of 1e-3 needs.
    """
    from flash_sinkhorn import SamplesLoss

    need_squares(work)
    blur, scaling = BLUR * nearest_cost(work) ** 0.5, scaling_for(work)
    loss = SamplesLoss(
        "sinkhorn", blur=blur, scaling=scaling, debias=False, potentials=True, half_cost=True, allow_tf32=False
    )

    def run() -> Outcome:
        with torch.no_grad():
            potential, _ = loss(work.points, work.samples)
        return Outcome(potential=2 * potential.flatten(), note=f"blur={blur:.3g}, scaling={scaling}")

    return run


METHODS = [Method(name="flash-sinkhorn", task="transport", prepare=sinkhorn, rival="ours, gap 1e-3", device="cuda")]
