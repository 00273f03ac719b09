"""The comparison of divergences: its rows, its judge, and the collapse that it is there to show."""

import pytest
import torch

import torchcoreset as tc
from tests.data import normal32 as normal
from torchcoreset.coresets.compare import count_distinct
from torchcoreset.transport import data_scale


@pytest.fixture(scope="module")
def rows() -> list[tc.Comparison]:
    return tc.compare_divergences(normal(400, 2), 8, blurs=[0.05, 1.0, 20.0], steps=150)


@pytest.mark.slow
def test_one_row_for_each_divergence(rows: list[tc.Comparison]) -> None:
    assert [(row.divergence, row.p, row.blur, row.debias) for row in rows] == [
        ("wasserstein", 1, None, True),
        ("wasserstein", 2, None, True),
        ("energy", 1, None, True),
        *(("sinkhorn", 2, blur, debias) for blur in (0.05, 1.0, 20.0) for debias in (True, False)),
    ]
    assert all(row.points.shape == (8, 2) and row.seconds > 0 for row in rows)
    assert repr(rows[0]).startswith("Comparison(W1: value=")


@pytest.mark.slow
def test_the_biased_cost_collapses_and_debiasing_cures_it(rows: list[tc.Comparison]) -> None:
    biased, debiased = ([row for row in rows if row.blur and row.debias is debias] for debias in (False, True))
    assert [row.distinct for row in debiased] == [8, 8, 8]
    assert biased[0].distinct == 8 > biased[1].distinct > biased[2].distinct == 1
    assert biased[2].w2 > 3 * rows[1].w2
    assert debiased[0].w2 < 1.2 * rows[1].w2


def test_the_judge_is_exact_transport_to_samples_that_were_not_fitted() -> None:
    y, held = normal(200, 2), normal(300, 2, seed=1)
    row = tc.compare_divergences(y, 5, blurs=[], held_out=held, steps=20)[1]
    assert row.w1 == pytest.approx(tc.transport(row.points, held, 1).value, rel=2e-3)
    assert row.w2 == pytest.approx(tc.transport(row.points, held, 2).value, rel=2e-3)
    assert row.value == pytest.approx(tc.transport(row.points, y, 2).value, rel=2e-3)


def test_the_same_seed_gives_the_same_points() -> None:
    first, second, other = (
        tc.compare_divergences(normal(100, 2), 4, blurs=[], steps=5, seed=seed)[1].points for seed in (0, 0, 1)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_default_blurs_follow_the_scale_and_sources_without_end_are_bounded() -> None:
    rows = tc.compare_divergences(torch.distributions.Normal(0.0, 100.0), 3, samples=300, steps=2)
    assert [row.blur / rows[-1].blur for row in rows[3::2]] == pytest.approx([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
    assert 300 < rows[-1].blur < 1500


def test_scale_is_the_median_distance_to_the_median() -> None:
    assert data_scale(torch.tensor([[0.0], [1.0], [2.0], [3.0], [1e9]])) == 1
    assert data_scale(torch.tensor([[0.0], [0.0], [0.0], [3.0]])) == 0.75
    assert data_scale(torch.zeros(3, 2)) == 1


def test_distinct_points_are_counted_by_links() -> None:
    x = torch.tensor([[0.0], [0.9], [1.8], [5.0], [5.0]])
    assert [count_distinct(x, within) for within in (0, 1, 10)] == [4, 2, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "size: got 0"),
        ({"size": 30}, "source: 50 samples are left to fit 30 points; expected at least 60"),
        ({"steps": 0}, "steps: got 0"),
        ({"blurs": [0.0]}, "blur: got 0.0"),
        ({"backend": "pot"}, "backend: got 'pot'"),
        ({"p": 3, "backend": "geomloss"}, "p: got 3"),
        ({"source": torch.full((100, 2), torch.nan)}, "100 of 100 rows"),
    ],
)
def test_unusable_arguments_are_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.compare_divergences(**{"source": normal(100, 2), "size": 3, "blurs": [1.0]} | changes)
