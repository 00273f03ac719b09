"""What runs on the CPU runs on a GPU, and gives the same numbers."""

import pytest
import torch

import torchcoreset as tc

pytestmark = pytest.mark.gpu


@pytest.fixture
def cloud(generator):
    y = torch.randn(5_000, 3, generator=generator)
    return y[:40].clone(), y


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transport_agrees_with_the_cpu(cloud, p, dtype):
    x, y = (table.to(dtype) for table in cloud)
    here = tc.transport(x, y, p, exact=True)
    there = tc.transport(x.cuda(), y.cuda(), p, exact=True)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    assert there.gap <= 1e-9
    assert there.potential.device.type == there.assignment.device.type == "cuda"


def test_default_transport_is_within_its_gap(cloud):
    x, y = cloud
    exact = tc.transport(x, y, 2, exact=True).value
    plan = tc.transport(x.cuda(), y.cuda(), 2)
    assert plan.lower <= exact * (1 + 1e-6)
    assert exact <= plan.value * (1 + 1e-6)
    assert plan.gap <= 1e-3


@pytest.mark.parametrize("p", [1, 2])
def test_gradients_agree_with_the_cpu(cloud, p):
    grads = []
    for device in ("cpu", "cuda"):
        inputs = [table.to(device).double().requires_grad_() for table in cloud]
        inputs += [torch.ones(len(table), device=device, dtype=torch.float64, requires_grad=True) for table in inputs]
        tc.wasserstein(inputs[0], inputs[1], p, inputs[2], inputs[3], exact=True).backward()
        grads.append([tensor.grad.cpu() for tensor in inputs])
    torch.testing.assert_close(grads[0][:2], grads[1][:2], rtol=1e-6, atol=1e-9)


def test_a_training_loop_under_amp(cloud):
    x, y = (table.cuda() for table in cloud)
    points = torch.nn.Parameter(x.clone())
    loss, optimizer, scaler = tc.CoresetLoss(p=2), torch.optim.Adam([points], lr=0.05), torch.amp.GradScaler("cuda")
    values = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            value = loss(points, y)
        assert value.dtype == torch.float32
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        values.append(value.item())
    assert values[-1] < values[0]
    assert loss.potential.device.type == "cuda"


def test_half_precision_does_not_overflow():
    x = torch.zeros(1, 784, device="cuda", dtype=torch.float16, requires_grad=True)
    y = 300 * torch.ones(4, 784, device="cuda", dtype=torch.float16)
    value = tc.wasserstein(x, y)
    value.backward()
    assert float(value) == pytest.approx(70_560_000, rel=1e-2)
    assert x.grad.dtype == torch.float16
    assert float((x.grad + 600).abs().max()) <= 1


def test_devices_must_agree(cloud):
    with pytest.raises(ValueError, match=r"samples: got device cpu with points on cuda"):
        tc.wasserstein(cloud[0].cuda(), cloud[1])


@pytest.mark.parametrize("algorithm", ["fixed_point", "gradient"])
def test_build_on_the_gpu(cloud, algorithm):
    _, y = cloud
    here = tc.build_coreset(y, 20, algorithm=algorithm, steps=40)
    there = tc.build_coreset(y.cuda(), 20, algorithm=algorithm, steps=40)
    assert there.coreset.points.device.type == "cuda"
    assert there.distance == pytest.approx(here.distance, rel=0.02)


def test_stochastic_build_from_a_cuda_sampler():
    result = tc.build_coreset(lambda m: torch.randn(m, 2, device="cuda"), 10, algorithm="sgd", steps=50, samples=20_000)
    assert result.coreset.points.device.type == "cuda"
    assert result.transport.value < 0.45


def test_state_moves_between_devices(cloud):
    x, y = cloud
    loss = tc.CoresetLoss(p=1).cuda()
    loss(x.cuda(), y.cuda())
    copy = tc.CoresetLoss(p=1)
    copy.load_state_dict({key: value.cpu() for key, value in loss.state_dict().items()})
    assert float(copy(x, y)) == pytest.approx(float(loss(x.cuda(), y.cuda())), rel=1e-3)


def test_memory_is_bounded_by_a_chunk():
    y = torch.randn(2_000_000, 8, device="cuda")
    x = y[:500].clone()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    tc.transport(x, y, 2)
    assert torch.cuda.max_memory_allocated() - before < 2 * 2**30  # the cost matrix would take 3.7 GiB


def test_small_pairs_of_a_batch_agree_with_the_cpu(generator):
    x, y = torch.randn(5, 12, 3, generator=generator), torch.randn(5, 40, 3, generator=generator)
    here, there = tc.transport(x, y), tc.transport(x.cuda(), y.cuda())
    torch.testing.assert_close(here.value, there.value.cpu(), rtol=1e-9, atol=0)
    assert there.potential.device.type == there.plan[0].rows.device.type == there[0].weights.device.type == "cuda"


@pytest.mark.parametrize("size", [0.0, 1e-9])
def test_points_that_coincide_agree_with_the_cpu(cloud, size):
    x, y = (table.double() for table in cloud)
    x = x[torch.arange(40) % 8] + size * x
    here, there = tc.transport(x, y, exact=True), tc.transport(x.cuda(), y.cuda(), exact=True)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    received = there.plan.column_sums().cpu()
    torch.testing.assert_close(received, torch.full((40,), 1 / 40, dtype=torch.float64), rtol=0, atol=1e-12)
