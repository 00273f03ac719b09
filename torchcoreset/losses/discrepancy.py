"""Energy distance and maximum mean discrepancy: distances between points and samples that a kernel defines.

    x (n, d) points, b (n,)      y (m, d) samples, a (m,)      k kernel

    MMD^2 / 2 = sum_ij b_i b_j k(x_i, x_j) / 2 + sum_kl a_k a_l k(y_k, y_l) / 2 - sum_ik b_i a_k k(x_i, y_k)

The half puts every divergence on one scale: with k = -|x - y|^p it is the limit of the Sinkhorn divergence for
eta to infinity (Genevay, Peyre, Cuturi 2018), and between two single points it is |x - y|^p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ..names import KernelName
from ..tensors import described
from ..transport import Problem, make_problem, within_range
from ..transport.costs import term_key
from . import options
from .envelope import Derivatives, Inputs, Needed, Solved, attach
from .kernels import Function, Gaussian, Kernel, KernelFunction, Laplace, Power, within
from .memory import CachedSelfTerm
from .options import DivergenceSettings, Measures, blur_length, check_one_blur, extent, warn_if_beyond, with_blur
from .wasserstein import as_pair, by_coordinates

KERNELS: dict[KernelName, Callable[[float], Kernel]] = {"gaussian": Gaussian, "laplace": Laplace}
RELATIVE_BLUR = 1.0  # of the scale of the samples, where no blur is given: the median heuristic


@dataclass(frozen=True, repr=False)
class Discrepancy:
    """The result of a kernel divergence.

    Attributes:
        value: the divergence; no root is taken.
        potential: (n,) float64 derivative in the normalised point weights, up to a constant: the witness function at
            the points.
        transform: (m,) float64 derivative in the sample weights, without the term of the samples with themselves: minus
            the mean of the kernel between the sample and the points.
        blur: width of the kernel, a length; None for kernels without one.
        diameter: diameter of points and samples without the farthest thousandth of their mass, accurate to a few per
            cent; 0 if all samples coincide.
    """

    value: float
    potential: Tensor
    transform: Tensor
    blur: float | None
    diameter: float

    def __repr__(self) -> str:
        return described(self, f"{len(self.potential)} points, {len(self.transform)} samples", value=".6g")


def energy_distance(
    points: Any,
    samples: Any,
    p: float = 1,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    constant: bool = True,
    cost: Any = None,
) -> Tensor:
    """Half the energy distance between weighted points and weighted samples; its minimisers are support points.

        E |X - Y|^p - E |X - X'|^p / 2 - E |Y - Y'|^p / 2      X, X' from the points, Y, Y' from the samples

    No root is taken. The half makes it the limit of the Sinkhorn divergence for large blur, on the scale of W_p^p.

    Args:
        points: (n, d) floating, or (n,) when d = 1.
        samples: (m, d), or (m,) when d = 1, of any real dtype, on the same device.
        p: power of the distance in [1, 2]. For p = 2 the value is |E X - E Y|^2, zero for any points with the mean of
            the samples.
        point_weights, sample_weights: (n,) and (m,), non-negative, any positive sum; equal if None.
        constant: include the term of the samples with themselves, which takes m x m work. Without it the value is too
            large by a constant; the gradients in the points are the same.
        cost: a Euclidean distance of other coordinates, one of `tc.costs` such as `Mahalanobis`; None for the Euclidean
            distance of the data.

    Returns:
        0-d tensor in the dtype of the points, float32 for half precision; computed in float64.

    Raises:
        ValueError: invalid inputs; the message names the argument. Nothing is changed.
        RuntimeError: a second derivative was asked for.

    Gradient: exact in points, samples and both weights. For p = 1 a pair of coinciding rows contributes zero (a
    subgradient).

    Example:
        >>> import torch, torchcoreset as tc
        >>> tc.energy_distance(torch.tensor([0.0]), torch.tensor([3.0, 5.0])).item()
        3.5

    Source: Szekely and Rizzo (2013); support points: Mak and Joseph (2018).
    """
    return EnergySettings(p=p, constant=constant, cost=cost).value((points, samples, point_weights, sample_weights))


def mmd(
    points: Any,
    samples: Any,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    kernel: KernelName | KernelFunction = "gaussian",
    blur: float | None = None,
    relative_blur: float | None = None,
    constant: bool = True,
    cost: Any = None,
) -> Tensor:
    """Half the squared maximum mean discrepancy between weighted points and weighted samples.

        E k(X, X') / 2 + E k(Y, Y') / 2 - E k(X, Y)      X, X' from the points, Y, Y' from the samples

    No root is taken. The half puts it on the scale of the other divergences: k = -|x - y| gives `energy_distance`.

    Args:
        points: (n, d) floating, or (n,) when d = 1.
        samples: (m, d), or (m,) when d = 1, of any real dtype, on the same device.
        point_weights, sample_weights: (n,) and (m,), non-negative, any positive sum; equal if None.
        kernel: "gaussian" exp(-|x - y|^2 / (2 blur^2)), "laplace" exp(-|x - y| / blur), or a function of float64 rows
            (k, d) and (l, d) that gives the (k, l) values of a symmetric kernel, by differentiable torch operations.
        blur: width of the named kernels, a length.
        relative_blur: the blur as a fraction of the scale of the samples, which is the weighted median of their
            distances to their spatial median; 1 if neither is given.
        constant: include the term of the samples with themselves, which takes m x m work. Without it the value differs
            by a constant; the gradients in the points are the same.
        cost: a Euclidean distance of other coordinates, one of `tc.costs` such as `Mahalanobis`; None for the Euclidean
            distance of the data.

    Returns:
        0-d tensor in the dtype of the points, float32 for half precision; computed in float64.

    Raises:
        ValueError: invalid inputs, or a blur together with a kernel function; the message names the argument.
        RuntimeError: a second derivative was asked for.

    Warns:
        UserWarning: the blur exceeds the diameter of the data.

    Gradient: exact in points, samples and both weights; kernel functions are differentiated by autograd. A blur given
    as `relative_blur` is held fixed.

    Example:
        >>> import torch, torchcoreset as tc
        >>> round(tc.mmd(torch.tensor([0.0]), torch.tensor([1.0]), blur=1.0).item(), 6)
        0.393469

    Source: Gretton, Borgwardt, Rasch, Schoelkopf, Smola (2012), equation 5.
    """
    settings = MMDSettings(kernel=kernel, blur=blur, relative_blur=relative_blur, constant=constant, cost=cost)
    return settings.value((points, samples, point_weights, sample_weights))


@dataclass(frozen=True, kw_only=True)
class EnergySettings(DivergenceSettings[Discrepancy]):
    """How the energy distance is computed; arguments as in `energy_distance`."""

    p: options.EnergyPower = 1
    constant: bool = True
    cost: options.CostChoice = None

    def evaluate(
        self, measures: Measures, start: Tensor | None = None, memory: CachedSelfTerm | None = None
    ) -> tuple[Tensor, Discrepancy]:
        """The value with its gradients, and the `Discrepancy`."""
        return _evaluate("energy_distance", lambda _: (Power(self.p), None), measures, self.constant, memory, self.cost)

    def curvature(self, measures: Measures, result: Discrepancy) -> Tensor:
        """Curvature of the quadratic majorant that a convex-concave step minimises."""
        return _curvature(Power(self.p), measures)


@dataclass(frozen=True, kw_only=True)
class MMDSettings(DivergenceSettings[Discrepancy]):
    """How a maximum mean discrepancy is computed; arguments as in `mmd`."""

    kernel: options.KernelChoice = "gaussian"
    blur: options.Blur | None = None
    relative_blur: options.RelativeBlur | None = None
    constant: bool = True
    cost: options.CostChoice = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_blur(self.blur, self.relative_blur)
        if callable(self.kernel) and (self.blur is not None or self.relative_blur is not None):
            raise ValueError(
                "blur: given beside a kernel function, which has a width of its own; expected it with "
                f"{' or '.join(map(repr, KERNELS))} only. Leave it out."
            )

    def evaluate(
        self, measures: Measures, start: Tensor | None = None, memory: CachedSelfTerm | None = None
    ) -> tuple[Tensor, Discrepancy]:
        """The value with its gradients, and the `Discrepancy`."""
        return _evaluate("mmd", self._kernel, measures, self.constant, memory, self.cost)

    def curvature(self, measures: Measures, result: Discrepancy) -> Tensor:
        """Curvature of a quadratic majorant, for the named kernels."""
        kernel, _ = self._kernel(make_problem(measures[0], measures[1], 2, measures[2], measures[3]))
        return _curvature(kernel, measures)

    def resolved(self, samples: Tensor, sample_weights: Tensor | None) -> MMDSettings:
        """The settings with the blur as a length, relative to the scale of these samples."""
        relative = RELATIVE_BLUR if self.relative_blur is None else self.relative_blur
        return self if self.blur is not None else with_blur(self, relative, samples, sample_weights)

    def report(self, result: Discrepancy) -> None:
        """Warn if the kernel is wider than the data."""
        if result.blur is not None:
            warn_if_beyond(result.blur, result.diameter, "mmd")

    def _kernel(self, problem: Problem) -> tuple[Kernel, float | None]:
        """The kernel for a problem, and its width."""
        if callable(self.kernel):
            return Function(self.kernel), None
        blur = blur_length(problem, self.blur, RELATIVE_BLUR if self.relative_blur is None else self.relative_blur)
        return KERNELS[self.kernel](blur), blur


def _curvature(kernel: Kernel, measures: Measures) -> Tensor:
    """(n,) curvature of a kernel's majorant at points, for a mass of 1."""
    problem = make_problem(measures[0].detach(), measures[1], 2, measures[2], measures[3])
    return kernel.curvature(replace(problem, x=problem.x.double(), y=problem.y.double(), cost=kernel.cost))


def _evaluate(
    name: str,
    kernel_of: Callable[[Problem], tuple[Kernel, float | None]],
    measures: Measures,
    constant: bool,
    memory: CachedSelfTerm | None,
    cost: Any,
) -> tuple[Tensor, Discrepancy]:
    """Half the squared discrepancy with its gradients."""
    remembered = memory or CachedSelfTerm()

    def solve(x: Tensor, y: Tensor, point_weights: Tensor | None, sample_weights: Tensor | None) -> Solved:
        checked = within_range(make_problem(x, y, 2, point_weights, sample_weights))
        kernel, blur = kernel_of(checked)
        cross = replace(checked, x=checked.x.double(), y=checked.y.double(), cost=kernel.cost)
        if isinstance(kernel, Function):  # a function may depend on the origin: rows that are not centred
            cross = replace(cross, x=x.detach().double(), y=y.detach().double())
        points, samples = within(cross.x, cross.b, cross.cost), within(cross.y, cross.a, cross.cost)
        at_points, at_samples = kernel.means(cross)
        of_points = kernel.means(points)[0]
        value = float(cross.b @ of_points) / 2 - float(cross.b @ at_points)
        if constant:
            value += remembered.value(
                measures[1],
                measures[3],
                (kernel, checked.x.dtype, term_key(cost)),
                lambda: float(samples.a @ kernel.means(samples)[0]) / 2,
            )

        def derivatives(inputs: Inputs, needed: Needed) -> Derivatives:
            in_points, in_samples = kernel.gradients(cross, needed[0], needed[1])
            own_points = kernel.gradients(points, True, False)[0] if needed[0] else None
            own_samples = kernel.gradients(samples, True, False)[0] if needed[1] and constant else None
            own_transform = kernel.means(samples)[0] if needed[3] and constant else 0.0
            return (
                _difference(own_points, in_points),
                _difference(own_samples, in_samples),
                of_points - at_points,
                own_transform - at_samples,
            )

        return Solved(value, Discrepancy(value, of_points - at_points, -at_samples, blur, extent(checked)), derivatives)

    x, y, *weights = as_pair(name, *measures)
    return attach(name, solve, *by_coordinates(cost, name, x, y), *weights)


def _difference(own: Tensor | None, cross: Tensor | None) -> Tensor | None:
    """own - cross, where absent terms are zero; None without the second."""
    if cross is None:
        return None
    return -cross if own is None else own - cross
