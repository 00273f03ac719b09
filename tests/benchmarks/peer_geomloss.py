"""geomloss: Sinkhorn iterations with a blur, an approximation whose potential is judged like everyone's."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .method import Method, Outcome, need_costs, need_squares
from .problems import Work

BLUR = 0.05  # of the root mean squared distance to the nearest point
SCALING = 0.9  # its default, 0.5, anneals too fast to converge
MOST_ELEMENTS = 20_000_000  # the cost matrix is held several times


def sinkhorn(work: Work) -> Callable[[], Outcome]:
    """One transport problem (debias=False); the two debiasing terms would cost far more and say nothing of W_2^2."""
    from geomloss import SamplesLoss

    from .peer_pot import nearest_cost

    need_squares(work)
    need_costs(work, MOST_ELEMENTS)
    blur = BLUR * nearest_cost(work) ** 0.5
    loss = SamplesLoss("sinkhorn", p=2, blur=blur, scaling=SCALING, debias=False, potentials=True, backend="tensorized")

    def run() -> Outcome:
        with torch.no_grad():
            potential, _ = loss(work.points, work.samples)
        torch.set_grad_enabled(True)  # geomloss leaves it as it likes
        # Its cost is half the square.
        return Outcome(potential=2 * potential.flatten(), note=f"blur={blur:.3g}, scaling={SCALING}")

    return run


METHODS = [Method(name="geomloss sinkhorn", task="transport", prepare=sinkhorn, rival="ours, gap 1e-3")]
