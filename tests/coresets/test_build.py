"""From a source to a coreset: the optimum, every kind of source, seeds, history, and what is refused."""

import itertools
import math
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import torchcoreset as tc
from tests.data import Rows
from tests.data import normal32 as normal
from torchcoreset.coresets.samples.loaded import LINE_SAMPLES, loaded_rows
from torchcoreset.testing import E1, NORMAL
from torchcoreset.transport.ranks.call import total_of

pytestmark = pytest.mark.usefixtures("two_starts")

ALGORITHMS = ("fixed_point", "sgd", "gradient")
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
either_power = pytest.mark.parametrize("p", [1, 2])
STANDARD = torch.distributions.Normal(0.0, 1.0)


PLANE = normal(300, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p", "samples"), [(10, 1, 20_000), (10, 2, None), (50, 1, 100_000), (50, 2, 100_000)])
def test_the_normal_distribution_to_one_percent(n: int, p: int, samples: int | None) -> None:
    """By the sample that is the default, and by one whose own error is below a half of that."""
    result = tc.build_coreset(STANDARD, n, p, samples=samples)
    assert result.status is tc.Status.CONVERGED
    assert NORMAL.value(result.coreset.points, p) <= 1.01 * NORMAL.optimal_value(n, p)


@either_power
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_of_the_samples_on_the_line(p: int, seed: int) -> None:
    y = NORMAL.sample(2000, torch.Generator().manual_seed(seed)).sort(0).values
    result = tc.build_coreset(y, 20, p, seed=seed)
    cells = y.reshape(20, 100)
    centres = cells.mean(1) if p == 2 else cells.median(1).values
    best = float((cells - centres[:, None]).abs().pow(p).mean())
    assert best * (1 - 1e-9) <= result.transport.value <= 1.005 * best


@every_algorithm
def test_one_point_is_the_mean_of_all(algorithm: str) -> None:
    result = tc.build_coreset(PLANE, 1, algorithm=algorithm, steps=200, tolerance=0)
    # Half of the 200 batches of 50 rows are averaged: a standard error of 0.013.
    error = 0.05 if algorithm == "sgd" else 1e-2
    torch.testing.assert_close(result.coreset.points[0].detach(), PLANE.mean(0), rtol=0, atol=error)


SOURCES = {
    "tensor": lambda: PLANE,
    "array": PLANE.numpy,
    "frame": lambda: pd.DataFrame(PLANE.numpy(), columns=["a", "b"]),
    "lists": PLANE.tolist,
    "dataset": lambda: Rows([(row, 0) for row in PLANE]),
    "tensor dataset": lambda: TensorDataset(PLANE, torch.zeros(300)),
    "loader": lambda: DataLoader(TensorDataset(PLANE), batch_size=64),
    "distribution": lambda: torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)),
    "callable": lambda: lambda m: torch.randn(m, 2),
    "network": lambda: lambda m: torch.nn.Linear(2, 2)(torch.randn(m, 2)),
    "iterator": lambda: (normal(64, 2, seed=seed) for seed in range(10_000)),
    "batches": lambda: list(PLANE.split(64)),
    "source": lambda: tc.as_source(PLANE),
}


@every_algorithm
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source(kind: str, algorithm: str) -> None:
    result = tc.build_coreset(SOURCES[kind](), 5, algorithm=algorithm, init="random", samples=300, steps=4, tolerance=0)
    assert result.coreset.points.shape == (5, 2)
    assert bool(result.coreset.points.isfinite().all())
    assert result.transport.plan.shape == (300, 5)
    assert len(result.history) == 4


@pytest.mark.slow
def test_a_table_is_the_same_in_every_form() -> None:
    expected = tc.build_coreset(PLANE, 5).coreset.points
    for kind in ("array", "frame", "tensor dataset", "source"):
        assert torch.equal(tc.build_coreset(SOURCES[kind](), 5).coreset.points, expected), kind


def test_samples_limits_what_is_held() -> None:
    result = tc.build_coreset(PLANE, 5, samples=50, steps=3)
    assert result.transport.plan.shape == (50, 5)
    assert {step.samples for step in result.history} == {50}


def test_many_samples_are_approached_through_a_part_of_them() -> None:
    result = tc.build_coreset(normal(21_000, 2), 20, seed=1)
    sizes = [step.samples for step in result.history]
    assert sizes == sorted(sizes)
    assert set(sizes) == {2500, 21_000}
    assert result.status is tc.Status.CONVERGED
    few = tc.build_coreset(normal(21_000, 2), 5, seed=1, steps=2)  # a step on all of them takes no longer
    assert {step.samples for step in few.history} == {21_000}


def test_an_iterator_that_ends_early_is_held_whole() -> None:
    result = tc.build_coreset((normal(40, 2, seed=seed) for seed in range(3)), 4, steps=3)
    assert result.transport.plan.shape == (120, 4)


def test_sgd_on_an_iterator_that_ends_is_measured_on_a_whole_batch() -> None:
    rows = normal(2 + 5 * 100 + 3, 2)
    with pytest.warns(UserWarning, match="ended"):
        result = tc.build_coreset(iter([rows]), 2, algorithm="sgd", steps=5, batch_size=100)
    assert len(result.history) == 5
    assert result.transport.plan.shape[0] >= 100, "three rows that were left over say nothing about the points"


@pytest.mark.slow
@either_power
@pytest.mark.parametrize("algorithm", ["fixed_point", "gradient"])
@pytest.mark.parametrize("d", [1, 2])
def test_sample_weights_are_repeated_rows(algorithm: str, p: int, d: int) -> None:
    y, counts = normal(60, d).double(), torch.arange(60) % 4
    settings = {"p": p, "init": y[:4].clone(), "algorithm": algorithm, "steps": 25, "tolerance": 1e-6}
    weighted = tc.build_coreset(y, 4, sample_weights=counts, **settings)
    repeated = tc.build_coreset(y.repeat_interleave(counts, 0), 4, **settings)
    assert weighted.transport.value == pytest.approx(repeated.transport.value, rel=1e-2 if d == 2 else 1e-3)
    assert weighted.history[0].value == pytest.approx(repeated.history[0].value, rel=1e-6)


def test_sgd_draws_in_proportion_to_the_sample_weights() -> None:
    result = tc.build_coreset([0.0, 1.0], 1, sample_weights=[1, 3], algorithm="sgd", steps=200)
    assert result.coreset.points.item() == pytest.approx(0.75, abs=0.02)
    assert result.transport.value == pytest.approx(3 / 16, rel=1e-2)


@every_algorithm
def test_point_weights(algorithm: str) -> None:
    y, init = torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([0.5, 2.5])
    result = tc.build_coreset(y, 2, weights=[1, 3], init=init, algorithm=algorithm, steps=200, tolerance=0)
    assert result.coreset.weights.tolist() == [0.25, 0.75]
    assert result.transport.plan.column_sums().tolist() == pytest.approx([0.25, 0.75])
    assert result.coreset.points.flatten().tolist() == pytest.approx([0, 2], abs=0.3)


@every_algorithm
def test_a_point_of_weight_zero_stays(algorithm: str) -> None:
    init = normal(3, 2, seed=1)
    result = tc.build_coreset(PLANE, 3, weights=[1, 0, 2], init=init.clone(), algorithm=algorithm, steps=5)
    assert torch.equal(result.coreset.points[1], init[1])


@every_algorithm
def test_a_seed_reproduces_bit_for_bit_and_leaves_the_global_state(algorithm: str) -> None:
    settings = {"algorithm": algorithm, "samples": 400, "steps": 6}
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = tc.build_coreset(STANDARD, 5, seed=3, **settings)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    torch.rand(7)
    second = tc.build_coreset(STANDARD, 5, seed=torch.Generator().manual_seed(3), **settings)
    torch.set_rng_state(state)
    assert torch.equal(first.coreset.points, second.coreset.points)
    assert [step.value for step in first.history] == [step.value for step in second.history]
    other = tc.build_coreset(STANDARD, 5, seed=4, **settings)
    assert not torch.equal(first.coreset.points, other.coreset.points)


@every_algorithm
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_input_is_written_to(algorithm: str, dtype: torch.dtype) -> None:
    inputs = [PLANE.to(dtype, copy=True), normal(4, 2, seed=1).to(dtype), torch.ones(4), torch.ones(300)]
    before = [tensor.clone() for tensor in inputs]
    y, init, weights, sample_weights = inputs
    tc.build_coreset(y, 4, init=init, weights=weights, sample_weights=sample_weights, algorithm=algorithm, steps=3)
    for tensor, old in zip(inputs, before, strict=True):
        assert torch.equal(tensor, old)


@every_algorithm
def test_a_build_in_inference_mode(algorithm: str) -> None:
    with torch.inference_mode():
        result = tc.build_coreset(PLANE, 4, algorithm=algorithm, init="random", steps=3)
    assert result.transport.value < result.history[0].value
    assert bool(result.coreset.points.isfinite().all())


@pytest.mark.parametrize(
    "init", [None, "annealed", "random", "kmeans++", PLANE[:4].clone(), PLANE[:4].tolist(), PLANE[:4].numpy()]
)
def test_starts(init) -> None:
    assert tc.build_coreset(PLANE, 4, init=init).distance < 1


@every_algorithm
def test_equal_starting_points_part(algorithm: str) -> None:
    result = tc.build_coreset(PLANE, 4, init=torch.zeros(4, 2), algorithm=algorithm, steps=100)
    assert result.transport.value < 0.7 * tc.transport(torch.zeros(4, 2), PLANE).value


@every_algorithm
def test_the_history_is_true(algorithm: str) -> None:
    init, seen = PLANE[:4].clone(), []
    result = tc.build_coreset(PLANE, 4, init=init, algorithm=algorithm, steps=12, tolerance=0, callback=seen.append)
    assert seen == result.history
    assert [step.step for step in seen] == list(range(12))
    assert [step.seconds for step in seen] == sorted(step.seconds for step in seen)
    assert seen[0].seconds > 0
    for step in seen:
        assert step.lower <= step.value
        if algorithm == "sgd":  # no batch is solved
            assert math.isnan(step.gap)
        else:
            assert 0 <= step.gap <= 1e-2
            assert step.gap == 0 or step.gap == pytest.approx((step.value - step.lower) / step.value)
        assert step.samples == (200 if algorithm == "sgd" else 300)
    if algorithm != "sgd":
        assert seen[0].value == pytest.approx(tc.transport(init, PLANE, exact=True).value, rel=1e-2)
        assert result.transport.value <= min(step.value for step in seen) * (1 + 1e-3)
    assert result.transport.value == pytest.approx(tc.transport(result.coreset.points, PLANE).value, rel=2e-3)
    assert result.distance == pytest.approx(result.transport.value**0.5)
    assert result.status is tc.Status.MAX_STEPS


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_gaps_of_the_last_steps_and_of_the_result_keep_to_the_tolerance(tolerance: float) -> None:
    y = torch.randn(3000, 3, generator=torch.Generator().manual_seed(0))
    result = tc.build_coreset(y, 30, tolerance=tolerance, progress=False)
    assert result.history[-1].gap <= 0.3 * tolerance
    assert result.transport.gap <= tolerance


def test_repr() -> None:
    result = tc.build_coreset(E1.samples, 2, init=E1.points.clone())
    assert repr(result).startswith("BuildResult(2 points, W_2=0.5, gap=0.0e+00, steps=")
    assert repr(result).endswith("status=converged)")


@every_algorithm
def test_an_interrupt_in_the_callback_leaves_nothing_behind(algorithm: str) -> None:
    seen, state = [], torch.get_rng_state()

    def interrupt(step: tc.Step) -> None:
        seen.append(step)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tc.build_coreset(PLANE, 4, algorithm=algorithm, tolerance=0, callback=interrupt, progress=True)
    assert len(seen) == 2
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)


def test_progress_shows_a_bar_on_stderr(capsys) -> None:
    tc.build_coreset(PLANE, 4, steps=3, tolerance=0, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "coreset of 4 points" in err
    assert "3/3" in err
    assert "gap" in err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weights": [1.0, 2.0]}, r"^sample_weights: got shape \(2,\); expected \("),
        ({"sample_weights": "w"}, "^sample_weights: got str; expected"),
        ({"callback": 3}, "^callback: got 3; expected a function, or None"),
        ({"checkpoint": "run.pt"}, "^checkpoint: got 'run.pt'; expected a function"),
        ({"resume": "run.pt"}, "^resume: got str; expected a record"),
        ({"algorithm": "gradient", "optimizer": "adam"}, "^optimizer: got 'adam'; expected a function"),
        ({"algorithm": "gradeint"}, "did you mean 'gradient'"),
    ],
)
def test_errors_name_the_argument(given, message) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        tc.build_coreset(PLANE, 4, **given)


def test_a_bar_ends_full_where_steps_are_left(capsys) -> None:
    steps = len(tc.build_coreset(PLANE, 4, progress=True).history)
    end = capsys.readouterr().err.rpartition("\r")[2]
    assert "100%" in end
    assert f" {steps}/{steps} " in end
    with pytest.raises(ZeroDivisionError):
        tc.build_coreset(PLANE, 4, progress=True, callback=lambda step: 1 / 0)
    assert "/300 " in capsys.readouterr().err.rpartition("\r")[2]


def test_a_bar_by_default_in_a_notebook(capsys, monkeypatch) -> None:
    kernel = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(tqdm, "auto", tqdm, raising=False)  # its bar of widgets needs a kernel
    tc.build_coreset(PLANE, 4, steps=3)
    assert "coreset of 4 points" in capsys.readouterr().err


@pytest.mark.parametrize("progress", [None, False])
def test_no_bar_where_nobody_looks(progress, capsys) -> None:
    tc.build_coreset(PLANE, 4, steps=3, progress=progress)
    assert capsys.readouterr() == ("", "")


def test_a_bar_by_default_on_a_terminal_with_tqdm(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    tc.build_coreset(PLANE, 4, steps=3)
    assert "coreset of 4 points" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    tc.build_coreset(PLANE, 4, steps=3)
    assert capsys.readouterr().err == ""


def test_progress_without_tqdm(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"progress=True needs tqdm: pip install 'torchcoreset\[progress\]'"):
        tc.build_coreset(PLANE, 4, progress=True)


@every_algorithm
def test_one_step(algorithm: str) -> None:
    result = tc.build_coreset(PLANE, 4, algorithm=algorithm, steps=1)
    assert len(result.history) == 1
    assert result.status is tc.Status.MAX_STEPS
    assert result.transport.value <= result.history[0].value * 1.2


@pytest.mark.parametrize("tolerance", [0, 1e-2])
def test_tolerance_says_when_to_stop(tolerance: float) -> None:
    history = tc.build_coreset(PLANE, 6, init="random", steps=40, tolerance=tolerance, seed=2).history
    values = [step.value for step in history]
    if tolerance == 0:
        stationary = len(set(values[-3:])) == 1  # the iteration has reached its fixed point
        assert len(history) == 40 or stationary or min(values[-10:]) >= values[-11]
    else:
        assert len(history) < 40
        falls = [before - after for before, after in itertools.pairwise(values[-4:])]
        halves = falls[0] >= 2 * falls[1] >= 4 * falls[2] >= 0
        settles = halves and falls[2] <= tolerance / 20 * values[-1]
        assert settles or max(values[-6:]) - min(values[-6:]) <= tolerance / 2 * min(values[-6:])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size: got 0; expected a positive whole number"),
        ({"size": 2.5}, "size: got 2.5; expected a positive whole number"),
        ({"size": torch.zeros(9, 2)}, "size: got a Tensor; expected a positive whole number"),
        ({"p": 0.5}, "p: got 0.5; expected a number >= 1"),
        ({"p": "2"}, "p: got '2'; expected a number >= 1"),
        ({"algorithm": "lloyd"}, "algorithm: got 'lloyd'; expected one of 'auto', 'fixed_point', 'sgd', 'gradient'"),
        ({"steps": 0}, "steps: got 0; expected a positive integer"),
        ({"samples": -1}, "samples: got -1; expected a positive integer"),
        ({"batch_size": 0, "algorithm": "sgd"}, "batch_size: got 0; expected a positive integer"),
        ({"tolerance": 1}, r"tolerance: got 1; expected a number in \[0, 1\), such as 1e-3"),
        ({"tolerance": -0.1}, r"tolerance: got -0.1; expected a number in \[0, 1\)"),
        ({"tolerance": float("nan")}, r"tolerance: got nan; expected"),
        ({"rate": 0, "algorithm": "sgd"}, "rate: got 0; expected a positive number"),
        ({"rate": float("inf"), "algorithm": "sgd"}, "rate: got inf; expected a positive number"),
        ({"rate": 2.0}, "rate: given with algorithm='auto'; expected it only with algorithm='sgd'"),
        ({"batch_size": 9, "algorithm": "gradient"}, "batch_size: given with algorithm='gradient'; expected it only"),
        ({"optimizer": torch.optim.SGD, "algorithm": "sgd"}, "optimizer: given with .*algorithm='gradient'. Choose"),
        ({"init": "best"}, "init: got 'best'; expected one of 'annealed', 'random', 'kmeans\\+\\+'"),
        ({"restarts": 0}, "restarts: got 0; expected a positive integer"),
        ({"restarts": 2.0}, "restarts: got 2.0; expected a positive integer"),
        ({"restarts": 2, "init": PLANE[:4]}, "restarts: got 2 with points to start from; expected more than one only"),
        ({"init": PLANE[:3]}, "init: got 3 points; expected size=4 of them"),
        ({"init": PLANE[:4] * torch.nan}, "init: 4 of 4 rows hold NaN or inf"),
        ({"init": normal(4, 3)}, r"got shape .* expected the same last dimension"),
        ({"weights": [1, 2]}, r"weights: got shape \(2,\); expected \(4,\), one weight for each row"),
        ({"weights": [1, 2, 3, -1]}, "weights: 1 of 4 weights are negative, NaN or infinite"),
        ({"sample_weights": [1, 2]}, r"weights: got shape \(2,\); expected \(300,\)"),
        ({"source": STANDARD, "sample_weights": [1, 2]}, "weights: got weights with a Normal; expected them only"),
        ({"source": torch.tensor([[0.0], [torch.nan]])}, "samples: 1 of 2 rows hold NaN or inf"),
        ({"source": []}, "source: got a list with no batches"),
        ({"progress": "no"}, "progress: got 'no'; expected True or False, or None"),
        ({"progress": 0}, "progress: got 0; expected True or False, or None"),
        ({"seed": "0"}, "seed: got '0'; expected an int or a torch.Generator"),
    ],
)
def test_what_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.build_coreset(**{"source": PLANE, "size": 4} | settings)


def test_what_is_no_source() -> None:
    with pytest.raises(TypeError, match="source: got bytes; expected a tensor"):
        tc.build_coreset(b"data.csv", 4)


@every_algorithm
@pytest.mark.parametrize(
    ("dtype", "points"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.int64, torch.float32),
        (torch.uint8, torch.float32),
    ],
)
def test_dtypes(algorithm: str, dtype: torch.dtype, points: torch.dtype) -> None:
    y = (20 + 5 * normal(100, 2)).to(dtype)
    result = tc.build_coreset(y, 4, algorithm=algorithm, steps=8)
    assert result.coreset.points.dtype == result.coreset.weights.dtype == points
    assert result.transport.value < float(y.double().var(0, unbiased=False).sum())


@every_algorithm
@pytest.mark.parametrize("value", [0.0, 7.1, 1e6 + 0.1])
def test_constant_data(algorithm: str, value: float) -> None:
    y = torch.full((50, 3), value)
    result = tc.build_coreset(y, 4, algorithm=algorithm, steps=12)
    assert torch.equal(result.coreset.points, y[:4])
    assert result.transport.value == 0


@pytest.mark.slow
@every_algorithm
@either_power
def test_more_points_than_rows(algorithm: str, p: int) -> None:
    result = tc.build_coreset(PLANE[:5], 9, p, algorithm=algorithm, steps=40)
    assert result.coreset.points.shape == (9, 2)
    assert bool(result.coreset.points.isfinite().all())
    assert result.transport.value < tc.transport(PLANE[:5].mean(0, keepdim=True), PLANE[:5], p).value


@pytest.mark.slow
def test_as_many_points_as_rows() -> None:
    result = tc.build_coreset(PLANE[:20], 20)
    assert result.transport.value <= 1e-12
    assert result.status is tc.Status.CONVERGED


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_one_heavy_value(p: float) -> None:
    y = torch.tensor([0.0] * 9 + [1.0])
    result = tc.build_coreset(y, 1, p, init=torch.tensor([0.0]))
    best = min(float(tc.transport(torch.tensor([x]), y, p).value) for x in torch.linspace(0, 1, 101).tolist())
    assert result.transport.value <= 1.01 * best


@every_algorithm
def test_many_dimensions(algorithm: str) -> None:
    y = torch.rand(120, 784, generator=torch.Generator().manual_seed(0))
    result = tc.build_coreset(y, 4, algorithm=algorithm, steps=30)
    assert result.coreset.points.shape == (4, 784)
    assert result.transport.value <= float(y.var(0, unbiased=False).sum())


@pytest.mark.slow
@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("factor", [0.125, 1024])
def test_scaled_data_give_scaled_points(algorithm: str, p: int, factor: float) -> None:
    settings = {"p": p, "algorithm": algorithm, "steps": 12, "restarts": 2}
    plain, scaled = (tc.build_coreset(PLANE * s, 4, **settings) for s in (1, factor))
    error = 1e-3 if algorithm == "gradient" else 0  # Adam's eps is no length; powers of two round nothing else
    torch.testing.assert_close(scaled.coreset.points / factor, plain.coreset.points, rtol=0, atol=error)
    assert scaled.transport.value == pytest.approx(factor**p * plain.transport.value, rel=1e-4)
    assert len(scaled.history) == len(plain.history)


@pytest.mark.slow
@every_algorithm
@either_power
def test_shifted_data_give_shifted_points(algorithm: str, p: int) -> None:
    settings = {"p": p, "algorithm": algorithm, "steps": 12, "restarts": 2}
    plain, shifted = (tc.build_coreset(PLANE.double() + shift, 4, **settings) for shift in (0, 8))
    torch.testing.assert_close(shifted.coreset.points - 8, plain.coreset.points, rtol=0, atol=1e-6)


def test_the_result_can_be_trained_further() -> None:
    coreset = tc.build_coreset(PLANE, 4, init="random", steps=2).coreset
    loss, optimizer = tc.CoresetLoss(), torch.optim.SGD(coreset.parameters(), lr=1.0)
    values = []
    for _ in range(5):
        optimizer.zero_grad()
        value = loss(coreset.points, PLANE, coreset.weights)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < values[0]


def test_many_points_on_the_line_hold_more_than_the_line_needs() -> None:
    """200 samples a point are as many as the line asks for, and then more."""
    source = tc.as_source(torch.distributions.Normal(0.0, 1.0))
    for size, held in ((1999, LINE_SAMPLES), (2000, LINE_SAMPLES), (2001, 200 * 2001)):
        assert len(loaded_rows(source, size, None, torch.Generator())[0]) == held


def test_numbers_of_numpy_are_numbers() -> None:
    result = tc.build_coreset(PLANE, np.int64(5), np.float32(2), steps=np.int32(2), tolerance=np.float32(1e-2))
    assert (result.coreset.size, len(result.history)) == (5, 2)
    assert tc.transport(PLANE[:3], PLANE, np.float32(1), tolerance=np.float32(1e-3)).value > 0


def test_the_sum_of_weights_in_any_form() -> None:
    """Ranks need it to put their weights on one scale."""
    weights = pd.Series([1.0, 2.0, 3.0], index=[5, 6, 7])
    assert total_of(weights) == total_of(weights.to_numpy()) == total_of((1, 2, 3)) == 6
