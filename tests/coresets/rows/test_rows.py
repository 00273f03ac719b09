"""Builds of rows: against all subsets, on data of all kinds, and what they promise."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import torchcoreset as tc

pytestmark = pytest.mark.usefixtures("two_starts")
GENERATOR = torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def same_numbers_in_any_order() -> None:
    GENERATOR.manual_seed(1)


def normal(m: int, d: int) -> Tensor:
    return torch.randn(m, d, generator=GENERATOR)


def cauchy(m: int, d: int) -> Tensor:
    return normal(m, d) / normal(m, 1).abs()


CLUSTERS = torch.cat((normal(150, 2), normal(40, 2) + 30, 0.1 * normal(10, 2) - 50))
KINDS: dict[str, tuple[Tensor, int]] = {
    "smooth": (normal(300, 2), 12),
    "clusters": (CLUSTERS, 8),
    "heavy tails": (cauchy(200, 3), 10),
    "repeated": (normal(10, 2).repeat(20, 1), 15),
    "many dimensions": (normal(60, 784), 6),
    "offset": (normal(150, 2).double() + 1e6, 9),
    "integers": (torch.randint(0, 9, (200, 3), generator=GENERATOR), 10),
    "line": (normal(200, 1), 7),
    "few a point": (normal(30, 2), 20),
    "all": (normal(12, 2), 12),
    "one": (normal(50, 2), 1),
    "one of one": (normal(1, 2), 1),
    "constant": (torch.ones(20, 3), 4),
    "half precision": (normal(80, 2).half(), 5),
}


def never_rises(values: list[float]) -> bool:
    """But by the rounding of a sum."""
    return all(later <= value * (1 + 1e-12) for value, later in pairwise(values))


def rounds(source: Any, size: int, p: float = 2, **options: Any) -> tuple[tc.coresets.BuildResult, list[float]]:
    """A build, and the values of its rounds: those of the algorithm that comes last, which moves from row to row."""
    values: dict[int, list[float]] = {}

    def note(record: dict[str, Any]) -> None:
        if record["history"]:
            values.setdefault(record["place"], []).append(record["history"][-1][1])

    result = tc.build_coreset(source, size, p, rows=True, checkpoint=note, **options)
    return result, values[max(values)]


def check(result: tc.coresets.BuildResult, source: Tensor, size: int) -> None:
    rows = result.rows
    assert rows is not None
    assert rows.shape == (size,)
    assert rows.dtype == torch.int64
    assert len(rows.unique()) == size
    read = tc.as_source(source).materialize(None, torch.Generator())[0]
    assert torch.equal(result.coreset.points.detach(), read[rows])
    assert result.coreset.points.dtype == read.dtype


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_all_kinds(kind: str, p: float) -> None:
    source, size = KINDS[kind]
    result, values = rounds(source, size, p)
    check(result, source, size)
    assert result.status is tc.Status.CONVERGED
    assert never_rises([*values, result.transport.value])
    plan = tc.transport(source[result.rows], source, p)
    assert result.transport.value == pytest.approx(plan.value, rel=2e-3, abs=1e-12)


def best_of_all_subsets(source: Tensor, size: int, p: float, weights: Any) -> float:
    """W_p^p of the best of them. No weights cost less than those of the cells: most subsets need no transport."""
    costs = torch.cdist(source, source) ** p
    lower = {chosen: float(costs[:, chosen].amin(1).mean()) for chosen in combinations(range(len(source)), size)}
    best = math.inf
    for chosen in sorted(lower, key=lower.__getitem__):
        if lower[chosen] < best:
            best = min(best, tc.transport(source[list(chosen)], source, p, weights, tolerance=1e-6).value)
    return best


@pytest.mark.parametrize("weights", [None, "free", (0.5, 2.0)])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_nearly_the_best_of_all_subsets(p: float, weights: Any) -> None:
    """Most end at the best of all subsets, all within a fifth of it: no swap of a single row leads on from there."""
    reached = 0
    for seed in range(6):
        source = torch.randn(8, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        best = best_of_all_subsets(source, 3, p, weights)
        found = tc.build_coreset(source, 3, p, rows=True, weights=weights).transport.value
        assert best * (1 - 1e-6) <= found <= 1.2 * best
        reached += found <= best * (1 + 1e-5)
    assert reached >= 4


def test_no_single_swap_lowers_a_tiny_problem() -> None:
    source = torch.randn(40, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    result = tc.build_coreset(source, 4, rows=True)
    assert result.rows is not None
    for position in range(4):
        for row in set(range(40)) - set(result.rows.tolist()):
            rows = result.rows.clone()
            rows[position] = row
            assert tc.transport(source[rows], source).value >= result.transport.value * (1 - 1e-6)


@pytest.mark.parametrize("weights", [None, [0.7, 0.1, 0.1, 0.05, 0.05], "free", (0.5, 2.0)])
@pytest.mark.parametrize("p", [1, 2])
def test_weights_of_samples_and_points(p: float, weights: Any) -> None:
    source = normal(120, 2)
    mass = torch.rand(120, generator=GENERATOR, dtype=torch.float64) ** 4
    mass[1::7] = 1e-12
    mass[::3] = 0
    result, values = rounds(source, 5, p, weights=weights, sample_weights=mass)
    check(result, source, 5)
    assert result.rows is not None
    assert not (result.rows % 3 == 0).any(), "rows without weight are no part of the distribution"
    assert never_rises(values)
    if isinstance(weights, list):
        torch.testing.assert_close(result.coreset.weights.double(), torch.tensor(weights).double())
    kept = tc.build_coreset(source, 5, p, weights=weights, sample_weights=mass, rows=True, keep=[0])
    assert kept.rows is not None
    assert 0 in kept.rows.tolist(), "one that is kept is taken"


def test_a_share_that_stays_unmatched() -> None:
    source = torch.cat((normal(200, 2), normal(4, 2) + 1000))
    result = tc.build_coreset(source, 6, rows=True, trim=0.02)
    check(result, source, 6)
    assert result.distance < 2


def test_kept_and_excluded_rows_hold_along_the_way() -> None:
    source, excluded = normal(100, 2), torch.arange(0, 100, 2)
    result, _ = rounds(source, 10, keep=[3, 97, 51], exclude=excluded)
    check(result, source, 10)
    assert result.rows is not None
    assert {3, 51, 97} <= set(result.rows.tolist())
    assert not torch.isin(result.rows, excluded).any()
    everything = tc.build_coreset(source, 4, rows=True, keep=[1, 2, 3, 4])
    assert everything.rows is not None
    assert sorted(everything.rows.tolist()) == [1, 2, 3, 4]


def test_equal_rows_are_taken_twice_only_where_n_needs_it() -> None:
    distinct = normal(10, 2)
    source = distinct.repeat(3, 1)
    result = tc.build_coreset(source, 10, rows=True)
    assert result.rows is not None
    assert result.distance < 1e-6
    assert len((result.rows % 10).unique()) == 10
    more = tc.build_coreset(source, 14, rows=True)
    check(more, source, 14)


@pytest.mark.parametrize("algorithm", ["fixed_point", "gradient"])
@pytest.mark.parametrize("scale", ["standard", "robust", "whiten", [1.0, 100.0]])
def test_rows_are_the_datas_own_in_any_units(algorithm: Any, scale: Any) -> None:
    source = normal(150, 2) * torch.tensor([1.0, 1000.0]) + 3
    result = tc.build_coreset(source, 6, rows=True, scale=scale, algorithm=algorithm, steps=60)
    check(result, source, 6)
    assert result.coreset.scaling is not None
    again = tc.build_coreset(source, 6, rows=True, scale=scale, algorithm=algorithm, steps=60)
    assert torch.equal(again.rows, result.rows), "the same seed takes the same rows"  # type: ignore[arg-type]


def test_better_than_snapping_and_random_rows() -> None:
    source = normal(200, 3)
    result, values = rounds(source, 20)
    random = np.median(
        [tc.transport(source[torch.randperm(200, generator=GENERATOR)[:20]], source).value for _ in range(9)]
    )
    assert result.transport.value < 0.995 * values[0]
    assert result.transport.value < 0.7 * random


def test_rows_of_a_file_and_of_what_is_left_by_hold_out(tmp_path: Path) -> None:
    source = normal(200, 3)
    np.save(tmp_path / "rows.npy", source.numpy())
    result = tc.build_coreset(tmp_path / "rows.npy", 7, rows=True)
    check(result, source, 7)
    left, _ = tc.hold_out(source, 0.3)
    of_left = tc.build_coreset(left, 7, rows=True, scale="standard")
    assert of_left.rows is not None
    assert torch.equal(of_left.coreset.points, source[of_left.rows])
    some = tc.build_coreset(tmp_path / "rows.npy", 7, rows=True, samples=50)
    check(some, source, 7)


def test_positions_of_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(normal(50, 2).numpy(), index=range(1000, 1050), columns=["u", "v"])
    result = tc.build_coreset(frame, 5, rows=True)
    assert result.rows is not None
    np.testing.assert_array_equal(result.coreset.points.detach(), frame.iloc[result.rows.numpy()])


def test_counts_give_the_numbers_of_distinct_rows() -> None:
    distinct, counts = normal(30, 2), torch.randint(0, 5, (30,), generator=GENERATOR)
    read = tc.as_source(distinct, counts, weights_are="counts")
    for samples in (None, 20):
        result = tc.build_coreset(read, 5, rows=True, samples=samples)
        check(result, distinct, 5)
        assert result.rows is not None
        assert (counts[result.rows] > 0).all()


def test_rows_of_classes() -> None:
    source, labels = normal(200, 2), ["b"] * 50 + ["a"] * 150
    labeled = tc.build_labeled_coreset(source, labels, 8, rows=True, keep=[0, 60], exclude=[1, 2], scale="standard")
    rows = labeled.rows
    assert rows is not None
    assert torch.equal(labeled.points.detach(), source[rows])
    assert [labels[row] for row in rows.tolist()] == labeled.labels.tolist()
    assert {0, 60} <= set(rows.tolist())
    assert not {1, 2} & set(rows.tolist())
    with pytest.raises(ValueError, match=r"^keep: got row 200; expected numbers of the source's rows"):
        tc.build_labeled_coreset(source, labels, 8, rows=True, keep=[200])
    assert tc.build_labeled_coreset(source, labels, 8).rows is None


def test_steps_that_run_out_leave_rows() -> None:
    source = normal(200, 2)
    result = tc.build_coreset(source, 8, rows=True, steps=2, init=source[:8])
    check(result, source, 8)
    assert result.status is tc.Status.MAX_STEPS


def test_free_points_have_no_rows() -> None:
    assert tc.build_coreset(normal(50, 2), 3).rows is None


@pytest.mark.slow
def test_digits() -> None:
    """Snapped free points have W_2 = 23.46, the free points themselves 20.16."""
    datasets = pytest.importorskip("sklearn.datasets", reason="needs scikit-learn")
    source = torch.tensor(datasets.load_digits().data, dtype=torch.float32)
    result = tc.build_coreset(source, 50, rows=True)
    check(result, source, 50)
    assert result.distance < 23.33
    assert tc.build_coreset(source, 50, rows=True, weights="free").distance < 22.85
