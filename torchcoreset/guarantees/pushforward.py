"""`certify_pushforward`: an interval for the distance between the images of points and of a distribution under a map.

    f the map      x_i, b_i points: nu      Y_k samples of mu      pi the feasible plan of `certify`, for the data
    c'(y, x) = |f(y) - f(x)|^p      g_w(y) = min_i c'(y, x_i) - w_i      W' = W_p^p(f#nu, f#mu) = max_w E g_w(Y)

The plan pi between the samples and nu is, pushed through f, a plan between their images, so

    sum_ki pi_ki |f(Y_k) - f(x_i)|^p  >=  W_p^p(f#nu, f#mu_m)  >=  (1/m) sum_k g_w*(Y_k),      E g_w*(Y) = W',

for the best w* of the images, which depends on mu and f alone. This is step (2) of `certify` with c' for c, and step
(1) holds for any w found from other samples: the same proof gives both ends and the joint confidence. No Lipschitz
constant is needed. Where f has one, the bound W_p(f#nu, f#mu) <= L W_p(nu, mu) (Claici, Genevay, Solomon 2020) is
returned too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..deterministic import mass_by_cell
from ..modes import solver_modes
from ..sources import make_generator
from ..tensors import described
from ..transport import Cost, as_cost, make_problem, solve
from ..transport.passes import EngineName, LaguerreCells, make_engine
from ..transport.ranks import Ranks, agree, as_ranks, fingerprint, told_to
from .bounds import WeightedMoments
from .certificate import Certificate
from .certify import Pass, check_settings, inputs, make_certificate, one_pass
from .evaluation import WHY, Fitted, FreshRows, Rows
from .lipschitz import lipschitz_constant
from .maps import Map, at_rest, image_of
from .points import Points


@dataclass(frozen=True, kw_only=True, repr=False)
class PushforwardCertificate:
    """lower <= W_p(f#nu, f#mu) <= upper, at a stated confidence.

    Attributes:
        lower, upper: the interval, rooted, in the unit of the image.
        image: the `Certificate` of the images, with estimates and errors; its potential is that of the images.
        data: the `Certificate` of the points themselves, from the same samples and at the same confidence.
        lipschitz: L, given or computed from the layers; None if unknown.
        lipschitz_upper: L times data.upper, the bound that a Lipschitz map allows; None if L is unknown.
    """

    lower: float
    upper: float
    image: Certificate
    data: Certificate
    lipschitz: float | None
    lipschitz_upper: float | None

    def __repr__(self) -> str:
        interval = f"{self.lower:.6g} <= W_{self.image.p:g}(f#nu, f#mu) <= {self.upper:.6g}"
        bound = "" if self.lipschitz_upper is None else f"L W={self.lipschitz_upper:.6g}"
        confidence = f"confidence={self.image.confidence:g}"
        return described(self, interval, confidence, f"samples={self.image.samples}", bound)


def certify_pushforward(
    coreset: Any,
    source: Any,
    network: Map,
    p: float = 2,
    confidence: float = 0.95,
    samples: int = 100_000,
    *,
    lipschitz: float | None = None,
    seed: int | Generator = 0,
    engine: EngineName = "auto",
    group: Any = None,
) -> PushforwardCertificate:
    """An interval for the distance between the images of a coreset and of its distribution under a map.

        W_p^p(f#nu, f#mu) <= E sum_ki pi_ki |f(Y_k) - f(x_i)|^p

    with the plan of `certify`; the lower end is the semi-dual of the images. The proof is on the documentation's page
    on mathematics.

    Args:
        coreset, source, p, confidence, samples, seed, engine, group: as for `certify`.
        network: f, from (k, d) to (k, ...), any function of the rows; a module is called in evaluation mode, without
            gradients, and left as it was. It must be deterministic.
        lipschitz: a Lipschitz constant of f, if you know one; None computes it for a `Sequential` of known layers.

    Raises:
        TypeError, ValueError, RankError: as for `certify`; the map returns another number of rows, or NaN.

    Example:
        >>> import torch, torchcoreset as tc
        >>> normal = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
        >>> banana = lambda y: torch.stack((y[:, 0], y[:, 0] ** 2 + y[:, 1]), 1)
        >>> points = tc.Coreset.from_source(normal, 20)
        >>> found = tc.certify_pushforward(points, normal, banana, p=1, samples=5000)
        >>> found.lower < found.upper, found.lipschitz is None
        (True, True)

    Source: Claici, Genevay, Solomon (2020), section 3, without its Lipschitz assumption.
    """
    ranks = as_ranks(group)
    with told_to(ranks, "certify_pushforward"):
        cost = as_cost(p)
        check_settings(confidence, samples, engine, lipschitz)
    settings = {"p": p, "confidence": confidence, "samples": samples, "lipschitz": lipschitz, "engine": engine}
    points, read = inputs(ranks, "certify_pushforward", coreset, source, settings)
    with solver_modes(), at_rest(network):

        def prepare() -> tuple[Points, tuple[float]]:
            images = image_of(network, points.x, "network")
            return Points(images, points.b, None), (fingerprint(images),)

        image, _ = agree(ranks, "certify_pushforward", prepare, same=("images of the points",), why=WHY)
        pushed = _Images(network, image, cost, engine)
        passed = one_pass(
            points, read, cost, samples, make_generator(seed), engine,
            image=image.x.double(), look=pushed.start, ranks=ranks,
        )  # fmt: skip
        if ranks is not None:
            pushed.join(ranks)
        constant = lipschitz if lipschitz is not None else _constant(network)
    data = make_certificate(passed, cost, confidence, None)
    plan = replace(passed.plan, value=passed.plan.image_value, cell_mass=pushed.mass / pushed.moments.mass)
    images = Pass(pushed.moments, plan, replace(passed.fitted, v=pushed.w), passed.weights)
    found = make_certificate(images, cost, confidence, None)
    bound = None if constant is None else constant * data.upper
    return PushforwardCertificate(
        lower=found.lower, upper=found.upper, image=found, data=data, lipschitz=constant, lipschitz_upper=bound
    )


class _Images:
    """The images of a pass: a potential of their own, and the semi-dual at it."""

    def __init__(self, network: Map, image: Points, cost: Cost, engine: str) -> None:
        self.network, self.image, self.cost, self.engine = network, image, cost, engine
        self.moments = WeightedMoments()
        self.w = self.mass = torch.zeros_like(image.b)

    def start(self, fitted: Fitted, fresh: FreshRows) -> Callable[[Rows, LaguerreCells], tuple[Tensor, Tensor]]:
        """Solve for the potential of the images, on those of the samples that the other potential comes from."""
        rows = image_of(self.network, fitted.rows.y, "network")
        problem = make_problem(self.image.x, rows, self.cost, self.image.b, fitted.rows.w)
        self.w = solve(problem, tolerance=1e-3, exact=False, start=None, max_steps=100, engine=self.engine).potential
        return self.visit

    def visit(self, rows: Rows, cells: LaguerreCells) -> tuple[Tensor, Tensor]:
        """The images of a batch, and the cost between each and the image of its sample's point."""
        images = image_of(self.network, rows.y, "network")
        problem = make_problem(self.image.x, images, self.cost, self.image.b, dtype=torch.float64)
        found = make_engine(problem, self.engine).hard(self.w)
        self.moments.add(found.cost - self.w[found.cell], rows.w)
        self.mass = self.mass + mass_by_cell(found.cell, rows.w, len(self.w))
        return images.double(), self.cost.paired(images, self.image.x[cells.cell])

    def join(self, ranks: Ranks) -> None:
        """Take in the samples of all ranks."""
        self.moments = self.moments.joined(ranks)
        self.mass = ranks.total(self.mass)[0]


def _constant(network: Map) -> float | None:
    if not isinstance(network, nn.Module):
        return None
    try:
        return lipschitz_constant(network)
    except TypeError:
        return None
