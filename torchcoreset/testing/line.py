"""Distributions on the line, whose coresets and semi-discrete transport are known in closed form.

On the line, optimal transport for any cost |x - t|^p with p >= 1 is monotone: n points of weight 1/n, sorted,
receive the n cells of equal mass between consecutive quantiles. Everything below follows from that and from
the partial moments of the distribution.

Symbols:
    x       n points of weight 1/n, sorted
    z       the n + 1 quantiles of 0, 1/n .. 1, so that cell i is [z_{i-1}, z_i]
    f, F    density and distribution function
    M1, M2  lower partial moments, M_r(t) = integral of s^r f(s) over s <= t
    v       potential of the points
    u       a level in [0, 1]
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["EXPONENTIAL", "LINE_PROBLEMS", "NORMAL", "UNIFORM", "LineProblem", "flatten_line"]

LLOYD_STEPS, NEWTON_STEPS = 1000, 10  # of quantizers; from the first the second converges to rounding up to n = 100

Function = Callable[[Tensor], Tensor]


def flatten_line(name: str, tensor: Tensor) -> Tensor:
    """The coordinates (n,), in float64 and without a graph, of points (n, 1) on the line.

    Raises ValueError, with `name` in the message, for any other shape and for an empty tensor.
    """
    if tensor.ndim != 2 or tensor.shape[1] != 1 or tensor.shape[0] == 0:
        raise ValueError(
            f"{name}: got shape {tuple(tensor.shape)}; expected (n, 1) with n >= 1, points on the line. "
            "Did you forget unsqueeze(-1)?"
        )
    return tensor.detach()[:, 0].to(torch.float64)


def _check_power(p: int) -> None:
    if p not in (1, 2):
        raise ValueError(f"p: got {p}; expected 1 or 2, the powers with a closed form here")


def _check_count(name: str, count: int) -> None:
    if count < 1:
        raise ValueError(f"{name}: got {count}; expected at least 1")


@dataclass(frozen=True, kw_only=True)
class LineProblem:
    """A distribution on the line with its exact uniform coresets and exact semi-discrete transport.

    The functions take and return float64 tensors of one shape, and accept -inf and inf. Values are sums of
    partial moments, exact up to float64 rounding: an absolute error of about 1e-14 for points of order one.

    Arguments:
        name: one word, for test ids.
        quantile: F^{-1}, on [0, 1].
        cdf: F.
        pdf: f.
        first_moment: M1(t), the integral of s f(s) over s <= t.
        second_moment: M2(t), the integral of s^2 f(s) over s <= t.

    Source: the monotone coupling, F. Santambrogio, Optimal Transport for Applied Mathematicians (2015),
    section 2.2.

    >>> round(NORMAL.optimal_value(10, p=2), 10)
    0.0409535481
    >>> UNIFORM.optimal_points(2, p=1).tolist()
    [[0.25], [0.75]]
    """

    name: str
    quantile: Function = field(repr=False)
    cdf: Function = field(repr=False)
    pdf: Function = field(repr=False)
    first_moment: Function = field(repr=False)
    second_moment: Function = field(repr=False)

    def boundaries(self, size: int) -> Tensor:
        """The quantiles z_0 .. z_n that bound the cells, (size + 1,); the ends may be infinite."""
        _check_count("size", size)
        return self.quantile(torch.arange(size + 1, dtype=torch.float64, device="cpu") / size)

    def optimal_points(self, size: int, p: int) -> Tensor:
        """The `size` points of weight 1/size closest to the distribution in W_p, ascending, (size, 1).

        They are the means of the cells for p=2, n (M1(z_i) - M1(z_{i-1})), and their medians for p=1,
        F^{-1}((2i - 1)/(2n)).
        """
        _check_power(p)
        if p == 1:
            return self.quantile_sample(size)
        return size * self.first_moment(self.boundaries(size)).diff().unsqueeze(-1)

    def optimal_value(self, size: int, p: int) -> float:
        """The smallest W_p^p, not rooted, that `size` points of weight 1/size can reach."""
        return self.value(self.optimal_points(size, p), p)

    def quantizer(self, size: int, p: int) -> tuple[Tensor, Tensor]:
        """The `size` points, ascending (size, 1), and weights (size,) that are closest in W_p: with free weights.

        A cell ends halfway between two points, and a point is the mean (p=2) or the median (p=1) of its cell. Some
        repetitions of both are followed by Newton's method; the solution is unique where log f is concave (Trushkin
        1982).

        >>> points, weights = NORMAL.quantizer(2, p=2)
        >>> [round(x, 6) for x in points[:, 0].tolist()], [round(b, 6) for b in weights.tolist()]
        ([-0.797885, 0.797885], [0.5, 0.5])
        """
        _check_power(p)
        x = self.quantile_sample(size)[:, 0]
        for step in range(LLOYD_STEPS + NEWTON_STEPS):
            z = self._halfway(x)
            levels, density = self.cdf(z), self.pdf(z)
            if p == 2:
                best = self.first_moment(z).diff() / levels.diff()
                reach = torch.where(density > 0, z, 0.0)
                below = density[:-1] * (best - reach[:-1]) / levels.diff()
                above = density[1:] * (reach[1:] - best) / levels.diff()
            else:
                best = self.quantile((levels[1:] + levels[:-1]) / 2)
                below, above = (part / (2 * self.pdf(best)) for part in (density[:-1], density[1:]))
            if step < LLOYD_STEPS:
                x = best
                continue
            below[0], above[-1] = 0, 0  # the ends stay
            jacobian = torch.diag(1 - (below + above) / 2)
            jacobian -= torch.diag(above[:-1] / 2, 1) + torch.diag(below[1:] / 2, -1)
            x = x - torch.linalg.solve(jacobian, x - best)
        return x.unsqueeze(-1), self.cdf(self._halfway(x)).diff()

    def _halfway(self, x: Tensor) -> Tensor:
        """The ends of the cells of sorted points of free weights, (n + 1,)."""
        ends = self.boundaries(1)
        return torch.cat((ends[:1], (x[1:] + x[:-1]) / 2, ends[1:]))

    def quantizer_value(self, size: int, p: int) -> float:
        """The smallest W_p^p, not rooted, that `size` points of any weights can reach.

        >>> round(NORMAL.quantizer_value(2, p=2), 10)  # 1 - 2 / pi
        0.3633802276
        """
        points, _ = self.quantizer(size, p)
        x = points[:, 0]
        z = self._halfway(x)
        levels, first = self.cdf(z), self.first_moment(z)
        if p == 2:
            cells = x.square() * levels.diff() - 2 * x * first.diff() + self.second_moment(z).diff()
        else:
            split = self.first_moment(x)
            cells = x * (2 * self.cdf(x) - levels[:-1] - levels[1:]) - (2 * split - first[:-1] - first[1:])
        return float(cells.sum())

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Independent draws, (count, 1), by inversion of uniforms from `generator` and on its device."""
        _check_count("count", count)
        u = torch.rand(count, 1, dtype=torch.float64, device=generator.device, generator=generator)
        # rand can return 0, whose quantile may be -inf, but never 1; its grid is 2^-53
        return self.quantile(u.clamp(min=2.0**-54))

    def quantile_sample(self, count: int) -> Tensor:
        """The quantiles of (2k - 1)/(2 count), ascending, (count, 1): a sample without randomness."""
        _check_count("count", count)
        return self.quantile((torch.arange(count, dtype=torch.float64, device="cpu") + 0.5) / count).unsqueeze(-1)

    def value(self, points: Tensor, p: int) -> float:
        """W_p^p, not rooted, between the distribution and any `points` (n, 1) of weight 1/n, in any order.

        p=2: sum_i x_i^2 / n - 2 x_i dM1_i + dM2_i, with dM the difference over cell i.
        p=1: sum_i x_i (2 F(c) - F(z_{i-1}) - F(z_i)) - (2 M1(c) - M1(z_{i-1}) - M1(z_i)), c = x_i clamped to
        cell i.

        >>> round(NORMAL.value(torch.tensor([[3.0]]), p=2), 12)  # E (X - 3)^2
        10.0
        """
        _check_power(p)
        x = flatten_line("points", points).sort().values
        n = len(x)
        z = self.boundaries(n).to(x.device)
        first = self.first_moment(z)
        if p == 2:
            cells = x.square() / n - 2 * x * first.diff() + self.second_moment(z).diff()
            return float(cells.sum())
        split = self.first_moment(x.clamp(z[:-1], z[1:]))
        cells = x * self._mass_difference(x) - (2 * split - first[:-1] - first[1:])
        return float(cells.sum())

    def potential(self, points: Tensor, p: int) -> Tensor:
        """The optimal potential v, (n,), of the semi-dual at `points` (n, 1), in their order, with mean zero.

        At the boundary z_i between neighbours, c(z_i, x_i) - v_i = c(z_i, x_{i+1}) - v_{i+1}, hence
        v_{i+1} - v_i = |z_i - x_{i+1}|^p - |z_i - x_i|^p. Unique, since the support is an interval.

        >>> NORMAL.potential(torch.tensor([[1.0], [-1.0]]), p=2).tolist()
        [0.0, 0.0]
        """
        _check_power(p)
        x, order = flatten_line("points", points).sort()
        z = self.boundaries(len(x)).to(x.device)[1:-1]
        if p == 1:
            steps = (z - x[1:]).abs() - (z - x[:-1]).abs()
        else:
            steps = x.diff() * (x[1:] + x[:-1] - 2 * z)
        v = torch.zeros_like(x)
        v[order[1:]] = steps.cumsum(0)
        return v - v.mean()

    def gradient(self, points: Tensor, p: int) -> Tensor:
        """The gradient of `value` in `points` (n, 1), in their order, (n, 1).

        p=2: 2 (x_i / n - dM1_i), which is 2/n times the way from the mean of cell i to x_i.
        p=1: (F(c) - F(z_{i-1})) - (F(z_i) - F(c)), c = x_i clamped to cell i: the cell's mass on the left of
        x_i less that on its right. Where points coincide the value has a kink, and this is its derivative
        for one of their orders.

        >>> UNIFORM.gradient(torch.tensor([[1.0], [0.0]]), p=2).tolist()
        [[0.25], [-0.25]]
        """
        _check_power(p)
        x, order = flatten_line("points", points).sort(stable=True)
        if p == 1:
            slopes = self._mass_difference(x)
        else:
            n = len(x)
            slopes = 2 * (x / n - self.first_moment(self.boundaries(n).to(x.device)).diff())
        gradient = torch.empty_like(x)
        gradient[order] = slopes
        return gradient.unsqueeze(-1)

    def _mass_difference(self, x: Tensor) -> Tensor:
        """The mass of cell i left of the sorted x_i less the mass right of it, (n,)."""
        levels = torch.arange(len(x) + 1, dtype=torch.float64, device=x.device) / len(x)
        return 2 * self.cdf(x).clamp(levels[:-1], levels[1:]) - levels[:-1] - levels[1:]


def _normal_pdf(t: Tensor) -> Tensor:
    density: Tensor = torch.exp(-t.square() / 2) / math.sqrt(2 * math.pi)
    return density


def _normal_second_moment(t: Tensor) -> Tensor:
    # beyond 40 the density underflows to zero; the clamp keeps inf * 0 out
    moment: Tensor = torch.special.ndtr(t) - t.clamp(-40, 40) * _normal_pdf(t)
    return moment


NORMAL = LineProblem(
    name="normal",
    quantile=torch.special.ndtri,
    cdf=torch.special.ndtr,
    pdf=_normal_pdf,
    first_moment=lambda t: -_normal_pdf(t),
    second_moment=_normal_second_moment,
)
"""The standard normal distribution N(0, 1)."""


UNIFORM = LineProblem(
    name="uniform",
    quantile=lambda u: u.clone(),
    cdf=lambda t: t.clamp(0, 1),
    pdf=lambda t: ((t >= 0) & (t <= 1)).to(t.dtype),
    first_moment=lambda t: t.clamp(0, 1) ** 2 / 2,
    second_moment=lambda t: t.clamp(0, 1) ** 3 / 3,
)
"""The uniform distribution on [0, 1]: points (2i - 1)/(2n), W2^2 = 1/(12 n^2) and W1 = 1/(4n) at best."""


def _exponential_first_moment(t: Tensor) -> Tensor:
    # beyond 800 exp(-t) underflows to zero; the clamp keeps inf * 0 out
    s = t.clamp(0, 800)
    return 1 - (1 + s) * torch.exp(-s)


def _exponential_second_moment(t: Tensor) -> Tensor:
    s = t.clamp(0, 800)
    return 2 - (2 + 2 * s + s.square()) * torch.exp(-s)


EXPONENTIAL = LineProblem(
    name="exponential",
    quantile=lambda u: -torch.log1p(-u),
    cdf=lambda t: -torch.expm1(-t.clamp(min=0)),
    pdf=lambda t: torch.exp(-t.clamp(min=0)) * (t >= 0),
    first_moment=_exponential_first_moment,
    second_moment=_exponential_second_moment,
)
"""The exponential distribution of mean 1: one heavy tail, and no symmetry for an error to hide behind."""


LINE_PROBLEMS = (NORMAL, UNIFORM, EXPONENTIAL)
"""All of them, for parametrised tests."""
