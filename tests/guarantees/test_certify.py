"""Certificates: right on problems with exact answers, tight, honest about where they come from."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import line, plane
from torchcoreset.guarantees.certify import TAILS
from torchcoreset.guarantees.evaluation import cell_statistics as statistics_module
from torchcoreset.guarantees.evaluation import plan as plan_module
from torchcoreset.guarantees.evaluation.cell_statistics import CellStatistics, cell_rows
from torchcoreset.guarantees.evaluation.plan import feasible_plan
from torchcoreset.testing import NORMAL, UNIFORM
from torchcoreset.transport.costs import as_cost
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.problem import make_problem

certify_module = importlib.import_module("torchcoreset.guarantees.certify")  # the name is the function's, too


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:source. one of:UserWarning")
@pytest.mark.parametrize("kind", ["optimal", "random"])
@pytest.mark.parametrize("n", [5, 50])
@pytest.mark.parametrize("p", [1, 2])
def test_coverage(p: int, n: int, kind: str) -> None:
    """The normal on the line, whose W_p to any points is known: 200 intervals hold it at least 190 times."""
    if kind == "optimal":
        points = NORMAL.optimal_points(n, p)
    else:
        points = NORMAL.sample(n, torch.Generator().manual_seed(n))
    truth = NORMAL.value(points, p) ** (1 / p)
    held = 0
    for seed in range(200):
        found = tc.certify(points, line, p=p, samples=2000 if n == 50 else 5000, seed=seed)
        held += found.lower <= truth <= found.upper
    assert held >= 190


@pytest.mark.slow
def test_width_at_a_million_samples() -> None:
    coreset = tc.build_coreset(plane, 50, samples=50_000).coreset
    found = tc.certify(coreset, plane, samples=1_000_000)
    assert found.samples == 1_000_000
    assert found.relative_width <= 0.005  # the issue asks for 2 %
    assert 0.09317 * 0.995 <= found.upper**2 <= 0.09317 * 1.03  # best known value, and what a single build gives


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_weights_and_powers(p: float) -> None:
    """Against an exact solve on many other samples."""
    generator = torch.Generator().manual_seed(1)
    x, b = torch.randn(12, 3, generator=generator), torch.rand(12, generator=generator) + 0.1
    y = torch.randn(200_000, 3, generator=generator)
    truth = tc.transport(x, y, p=p, point_weights=b, tolerance=1e-4).value ** (1 / p)
    found = tc.certify(tc.Coreset(x, b), lambda m: torch.randn(m, 3), p=p, samples=30_000)
    assert found.lower * 0.997 < truth < found.upper * 1.003
    assert found.relative_width < 0.05
    assert found.gap < 0.02
    assert found.cell_mass.tolist() == pytest.approx((b / b.sum()).tolist(), abs=0.02)


@pytest.mark.parametrize(("n", "m", "p"), [(20, 5000, 2.0), (20, 5000, 1.0), (40, 8000, 1.5)])
def test_the_streamed_plan_is_nearly_optimal(n: int, m: int, p: float) -> None:
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(n, 2, generator=generator), torch.randn(m, 2, generator=generator)
    b = torch.rand(n, generator=generator, dtype=torch.float64) + 0.2
    b /= b.sum()
    v = tc.transport(x, torch.randn(m, 2, generator=generator), p=p, point_weights=b).potential
    plan = streamed(x, y, b, v, p, expected=m)
    exact = tc.transport(x, y, p=p, point_weights=b, tolerance=1e-5)
    assert exact.lower * (1 - 1e-9) <= plan.value <= exact.value * 1.002


@pytest.mark.parametrize("scale", [0.0, 2.0])
def test_a_hopeless_potential_still_gives_a_feasible_plan(scale: float) -> None:
    """Half of all samples have to move, far more than there are candidates."""
    generator = torch.Generator().manual_seed(4)
    x, y = torch.randn(20, 2, generator=generator), torch.randn(20_000, 2, generator=generator)
    b = torch.full((20,), 1 / 20, dtype=torch.float64)
    v = scale * torch.randn(20, generator=generator, dtype=torch.float64)
    plan = streamed(x, y, b, v, 2.0, expected=1000)  # so that hardly any candidates are kept
    assert plan.moved > 0.3
    assert plan.value >= tc.transport(x, y, tolerance=1e-4).lower


def streamed(x: Tensor, y: Tensor, b: Tensor, v: Tensor, p: float, expected: int):
    statistics = CellStatistics(b, expected, expected)
    for rows in y.split(700):
        problem = make_problem(x, rows, p, b, dtype=torch.float64)
        statistics.add(cell_rows(problem.y, problem.a.new_ones(len(rows)), make_engine(problem, "auto").hard(v)))
    shifted = x.double() - x.median(0).values.double()
    return feasible_plan(statistics, shifted, v, as_cost(p))


def test_where_points_are_many_a_kept_sample_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same samples and potential: only the plan is another, and it is nearer to the best."""
    points = torch.randn(40, 2, generator=torch.Generator().manual_seed(2))
    balanced = tc.certify(points, plane, samples=20_000, seed=3)
    monkeypatch.setattr(statistics_module, "MOST_ELEMENTS", 8 * 40 * 40)  # room for 8 candidates a cell
    solved = tc.certify(points, plane, samples=20_000, seed=3)
    monkeypatch.setattr(certify_module, "KEPT", 0)
    rough = tc.certify(points, plane, samples=20_000, seed=3)
    assert solved.dual == balanced.dual == rough.dual
    assert solved.dual <= solved.value < balanced.value * 1.002 < rough.value
    assert 0 < solved.moved < 0.5
    assert torch.equal(solved.cell_mass, rough.cell_mass)


def test_a_solved_plan_carries_the_images_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """f(y) = 3 y: whatever the plan, its images cost 9 times as much."""
    monkeypatch.setattr(statistics_module, "MOST_ELEMENTS", 8 * 40 * 40)
    found = tc.certify_pushforward(
        torch.randn(40, 2, generator=torch.Generator().manual_seed(2)), plane, lambda y: 3 * y, samples=5000
    )
    assert found.image.value == pytest.approx(9 * found.data.value, rel=1e-5)


def test_memory_does_not_grow_with_samples() -> None:
    b = torch.full((10,), 0.1, dtype=torch.float64)
    statistics, x = (
        CellStatistics(b, 1_000_000, 1_000_000),
        torch.randn(10, 2, generator=torch.Generator().manual_seed(0)),
    )
    for seed in range(20):
        rows = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(seed))
        problem = make_problem(x, rows, 2, b, dtype=torch.float64)
        ones = problem.a.new_ones(len(rows))
        statistics.add(cell_rows(problem.y, ones, make_engine(problem, "auto").hard(torch.zeros_like(b))))
    assert statistics.total == 400_000
    assert len(statistics.finish().cell) <= 10 * (16 + 8 * 320)


def test_a_bound_makes_it_hold_for_any_number_of_samples() -> None:
    """U[0, 1], n = 5: W2^2 = 1 / 300, and no cost exceeds 1."""
    points = UNIFORM.optimal_points(5, p=2)
    for seed in range(20):
        found = tc.certify(points, lambda m: torch.rand(m, 1), samples=4000, bound=1.0, seed=seed)
        assert found.lower <= (1 / 300) ** 0.5 <= found.upper
    loose = tc.certify(points, lambda m: torch.rand(m, 1), samples=4000)
    assert found.method == "bernstein"
    assert found.asymptotic.startswith("nothing")
    assert loose.upper < found.upper


def test_more_confidence_is_wider_and_more_samples_narrower() -> None:
    points = NORMAL.optimal_points(5, p=2)
    plain = tc.certify(points, line, samples=5000)
    sure = tc.certify(points, line, samples=5000, confidence=0.999)
    many = tc.certify(points, line, samples=80_000)
    assert sure.lower < plain.lower < plain.upper < sure.upper
    assert many.upper - many.lower < 0.5 * (plain.upper - plain.lower)


def test_one_point_has_no_potential_to_find() -> None:
    found = tc.certify(torch.zeros(1, 1), line, samples=50_000)
    assert found.lower < 1 < found.upper  # W2^2 = E Y^2 = 1
    assert found.gap == 0


def test_points_on_all_the_mass_are_at_distance_zero() -> None:
    coin = lambda m: torch.randint(2, (m, 1)).float()  # noqa: E731
    found = tc.certify(torch.tensor([[0.0], [1.0]]), coin, p=1, samples=10_000)
    assert found.lower == 0
    assert found.upper < 0.03  # half the excess of heads, and its error


def test_the_same_seed_gives_the_same_bits_and_global_state_stays() -> None:
    points, before = NORMAL.optimal_points(5, p=2), torch.get_rng_state()
    first, second = (tc.certify(points, line, samples=3000, seed=7) for _ in range(2))
    assert (first.lower, first.upper) == (second.lower, second.upper)
    assert torch.equal(before, torch.get_rng_state())
    assert tc.certify(points, line, samples=3000, seed=torch.Generator().manual_seed(7)).upper == first.upper


def test_a_table_is_split_and_each_row_is_used_once() -> None:
    table = torch.randn(10_000, 2, generator=torch.Generator().manual_seed(5))
    found = tc.certify(table[:5] * 1.0, table)
    assert found.samples >= 5000
    assert found.samples + found.potential_samples <= 10_000


@pytest.mark.parametrize(
    "wrap",
    [
        lambda table: torch.utils.data.DataLoader(torch.utils.data.TensorDataset(table), batch_size=100),
        lambda table: iter(table.split(100)),
        lambda table: list(table.split(100)),
        lambda table: table.numpy(),
        lambda table: tc.as_source(table, weights=torch.rand(len(table))),
    ],
    ids=["loader", "iterator", "list", "array", "weighted"],
)
def test_any_source(wrap: Callable[[Tensor], object]) -> None:
    table = torch.randn(6000, 2, generator=torch.Generator().manual_seed(6))
    found = tc.certify(torch.randn(4, 2, generator=torch.Generator().manual_seed(7)), wrap(table), samples=3000)
    assert 1000 <= found.samples <= 3000
    assert 0 < found.lower < found.upper


def test_a_long_source_is_not_read_further_than_asked() -> None:
    read = 0

    def batches():
        nonlocal read
        for seed in range(1000):
            read += 100
            yield torch.randn(100, 1, generator=torch.Generator().manual_seed(seed))

    tc.certify(NORMAL.optimal_points(2, p=2), batches(), samples=2000)
    assert read < 10_000


@pytest.mark.slow
def test_the_set_that_built_it_is_known(tmp_path) -> None:
    data = torch.randn(3000, 2, generator=torch.Generator().manual_seed(8))
    result = tc.build_coreset(data, 5)
    result.coreset.save(tmp_path / "c.npz")
    result.coreset.save(tmp_path / "c.pt")
    subset = tc.Coreset.from_source(data, 5)
    for seen in (result, result.coreset, subset, *(tc.Coreset.load(tmp_path / f"c.{end}") for end in ("npz", "pt"))):
        with pytest.warns(UserWarning, match="source: these rows built the coreset.*tc.hold_out"):
            tc.certify(seen, data.clone(), samples=500)
    build, fresh = tc.hold_out(data, 0.5)
    coreset = tc.build_coreset(build, 5).coreset
    assert tc.certify(coreset, fresh).samples > 700
    with pytest.warns(UserWarning, match="these rows built"):
        tc.certify(coreset, build)


def test_heavy_tails_are_reported() -> None:
    heavy = lambda m: torch.distributions.StudentT(1.5).sample((m, 1))  # noqa: E731
    with pytest.warns(UserWarning, match=r"one of 2000 samples makes \d+% of the variance: the tails decide"):
        found = tc.certify(torch.zeros(1, 1), heavy, samples=2000)
    assert found.tail_share > TAILS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p": 0.5}, "p: got 0.5; expected a number >= 1"),
        ({"confidence": 95}, r"confidence: got 95; expected a probability in \(0, 1\)"),
        ({"samples": 0}, "samples: got 0; expected a positive integer"),
        ({"samples": 10}, "source: 10 rows were left to certify with.*at least 30"),
        ({"bound": -1.0}, "bound: got -1.0; expected the largest possible cost"),
        ({"bound": 0.01}, r"bound: got 0.01, and a sample is at a cost .* expected a bound"),
        ({"engine": "magic"}, "engine: got 'magic'"),
        ({"seed": 1.5}, "seed: got 1.5; expected an int or a torch.Generator"),
        ({"source": torch.zeros(100, 3)}, "source: got samples of dimension 3 for points of dimension 1"),
        ({"source": torch.zeros(1, 1)}, "source: it ended after fewer than 4 rows"),
        ({"source": torch.zeros(20, 1)}, r"source: 1\d rows were left to certify with, after \d+ for the potential"),
        ({"coreset": torch.zeros(0, 1)}, r"coreset: got shape \(0, 1\); expected at least one row"),
    ],
)
def test_unusable_arguments(changes: dict[str, object], message: str) -> None:
    arguments = {"coreset": torch.tensor([[0.0], [1.0]]), "source": line, "samples": 100} | changes
    with pytest.raises(ValueError, match=message):
        tc.certify(**arguments)


def test_something_without_points() -> None:
    with pytest.raises(TypeError, match=r"coreset: got str; expected something with .points and .weights"):
        tc.certify("points", line)


@pytest.mark.slow
def test_many_points_use_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dense", "gram"):
        monkeypatch.setattr(importlib.import_module(f"torchcoreset.transport.passes.{name}"), "DENSE_POINTS", 256)
    for module in (statistics_module, plan_module):
        monkeypatch.setattr(module, "MANY", 256)
    generator = torch.Generator().manual_seed(9)
    x = torch.rand(300, 1, generator=generator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tc.certify(x, lambda m: torch.rand(m, 1), p=1, samples=6000)
    truth = UNIFORM.value(x, p=1)
    assert found.lower <= truth <= found.upper
    assert np.isfinite(found.upper)


def test_weights_of_the_rows_count_behind_a_map() -> None:
    """Rows at 0 of no weight and rows at 1: the distribution is what lies at 1, and half of the rows show it."""
    rows = torch.arange(1000) % 2 + 0.01 * torch.randn(1000, generator=torch.Generator().manual_seed(0))
    source = tc.as_source(rows, weights=torch.arange(1000) % 2)
    plain = tc.certify(torch.ones(1, 1), source, samples=2000)
    mapped = tc.certify(torch.ones(1, 1), tc.Pushforward(source, lambda y: y), samples=2000)
    assert mapped.samples == plain.samples == 375
    assert (mapped.lower, mapped.upper) == pytest.approx((plain.lower, plain.upper), rel=1e-6)
    assert plain.upper < 0.02


@pytest.mark.parametrize("scale", [2.0**-400, 2.0**-270, 2.0**200, 2.0**500], ids=["1e-120", "5e-82", "2e60", "3e150"])
def test_the_scale_of_the_data_is_no_matter(scale: float) -> None:
    """Costs of 1e-240 have squares of zero, which would make an interval of no width; those of 1e300 infinite ones."""
    rows = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weighted = tc.as_source(scale * rows, torch.rand(1000, generator=torch.Generator().manual_seed(1)))
    for source, unit in ((scale * rows, rows), (weighted, tc.as_source(rows, weighted.materialize(None, None)[1]))):
        found, expected = tc.certify(scale * rows[:5], source), tc.certify(rows[:5], unit)
        assert (found.lower / scale, found.upper / scale) == pytest.approx((expected.lower, expected.upper), rel=1e-3)
    found = tc.expectation_error(rows[:5], rows, lambda y: scale * y[:, 0].exp(), samples=900)
    expected = tc.expectation_error(rows[:5], rows, lambda y: y[:, 0].exp(), samples=900)
    assert (found.lower / scale, found.upper / scale) == pytest.approx((expected.lower, expected.upper), rel=1e-9)
