"""Claims of docs/mathematics.md that are computed here from their definitions, without the solvers of the package."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.testing import entropic_gaussian_line, sinkhorn_gaussian_line


class Density(NamedTuple):
    """A density on the line that is constant on each cell between `edges`."""

    edges: Tensor  # (k + 1,), increasing
    heights: Tensor  # (k,), >= 0, integral 1

    def scaled(self, factor: float) -> Density:
        return Density(self.edges * factor, self.heights / factor)

    def distribution(self, x: Tensor) -> Tensor:
        widths = (x[:, None] - self.edges[:-1]).clamp(min=0).minimum(self.edges.diff())
        return widths @ self.heights


def uniform(end: float) -> Density:
    return Density(torch.tensor([0.0, end], dtype=torch.float64), torch.tensor([1 / end], dtype=torch.float64))


def drawn(seed: int) -> Density:
    """Heights between 0.2 and 1.2 times a common factor, on [0, 1]."""
    heights = 0.2 + torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return Density(torch.linspace(0, 1, 7, dtype=torch.float64), 6 * heights / heights.sum())


def midpoints(first: Density, second: Density, each: int = 20_000) -> tuple[Tensor, Tensor]:
    """Midpoints and widths of a fine grid that no edge of either density lies inside a cell of."""
    edges = torch.cat([first.edges, second.edges]).unique()
    inner = (torch.arange(each, dtype=torch.float64) + 0.5) / each
    widths = edges.diff()
    return (edges[:-1, None] + widths[:, None] * inner).flatten(), (widths / each).repeat_interleave(each)


def dual_sobolev(first: Density, second: Density, by_first: bool) -> float:
    """sup of int f d(first - second) over int |f'|^2 rho <= 1, with rho the first density or 1.

    On the line it is (int (F - G)^2 / rho)^(1/2): integrate by parts, then Cauchy and Schwarz.
    """
    x, width = midpoints(first, second)
    height = first.heights[torch.bucketize(x, first.edges[1:-1])] if by_first else torch.ones_like(x)
    return float((width * (first.distribution(x) - second.distribution(x)) ** 2 / height).sum().sqrt())


def quantiles(density: Density, count: int) -> Tensor:
    """The inverse distribution function at (k + 1/2) / count."""
    u = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    below = torch.cat([torch.zeros(1, dtype=torch.float64), (density.heights * density.edges.diff()).cumsum(0)])
    cell = torch.bucketize(u, below[1:-1])
    return density.edges[cell] + (u - below[cell]) / density.heights[cell]


def w2(first: Density, second: Density, count: int = 200_000) -> float:
    return float((quantiles(first, count) - quantiles(second, count)).square().mean().sqrt())


def test_w2_does_not_bound_the_dual_sobolev_norm_of_the_measure() -> None:
    """The paper's proposition (ii): d_F <= sqrt(M) W_2 for densities of at most M. Lengths times s break it."""
    mu, nu, most = uniform(8), uniform(4), 1 / 4
    found = dual_sobolev(mu, nu, by_first=True)
    assert found == pytest.approx(math.sqrt(16 / 3), rel=1e-6)
    assert w2(mu, nu) == pytest.approx(math.sqrt(16 / 3), rel=1e-6)
    assert found > 1.9 * math.sqrt(most) * w2(mu, nu)
    # that of the Lebesgue measure keeps the bound, and scales as it does: by s^(1/2) on the line
    assert dual_sobolev(mu, nu, by_first=False) == pytest.approx(math.sqrt(2 / 3), rel=1e-6)
    assert dual_sobolev(mu, nu, by_first=False) <= math.sqrt(most) * w2(mu, nu)


@pytest.mark.parametrize("seed", range(10))
def test_w2_bounds_it_by_the_ratio_of_the_densities(seed: int) -> None:
    """d_F <= sqrt(M / m) W_2 where mu has a density of at least m, in every unit of length."""
    mu, nu = drawn(2 * seed), drawn(2 * seed + 1)
    for factor in (1e-3, 1.0, 1e3):
        first, second = mu.scaled(factor), nu.scaled(factor)
        most, least = max(float(first.heights.max()), float(second.heights.max())), float(first.heights.min())
        distance = w2(first, second)
        assert dual_sobolev(first, second, by_first=False) <= math.sqrt(most) * distance
        assert dual_sobolev(first, second, by_first=True) <= math.sqrt(most / least) * distance


def test_w2_gives_no_bound_for_points_in_the_plane() -> None:
    """The point 0 for the uniform disc of area 1: f(y) = min(1, log(r / |y|) / log(r / s)) shows a norm without end."""
    reach, ratios = math.pi**-0.5, []
    for small in (1e-1, 1e-10, 1e-100):
        t = torch.logspace(math.log10(small) - 3, math.log10(reach), 200_000, dtype=torch.float64)
        f = (torch.log(reach / t) / math.log(reach / small)).clamp(max=1)
        middle, length = (t[1:] + t[:-1]) / 2, t.diff()
        around = 2 * math.pi * middle * length  # area of a ring
        mean, norm = float((f[1:] + f[:-1]) / 2 @ around), float(((f.diff() / length) ** 2) @ around) ** 0.5
        ratios.append((1 - mean) / norm)
    assert ratios[1] > 2 * ratios[0]
    assert ratios[2] > 2 * ratios[1]


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_at_a_large_blur_the_sinkhorn_divergence_is_half_the_squared_mmd(p: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 2, generator=generator).double(), 1 + torch.randn(40, 2, generator=generator).double()

    def mean(first: Tensor, second: Tensor) -> Tensor:
        return torch.cdist(first, second).pow(p).mean()

    squared_mmd = 2 * mean(x, y) - mean(x, x) - mean(y, y)  # of the kernel -|x - y|^p
    with pytest.warns(UserWarning, match="blur"):
        found = tc.sinkhorn_divergence(x, y, p, blur=1e4, backend="newton")
    assert found.item() == pytest.approx(squared_mmd.item() / 2, rel=1e-3)
    if p == 2:
        assert found.item() == pytest.approx(float((x.mean(0) - y.mean(0)).square().sum()), rel=1e-3)
    if p > 1:  # with roots of the three terms, as the paper prints them, the limit is another one
        roots = mean(x, y) ** (1 / p) - (mean(x, x) ** (1 / p) + mean(y, y) ** (1 / p)) / 2
        assert abs(roots.item() / found.item() - 1) > 0.05


def test_entropic_transport_to_oneself_costs_more_than_any_multiple_of_eta() -> None:
    """The paper has O(eta); for a density on the line it is eta log(1 / eta) / 2, and more slowly growing terms."""
    ratios = [entropic_gaussian_line(1, 1, eta) / eta for eta in (1e-2, 1e-4, 1e-6)]
    assert ratios[0] < ratios[1] < ratios[2]
    for before, after in itertools.pairwise(ratios):
        assert after - before == pytest.approx(math.log(100) / 2, rel=1e-2)
    assert sinkhorn_gaussian_line(1, 1, 1e-2) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("w", [0.5, 1.0, 1.5, 2.0])
def test_a_longer_step_to_the_centres_descends(w: float) -> None:
    generator = torch.Generator().manual_seed(1)
    y, x = torch.randn(300, 2, generator=generator).double(), torch.randn(6, 2, generator=generator).double()
    before = tc.transport(x, y, exact=True)
    plan = torch.zeros(len(y), len(x), dtype=torch.float64)
    plan[before.plan.rows, before.plan.cols] = before.plan.mass.double()
    centres = plan.T @ y * len(x)
    after = tc.transport(x + w * (centres - x), y, exact=True).value
    gain = w * (2 - w) * float((centres - x).square().sum()) / len(x)
    assert after <= before.value - gain + 1e-9
