"""The distributions on the line, against printed tables, quadrature and duality."""

import itertools
import math

import pytest
import torch
from scipy import integrate, stats

from torchcoreset.testing import EXPONENTIAL, LINE_PROBLEMS, NORMAL, UNIFORM, LineProblem

# n: (N(0,1) W2^2, N(0,1) W1, Exp(1) W2^2), computed independently of this package
TABLE = {
    1: (1.0, 0.7978845608, 1.0),
    2: (0.3633802276, 0.4732217299, 0.51954699),
    3: (0.2067712231, 0.3428892246, 0.35089408),
    5: (0.1030448828, 0.2254305297, 0.21273793),
    10: (0.0409535481, 0.1252333238, 0.10719974),
    20: (0.0166938571, 0.0684490253, 0.05380804),
    50: (0.0052886819, 0.0302441031, 0.02157321),
    100: (0.0022722021, 0.0161357578, 0.01079494),
    1000: (0.0001537883, 0.0019171500, 0.00108024),
}
LAW = {"normal": stats.norm, "uniform": stats.uniform, "exponential": stats.expon}

every_problem = pytest.mark.parametrize("problem", LINE_PROBLEMS, ids=lambda problem: problem.name)
every_power = pytest.mark.parametrize("p", [1, 2])


def some_points(problem: LineProblem, size: int, seed: int = 0) -> torch.Tensor:
    """Draws from the problem, unsorted, shifted and stretched so that some points leave their cells."""
    return 1.7 * problem.sample(size, torch.Generator().manual_seed(seed)) - 0.4


def expectation(problem: LineProblem, function, breaks) -> float:
    """E function(X) by quadrature between the breaks, which hold every kink."""
    law = LAW[problem.name]
    low, high = max(law.ppf(0), -12.0), min(law.ppf(1), 60.0)
    ends = sorted({low, high, *(b for b in breaks if low < b < high)})
    return sum(
        integrate.quad(lambda t: function(t) * law.pdf(t), a, b, epsabs=1e-11, limit=200)[0]
        for a, b in itertools.pairwise(ends)
    )


@pytest.mark.parametrize("size", TABLE)
def test_optimal_values_are_those_printed(size: int) -> None:
    normal_w2, normal_w1, exponential_w2 = TABLE[size]
    assert NORMAL.optimal_value(size, 2) == pytest.approx(normal_w2, abs=6e-11)
    assert NORMAL.optimal_value(size, 1) == pytest.approx(normal_w1, abs=6e-11)
    assert EXPONENTIAL.optimal_value(size, 2) == pytest.approx(exponential_w2, abs=6e-9)
    assert UNIFORM.optimal_value(size, 2) == pytest.approx(1 / (12 * size**2), rel=1e-8)
    assert UNIFORM.optimal_value(size, 1) == pytest.approx(1 / (4 * size), rel=1e-11)


def test_optimal_points_are_those_printed() -> None:
    half = torch.tensor([0.12599747, 0.38649919, 0.67730694, 1.04463588, 1.75498332], dtype=torch.float64)
    expected = torch.cat([-half.flip(0), half]).unsqueeze(-1)
    torch.testing.assert_close(NORMAL.optimal_points(10, p=2), expected, atol=6e-9, rtol=0)
    for p in (1, 2):
        expected = torch.tensor([[0.125], [0.375], [0.625], [0.875]], dtype=torch.float64)
        torch.testing.assert_close(UNIFORM.optimal_points(4, p), expected)


def test_the_normal_w1_optimum_has_its_closed_form() -> None:
    for n in (2, 7, 30):
        medians = NORMAL.pdf(NORMAL.optimal_points(n, p=1)).sum()
        boundaries = NORMAL.pdf(NORMAL.boundaries(n)).sum()
        assert NORMAL.optimal_value(n, 1) == pytest.approx(float(2 * medians - 2 * boundaries), abs=1e-14)


@pytest.mark.parametrize(
    ("size", "printed"),
    [(2, 0.36338023), (3, 0.19017404), (5, 0.07994113), (10, 0.02293705), (20, 0.00620779)],
)
def test_free_weights_reach_the_printed_lloyd_max_values(size: int, printed: float) -> None:
    points = NORMAL.optimal_points(size, 2)[:, 0]
    ends = torch.tensor([math.inf], dtype=torch.float64)
    for _ in range(1500):
        bounds = torch.cat([-ends, (points[1:] + points[:-1]) / 2, ends])
        mass = NORMAL.cdf(bounds).diff()
        means = NORMAL.first_moment(bounds).diff() / mass
        # a long step, since Lloyd's own is slow for many points
        points = points + 1.5 * (means - points)
    assert float(1 - mass @ means.square()) == pytest.approx(printed, abs=6e-9)
    assert printed <= NORMAL.optimal_value(size, 2) + 6e-9


@pytest.mark.parametrize(
    ("batch", "excess", "last_digit", "outer"),
    [
        (10, 0.24, 0.01, 1.539),
        (20, 0.070, 0.001, 1.638),
        (50, 0.012, 0.001, 1.706),
        (100, 0.003, 0.001, 1.730),
        (500, 0.0001, 0.0001, 1.750),
    ],
)
def test_points_fitted_to_small_batches_have_the_printed_excess(
    batch: int, excess: float, last_digit: float, outer: float
) -> None:
    # solving the dual afresh on each batch, the best points are the expected means of the batch's blocks
    t = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    ranks = torch.arange(1, batch + 1, dtype=torch.float64)
    log_count = math.lgamma(batch + 1) - torch.lgamma(ranks) - torch.lgamma(batch + 1 - ranks)
    below, above = torch.special.log_ndtr(t)[:, None], torch.special.log_ndtr(-t)[:, None]
    density = torch.exp(log_count + (ranks - 1) * below + (batch - ranks) * above) * NORMAL.pdf(t)[:, None]
    order_means = torch.trapezoid(t[:, None] * density, t, dim=0)
    points = order_means.reshape(10, -1).mean(1, keepdim=True)
    assert float(points.max()) == pytest.approx(outer, abs=6e-4)
    found = NORMAL.value(points, 2) / NORMAL.optimal_value(10, 2) - 1
    assert found == pytest.approx(excess, abs=last_digit / 2)


@every_problem
def test_functions_agree_with_scipy(problem: LineProblem) -> None:
    law = LAW[problem.name]
    t = torch.tensor([-3.0, -0.5, 0.0, 0.2, 0.9, 1.5, 4.0], dtype=torch.float64)
    u = torch.tensor([0.0, 1e-9, 0.1, 0.5, 0.99, 1.0], dtype=torch.float64)
    for ours, theirs, at in [
        (problem.pdf, law.pdf, t),
        (problem.cdf, law.cdf, t),
        (problem.quantile, law.ppf, u),
    ]:
        torch.testing.assert_close(ours(at), torch.from_numpy(theirs(at.numpy())), rtol=1e-12, atol=1e-15)
    for moment, r in [(problem.first_moment, 1), (problem.second_moment, 2)]:
        for end in t.tolist():
            expected = expectation(problem, lambda s, end=end, r=r: s**r * (s <= end), [end])
            assert float(moment(torch.tensor(end, dtype=torch.float64))) == pytest.approx(expected, abs=1e-10)


@every_problem
def test_functions_accept_infinity(problem: LineProblem) -> None:
    ends = torch.tensor([-math.inf, math.inf], dtype=torch.float64)
    mean, variance = (float(moment) for moment in (LAW[problem.name].mean(), LAW[problem.name].var()))
    assert problem.cdf(ends).tolist() == [0, 1]
    assert problem.pdf(ends).tolist() == [0, 0]
    assert problem.first_moment(ends).tolist() == pytest.approx([0, mean])
    assert problem.second_moment(ends).tolist() == pytest.approx([0, variance + mean**2])


@every_problem
@every_power
@pytest.mark.parametrize("size", [1, 4, 9])
def test_value_is_the_integral_over_quantiles(problem: LineProblem, p: int, size: int) -> None:
    points = some_points(problem, size)
    x = points.flatten().sort().values.tolist()
    z = problem.boundaries(size).tolist()
    expected = sum(
        expectation(problem, lambda t, i=i: abs(t - x[i]) ** p * (z[i] <= t <= z[i + 1]), [x[i], z[i], z[i + 1]])
        for i in range(size)
    )
    assert problem.value(points, p) == pytest.approx(expected, abs=1e-9)


@every_problem
@every_power
def test_value_is_the_limit_of_samples(problem: LineProblem, p: int) -> None:
    points = some_points(problem, 5)
    blocks = problem.quantile_sample(200_000).reshape(5, -1)
    sampled = (blocks - points.sort(dim=0).values).abs().pow(p).mean()
    assert problem.value(points, p) == pytest.approx(float(sampled), rel=1e-3)


@every_problem
@every_power
@pytest.mark.parametrize("size", [1, 2, 6])
def test_potential_closes_the_duality_gap(problem: LineProblem, p: int, size: int) -> None:
    points = some_points(problem, size, seed=1)
    x, v = points.flatten().numpy(), problem.potential(points, p).numpy()
    breaks = [*x, *problem.boundaries(size).tolist()]
    dual = expectation(problem, lambda t: (abs(t - x) ** p - v).min(), breaks) + v.mean()
    assert v.mean() == pytest.approx(0, abs=1e-14)
    assert dual == pytest.approx(problem.value(points, p), abs=1e-9)


@every_problem
@every_power
def test_other_potentials_are_worse(problem: LineProblem, p: int) -> None:
    points = some_points(problem, 4)
    x = points.flatten().numpy()
    v = problem.potential(points, p)
    noise = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    worse = (v + 0.3 * (noise - noise.mean())).numpy()
    dual = expectation(problem, lambda t: (abs(t - x) ** p - worse).min(), []) + worse.mean()
    assert dual < problem.value(points, p)


@every_problem
@every_power
@pytest.mark.parametrize("size", [1, 3, 8])
def test_gradient_is_the_slope_of_the_value(problem: LineProblem, p: int, size: int) -> None:
    points = some_points(problem, size, seed=2)
    step = 1e-6
    slopes = []
    for i in range(size):
        shift = torch.zeros_like(points)
        shift[i] = step
        slopes.append((problem.value(points + shift, p) - problem.value(points - shift, p)) / (2 * step))
    gradient = problem.gradient(points, p)
    assert gradient.shape == (size, 1)
    assert gradient.flatten().tolist() == pytest.approx(slopes, abs=1e-8)


@every_problem
@every_power
def test_gradient_vanishes_at_the_optimum(problem: LineProblem, p: int) -> None:
    optimal = problem.optimal_points(12, p)
    assert float(problem.gradient(optimal, p).abs().max()) < 1e-14
    assert problem.value(optimal + 0.01, p) > problem.optimal_value(12, p)


@every_power
def test_order_dtype_and_graph_of_the_points_do_not_matter(p: int) -> None:
    points = torch.tensor([[2.0], [-1.0], [0.5]], requires_grad=True)
    order = torch.tensor([1, 2, 0])
    assert NORMAL.value(points, p) == NORMAL.value(points[order].double(), p)
    for method in (NORMAL.potential, NORMAL.gradient):
        result = method(points, p)
        assert result.dtype == torch.float64
        assert not result.requires_grad
        torch.testing.assert_close(method(points[order], p), result[order])


def test_points_that_coincide_share_their_cells() -> None:
    points = torch.zeros(2, 1)
    assert NORMAL.value(points, 2) == pytest.approx(1)
    assert NORMAL.potential(points, 2).tolist() == [0, 0]
    assert NORMAL.gradient(points, 1).flatten().tolist() == [0.5, -0.5]


@every_problem
def test_samples_follow_the_distribution(problem: LineProblem) -> None:
    sample = problem.sample(20_000, torch.Generator().manual_seed(3))
    assert sample.shape == (20_000, 1)
    assert sample.dtype == torch.float64
    assert stats.kstest(sample.flatten().numpy(), LAW[problem.name].cdf).pvalue > 0.01
    assert torch.equal(sample, problem.sample(20_000, torch.Generator().manual_seed(3)))


def test_sampling_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    NORMAL.sample(10, torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("points", [torch.zeros(3), torch.zeros(3, 2), torch.zeros(0, 1)])
def test_points_off_the_line_are_refused(points: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"points: got shape \(\d, ?\d?\); expected \(n, 1\)"):
        NORMAL.value(points, 2)


def test_other_powers_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="p: got 3; expected 1 or 2"):
        NORMAL.optimal_value(5, 3)
    with pytest.raises(ValueError, match="size: got 0; expected at least 1"):
        NORMAL.optimal_points(0, 2)
    with pytest.raises(ValueError, match="count: got 0; expected at least 1"):
        NORMAL.sample(0, torch.Generator())
