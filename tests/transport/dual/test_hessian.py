"""Newton directions: conjugate gradients against a Cholesky factor, and both against the equations."""

import math

import pytest
import torch
from torch import Tensor

from torchcoreset.transport.dual import hessian as curvature_module
from torchcoreset.transport.dual.hessian import (
    LEAST_DEGREE,
    RESIDUAL,
    Curvature,
    Factorised,
    LazyHessian,
    LimitedMemory,
    Sparse,
    curvature_of,
)
from torchcoreset.transport.passes import csr
from torchcoreset.transport.passes.soft import SmoothedCells

KINDS = [Factorised, Sparse]
either_kind = pytest.mark.parametrize("kind", KINDS)


def ring(n: int) -> Tensor:
    """Overlap of points in a ring, each of which shares samples with the two beside it and with one across."""
    weights = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) + 0.5
    gram = torch.diag(weights) + torch.diag(weights[1:], 1)
    gram[0, -1] = weights[0]
    gram[torch.arange(n // 2), torch.arange(n // 2) + n // 2] += 0.1
    return (gram + gram.t()) / n


def as_kind(kind: type, gram: Tensor) -> Tensor:
    if kind is Factorised:
        return gram
    rows, cols = gram.nonzero(as_tuple=True)
    return csr(torch.searchsorted(rows, torch.arange(len(gram) + 1)).int(), cols.int(), gram[rows, cols])


def gradient(n: int) -> Tensor:
    g = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return 0.01 * (g - g.mean())


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("n", [2, 10, 100])
def test_both_kinds_give_the_same_direction(n: int, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curvature_module, "RESIDUAL", 1e-9)
    gram, g, least = ring(n), gradient(n), torch.full((n,), 1e-9, dtype=torch.float64)
    if apart:  # a point that shares nothing
        gram[0], gram[:, 0], least[0] = 0, 0, 1e-3
    factorised, sparse = (kind(as_kind(kind, gram), 0.3, least).solve(g, 1e6) for kind in KINDS)
    torch.testing.assert_close(sparse, factorised, rtol=1e-5, atol=1e-7 * float(factorised.abs().max()))


def test_products_with_and_without_mkl_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    gram, g, least = ring(100), gradient(100), torch.full((100,), 1e-9, dtype=torch.float64)
    with_it = Sparse(as_kind(Sparse, gram), 0.3, least).solve(g, 1e6)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    without = Sparse(as_kind(Sparse, gram), 0.3, least).solve(g, 1e6)
    torch.testing.assert_close(with_it, without, rtol=1e-9, atol=1e-12)


@either_kind
@pytest.mark.parametrize("n", [10, 100])
def test_the_direction_solves_the_system(kind: type, n: int) -> None:
    gram, g, least = ring(n), gradient(n), torch.full((n,), 1e-9, dtype=torch.float64)
    direction = kind(as_kind(kind, gram), 0.3, least).solve(g, 1e6)
    gram.fill_diagonal_(0)
    laplacian = (gram.sum(1).diag() - gram) / 0.3
    assert float((laplacian @ direction - g).norm()) <= 3 * RESIDUAL * float(g.norm())
    assert float(direction.mean()) == pytest.approx(0, abs=1e-12 * float(direction.abs().max()))
    assert float(g @ direction) > 0


@either_kind
def test_the_diagonal_of_the_overlap_does_not_matter(kind: type) -> None:
    gram, g, least = ring(20), gradient(20), torch.full((20,), 1e-9, dtype=torch.float64)
    before = kind(as_kind(kind, gram), 0.3, least).solve(g, 1e6)
    gram.diagonal().add_(3.0)
    torch.testing.assert_close(kind(as_kind(kind, gram), 0.3, least).solve(g, 1e6), before)


@either_kind
@pytest.mark.parametrize("trust", [0.1, 2.0])
def test_no_direction_is_longer_than_trusted(kind: type, trust: float) -> None:
    g = torch.full((50,), -0.01, dtype=torch.float64)
    g[7] = 0.49
    direction = kind(as_kind(kind, ring(50)), 0.3, g.abs() * 1e-6).solve(100 * g, trust)
    assert float(direction.max() - direction.min()) <= 2 * trust * 0.3 * (1 + 1e-12)
    assert float(direction[7]) == float(direction.max())
    assert float(direction.mean()) == pytest.approx(0, abs=1e-12)


@either_kind
@pytest.mark.parametrize("damping", [1e-3, 1.0])
def test_a_larger_diagonal_holds_back(kind: type, damping: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curvature_module, "RESIDUAL", 1e-9)
    gram, g = ring(30), gradient(30)
    curvature = kind(as_kind(kind, gram), 0.3, torch.full((30,), 1e-9, dtype=torch.float64))
    laplacian = torch.diag(gram.fill_diagonal_(0).sum(1)) - gram
    lift = laplacian.diagonal().mean() / 30
    found = curvature.solution(g, damping)
    torch.testing.assert_close(
        (laplacian + damping * laplacian.diagonal().diag() + lift) @ found, g, atol=1e-7, rtol=1e-4
    )
    assert found.abs().max() < curvature.solution(g).abs().max()


@either_kind
def test_a_group_that_shares_hardly_a_sample_moves_as_one(kind: type) -> None:
    n = 40
    gram = torch.zeros(n, n, dtype=torch.float64)
    for half in (slice(0, n // 2), slice(n // 2, n)):
        gram[half, half] = ring(n // 2)
    gram[0, n // 2] = gram[n // 2, 0] = 1e-9
    inner = kind(as_kind(kind, gram), 0.3, torch.full((n,), 1e-12, dtype=torch.float64))
    g = gradient(n)
    g[: n // 2] += 1e-3
    g[n // 2 :] -= 1e-3
    direction = LimitedMemory(inner).solve(g, 10.0)
    assert (direction - direction.median()).abs().max() <= 10.0 * 0.3 * (1 + 1e-9)
    assert g @ direction > 0
    assert direction[: n // 2].min() > direction[n // 2 :].max()
    apart = direction[: n // 2] - direction[: n // 2].mean()
    cut = inner.solve(g, 10.0)  # which leaves nothing of how they move against each other
    assert apart.abs().max() > 10 * (cut[: n // 2] - cut[: n // 2].mean()).abs().max()


@either_kind
def test_nothing_to_do_is_no_direction(kind: type) -> None:
    direction = kind(as_kind(kind, ring(10)), 0.3, torch.full((10,), 1e-9, dtype=torch.float64))
    assert torch.equal(direction.solve(torch.zeros(10, dtype=torch.float64), 1.0), torch.zeros(10, dtype=torch.float64))


@either_kind
def test_a_point_that_nobody_wants_is_held(kind: type) -> None:
    gram = ring(20)
    gram[5], gram[:, 5] = 0, 0
    b = torch.full((20,), 0.05, dtype=torch.float64)
    mass = torch.where(torch.arange(20) == 5, 0.0, 1 / 19).double()
    curvature = curvature_of(SmoothedCells(0.0, mass, lambda: as_kind(kind, gram), 0.5), 0.1, b)
    assert isinstance(curvature, kind)
    direction = curvature.solve(b - mass, 1e9)
    assert int(direction.argmax()) == 5
    others = direction[torch.arange(20) != 5]
    assert float(others.max() - others.min()) < 0.1 * float(direction[5])  # nobody else is carried away with it
    # alone it would rise by g eta / (LEAST_DEGREE b)
    assert float(direction[5] - others.mean()) == pytest.approx(0.1 / LEAST_DEGREE, rel=0.2)
    assert float(curvature.solve(b - mass, 4.0).abs().max()) <= 2 * 4.0 * 0.1


@either_kind
def test_points_without_any_overlap_give_a_finite_direction(kind: type) -> None:
    b, g = torch.full((6,), 1 / 6, dtype=torch.float64), gradient(6)
    direction = curvature_of(
        SmoothedCells(0.0, b, lambda: as_kind(kind, torch.zeros(6, 6).double()), 0.0), 0.1, b
    ).solve(g, 1e9)
    torch.testing.assert_close(direction, g * 0.1 * 6 / LEAST_DEGREE, rtol=1e-4, atol=1e-9)


@either_kind
def test_the_overlap_is_not_written_to(kind: type) -> None:
    gram = as_kind(kind, ring(10))
    before = gram.clone()
    kind(gram, 0.3, torch.full((10,), 1e-9, dtype=torch.float64)).solve(gradient(10), 1.0)
    assert torch.equal(gram.to_dense(), before.to_dense())


def odd(kind: str, n: int) -> Tensor:
    """What has no factor at any ridge."""
    gram = ring(n)
    if kind == "lopsided":  # half of a state, as a file may hold: below the diagonal only
        gram.zero_()[n - 3, 2] = 1.0
    elif kind == "overflowing":
        gram.fill_(1e308)
    elif kind == "negative":
        gram.fill_(-1.0)
    else:
        gram[5, 2] = float(kind)
        gram[2, 5] = float(kind)
    return gram


@pytest.mark.parametrize("size", [1e-9, 1 / 40])
@pytest.mark.parametrize("odd_kind", ["lopsided", "overflowing", "negative", "nan", "inf", "-inf"])
def test_where_no_ridge_helps_the_diagonal_is_taken(odd_kind: str, size: float) -> None:
    least = torch.full((40,), size, dtype=torch.float64)
    curvature, g = Factorised(odd(odd_kind, 40), 0.3, least), gradient(40)
    identity = torch.eye(40, dtype=torch.float64)
    assert bool(curvature.solution(g, damping=1.0).isfinite().all())
    inverse = curvature.inverse()
    assert torch.equal(inverse, inverse * identity)
    assert bool((inverse.diagonal() > 0).all())
    assert bool(inverse.isfinite().all())
    torch.testing.assert_close(curvature.solution(g), inverse @ g)
    direction = curvature.solve(g, 4.0)
    assert float(direction.abs().max()) <= 2 * 4.0 * 0.3
    assert float(g @ direction) > 0


@pytest.mark.parametrize("number", [torch.nan, -1.0, 0.0, torch.inf])
def test_a_least_diagonal_that_is_none(number: float) -> None:
    least = torch.full((40,), 1e-3, dtype=torch.float64)
    least[:2] = number
    for some in (least, least[:1].expand(40)):
        solution = Factorised(odd("nan", 40), 0.3, some).solution(gradient(40))
        assert bool(solution.isfinite().all())


def clusters(weak: float) -> Tensor:
    """Overlap of four clusters of five points, which share a good deal among each other and `weak` with the next."""
    gram = torch.zeros(20, 20, dtype=torch.float64)
    for first in range(0, 20, 5):
        gram[first : first + 5, first : first + 5] = ring(5) / 4
    for first in range(5, 20, 5):
        gram[first - 1, first] = gram[first, first - 1] = weak
    return gram.fill_diagonal_(0)


def errors(curvature: Curvature, gram: Tensor, steps: int = 12) -> list[float]:
    """Of the mass after each step, where the mass changes by the Laplacian of `gram` / 0.3."""
    laplacian = (gram.sum(1).diag() - gram) / 0.3
    v, excess, found = torch.zeros(20, dtype=torch.float64), gradient(20), []
    for _ in range(steps):
        step = curvature.solve(excess, 1e6)
        if isinstance(curvature, LimitedMemory):
            curvature.learn(step, laplacian @ step)
        v = v + step
        excess = gradient(20) - laplacian @ v
        found.append(float(excess.abs().sum()))
    return found


def test_a_curvature_learns_what_clusters_exchange() -> None:
    # of which the subsample that it was made from knows next to nothing, and too much of one pair
    least = torch.full((20,), 1e-9, dtype=torch.float64)
    true, believed = clusters(weak=2e-4), clusters(weak=1e-3)
    fixed = errors(Factorised(believed, 0.3, least), true)
    learning = errors(LimitedMemory(Factorised(believed, 0.3, least)), true)
    assert fixed[-1] > 1e-2 * fixed[0], "it converges slowly or not at all"
    assert learning[-1] < 1e-8 * fixed[0]


def test_what_is_true_has_nothing_to_learn() -> None:
    least = torch.full((20,), 1e-9, dtype=torch.float64)
    gram = clusters(weak=1e-3)
    assert errors(LimitedMemory(Factorised(gram, 0.3, least)), gram, 1)[0] < 1e-3 * float(gradient(20).abs().sum())


def test_a_postponed_curvature_is_made_once_and_is_what_was_made() -> None:
    made = []

    def make() -> Factorised:
        made.append(Factorised(ring(10), 0.3, torch.full((10,), 1e-9, dtype=torch.float64)))
        return made[-1]

    postponed = LazyHessian(make, torch.full((10,), 0.1, dtype=torch.float64), 0.7)
    g = gradient(10)
    assert 0 < postponed.predicted_increase(g) == pytest.approx(2 * postponed.predicted_increase(g / 2**0.5))
    assert not made
    learning = LimitedMemory(postponed)
    directions = [curvature.solve(g, 1e6) for curvature in (learning, postponed.ready(), learning)]
    assert len(made) == 1
    assert learning.eta == 0.3
    assert learning.predicted_increase(g) == postponed.predicted_increase(g)
    assert all(torch.equal(direction, made[0].solve(g, 1e6)) for direction in directions)
    assert made[0].predicted_increase(g) == math.inf
