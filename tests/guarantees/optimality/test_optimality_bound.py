"""The bound is never above what points reach: global optima of tiny problems, exact values on the line, and builds."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal, seeded
from torchcoreset.testing import best_value, line_transport

METHODS = ("pairs", "shift", "semidefinite")
ROUNDING = 1e-9  # relative; of the values that the bound is compared with


def uneven(m: int, seed: int = 0) -> Tensor:
    """Weights (m,) of rows that spread over three decades, with one that is nearly and one that is quite zero."""
    a = 10 ** (3 * torch.rand(m, generator=seeded(seed), dtype=torch.float64))
    a[m // 2] = 1e-9 * a[0]
    a[m // 3] = 0
    return a


def best_free_value(y: Tensor, size: int, a: Tensor) -> float:
    """The least cost of k-means, over all partitions."""
    found = math.inf
    for cells in itertools.product(range(size), repeat=len(y)):
        value = 0.0
        for cell in range(size):
            some = torch.tensor(cells) == cell
            if some.any():
                mean = a[some] @ y[some] / a[some].sum()
                value += float(a[some] @ (y[some] - mean).square().sum(1))
        found = min(found, value)
    return found / float(a.sum())


# Truths ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "size"), [(3, 2), (4, 2), (6, 2), (5, 3), (6, 3), (3, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_tiny_optimum_is_below(m: int, size: int, weighted: bool) -> None:
    for seed in range(3):
        y = normal(m, 2, seed=seed)
        a = 0.05 + torch.rand(m, generator=seeded(seed), dtype=torch.float64) if weighted else None
        best = best_value(y, size, row_weights=a)
        for method in METHODS:
            bound = tc.optimality_bound(y, size, sample_weights=a, method=method)
            assert bound.lower <= best * (1 + ROUNDING), bound


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 4])
def test_no_tiny_optimum_on_the_line_is_below_for_any_power(p: float) -> None:
    for seed in range(4):
        y = normal(5, 1, seed=seed)
        best = best_value(y, 2, p)
        for method in METHODS:
            assert tc.optimality_bound(y, 2, p, method=method).lower <= best * (1 + ROUNDING), method


@pytest.mark.parametrize("kind", ["ties", "far", "one far", "huge", "light"])
def test_no_tiny_optimum_is_below_for_odd_numbers(kind: str) -> None:
    for seed in range(5):
        y, a = normal(5, 2, seed=seed), 10 ** (3 * torch.rand(5, generator=seeded(seed), dtype=torch.float64))
        b = 0.1 + torch.rand(2, generator=seeded(seed), dtype=torch.float64)
        match kind:
            case "ties":
                y = (2 * y).round()
            case "far":
                y = 1e-5 * y + 1e6
            case "one far":
                y[0] *= 1e8
            case "huge":
                y = 1e100 * y
            case "light":
                a[0] *= 1e-12
        for weights in (None, b):
            best = best_value(y, 2, row_weights=a, weights=weights)
            for method in METHODS:
                bound = tc.optimality_bound(y, 2, weights=weights, sample_weights=a, method=method)
                assert bound.lower <= best * (1 + 1e-12), method


def test_given_free_and_bounded_weights_hold_on_tiny_problems() -> None:
    for seed in range(4):
        y, a = normal(5, 2, seed=seed), 0.1 + torch.rand(5, generator=seeded(seed), dtype=torch.float64)
        given = best_value(y, 3, row_weights=a, weights=torch.tensor([0.2, 0.5, 0.3]).double())
        free = best_free_value(y, 3, a)
        shares = torch.linspace(0.3, 0.7, 9, dtype=torch.float64)
        bounded = min(best_value(y, 2, row_weights=a, weights=torch.stack((share, 1 - share))) for share in shares)
        truths = (3, [0.2, 0.5, 0.3], given), (3, "free", free), (2, (0.6, 1.4), bounded)
        for method, (size, weights, best) in itertools.product(METHODS, truths):
            bound = tc.optimality_bound(y, size, weights=weights, sample_weights=a, method=method)
            assert bound.lower <= best * (1 + ROUNDING), bound


@pytest.mark.parametrize("method", METHODS)
def test_one_point_is_bounded_exactly_and_one_row_by_zero(method: str) -> None:
    y = normal(50, 3)
    variance = float((y - y.mean(0)).square().sum(1).mean())
    assert tc.optimality_bound(y, 1, method=method).lower == pytest.approx(variance)
    assert tc.optimality_bound(y[:1], 4, method=method).lower == 0
    assert tc.optimality_bound(y[:1].expand(9, 3), 4, method=method).lower == 0
    assert tc.optimality_bound(y[:5], 5, method=method).lower == 0


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_line_is_exact_and_above_all_other_bounds(p: float, weighted: bool) -> None:
    y, a = normal(60, 1), uneven(60) if weighted else None
    exact = tc.optimality_bound(y, 7, p, sample_weights=a)
    assert exact.method == "line"
    built = tc.build_coreset(y, 7, p, sample_weights=a, tolerance=0, progress=False).coreset
    value = line_transport(built.points, y, p, sample_weights=a).value
    assert exact.lower <= value * (1 + ROUNDING)
    assert value <= exact.lower * 1.02
    for method in METHODS:
        assert tc.optimality_bound(y, 7, p, sample_weights=a, method=method).lower <= exact.lower * (1 + ROUNDING)


def test_the_line_agrees_with_enumeration() -> None:
    for seed, p in itertools.product(range(3), (1, 2)):
        y, a = normal(5, 1, seed=seed), torch.tensor([1.0, 2, 1, 3, 1])
        best = best_value(y, 3, p, row_weights=a)
        assert tc.optimality_bound(y, 3, p, sample_weights=a).lower == pytest.approx(best, rel=1e-9)


# Builds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize("p", [1, 2, 3])
def test_no_build_is_nearer(kind: str, p: float) -> None:
    y = cloud(kind, 80)
    for a in (None, uneven(80)) if kind != "wide" else (None,):  # means and medians of 784 numbers take long
        built = tc.build_coreset(y, 8, p, sample_weights=a, restarts=1, progress=False)
        lowest = [tc.optimality_bound(y, 8, p, sample_weights=a, method=method) for method in METHODS]
        for bound in lowest:
            assert bound.lower <= built.transport.value * (1 + 1e-6), bound
            assert bound.within(built) >= 0
        # Each holds what the one before it does.
        assert lowest[0].lower <= lowest[1].lower * (1 + ROUNDING)
        assert lowest[1].lower <= lowest[2].lower * (1 + ROUNDING)


@pytest.mark.parametrize("weights", ["free", (0.5, 2.0), [0.4, 0.1, 0.2, 0.1, 0.1, 0.1]])
@pytest.mark.parametrize("kind", ["normal", "clusters", "cauchy", "repeated", "one outlier", "ints"])
def test_no_build_with_other_weights_is_nearer(kind: str, weights: object) -> None:
    y, a = cloud(kind, 80), uneven(80)
    built = tc.build_coreset(y, 6, weights=weights, sample_weights=a, restarts=1, progress=False)
    for method in METHODS:
        bound = tc.optimality_bound(y, 6, weights=weights, sample_weights=a, method=method)
        assert bound.lower <= built.transport.value * (1 + 1e-6), bound
        assert bound.within(built) >= 0


@pytest.mark.parametrize("method", METHODS)
def test_constant_columns_and_few_rows_a_point(method: str) -> None:
    y = torch.cat((normal(30, 2), torch.ones(30, 1)), 1)
    bound = tc.optimality_bound(y, 20, method=method)
    assert 0 <= bound.lower <= tc.build_coreset(y, 20, progress=False).transport.value


# Invariants -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_moves_turns_orders_copies_and_units(method: str) -> None:
    y = normal(80, 3).float().double()
    a = torch.randint(1, 4, (80,), generator=seeded())

    def lower(rows: Tensor, p: float = 2, weights: Tensor | None = None, **more: object) -> float:
        return tc.optimality_bound(rows, 6, p, sample_weights=weights, method=method, **more).lower

    value, weighted = lower(y), lower(y, weights=a.double())
    near = {"rel": 2e-3} if method == "semidefinite" else {"rel": 1e-9}  # ADMM works in float32
    assert lower(y[torch.randperm(80, generator=seeded())]) == pytest.approx(value, **near)
    assert lower(y.float()) == pytest.approx(value, **near)
    turn = torch.linalg.qr(normal(3, 3)).Q
    assert lower(y @ turn) == pytest.approx(value, **near)
    assert lower(y.repeat_interleave(a, 0)) == pytest.approx(weighted, **near)
    for p in (1.0, 2.0, 3.0):
        assert lower(1000 * y, p) == pytest.approx(1000**p * lower(y, p), **near)
    far = (y * 2**10).round() / 2**10 + 1e6  # which float64 holds exactly
    assert lower(far) == pytest.approx(lower(far - 1e6), **near)


def test_blocks_of_costs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    y, a = normal(90, 3), uneven(90)
    for method, weights in itertools.product(METHODS, (None, "free", (0.5, 2.0))):
        whole = tc.optimality_bound(y, 6, weights=weights, sample_weights=a, method=method).lower
        with monkeypatch.context() as patch:
            patch.setattr("torchcoreset.guarantees.optimality.rows.BLOCK", 7 * 90)
            parts = tc.optimality_bound(y, 6, weights=weights, sample_weights=a, method=method).lower
        assert parts == pytest.approx(whole, rel=1e-9 if method != "semidefinite" else 1e-3)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", ["normal", "far", "one outlier", "repeated", "wide"])
def test_expanded_squares_stay_below_exact_ones(kind: str, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    y = cloud(kind, 120)
    exact = tc.optimality_bound(y, 6, p, method="shift").lower
    monkeypatch.setattr("torchcoreset.guarantees.optimality.rows.EXACT", 0)
    expanded = tc.optimality_bound(y, 6, p, method="shift").lower
    assert exact * (1 - 1e-6) <= expanded <= exact * (1 + 1e-12)


def test_wider_weights_bound_less() -> None:
    y = cloud("clusters", 150)
    lowest = [
        tc.optimality_bound(y, 10, weights=weights, method="shift").lower
        for weights in (None, (1.0, 1.0), (0.9, 1.1), (0.5, 2.0), "free")
    ]
    assert lowest[0] == lowest[1]
    assert all(wide <= narrow * 1.001 for narrow, wide in itertools.pairwise(lowest))
    assert lowest[-1] > 0


def test_blocks_bound_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    y = normal(600, 2)
    built = tc.build_coreset(y, 5, progress=False)
    monkeypatch.setattr("torchcoreset.guarantees.optimality.bound.BLOCK", 200)
    monkeypatch.setattr("torchcoreset.guarantees.optimality.bound.PART", 200)
    for method in ("blocks", "semidefinite"):
        bound = tc.optimality_bound(y, 5, method=method)
        assert 0.5 * built.transport.value < bound.lower <= built.transport.value
    monkeypatch.setattr("torchcoreset.guarantees.optimality.bound.FEW", 100)
    monkeypatch.setattr("torchcoreset.guarantees.optimality.bound.PAIRS", 300**2)
    assert tc.optimality_bound(y, 5).method == "blocks"
    monkeypatch.setattr("torchcoreset.guarantees.optimality.bound.PAIRS", 600**2)
    assert tc.optimality_bound(y, 5).method == "shift"


# Real tables ----------------------------------------------------------------------------------------------------------


def test_digits(data_dir: Path) -> None:
    y = torch.from_numpy(np.load(data_dir / "digits.npz")["X"])
    for size, pairs, shift in ((10, 0.83, 0.85), (50, 0.76, 0.80)):
        built = tc.build_coreset(y, size, restarts=1, progress=False)
        for method, least in (("pairs", pairs), ("shift", shift)):
            bound = tc.optimality_bound(y, size, method=method)
            assert least - 0.01 < bound.lower / built.transport.value <= 1
    part = y[torch.randperm(len(y), generator=seeded())[:500]]
    built = tc.build_coreset(part, 10, progress=False)
    assert tc.optimality_bound(part, 10).within(built) < 0.015


@pytest.mark.slow
def test_digits_are_within_a_few_per_cent_of_the_best_possible(data_dir: Path) -> None:
    """Of 700 rows; all 1,797, whose bound takes half a minute, are within 2.0 per cent."""
    y = torch.from_numpy(np.load(data_dir / "digits.npz")["X"])
    y = y[torch.randperm(len(y), generator=seeded())[:700]]
    built = tc.build_coreset(y, 50, progress=False)
    assert tc.optimality_bound(y, 50, method="semidefinite").within(built) < 0.03


@pytest.mark.slow
def test_pendigits(data_dir: Path) -> None:
    y = torch.from_numpy(np.load(data_dir / "pendigits.npz")["X"])
    y = y[torch.randperm(len(y), generator=seeded())[:4000]]
    bound = tc.optimality_bound(y, 100, scale="standard")
    built = tc.build_coreset(y, 100, scale="standard", restarts=1, progress=False)
    assert bound.method == "shift"
    assert bound.within(built) < 0.18


# What is said, and refused --------------------------------------------------------------------------------------------


def test_the_result_says_what_it_is() -> None:
    y = torch.cat((normal(30, 2), normal(10, 2)))
    bound = tc.optimality_bound(y, 4, weights=(0.5, 2.0), scale="standard")
    assert bound.distance == pytest.approx(bound.lower**0.5)
    assert (bound.samples, bound.distinct, bound.size) == (40, len(torch.unique(y, dim=0)), 4)
    assert repr(bound) == (
        f"OptimalityBound(W_2 >= {bound.distance:.6g} standard deviations of the columns, size=4, weights=between 0.5 "
        f"and 2 equal shares, samples=40 ({bound.distinct} distinct), method=semidefinite)"
    )


def test_within_compares_like_with_like() -> None:
    y = normal(100, 2)
    built, bound = tc.build_coreset(y, 5, progress=False), tc.optimality_bound(y, 5)
    assert bound.within(built) == pytest.approx(built.distance / bound.distance - 1)
    assert bound.within(2 * bound.distance) == pytest.approx(1)
    assert bound.within(bound.distance * (1 - 1e-9)) == 0
    with pytest.raises(ValueError, match="no 5 points of such weights are nearer"):
        bound.within(0.9 * bound.distance)
    with pytest.raises(ValueError, match=r"expected the same\. Ask for a bound with that size"):
        bound.within(tc.build_coreset(y, 6, progress=False))
    with pytest.raises(ValueError, match="expected equal ones"):
        bound.within(tc.build_coreset(y, 5, weights=[1, 1, 1, 1, 2], progress=False))
    with pytest.raises(ValueError, match="expected one unit"):
        bound.within(tc.build_coreset(y, 5, scale="standard", progress=False))
    with pytest.raises(ValueError, match="expected one to all rows"):
        bound.within(tc.build_coreset(y, 5, trim=0.1, progress=False))
    with pytest.raises(TypeError, match="expected a distance W_2 or the result"):
        bound.within("near")
    with pytest.raises(ValueError, match="expected a finite number"):
        bound.within(math.nan)
    nothing = tc.optimality_bound(y[:3], 3)
    assert nothing.within(0.0) == 0
    assert nothing.within(1.0) == math.inf


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "size: got 0"),
        ({"p": 0.5}, "p: got 0.5"),
        ({"method": "best"}, "method: got 'best'"),
        ({"method": "line"}, "method: got 'line' for 2 columns"),
        ({"weights": "equal"}, "weights: got 'equal'; expected 'free'"),
        ({"weights": (1.2, 2.0)}, r"weights: got the bounds \(1.2, 2.0\)"),
        ({"weights": [1.0, 2.0]}, r"weights: got shape \(2,\); expected \(3,\)"),
        ({"source": torch.distributions.Normal(0.0, 1.0)}, "source: got .* expected a table"),
        ({"source": torch.full((3, 2), math.nan)}, "3 of 3 rows hold NaN"),
        ({"source": torch.tensor([[0.0], [1e200]], dtype=torch.float64)}, "source: got rows that spread over"),
    ],
)
def test_what_cannot_be_bounded_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.optimality_bound(**({"source": normal(10, 2), "size": 3} | changes))
