"""The cases of cases_2.md on intervals from finite and weighted rows: the stated input, the stated answer."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

import torchcoreset as tc
from tests.data import normal, seeded
from torchcoreset.coresets import compare
from torchcoreset.sources import Source
from torchcoreset.testing import NORMAL

THREE = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
pytestmark = pytest.mark.filterwarnings("ignore:source. one of:UserWarning")  # few rows, a variance of few of them
UNEVEN = "source: the weights of its rows are too uneven"

Draw = Callable[[int, int], Source]


def plain(count: int, seed: int) -> Source:
    return tc.as_source(normal(count, 1, seed=seed))


def ones(count: int, seed: int) -> Source:
    return tc.as_source(normal(count, 1, seed=seed), torch.ones(count))


def light(count: int, seed: int) -> Source:
    """Weights that know nothing of the rows."""
    return tc.as_source(normal(count, 1, seed=seed), 0.2 + torch.rand(count, generator=seeded(seed + 10_000)))


def copies(count: int, seed: int) -> Source:
    return tc.as_source(normal(count, 1, seed=seed), torch.randint(1, 10, (count,), generator=seeded(seed + 10_000)))


def spread(deviation: float) -> Draw:
    """Rows of another normal, weighted by the density ratio to N(0, 1), on a scale of no meaning."""

    def draw(count: int, seed: int) -> Source:
        rows = deviation * normal(count, 1, seed=seed)
        return tc.as_source(rows, 1e4 * torch.exp(-rows[:, 0].square() / 2 * (1 - 1 / deviation**2)))

    return draw


def rising(count: int, seed: int) -> Source:
    """Rows of density proportional to 1 + y on [0, 1], weighted to the uniform distribution."""
    rows = (1 + 3 * torch.rand(count, 1, generator=seeded(seed), dtype=torch.float64)).sqrt() - 1
    return tc.as_source(rows, 1 / (1 + rows[:, 0]))


SETTINGS: dict[str, Draw] = {
    "one": ones,
    "light": light,
    "wider": spread(1.5),
    "twice as wide": spread(2.0),
    "copies": copies,
}


@functools.cache  # two tests look at the same intervals
def holds(name: str, count: int, p: int, seed: int) -> bool:
    truth = NORMAL.value(THREE, p) ** (1 / p)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="source: one of|" + UNEVEN)
        found = tc.certify(THREE, SETTINGS[name](count, seed), p)
    return found.lower <= truth <= found.upper


def coverage(name: str, count: int, p: int, seeds: range) -> float:
    return sum(holds(name, count, p, seed) for seed in seeds) / len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_d01_d03_intervals_from_weighted_rows_hold(name: str) -> None:
    """95 %: of 40 intervals at least 35 hold but in one of 10,000 cases."""
    assert coverage(name, 60, 2, range(20)) + coverage(name, 400, 1, range(20)) >= 2 * 0.875


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", SETTINGS)
def test_coverage_of_weighted_rows(name: str, p: int) -> None:
    """docs/how-to/certify.md has the table of 200 seeds, and of 2,000 rows."""
    found = [coverage(name, count, p, range(100)) for count in (60, 400)]
    assert min(found) >= 0.9
    assert sum(found) / 2 >= 0.93


def test_d01_weights_of_one_are_no_weights() -> None:
    for seed in range(3):
        expected = tc.certify(THREE, plain(400, seed), samples=20_000)
        found = tc.certify(THREE, ones(400, seed), samples=20_000)
        assert (found.lower, found.upper, found.samples) == (expected.lower, expected.upper, expected.samples)
        assert found.samples + found.potential_samples <= 400
        assert found.effective_samples == pytest.approx(found.samples)


@pytest.mark.parametrize("bound", [None, 60.0])
def test_the_scale_of_weights_is_no_matter(bound: float | None) -> None:
    rows, weights = normal(300, 1, seed=1), 0.2 + torch.rand(300, generator=seeded(2), dtype=torch.float64)
    ends = [tc.certify(THREE, tc.as_source(rows, scale * weights), bound=bound) for scale in (1.0, 3e7, 1e-300, 1e300)]
    for found in ends[1:]:
        assert (found.lower, found.upper) == pytest.approx((ends[0].lower, ends[0].upper), rel=1e-9)


def test_weights_that_know_nothing_of_the_rows_cost_what_kish_says() -> None:
    wide = [tc.certify(THREE, light(2000, seed)) for seed in range(8)]
    even = [tc.certify(THREE, plain(2000, seed)) for seed in range(8)]
    width = sum(one.upper - one.lower for one in wide) / sum(one.upper - one.lower for one in even)
    worth = sum(one.effective_samples for one in wide) / sum(one.effective_samples for one in even)
    assert width <= 1.1 * worth**-0.5


@pytest.mark.slow
def test_rows_of_something_narrower_are_told() -> None:
    warned, silent = 0, 0
    for seed in range(12):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            tc.certify(THREE, spread(0.8)(2000, seed))
            warned += any(UNEVEN in str(one.message) for one in heard)
            heard.clear()
            for draw in (light, spread(1.5), copies):
                tc.certify(THREE, draw(400, seed))
            silent += not any(UNEVEN in str(one.message) for one in heard)
    assert warned >= 9
    assert silent == 12
    with pytest.warns(
        UserWarning, match="draw them from something wider than the population.*no warning proves nothing"
    ):
        tc.certify(THREE, spread(0.5)(2000, 0))


def test_few_rows_that_carry_all_weight_are_told() -> None:
    rows, weights = normal(400, 1, seed=0), torch.full((400,), 1e-3)
    weights[::40] = 1.0
    with pytest.warns(UserWarning, match=r"200 rows are worth \d.* of equal weight, and an interval needs 15"):
        tc.certify(THREE, tc.as_source(rows, weights))


def test_rows_of_weight_zero_are_no_rows() -> None:
    """With and without them; a sentinel among them is no matter."""
    rows, weights = normal(300, 1, seed=1), 0.2 + torch.rand(300, generator=seeded(2), dtype=torch.float64)
    some = tc.as_source(torch.cat((rows, torch.full((3000, 1), 1e9).double())), torch.cat((weights, torch.zeros(3000))))
    found = tc.certify(THREE, some)
    assert found.samples == 150
    assert found.upper < 1
    build, fresh = tc.hold_out(some)
    assert (build.size, fresh.size) == (150, 150)


def test_a_bound_makes_weighted_intervals_hold_for_any_number() -> None:
    """U[0, 1]: no cost exceeds 1."""
    points = torch.tensor([[0.5]], dtype=torch.float64)
    truth = math.sqrt(1 / 12)
    held = 0
    for seed in range(10):
        source = rising(400, seed)
        found, loose = tc.certify(points, source, bound=1.0), tc.certify(points, source)
        held += found.lower <= truth <= found.upper
        assert found.lower <= loose.lower
        assert loose.upper <= found.upper
    assert held == 10
    assert "no weight of the population is larger" in found.asymptotic


@pytest.mark.slow
def test_many_points_and_weighted_rows() -> None:
    """Where the transport of kept rows is solved, in 784 dimensions, with an offset."""
    rows, weights = 1e3 + normal(600, 784, seed=0), 0.2 + torch.rand(600, generator=seeded(1))
    points = rows[:200] + 0.5
    weighted = tc.certify(points, tc.as_source(rows[200:], weights[200:]))
    exact = tc.transport(points, rows[200:], sample_weights=weights[200:]).value ** 0.5
    assert weighted.lower < weighted.upper
    assert 0.9 * exact < weighted.upper < 1.2 * exact


# D02, D20: expectations ----------------------------------------------------------------------------------------------


def square(y: Tensor) -> Tensor:
    return y[:, 0].square()


def exponential(y: Tensor) -> Tensor:
    return y[:, 0].exp()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one", "light", "wider"])
def test_d02_the_error_of_a_mean(name: str) -> None:
    """Of y^2: 1, and the points say 2/3. Of 25 intervals 21 hold but once in 300 times at 95 %."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=UNEVEN)
        found = [tc.expectation_error(THREE, SETTINGS[name](400, seed), square, samples=2000) for seed in range(25)]
    assert sum(one.lower <= 1 / 3 <= one.upper for one in found) >= 21


@pytest.mark.slow
@pytest.mark.parametrize("points", [torch.zeros(1, 1).double(), THREE], ids=["one", "three"])
@pytest.mark.parametrize("calls", [30, 200])
def test_d20_the_error_of_a_skewed_mean(points: Tensor, calls: int) -> None:
    """exp(Y) of few calls: today's symmetric intervals held in 88 to 91 %."""
    truth, held = abs(math.exp(0.5) - float(exponential(points).mean())), 0
    source = torch.distributions.Normal(0.0, 1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="source: one of")
        for seed in range(40):
            found = tc.expectation_error(points, source, exponential, samples=400, evaluations=calls, seed=seed)
            held += found.lower <= truth <= found.upper
    assert held >= 33  # of 40: fewer once in 200 at 92 %
    assert found.upper - abs(found.error) > 2 * found.standard_error  # the long side


def test_an_expectation_of_weighted_rows_is_the_weighted_mean() -> None:
    rows = 1.5 * normal(4000, 1, seed=3)
    weights = torch.exp(-rows[:, 0].square() / 2 * (1 - 1 / 2.25))
    found = tc.expectation_error(THREE, tc.as_source(rows, weights), square, samples=4000, evaluations=4000)
    assert abs(found.error - (1 - 2 / 3)) < 3 * found.standard_error
    assert found.expectation == pytest.approx(2 / 3)
    assert found.variance_ratio == pytest.approx(1)


def test_images_of_weighted_rows() -> None:
    """f(y) = 3 y, of rows of something wider: three times the distance."""
    rows = 1.5 * normal(2000, 1, seed=4)
    weights = torch.exp(-rows[:, 0].square() / 2 * (1 - 1 / 2.25))
    found = tc.certify_pushforward(THREE, tc.as_source(rows, weights), lambda y: 3 * y)
    truth = NORMAL.value(THREE, 2) ** 0.5
    assert found.data.lower <= truth <= found.data.upper
    assert found.lower <= 3 * truth <= found.upper
    assert found.image.value == pytest.approx(9 * found.data.value)
    assert float(found.image.cell_mass.sum()) == pytest.approx(1)


# counts -------------------------------------------------------------------------------------------------------------


def compressed(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A sample of normals rounded to tenths, and the same as distinct rows with counts."""
    rows = (10 * normal(count, 1, seed=seed)).round() / 10
    distinct, counts = torch.unique(rows, dim=0, return_counts=True)
    return rows, distinct, counts


def test_counts_are_rows() -> None:
    rows, distinct, counts = compressed(2000, 0)
    source = tc.as_source(distinct, counts, weights_are="counts")
    assert (source.size, source.weights_are) == (2000, "counts")
    found, expected = tc.certify(THREE, source), tc.certify(THREE, rows)
    assert (found.samples, found.effective_samples) == (expected.samples, 1000)
    assert found.upper - found.lower == pytest.approx(expected.upper - expected.lower, rel=0.3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=UNEVEN)
        importance = tc.certify(THREE, tc.as_source(distinct, counts))
    assert importance.upper - importance.lower > 1.3 * (found.upper - found.lower)


@pytest.mark.slow
def test_coverage_of_counts() -> None:
    grid = torch.arange(-90, 91, dtype=torch.float64) / 10
    mass = torch.special.ndtr(grid + 0.05) - torch.special.ndtr(grid - 0.05)
    truth = tc.transport(THREE, grid[:, None], 2, sample_weights=mass, exact=True).value ** 0.5
    held = 0
    for seed in range(100):
        _, distinct, counts = compressed(400, seed)
        found = tc.certify(THREE, tc.as_source(distinct, counts, weights_are="counts"))
        held += found.lower <= truth <= found.upper
    assert held >= 90


# the same everywhere ------------------------------------------------------------------------------------------------


def test_a_size_from_weighted_rows() -> None:
    """U[0, 1]: W1 = 1 / (4 n)."""
    found = tc.size_for(0.05, rising(6000, 0), p=1, max_builds=3)
    assert 5 <= found.size <= 10
    assert found.certificate.samples <= 3000
    assert found.certificate.effective_samples < found.certificate.samples


@pytest.mark.slow
@pytest.mark.parametrize("weights_are", ["importance", "counts"])
def test_divergences_on_weighted_rows(weights_are: str) -> None:
    """As many rows about 0 as about 3, which weigh a third: three of four points are about 0."""
    rows, weights = 0.1 * normal(200, 1, seed=0), torch.tensor([3, 1]).repeat(100)
    rows[1::2] += 3
    source = tc.as_source(rows, weights, weights_are=weights_are)
    found = tc.compare_divergences(source, 4, blurs=[0.1], steps=60)
    for one in found[:3]:
        assert int((one.points < 1.5).sum()) == 3, one.name
        assert one.w1 < 0.3


def test_divergences_divide_rows_with_their_weights() -> None:
    rows = torch.arange(20.0)[:, None]
    for samples, expected in ((None, 19), (10, 10)):
        fitted, judge = compare._divide(tc.as_source(rows, rows[:, 0]), 2, None, samples, seeded(0))
        both, mass = torch.cat((fitted.y, judge.y))[:, 0], torch.cat((fitted.a, judge.a))
        assert len(both.unique()) == len(both) == expected
        assert torch.allclose(mass, both.double() / both.double().sum())


@pytest.mark.parametrize("rows", [60, 300, 2000])
def test_d16_an_iterator_is_split_as_the_list_is(rows: int) -> None:
    chunks = normal(rows, 1, seed=1).split(13)
    found, expected = tc.certify(THREE, iter(chunks)), tc.certify(THREE, list(chunks))
    assert (found.lower, found.upper, found.samples) == (expected.lower, expected.upper, expected.samples)
    assert found.samples >= rows // 2


def test_a_short_iterator_is_told_what_it_lacks() -> None:
    with pytest.raises(ValueError, match=r"source: 2\d rows were left to certify with, after \d+ for the potential"):
        tc.certify(THREE, iter(normal(40, 1, seed=1).split(13)))


@pytest.mark.parametrize(
    "sampler",
    [
        {"sampler": RandomSampler(range(400), replacement=True)},
        {"sampler": WeightedRandomSampler([1.0] * 400, 400)},
        {"sampler": WeightedRandomSampler([1.0] * 400, 400, replacement=False)},
        {"batch_sampler": BatchSampler(RandomSampler(range(400), replacement=True), 50, drop_last=False)},
    ],
    ids=["random", "weighted", "by weight", "batches"],
)
def test_rows_that_come_again_are_no_fresh_rows(sampler: dict) -> None:
    loader = DataLoader(
        TensorDataset(normal(400, 1, seed=0)), **({"batch_size": 50} if "sampler" in sampler else {}), **sampler
    )
    for call in (tc.certify, lambda *a: tc.expectation_error(*a, square)):
        for source in (loader, tc.Pushforward(loader, lambda y: y)):
            with pytest.raises(ValueError, match="source: the sampler of this DataLoader draws rows with replacement"):
                call(THREE, source)
    once = DataLoader(TensorDataset(normal(400, 1, seed=0)), batch_size=50, shuffle=True)
    assert tc.certify(THREE, once).samples == 200


@pytest.mark.slow
def test_d04_the_command_that_a_build_prints(tmp_path, monkeypatch, capsys) -> None:
    """What was used to build is remembered whole: weights, split and scaling."""
    from torchcoreset.app.cli import main

    monkeypatch.chdir(tmp_path)
    rows = (1.5 * normal(1500, 2, seed=0)).numpy()
    weights = np.exp(-(rows**2).sum(1) / 2 * (1 - 1 / 2.25))
    weights[::5] = 0.0
    rows[::5] = 1e6  # sentinels
    table = np.c_[rows, weights]
    np.savetxt("t.csv", table, delimiter=",", header="a,b,w", comments="")
    np.savez("t.npz", X=rows, w=weights)
    fresh = tc.hold_out(tc.as_source(torch.from_numpy(rows), weights))[1]
    for data, options in (("t.csv", ""), ("t.npz", " --standardise --force")):
        assert main(f"build {data} --weights w --hold-out .5 --size 5 --quiet{options}".split()) == 0
        (printed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next")]
        command = printed.partition("torchcoreset ")[2].partition("   (")[0]
        assert main(command.split()) == 0
        said = capsys.readouterr()
        assert "rows are weighted by 'w', as in the build" in said.err
        assert "300 rows (worth" in said.out
        lower, upper = (float(part.split()[0]) for part in (said.out, said.out.partition("W2 <= ")[2]))
        assert 0.7 < lower < upper < 1.0
        if data == "t.csv" and not options:
            coreset = tc.Coreset.load("coreset.npz")
            expected = tc.certify(coreset, fresh)
            assert (lower, upper) == pytest.approx((expected.lower, expected.upper), rel=1e-4)
            assert main(["compare", "t.csv", "coreset.npz"]) == 0
            found = float(capsys.readouterr().out.splitlines()[2].split()[2])
            whole = tc.as_source(torch.from_numpy(rows), weights).materialize(None, seeded(0))
            assert found == pytest.approx(
                tc.transport(coreset.points, *whole[:1], 2, None, whole[1]).value ** 0.5, rel=1e-3
            )


def test_d04_counts_are_remembered(tmp_path, monkeypatch, capsys) -> None:
    from torchcoreset.app.cli import main

    monkeypatch.chdir(tmp_path)
    _, distinct, counts = compressed(2000, 0)
    np.savetxt("t.csv", np.c_[distinct.numpy(), counts.numpy()], delimiter=",", header="a,n", comments="")
    counted = ["--weights", "n", "--weights-are", "counts"]
    assert main(["build", "t.csv", *counted, "--hold-out", ".5", "--size", "5", "--quiet"]) == 0
    assert main(["certify", "coreset.npz", "t.csv"]) == 0
    assert "from 500 rows, and" in capsys.readouterr().out
    assert main(["build", "t.csv", "--weights-are", "counts", "--size", "5", "--out", "other.npz"]) == 2
    assert "--weights-are: given without --weights" in capsys.readouterr().err
    assert main(["size", "t.csv", "--weights", "a", "--weights-are", "counts", "--epsilon", "1"]) == 2
    assert "--weights: " in capsys.readouterr().err  # some are negative
