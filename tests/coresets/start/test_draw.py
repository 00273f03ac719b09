"""Starts: exact counts, k-means++ probabilities, and points that coincide."""

import pytest
import torch

from tests.data import normal32 as normal
from torchcoreset.coresets.start.draw import kmeans_plus_plus, repeat_to, separated, start_points
from torchcoreset.sources import as_source
from torchcoreset.sources.randomness import make_generator


def test_a_generator_is_used_as_it_is(generator: torch.Generator) -> None:
    assert make_generator(generator) is generator
    assert torch.equal(make_generator(0).get_state(), generator.get_state())


@pytest.mark.parametrize("seed", [True, None, 0.0, "0"])
def test_other_seeds(seed) -> None:
    with pytest.raises(ValueError, match=r"seed: got .*; expected an int or a torch.Generator"):
        make_generator(seed)


@pytest.mark.parametrize("init", ["random", "kmeans++"])
@pytest.mark.parametrize(
    "source", [normal(7, 2), torch.distributions.Normal(torch.zeros(2), 1.0), lambda m: normal(m, 2)]
)
def test_exactly_as_many_as_asked(init: str, source, generator: torch.Generator) -> None:
    for size in (1, 7, 30):
        assert start_points(as_source(source), size, init, 2, generator).shape == (size, 2)


def test_repetitions_come_after_the_rows(generator: torch.Generator) -> None:
    rows = normal(3, 2)
    assert torch.equal(repeat_to(rows, 2, generator), rows[:2])
    longer = repeat_to(rows, 50, generator)
    assert torch.equal(longer[:3], rows)
    assert len(torch.unique(longer[3:], dim=0)) == 3


@pytest.mark.parametrize("p", [1, 2])
def test_kmeans_plus_plus_draws_in_proportion_to_the_cost(p: float) -> None:
    line = torch.tensor([[0.0], [1.0], [3.0]])
    chosen = [
        kmeans_plus_plus(line, 2, p, torch.Generator().manual_seed(seed)).flatten().tolist() for seed in range(2000)
    ]
    first = [pair[0] for pair in chosen]
    for value in (0, 1, 3):
        assert first.count(value) / 2000 == pytest.approx(1 / 3, abs=0.04)
    after_zero = [pair[1] for pair in chosen if pair[0] == 0]
    assert after_zero.count(0) == 0
    assert after_zero.count(3) / len(after_zero) == pytest.approx(3**p / (1 + 3**p), abs=0.06)


@pytest.mark.parametrize("offset", [0, 1e4])
def test_kmeans_plus_plus_takes_every_row_before_it_repeats_one(offset: float, generator: torch.Generator) -> None:
    rows = normal(12, 3) + offset
    points = kmeans_plus_plus(rows, 20, 2, generator)
    assert len(torch.unique(points[:12], dim=0)) == 12
    assert len(torch.unique(points, dim=0)) == 12
    again = kmeans_plus_plus(rows.repeat(3, 1), 12, 2, generator)
    assert len(torch.unique(again, dim=0)) == 12


def test_kmeans_plus_plus_finds_every_cluster(generator: torch.Generator) -> None:
    centres = torch.tensor([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0], [100.0, 100.0], [1000.0, 1000.0]])
    pool = torch.cat([centre + normal(200 if i else 2000, 2, seed=i) for i, centre in enumerate(centres)])
    points = kmeans_plus_plus(pool, 5, 2, generator)
    assert torch.cdist(points, centres).argmin(1).sort().values.tolist() == [0, 1, 2, 3, 4]


def test_kmeans_plus_plus_in_half_precision_and_on_constant_rows(generator: torch.Generator) -> None:
    points = kmeans_plus_plus(normal(30, 2).half() * 1000, 5, 2, generator)
    assert points.dtype == torch.float16
    assert len(torch.unique(points, dim=0)) == 5
    assert torch.equal(kmeans_plus_plus(torch.ones(4, 2), 6, 2, generator), torch.ones(6, 2))


def test_twins_part_by_a_thousandth_of_the_spread_and_others_stay(generator: torch.Generator) -> None:
    points = torch.cat((10 * normal(6, 2), torch.zeros(3, 2)))
    before = points.clone()
    apart = separated(points, generator)
    assert torch.equal(points, before)
    assert torch.equal(apart[:6], points[:6])
    assert len(torch.unique(apart, dim=0)) == 9
    assert float(apart[6:].abs().max()) < 5e-3 * float(points.std(0).max())


def test_nothing_to_part(generator: torch.Generator) -> None:
    state = generator.get_state()
    points = normal(6, 2)
    assert torch.equal(separated(points, generator), points)
    assert torch.equal(generator.get_state(), state)
    assert torch.equal(separated(torch.ones(3, 2), generator), torch.ones(3, 2))
