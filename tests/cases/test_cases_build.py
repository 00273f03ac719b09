"""The cases of cases.md that need a fit, one test each: the stated input, the stated answer."""

import copy
import io
import math
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import torchcoreset as tc
from tests.data import normal32 as normal
from tests.processes import run
from torchcoreset.testing import E1

pytestmark = pytest.mark.usefixtures("two_starts")

either_power = pytest.mark.parametrize("p", [1, 2])
every_algorithm = pytest.mark.parametrize("algorithm", ["fixed_point", "sgd", "gradient"])


@either_power
def test_a01_adam_from_a_random_subset_stays_finite(p: int) -> None:
    y = normal(64, 3)
    init, visited = y[torch.randperm(64, generator=torch.Generator().manual_seed(1))[:8]].clone(), []

    def adam(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        visited.append(parameters[0])
        return torch.optim.Adam(parameters, lr=0.05)

    def check(step: tc.Step) -> None:
        assert math.isfinite(step.value)
        assert all(bool(points.isfinite().all()) for points in visited)

    result = tc.build_coreset(
        y, 8, p, init=init, algorithm="gradient", optimizer=adam, steps=50, tolerance=0, callback=check
    )
    assert bool(result.coreset.points.isfinite().all())
    assert bool(result.transport.potential.isfinite().all())


@pytest.mark.slow
@every_algorithm
def test_a07_more_points_than_distinct_values(algorithm: str) -> None:
    y = torch.tensor([*range(8), *range(8), 8]).float()
    result = tc.build_coreset(y, 10, algorithm=algorithm, steps=300)
    assert result.coreset.points.shape == (10, 1)
    assert bool(result.coreset.points.isfinite().all())
    assert result.transport.value < result.history[0].value
    assert 0.1411 <= result.transport.value <= 0.3


@every_algorithm
def test_a07_one_distinct_value(algorithm: str) -> None:
    result = tc.build_coreset(torch.zeros(5, 10), 5, algorithm=algorithm, steps=20)
    assert result.coreset.points.shape == (5, 10)
    assert float(result.coreset.points.detach().abs().max()) <= 1e-2
    assert result.transport.value <= 1e-4


A08_SAME = """
import torch, torchcoreset as tc
result = tc.build_coreset(torch.ones(1000, 2), 5, tolerance=0, algorithm={algorithm!r})
assert len(result.history) <= {steps}
assert result.transport.value == 0
"""
A08_NOISE = """
import torch, torchcoreset as tc
result = tc.build_coreset(
    torch.distributions.Normal(0.0, 1.0), 5, algorithm="sgd", batch_size=4, tolerance=1e-12, steps=200, samples=1000
)
assert len(result.history) <= 200
assert result.status is tc.Status.MAX_STEPS
"""


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "steps"), [("fixed_point", 300), ("gradient", 300)])
def test_a08_identical_rows_end_in_time(algorithm: str, steps: int) -> None:
    run(A08_SAME.format(algorithm=algorithm, steps=steps), timeout=60)


@pytest.mark.slow
def test_a08_identical_rows_end_in_time_on_batches() -> None:
    run(A08_SAME.format(algorithm="sgd", steps=1000), timeout=60)


def test_a08_noise_ends_in_time_and_has_not_converged() -> None:
    run(A08_NOISE, timeout=60)


class Numbers(Dataset):
    """Python floats for d = 1, np.float64 rows for d = 2."""

    def __init__(self, d: int) -> None:
        self.d = d

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int):
        return float(index) if self.d == 1 else np.array([index, -index], dtype=np.float64)


@every_algorithm
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("form", ["dataset", "loader"])
def test_a12_numpy_and_python_floats_meet_float32_points(algorithm: str, d: int, form: str) -> None:
    data = Numbers(d) if form == "dataset" else DataLoader(Numbers(d), batch_size=10)
    result = tc.build_coreset(data, 3, init=normal(3, d), algorithm=algorithm, steps=3)
    assert result.coreset.points.dtype == torch.float32
    assert result.coreset.points.shape == (3, d)
    assert math.isfinite(result.transport.value)


def test_a12_the_value_on_e1() -> None:
    result = tc.build_coreset(E1.samples.numpy(), 2, init=E1.points.float(), steps=3)
    assert result.history[0].value == 28.5
    assert result.coreset.points.dtype == torch.float32


@every_algorithm
@pytest.mark.parametrize("kind", ["empty loader", "empty list", "empty generator", "dropped rows"])
def test_a14_no_batches(algorithm: str, kind: str) -> None:
    sources = {
        "empty loader": lambda: DataLoader([], batch_size=4),
        "empty list": list,
        "empty generator": lambda: iter(()),
        "dropped rows": lambda: DataLoader(TensorDataset(normal(3, 2)), batch_size=4, drop_last=True),
    }
    with pytest.raises(ValueError, match="no batches"):
        tc.build_coreset(sources[kind](), 2, algorithm=algorithm, steps=10)


def test_a14_a_generator_that_ends_stops_the_run() -> None:
    batches = (normal(100, 2, seed=seed) for seed in range(3))
    with pytest.warns(UserWarning, match=r"ended after 3 of 10 steps|ended after 98 of 100 rows") as caught:
        result = tc.build_coreset(batches, 2, algorithm="sgd", steps=10, batch_size=100)
    assert any("ended after 3 of 10 steps" in str(warning.message) for warning in caught)
    assert len(result.history) == 3
    assert result.status is tc.Status.MAX_STEPS


def test_a14_a_list_of_batches_starts_again() -> None:
    batches = [normal(100, 2, seed=seed) for seed in range(3)]
    result = tc.build_coreset(batches, 2, algorithm="sgd", steps=10, batch_size=100)
    assert len(result.history) == 10


@every_algorithm
def test_a17_a_bad_row(algorithm: str) -> None:
    good, bad = normal(100, 2), normal(100, 2, seed=1)
    bad[7, 1] = math.nan
    with pytest.raises(ValueError, match="1 of 100 rows hold NaN or inf, the first is row 7"):
        tc.build_coreset([good, bad, good], 3, algorithm=algorithm, steps=10)
    with pytest.raises(ValueError, match="samples, batch 1: 1 of 100 rows hold NaN or inf"):
        tc.build_coreset(iter([good, bad, good]), 3, algorithm=algorithm, steps=10)
    tc.build_coreset([good, good], 3, algorithm=algorithm, steps=3)


def test_a20_copies_of_a_fitted_coreset() -> None:
    result = tc.build_coreset(E1.samples, 2, 1, init=E1.points.clone(), steps=2)
    result.coreset.expectation(torch.square).sum().backward()
    expected = tc.wasserstein(result.coreset.points, E1.samples, 1).item()
    file = io.BytesIO()
    torch.save(result.coreset, file)
    file.seek(0)
    for twin in (
        copy.deepcopy(result.coreset),
        copy.deepcopy(result).coreset,
        pickle.loads(pickle.dumps(result)).coreset,
        torch.load(file, weights_only=False),
    ):
        assert tc.wasserstein(twin.points, E1.samples, 1).item() == expected
        with torch.no_grad():
            twin.points += 1
        assert tc.wasserstein(result.coreset.points, E1.samples, 1).item() == expected


@pytest.mark.slow
@every_algorithm
@pytest.mark.parametrize(("p", "best", "value"), [(1, 0, 25), (2, 25, 1875)])
def test_a23_one_point_is_the_median_or_the_mean(algorithm: str, p: int, best: float, value: float) -> None:
    y = torch.tensor([0.0, 0.0, 0.0, 100.0])
    result = tc.build_coreset(y, 1, p, init=torch.tensor([50.0]), algorithm=algorithm)
    assert result.coreset.points.item() == pytest.approx(best, abs=0.5)
    assert result.transport.value == pytest.approx(value, rel=1e-2)


@pytest.mark.slow
@every_algorithm
@either_power
def test_a23_the_centre_of_a_square(algorithm: str, p: int) -> None:
    square = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    result = tc.build_coreset(square, 1, p, algorithm=algorithm)
    assert result.coreset.points.flatten().tolist() == pytest.approx([1, 1], abs=0.5)
    assert result.transport.value == pytest.approx(2 ** (p / 2), rel=1e-2)


@every_algorithm
def test_a26_a_generator_keeps_its_mode_and_its_statistics(algorithm: str) -> None:
    torch.nn.init.ones_((linear := nn.Linear(2, 3)).weight)
    generator = nn.Sequential(linear, nn.BatchNorm1d(3)).eval()
    before = {key: value.clone() for key, value in generator.state_dict().items()}
    source = lambda m: generator(torch.randn(m, 2))  # noqa: E731
    result = tc.build_coreset(source, 4, algorithm=algorithm, steps=5, samples=200)
    result.coreset.pushforward(nn.Identity().train())
    assert not any(module.training for module in generator.modules())
    assert all(torch.equal(value, before[key]) for key, value in generator.state_dict().items())
    assert all(parameter.grad is None for parameter in generator.parameters())


def test_a30_lbfgs_on_all_the_data() -> None:
    result = tc.build_coreset(
        E1.samples,
        2,
        init=E1.points.clone(),
        algorithm="gradient",
        optimizer=lambda x: torch.optim.LBFGS(x, max_iter=1),
        steps=20,
        tolerance=0,
    )
    assert result.coreset.points.dtype == torch.float64
    assert result.coreset.points.flatten().sort().values.tolist() == pytest.approx([0.5, 2.5], abs=0.02)
    assert result.transport.value == pytest.approx(0.25, abs=1e-3)
    assert tc.wasserstein(result.coreset.points, E1.samples, 1).item() == pytest.approx(0.5, abs=0.02)


A31 = """
import torch, torchcoreset as tc
from torch.utils.data import DataLoader, TensorDataset

y = torch.randn(4096, 2, generator=torch.Generator().manual_seed(0))
tc.CoresetLoss()(y[:64].clone().requires_grad_(), y).backward()
loader = DataLoader(TensorDataset(y), batch_size=512, num_workers=2)
result = tc.build_coreset(loader, 8, algorithm={algorithm!r}, steps=8, restarts=2, **{settings!r})
assert len(result.history) == 8
assert result.coreset.points.isfinite().all()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"), [("fixed_point", {"tolerance": 0}), ("sgd", {"batch_size": 512, "samples": 512})]
)
def test_a31_workers_after_the_threads_are_warm(algorithm: str, settings: dict) -> None:
    run(A31.format(algorithm=algorithm, settings=settings), timeout=120)


A32 = """
import warnings, torch
def settings():
    return (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(), list(warnings.filters), torch.get_rng_state().tolist())
torch.zeros(2, requires_grad=True).sum().backward()
import torch._dynamo
before = settings()
import torchcoreset as tc
assert settings() == before, "import"
tc.Coreset(torch.zeros(2, 1))
assert settings() == before, "build"
for algorithm in ("fixed_point", "sgd", "gradient"):
    for seed in (0, torch.Generator().manual_seed(0)):
        tc.build_coreset(torch.distributions.Normal(0.0, 1.0), 3, algorithm=algorithm, steps=2, samples=100, seed=seed)
        assert settings() == before, algorithm
"""


@pytest.mark.slow
def test_a32_global_settings_stay_as_they_are() -> None:
    run(A32, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["auto", "sgd", "gradient"])
def test_a36_a_sorted_tensor_is_shuffled(algorithm: str) -> None:
    y = torch.cat((torch.zeros(500), torch.full((500,), 10.0)))
    result = tc.build_coreset(y, 2, algorithm=algorithm)
    assert result.coreset.points.flatten().sort().values.tolist() == pytest.approx([0, 10], abs=0.5)
    assert result.transport.value <= 0.3


@pytest.mark.slow
@every_algorithm
def test_a36_sorted_batches_are_reported_truthfully(algorithm: str) -> None:
    y = torch.cat((torch.zeros(500, 1), torch.full((500, 1), 10.0)))
    told = pytest.warns(tc.DriftWarning, match="Shuffle the rows") if algorithm == "sgd" else nullcontext()
    with told:
        result = tc.build_coreset(list(y.split(50)), 2, algorithm=algorithm, steps=100)
    assert bool(result.coreset.points.isfinite().all())
    assert result.transport.plan.shape == (1000, 2)
    assert result.transport.value == pytest.approx(tc.transport(result.coreset.points, y).value, rel=1e-3)


@every_algorithm
def test_a38_an_empty_batch(algorithm: str) -> None:
    batches = [normal(50, 2), torch.zeros(0, 2), normal(50, 2, seed=1)]
    for source in (batches, iter(batches), DataLoader(batches, batch_size=None)):
        with pytest.raises(ValueError, match=r"samples, batch 1: got shape \(0, 2\), which is empty"):
            tc.build_coreset(source, 3, algorithm=algorithm, steps=10)
    with pytest.raises(ValueError, match=r"samples: got shape \(0, 2\), which is empty"):
        tc.build_coreset(torch.zeros(0, 2), 3, algorithm=algorithm)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spread", "two values"])
def test_a39_no_decay_by_default(name: str) -> None:
    y = 100 + (torch.linspace(-1, 1, 64) if name == "spread" else torch.tensor([-1.0, 1.0]).repeat(32))
    settings = {"init": torch.tensor([90.0]), "algorithm": "gradient"}
    result = tc.build_coreset(y, 1, steps=300, **settings)
    assert result.coreset.points.item() == pytest.approx(y.mean().item(), abs=0.05)
    decay = lambda x: torch.optim.AdamW(x, lr=0.1, weight_decay=0.1)  # noqa: E731
    decayed = tc.build_coreset(y, 1, optimizer=decay, steps=100, **settings)
    assert abs(decayed.coreset.points.item() - 100) > 0.5, "the contrast: weight decay biases the points"


@pytest.mark.slow
@every_algorithm
def test_a41_one_hot_rows(algorithm: str) -> None:
    result = tc.build_coreset(torch.eye(2), 1, algorithm=algorithm)
    assert result.coreset.points.flatten().tolist() == pytest.approx([0.5, 0.5], abs=0.02)
    assert result.transport.value == pytest.approx(0.5, rel=1e-2)


def test_a41_points_stay_in_the_hull_and_only_isotropic_scaling_commutes() -> None:
    y = normal(100, 2).double()
    plain = tc.build_coreset(y, 4).coreset.points
    assert bool((plain >= y.min(0).values).all() & (plain <= y.max(0).values).all())
    both = tc.build_coreset(1000 * y, 4).coreset.points / 1000
    torch.testing.assert_close(both, plain, rtol=0, atol=1e-4)
    stretch = torch.tensor([1.0, 1000.0]).double()
    second = tc.build_coreset(y * stretch, 4).coreset.points / stretch
    assert float((second - plain).detach().abs().max()) > 0.1


def test_a43_the_state_of_a_fitted_coreset_loads_with_weights_only() -> None:
    coreset = tc.build_coreset(normal(100, 2), 3, steps=3).coreset
    file = io.BytesIO()
    torch.save(coreset.state_dict(), file)
    file.seek(0)
    fresh = tc.Coreset(torch.zeros(3, 2))
    fresh.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert torch.equal(fresh.points, coreset.points)
    assert torch.equal(fresh.weights, coreset.weights)
