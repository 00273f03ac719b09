"""The cases of cases.md that speak of Sinkhorn divergences, one test each: the stated input, the stated answer."""

import copy
import io
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal32 as normal
from torchcoreset.testing import E1
from torchcoreset.transport.entropic import geomloss

either_power = pytest.mark.parametrize("p", [1, 2])
either_backend = pytest.mark.parametrize("backend", ["geomloss", "newton"])


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


@either_backend
@pytest.mark.parametrize(("blur", "half"), [(0.05, 14.25), (0.5, 14.19), (5, 10.95)])
def test_a03_blur_in_the_unit_of_the_data(backend: str, blur: float, half: float) -> None:
    x, y = E1.points.float(), E1.samples.float()
    value = tc.sinkhorn_divergence(x, y, blur=blur, backend=backend).item()
    assert value / 2 == pytest.approx(half, rel=1e-2)
    scaled = tc.sinkhorn_divergence(1000 * x, 1000 * y, blur=1000 * blur, backend=backend).item()
    assert scaled == pytest.approx(1e6 * value, rel=1e-3)


@either_backend
def test_a03_a_blur_beyond_the_data_warns(backend: str) -> None:
    x, y, values = E1.points.float(), E1.samples.float(), []
    for unit in (1, 1000):
        with pytest.warns(UserWarning, match=r"a blur of 5e\+0[36] exceeds the diameter of the data, 1"):
            values.append(tc.sinkhorn_divergence(unit * x, unit * y, blur=5000.0 * unit, backend=backend).item())
    assert values[0] / 2 == pytest.approx(6.125, rel=1e-3)
    assert values[1] == pytest.approx(1e6 * values[0], rel=1e-3)


@either_backend
def test_a03_scaling_the_data_scales_the_points(backend: str) -> None:
    fitted = []
    for unit in (1.0, 1000.0):
        x, y = torch.nn.Parameter(unit * normal(4, 2)), unit * normal(100, 2, seed=1)
        loss = tc.CoresetLoss(divergence="sinkhorn", relative_blur=0.2, backend=backend)
        optimizer = torch.optim.SGD([x], lr=0.5)
        for _ in range(20):
            optimizer.zero_grad()
            loss(x, y).backward()
            optimizer.step()
        fitted.append(x.detach() / unit)
    torch.testing.assert_close(*fitted, rtol=1e-3, atol=1e-3)


@either_backend
def test_a05_the_documented_conversion(backend: str) -> None:
    for p, single, on_e1 in ((1, 3, 4), (2, 9, 28.5)):
        value = tc.sinkhorn_divergence(column(0), column(3), p, blur=0.01, backend=backend).item()
        assert value == pytest.approx(single, rel=1e-2)
        value = tc.sinkhorn_divergence(E1.points, E1.samples, p, blur=0.01, backend=backend).item()
        assert value == pytest.approx(on_e1, rel=1e-2)
    import geomloss as upstream

    raw = upstream.SamplesLoss("sinkhorn", p=2, blur=0.01, backend="tensorized")
    assert raw(column(0), column(3)).item() == pytest.approx(4.5, rel=1e-2)
    assert 2 * raw(E1.points, E1.samples).item() == pytest.approx(28.5, rel=1e-2)


def test_a09_an_online_routine_that_cannot_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    import geomloss as upstream

    pytest.importorskip("pykeops", reason="needs pykeops: pip install 'torchcoreset[keops]'")

    def broken(*_: object, **__: object) -> None:
        torch.set_grad_enabled(False)
        raise RuntimeError("[KeOps] error: compilation failed\nlots of compiler output")

    with monkeypatch.context() as patch:
        patch.setattr(upstream.SamplesLoss, "forward", broken)
        with pytest.raises(
            RuntimeError, match=r"'keops' failed to compile.*Use engine='dense', or .*KEOPS_CACHE_FOLDER"
        ):
            tc.sinkhorn_divergence(E1.points, E1.samples, blur=0.05, engine="keops")
    assert torch.is_grad_enabled()
    assert tc.sinkhorn_divergence(E1.points, E1.samples, blur=0.05).item() / 2 == pytest.approx(14.25, rel=1e-2)


A09 = """
import torch, torchcoreset as tc
x, y = torch.tensor([0.0, 10.0]), torch.tensor([0.0, 1.0, 2.0, 3.0])
try:
    tc.sinkhorn_divergence(x, y, blur=0.05, engine="keops")
except RuntimeError as error:
    assert "KEOPS_CACHE_FOLDER" in str(error) and "engine='dense'" in str(error), error
else:
    raise AssertionError("no error")
assert torch.is_grad_enabled()
assert abs(tc.sinkhorn_divergence(x, y, blur=0.05, engine="dense").item() / 2 - 14.25) < 0.15
"""


@pytest.mark.slow
@pytest.mark.keops
def test_a09_a_cache_that_cannot_be_written_to(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    environment = {**os.environ, "KEOPS_CACHE_FOLDER": str(blocked / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", A09], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    if "No module named" in done.stderr:
        pytest.skip(f"KeOps does not import here: {done.stderr.splitlines()[-1]}; pip install 'torchcoreset[keops]'")
    assert done.returncode == 0, done.stderr


@either_backend
@either_power
@pytest.mark.parametrize("copies", [1, 2])
def test_a10_zero_diameter(copies: int, p: int, backend: str) -> None:
    x = column(1).requires_grad_()
    for settings in ({"blur": 0.05}, {"blur": 100.0}, {}):
        x.grad = None
        value = tc.sinkhorn_divergence(x, torch.ones(copies, 1), p, backend=backend, **settings)
        value.backward()
        assert value.item() == pytest.approx(0, abs=1e-6)
        assert x.grad.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("divergence", ["sinkhorn", "energy", "mmd"])
def test_a20_copies_of_a_trained_loss(divergence: str) -> None:
    x = torch.nn.Parameter(E1.points.float())
    loss, optimizer = tc.CoresetLoss(divergence=divergence), torch.optim.SGD([x], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss(x, E1.samples).backward()
        optimizer.step()
    potential, expected = loss.potential.clone(), loss.eval()(E1.points, E1.samples).item()
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss)), torch.load(file, weights_only=False)):
        assert twin(E1.points, E1.samples).item() == expected
        twin.train()(normal(5, 2), normal(40, 2, seed=1))
        assert torch.equal(loss.potential, potential)


@pytest.mark.parametrize(
    "settings", [{}, {"scaling": 0.97}, {"backend": "newton"}, {"backend": "newton", "tolerance": 1e-9}]
)
@either_power
def test_a28_close_clouds_in_many_dimensions(p: int, settings: dict) -> None:
    first, second = (0.125 * torch.nn.functional.normalize(normal(50, 160, seed=s)) for s in (0, 1))
    for blur in (0.01, 0.05):
        value = tc.sinkhorn_divergence(first, second, p, blur=blur, **settings).item()
        assert value >= -1e-3 * 0.25**p
        x = first.clone().requires_grad_()
        own = tc.sinkhorn_divergence(x, first, p, blur=blur, **settings)
        assert own.item() == pytest.approx(0, abs=1e-5)
        root = own.clamp(min=0).add(1e-12).sqrt()
        root.backward()
        assert root.isfinite()
        assert x.grad.isfinite().all()


@either_backend
def test_a37_one_outlier(backend: str) -> None:
    x = column(0, 1).requires_grad_()
    began = time.perf_counter()
    value = tc.sinkhorn_divergence(x, column(0, 0, 0, 1e8), 1, blur=0.05, backend=backend)
    value.backward()
    assert time.perf_counter() - began < 10
    assert value.item() == pytest.approx(2.5e7, rel=1e-3)
    assert float(x.grad.abs().max()) <= 0.5 + 1e-6
    assert tc.sinkhorn_divergence(x, column(0, 0, 0, 1e8), 1, backend=backend).isfinite()


def test_a42_many_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    plain = geomloss.choose_engine

    def spy(*args: object) -> str:
        chosen.append(plain(*args))
        return chosen[-1]

    monkeypatch.setattr(geomloss, "choose_engine", spy)
    for p, expected in ((1, 28), (2, 784)):
        value = tc.sinkhorn_divergence(torch.zeros(1, 784), torch.ones(16, 784), p, blur=0.05)
        assert value.item() == pytest.approx(expected, rel=1e-4)
    x, y = normal(32, 784), normal(256, 784, seed=1)
    auto, dense = (tc.sinkhorn_divergence(x, y, blur=5.0, engine=engine).item() for engine in ("auto", "dense"))
    assert auto == pytest.approx(dense, rel=1e-4)
    assert set(chosen) == {"dense"}


def test_a42_online_in_many_dimensions_warns() -> None:
    from torchcoreset.transport.problem import make_problem

    problem = make_problem(normal(4, 784), normal(8, 784, seed=1))
    with pytest.warns(UserWarning, match="'keops' was asked for in 784 dimensions"):
        geomloss.choose_engine(problem, "keops")
