"""The loss inside real training code: autocast, accumulation, closures, compilation, transforms, workers, resuming."""

import copy
import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import torchcoreset as tc
from tests.data import normal32 as normal
from tests.processes import run
from torchcoreset.testing import E1

DIVERGENCES = {
    "wasserstein": {"p": 1},
    "sinkhorn": {"p": 2, "blur": 0.5, "backend": "newton"},
    "energy": {},
    "mmd": {"blur": 1.0},
}
# torch's compiler and forward mode use torch.jit, which torch has deprecated; and the compiler looks at all .grad.
COMPILER_WARNINGS = "ignore:`torch.jit", "ignore:The .grad attribute of a Tensor that is not a leaf"


def compiles(test: Callable) -> Callable:
    for warning in COMPILER_WARNINGS:
        test = pytest.mark.filterwarnings(warning)(test)
    return test


every_divergence = pytest.mark.parametrize("divergence", DIVERGENCES)


def make(divergence: str) -> tc.CoresetLoss:
    return tc.CoresetLoss(divergence=divergence, **DIVERGENCES[divergence])


def loop(
    points: nn.Parameter, loss: Callable[[Tensor, Tensor], Tensor], batches: list[Tensor], **settings: Any
) -> list:
    """Values of a plain loop, one for each batch."""
    optimizer = torch.optim.Adam([points], lr=0.1, **settings)
    values = []
    for batch in batches:
        optimizer.zero_grad()
        value = loss(points, batch)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return values


@every_divergence
def test_a_plain_loop_goes_down(divergence: str) -> None:
    points, batches = nn.Parameter(3 + normal(5, 2)), [normal(200, 2, seed=seed) for seed in range(30)]
    values = loop(points, make(divergence), batches)
    assert values[-1] < 0.5 * values[0]


@every_divergence
@pytest.mark.parametrize("cast", ["samples", "points"])
def test_autocast_to_bfloat16_changes_nothing_inside(divergence: str, cast: str) -> None:
    """A layer before the loss runs in bfloat16; the loss itself gives what it gives for the same numbers in float32."""
    torch.nn.init.eye_((layer := nn.Linear(2, 2, bias=False)).weight)
    x, y, loss = normal(5, 2).requires_grad_(), normal(100, 2, seed=1), make(divergence)
    with torch.autocast("cpu", torch.bfloat16):
        half = layer(y) if cast == "samples" else layer(x)
        assert half.dtype == torch.bfloat16
        value = loss(x, half) if cast == "samples" else loss(half, y)
    value.backward()
    assert value.dtype == x.grad.dtype == torch.float32
    again = normal(5, 2).requires_grad_()
    if cast == "samples":
        plain = make(divergence)(again, half.detach().float())
    else:
        plain = make(divergence)(again.bfloat16().float(), y)
    plain.backward()
    assert value.item() == plain.item()
    torch.testing.assert_close(x.grad, again.grad, rtol=2e-2, atol=1e-3)


@pytest.mark.gpu
def test_float16_with_a_gradient_scaler_through_a_layer() -> None:
    layer = nn.Linear(2, 2).cuda()
    points = nn.Parameter(normal(5, 2).cuda())
    optimizer = torch.optim.Adam([points, *layer.parameters()], lr=0.05)
    loss, scaler, values = tc.CoresetLoss(p=2), torch.amp.GradScaler("cuda"), []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            value = loss(layer(points), 3 + normal(100, 2, seed=1).cuda())
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        values.append(value.item())
    assert value.dtype == torch.float32
    assert values[-1] < values[0]


@every_divergence
def test_accumulated_gradients_are_their_mean(divergence: str) -> None:
    batches = [normal(60, 2, seed=seed) for seed in range(3)]
    points, loss = nn.Parameter(normal(5, 2)), make(divergence)
    for batch in batches:
        (loss(points, batch) / len(batches)).backward()
    single = []
    for batch in batches:
        other = nn.Parameter(points.detach().clone())
        make(divergence)(other, batch).backward()
        single.append(other.grad)
    torch.testing.assert_close(points.grad, torch.stack(single).mean(0), rtol=0.1, atol=2e-3)


@pytest.mark.parametrize(("p", "search"), [(1, "strong_wolfe"), (2, "strong_wolfe"), (2, None)])
def test_an_lbfgs_closure_may_be_called_again(p: int, search: str | None) -> None:
    """In training mode too: an exact loss starts each solve elsewhere, and ends at the same value."""
    points, samples = nn.Parameter(E1.points + 0.25), E1.samples
    loss = tc.CoresetLoss(p=p, exact=True)
    optimizer = torch.optim.LBFGS([points], max_iter=20, line_search_fn=search)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(points, samples)
        value.backward()
        return value

    first = closure().item()
    assert closure().item() == pytest.approx(first, rel=1e-12)
    optimizer.step(closure)
    assert closure().item() < 0.2 * first


@pytest.mark.slow
@compiles
@every_divergence
def test_a_compiled_step_equals_the_eager_one(divergence: str) -> None:
    """Case A34: batches of changing size; dynamo traces around the loss, and the solver stays out of its graphs."""
    results = []
    for compiled in (False, True):
        torch.compiler.reset()
        points, loss, layer = nn.Parameter(normal(4, 2)), make(divergence), nn.Linear(2, 2)
        layer.load_state_dict({"weight": 1.5 * torch.eye(2), "bias": torch.ones(2)})

        def step(x: Tensor, y: Tensor, loss: tc.CoresetLoss = loss, layer: nn.Linear = layer) -> Tensor:
            return 2 * loss(1.0 * x, layer(y).tanh()) + 0.1 * x.square().mean()

        called = torch.compile(step, backend="eager") if compiled else step
        values = loop(points, called, [normal(rows, 2, seed=rows + i) for i, rows in enumerate((32, 32, 17, 32, 17))])
        results.append((torch.tensor(values), points.detach(), loss.potential, layer.weight.grad))
    for eager, other in zip(*results, strict=True):
        torch.testing.assert_close(other, eager, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@compiles
def test_the_solver_is_not_compiled() -> None:
    graphs = []

    def count(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    step = torch.compile(lambda x, y: 2 * tc.wasserstein(x, y) + tc.CoresetLoss(p=1)(x, y), backend=count)
    for rows in (20, 30):
        x, y = normal(4, 2), normal(rows, 2, seed=1)
        assert step(x, y).item() == pytest.approx((2 * tc.wasserstein(x, y) + tc.wasserstein(x, y, 1)).item())
    assert len(graphs) < 10


@compiles
@pytest.mark.slow
def test_a_step_compiled_by_the_default_backend_equals_the_eager_one() -> None:
    torch.compiler.reset()
    results = []
    for compiled in (False, True):
        points, loss = nn.Parameter(normal(4, 2)), tc.CoresetLoss(p=2)

        def step(x: Tensor, y: Tensor, loss: tc.CoresetLoss = loss) -> Tensor:
            return loss(x.sin(), y.cos())

        called = torch.compile(step) if compiled else step
        results.append((loop(points, called, [normal(rows, 2, seed=rows) for rows in (32, 17)]), loss.potential))
    assert results[1][0] == pytest.approx(results[0][0], rel=1e-4)
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-4, atol=1e-6)


@every_divergence
def test_torch_func_grad_of_the_module(divergence: str) -> None:
    x, y, loss = normal(4, 2), normal(50, 2, seed=1), make(divergence).eval()
    gradient, value = torch.func.grad_and_value(loss)(x, y)
    again = x.clone().requires_grad_()
    expected = loss(again, y)
    expected.backward()
    assert value.item() == expected.item()
    torch.testing.assert_close(gradient, again.grad)
    called = torch.func.functional_call(loss, loss.state_dict(), (x, y))
    assert called.item() == value.item()


@compiles
@every_divergence
@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (lambda f, x: torch.func.hessian(f)(x), "a forward-mode derivative was asked for; only backward"),
        (lambda f, x: torch.func.jacrev(f)(x), "vmap was asked for, by torch.vmap or within jacrev"),
        (lambda f, x: torch.vmap(f)(x[None]), "solves are not batched. Loop over the problems"),
        (lambda f, x: torch.func.jvp(f, (x,), (x,)), "a forward-mode derivative was asked for; only backward"),
        (lambda f, x: torch.func.grad(lambda z: torch.func.grad(f)(z).sum())(x), "a second derivative was asked for"),
    ],
    ids=["hessian", "jacrev", "vmap", "jvp", "grad of grad"],
)
def test_transforms_that_do_not_exist_say_so(divergence: str, transform: Callable, message: str) -> None:
    x, y, loss = normal(4, 2), normal(50, 2, seed=1), make(divergence)
    loss(x, y)
    before = loss.potential.clone()
    with pytest.raises(RuntimeError, match=message):
        transform(lambda z: loss(z, y), x + 1)
    assert loss.potential.shape == before.shape
    assert loss(x, y).isfinite()


WORKERS = """
import torch, torchcoreset as tc
from torch.utils.data import DataLoader, TensorDataset

y = torch.randn(2048, 2, generator=torch.Generator().manual_seed(0))
loss, points = tc.CoresetLoss(), torch.nn.Parameter(y[:8].clone())
loss(points, y).backward()
optimizer = torch.optim.SGD([points], lr=0.1)
settings = {{"num_workers": {workers}, "multiprocessing_context": {how!r}}}
for epoch in range({epochs}):
    for batch, in DataLoader(TensorDataset(y), batch_size=512, shuffle=True, **settings):
        optimizer.zero_grad()
        loss(points, batch).backward()
        optimizer.step()
assert points.isfinite().all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_loader_workers_after_the_threads_are_warm(how: str, tmp_path: Any) -> None:
    """Case A31, in a process of its own: what hangs is stopped. Workers that are spawned read a script."""
    if how == "fork":
        run(WORKERS.format(how=how, workers=2, epochs=2))
        return
    script = tmp_path / "loop.py"
    body = WORKERS.format(how=how, workers=1, epochs=1).replace("\n", "\n    ")
    script.write_text(f"def main():{body}\nif __name__ == '__main__':\n    main()\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


class Numbers(IterableDataset):
    """A stream that every worker reads a part of, and that ends."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        generator = torch.Generator().manual_seed(info.id if info else 0)
        return (torch.randn(2, generator=generator) for _ in range(100))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on one core
def test_a_stream_from_workers_and_its_short_last_batches() -> None:
    points, loss = nn.Parameter(normal(4, 2)), tc.CoresetLoss()
    batches = list(DataLoader(Numbers(), batch_size=64, num_workers=2))
    assert sorted(map(len, batches)) == [36, 36, 64, 64]
    assert all(map(torch.isfinite, map(torch.tensor, loop(points, loss, batches))))


class Run:
    """A run over a stream that can be interrupted: what it needs is in one state."""

    def __init__(self, divergence: str) -> None:
        self.points, self.loss = nn.Parameter(normal(6, 2)), make(divergence)
        self.optimizer = torch.optim.Adam([self.points], lr=0.05)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, gamma=0.5)
        self.generator = torch.Generator().manual_seed(1)

    def go(self, steps: int) -> list[float]:
        values = []
        for _ in range(steps):
            batch = torch.randn(64, 2, generator=self.generator)
            self.optimizer.zero_grad()
            value = self.loss(self.points, batch)
            value.backward()
            self.optimizer.step()
            self.schedule.step()
            values.append(value.item())
        return values

    def state(self) -> dict[str, Any]:
        return {
            "points": self.points.detach(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "generator": self.generator.get_state(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            self.points.copy_(state["points"])
        self.loss.load_state_dict(state["loss"], strict=True)
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.generator.set_state(state["generator"])


@every_divergence
def test_a_resumed_run_is_bit_for_bit_the_run_that_was_not_interrupted(divergence: str) -> None:
    whole = Run(divergence)
    values = whole.go(10)
    first = Run(divergence)
    assert first.go(4) == values[:4]
    file = io.BytesIO()
    torch.save(first.state(), file)
    first.go(3)  # what comes after the checkpoint does not reach it
    file.seek(0)
    second = Run(divergence)
    second.go(1)  # nor does what the new process did before
    second.resume(torch.load(file, weights_only=True))
    assert second.go(6) == values[4:]
    assert torch.equal(second.points, whole.points)
    assert torch.equal(second.loss.potential, whole.loss.potential)


def test_a_module_that_holds_coreset_and_loss_saves_and_copies_both() -> None:
    class Fit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.coreset, self.loss = tc.Coreset(normal(5, 2)), tc.CoresetLoss(p=1)

        def forward(self, y: Tensor) -> Tensor:
            return self.loss(self.coreset.points, y)

    fit, y = Fit(), normal(80, 2, seed=1)
    fit(y).backward()
    fresh = Fit()
    assert fresh.load_state_dict(fit.state_dict()) == ([], [])
    assert torch.equal(fresh.loss.potential, fit.loss.potential)
    for twin in (copy.deepcopy(fit), fresh):
        assert twin.eval()(y).item() == fit.eval()(y).item()
    assert [name for name, _ in fit.named_parameters()] == ["coreset.points"]
    loader = DataLoader(TensorDataset(y), batch_size=30)
    assert sum(fit(batch).item() * len(batch) for (batch,) in loader) / len(y) >= 0
