"""geomloss: Sinkhorn iterations with a blur, an approximation whose potential is judged like everyone's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .method import Method, Outcome, need_costs, need_squares
from .problems import Work

BLUR = 0.05  # of the root mean squared distance to the nearest point
SCALING = 0.9  # its default, 0.5, anneals too fast to converge
# Where 0.9 is too fast as well: of 0.9, 0.97 and 0.99 what comes closest in some seconds.
SCALINGS = {
    "20 clusters, n=100 m=20k d=16": 0.99,
    "20 clusters, n=100 m=50k d=16": 0.99,
    "far clusters, n=219 m=922 d=2": 0.99,
    "Cauchy, n=100 m=20k d=2": 0.97,
}
MOST_ELEMENTS = 20_000_000  # the cost matrix is held several times
BLOCK = 10_000  # samples of which a plan is looked at together


def sinkhorn(work: Work) -> Callable[[], Outcome]:
    """One transport problem (debias=False); the two debiasing terms would cost far more and say nothing of W_2^2."""
    from geomloss import SamplesLoss

    from .peer_pot import nearest_cost

    need_squares(work)
    need_costs(work, MOST_ELEMENTS)
    blur, scaling = BLUR * nearest_cost(work) ** 0.5, scaling_for(work)
    loss = SamplesLoss("sinkhorn", p=2, blur=blur, scaling=scaling, debias=False, potentials=True, backend="tensorized")

    def run() -> Outcome:
        with torch.no_grad():
            potentials = [one.flatten() for one in loss(work.points, work.samples)]
        torch.set_grad_enabled(True)  # geomloss leaves it as it likes
        # Its cost is half the square.
        return Outcome(
            potential=2 * potentials[0],
            note=f"blur={blur:.3g}, scaling={scaling}",
            own=lambda: f"marginals {marginal_error(work, *potentials, blur):.0e}",
        )

    return run


def marginal_error(work: Work, f: Tensor, g: Tensor, blur: float) -> float:
    """Half the sum over the points of |mass of the plan - weight|, of the plan that the potentials make.

    The plan is a b exp((f + g - |y - x|^2 / 2) / blur^2). `SamplesLoss` returns no error; `geomloss.ot` returns this.
    """
    x, f, masses = work.points.double(), f.double(), torch.zeros(len(work.points), dtype=torch.float64)
    for y, part in zip(work.samples.double().split(BLOCK), g.double().split(BLOCK), strict=True):  # type: ignore[no-untyped-call]
        masses += ((f + part[:, None] - torch.cdist(y, x).square() / 2) / blur**2).exp().sum(0)
    return float((masses / len(work.samples) - 1).abs().mean() / 2)


def scaling_for(work: Work) -> float:
    """The ratio of successive blurs."""
    return SCALINGS.get(work.name.removeprefix("GPU: "), SCALING)


METHODS = [Method(name="geomloss sinkhorn", task="transport", prepare=sinkhorn, rival="ours, gap 1e-3")]
