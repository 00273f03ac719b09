"""Builds by other divergences than the Wasserstein distance: points against closed forms, descent, stops, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.coresets.algorithms import quasi_newton
from torchcoreset.losses import make_settings
from torchcoreset.testing import LINE_PROBLEMS, LineProblem, energy_line, support_points_line

pytestmark = pytest.mark.usefixtures("two_starts")

OPTIONS: dict[str, dict[str, Any]] = {
    "energy": {"divergence": "energy"},
    "energy of p=1.5": {"divergence": "energy", "p": 1.5},
    "gaussian": {"divergence": "mmd"},
    "laplace": {"divergence": "mmd", "kernel": "laplace"},
    "sinkhorn": {"divergence": "sinkhorn", "relative_blur": 0.3},
}


def cloud(m: int = 400, d: int = 2, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(m, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def loss_of(options: dict[str, Any]) -> tc.CoresetLoss:
    backend = {"backend": "newton"} if options["divergence"] == "sinkhorn" else {}
    return tc.CoresetLoss(**options, **backend).eval()


@pytest.mark.parametrize("problem", LINE_PROBLEMS)
def test_support_points_on_the_line_are_quantiles(problem: LineProblem) -> None:
    y = problem.quantile_sample(4000)
    result = tc.build_coreset(y, 7, divergence="energy", tolerance=1e-7)
    best = support_points_line(problem, 7)
    assert result.discrepancy is not None
    assert result.discrepancy.value == pytest.approx(energy_line(best, y), rel=1e-4)
    torch.testing.assert_close(result.coreset.points.detach().sort(0).values, best, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_energy_distance_on_the_line_is_an_integral(weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(m, 1, generator=generator, dtype=torch.float64) for m in (7, 40))
    b, a = (torch.rand(m, generator=generator, dtype=torch.float64) if weighted else None for m in (7, 40))
    assert float(tc.energy_distance(x, y, 1, b, a)) == pytest.approx(energy_line(x, y, b, a), rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_support_points_of_an_interval_are_the_middles_of_its_parts(n: int) -> None:
    """n F' = 2 x_i - 1 - (2 i - n - 1) / n, of the sorted points, is 0 at x_i = (2 i - 1) / 2 n."""
    m = 1600
    y = (torch.arange(m, dtype=torch.float64) + 0.5) / m
    result = tc.build_coreset(y, n, divergence="energy", tolerance=1e-9)
    expected = (2 * torch.arange(1, n + 1, dtype=torch.float64) - 1) / (2 * n)
    points = result.coreset.points.detach()[:, 0].sort().values
    assert (points - expected).abs().max() <= 1 / m  # any place between two samples of an even number is a median
    assert result.discrepancy is not None
    assert result.discrepancy.value == pytest.approx(1 / (12 * n**2), rel=1e-3, abs=1 / m**2)


def test_one_support_point_is_the_spatial_median() -> None:
    y = cloud(301, 3, dtype=torch.float64)
    result = tc.build_coreset(y, 1, divergence="energy", tolerance=1e-10)
    median = tc.build_coreset(y, 1, p=1, tolerance=1e-9)
    torch.testing.assert_close(result.coreset.points, median.coreset.points, atol=1e-4, rtol=0)


def test_energy_of_two_only_finds_the_mean() -> None:
    y = cloud(dtype=torch.float64)
    result = tc.build_coreset(y, 5, p=2, divergence="energy", init="random")
    torch.testing.assert_close(result.coreset.points.detach().mean(0), y.mean(0))
    assert result.discrepancy is not None
    assert result.discrepancy.value == 0


@pytest.mark.parametrize("options", [OPTIONS[name] for name in ("energy", "energy of p=1.5", "gaussian", "laplace")])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_of_the_majorant_never_raise_the_value(options: dict[str, Any], weighted: bool) -> None:
    y, generator = cloud(200, dtype=torch.float64), torch.Generator().manual_seed(1)
    b = torch.rand(12, generator=generator, dtype=torch.float64) if weighted else torch.ones(12, dtype=torch.float64)
    x = 3 * torch.randn(12, 2, generator=generator, dtype=torch.float64)
    x[0] = y[3]  # right on a sample, where the energy distance has a kink
    objective = quasi_newton.DivergenceObjective.of(
        make_settings(options["divergence"], {k: v for k, v in options.items() if k != "divergence"}),  # type: ignore[arg-type]
        x, b / b.sum(), y, None,
    )  # fmt: skip
    values = []
    for _ in range(30):
        measured, gradient = objective.at(x)
        values.append(measured.value)
        x = x - gradient / (objective.weights * objective.curvature(x, measured))[:, None]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))
    assert values[-1] < 0.5 * values[0]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_builds_end_where_the_gradient_is_nothing(options: dict[str, Any]) -> None:
    y = cloud(dtype=torch.float64)
    result = tc.build_coreset(y, 6, tolerance=1e-8, **options)
    points, loss = result.coreset.points, loss_of(options)
    value = loss(points, y)
    (gradient,) = torch.autograd.grad(value, points)
    assert result.status is tc.Status.CONVERGED
    assert result.discrepancy is not None
    assert float(value.detach()) == pytest.approx(result.discrepancy.value, rel=1e-3)
    at_start = points.detach() + 0.3
    (before,) = torch.autograd.grad(loss(at_start.requires_grad_(), y), at_start)
    kinks = 2 / (6 * 400)  # the gradient of a point that rests by two samples, each a kink, may be as large
    assert gradient.norm(dim=1).max() < 1e-2 * before.norm(dim=1).max() + kinks


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_gradient_is_that_of_the_value(options: dict[str, Any]) -> None:
    y, x = cloud(50, dtype=torch.float64), cloud(3, seed=1, dtype=torch.float64)
    given = {k: v for k, v in options.items() if k != "divergence"}
    if options["divergence"] == "sinkhorn":
        given |= {"backend": "newton", "tolerance": 1e-9}
    b = torch.full((3,), 1 / 3, dtype=torch.float64)
    objective = quasi_newton.DivergenceObjective.of(make_settings(options["divergence"], given), x, b, y, None)  # type: ignore[arg-type]
    _, gradient = objective.at(x)
    step = 1e-5 * torch.eye(6, dtype=torch.float64).reshape(6, 3, 2)
    numeric = torch.tensor([(objective.at(x + h)[0].value - objective.at(x - h)[0].value) / 2e-5 for h in step])
    torch.testing.assert_close(gradient.flatten(), numeric.double(), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_builds_end_no_higher_than_a_plain_loop(options: dict[str, Any]) -> None:
    y, loss = cloud(300), loss_of(options)
    result = tc.build_coreset(y, 8, **options)
    x = torch.nn.Parameter(y[:8].clone())
    optimizer = torch.optim.Adam([x], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        optimizer.step()
    assert result.discrepancy is not None
    assert result.discrepancy.value <= 1.02 * float(value.detach())
    assert len(result.history) < 200


KINDS: dict[str, tuple[Tensor, Any, int]] = {
    "heavy tails": (cloud(300) / cloud(300, 1, seed=5), None, 8),
    "repeated rows": (cloud(300).round(), None, 10),
    "unequal weights": (cloud(300), torch.rand(300, generator=torch.Generator().manual_seed(2)).pow(8), 8),
    "weights of zero": (cloud(300), torch.cat((torch.zeros(150), torch.ones(150))), 8),
    "few samples": (cloud(20), None, 10),
    "fewer samples than points": (cloud(3), None, 5),
    "784 dimensions": (cloud(60, 784), None, 4),
    "an offset": (cloud(200, dtype=torch.float64) + 1e6, None, 5),
    "integers": (torch.arange(60).reshape(20, 3), None, 4),
    "one point": (cloud(50), None, 1),
    "one sample": (cloud(1), None, 1),
    "constant rows": (torch.ones(20, 2), None, 3),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_all_kinds_of_data_get_nearer(options: dict[str, Any], kind: tuple[Tensor, Any, int]) -> None:
    y, a, n = kind
    result = tc.build_coreset(y, n, sample_weights=a, init="annealed", steps=100, **options)
    assert result.discrepancy is not None
    assert bool(torch.isfinite(result.coreset.points).all())
    values = [step.value for step in result.history]
    assert 0 <= result.discrepancy.value <= values[0] * (1 + 1e-3) + 1e-9
    assert all(math.isnan(step.lower) and math.isnan(step.gap) for step in result.history)


def test_a_run_that_goes_on_ends_the_same() -> None:
    y, records = cloud(), []
    whole = tc.build_coreset(y, 8, divergence="energy", checkpoint=records.append)
    again = tc.build_coreset(y, 8, divergence="energy", resume=records[len(records) // 2])
    assert torch.equal(whole.coreset.points, again.coreset.points)
    with pytest.raises(ValueError, match="resume: got a record"):
        tc.build_coreset(y, 8, resume=records[1])
    with pytest.raises(ValueError, match="resume: got a record"):
        tc.build_coreset(y, 8, divergence="energy", p=1.5, resume=records[1])


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_same_seed_gives_the_same_bits(options: dict[str, Any]) -> None:
    first, second = (tc.build_coreset(cloud(200), 5, seed=3, **options) for _ in range(2))
    assert torch.equal(first.coreset.points, second.coreset.points)


def test_endless_and_unread_sources_and_scales() -> None:
    normal = tc.build_coreset(torch.distributions.Normal(0.0, 1.0), 4, divergence="energy", samples=2000)
    assert normal.distance < 0.5
    batches = tc.build_coreset(iter([cloud(100), cloud(100, seed=1)]), 4, divergence="mmd")
    assert batches.transport.assignment.shape == (200,)
    y = cloud() * torch.tensor([1.0, 1000.0])
    scaled = tc.build_coreset(y, 6, divergence="energy", scale="standard")
    assert scaled.coreset.points.detach()[:, 1].abs().max() > 300
    seen: list[tc.Step] = []
    tc.build_coreset(y, 6, divergence="energy", scale="standard", callback=seen.append)
    assert seen[-1].points is not None
    assert seen[-1].points[:, 1].abs().max() > 300


def test_weights_of_points_may_be_fixed() -> None:
    y = torch.cat((torch.zeros(300, 1), torch.ones(100, 1))) + 1e-3 * cloud(400, 1)
    result = tc.build_coreset(y, 2, divergence="energy", weights=[0.25, 0.75])
    assert result.coreset.points.detach()[:, 0].tolist() == pytest.approx([1.0, 0.0], abs=0.01)


def test_the_result_says_both() -> None:
    result = tc.build_coreset(cloud(), 6, divergence="energy")
    assert repr(result).startswith("BuildResult(6 points, energy=0.")
    assert ", W_1=" in repr(result)
    assert isinstance(result.discrepancy, tc.Discrepancy)
    assert tc.build_coreset(cloud(), 6).discrepancy is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"divergence": "energi"}, "divergence: got 'energi'"),
        ({"blur": 1.0}, "blur: given with divergence='wasserstein'"),
        ({"divergence": "energy", "blur": 1.0}, "blur: given with divergence='energy'"),
        ({"divergence": "energy", "p": 3}, "p: got 3"),
        ({"divergence": "mmd", "p": 2}, "p: given with divergence='mmd'"),
        ({"divergence": "mmd", "kernel": lambda y, x: y @ x.T}, "kernel: got <function"),
        ({"divergence": "mmd", "blur": 1.0, "relative_blur": 1.0}, "blur: got 1.0 with relative_blur"),
        ({"divergence": "sinkhorn", "backend": "newton", "scaling": 0.5}, "scaling: given with backend"),
        ({"divergence": "energy", "algorithm": "sgd"}, "algorithm: got 'sgd'"),
        ({"divergence": "energy", "trim": 0.1}, "trim: got 0.1"),
        ({"divergence": "energy", "engine": "dense"}, "engine: got 'dense'"),
        ({"divergence": "energy", "weights": "free"}, "weights: got 'free'"),
        ({"divergence": "energy", "weights": (0.5, 2)}, "weights: got"),
        ({"divergence": "energy", "rows": True}, "rows: got True"),
        ({"divergence": "energy", "rate": 0.5}, "rate: given with algorithm"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.build_coreset(cloud(), 5, **options)
