"""Samples mapped through a network that is left as it was."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

import torchcoreset as tc
from tests.data import seeded
from torchcoreset.sources import as_source

Y = torch.randn(50, 2, generator=torch.Generator().manual_seed(5))


def network(training=False):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Sequential(spectral_norm(nn.Linear(2, 4)), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    return layers.train(training)


def everything(source, seed=0):
    g = seeded(seed)
    batches = [rows for rows, _ in source.batches(20, g)]
    return torch.cat((source.draw(7, g), source.materialize(30, g)[0], *batches))


def test_samples_are_the_networks_outputs():
    net = network()
    source = tc.Pushforward(Y, net)
    assert (source.size, source.dimension, source.endless, source.on_disk) == (50, None, False, False)
    points, weights = source.materialize(None, seeded())
    torch.testing.assert_close(points, net(Y).detach())
    assert weights is None
    assert not points.requires_grad
    assert source.dimension == 3
    base, g = as_source(Y).draw(9, seeded()), seeded()
    torch.testing.assert_close(source.draw(9, g), net(base).detach())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_the_network_is_left_as_it_was(training, grad):
    """Case A26: mode, gradients, buffers and random state, bit for bit, in either mode."""
    net = network(training)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter) if grad else None
    tensors = {name: (tensor, tensor.detach().clone()) for name, tensor in net.state_dict(keep_vars=True).items()}
    random = torch.get_rng_state()
    source = tc.Pushforward(lambda m: torch.randn(m, 2), net, batch_size=8)
    source.draw(20, seeded())
    source.materialize(20, seeded())
    next(source.batches(20, seeded()))
    tc.build_coreset(source, 3, steps=2, samples=200, init="random")
    tc.Coreset(Y).pushforward(net)
    assert all(module.training is training for module in net.modules())
    after = net.state_dict(keep_vars=True)
    assert all(after[name] is tensor and torch.equal(tensor, value) for name, (tensor, value) in tensors.items())
    assert all((p.grad is not None) is grad and (not grad or bool((p.grad == 1).all())) for p in net.parameters())
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.is_grad_enabled()


def test_a_graph_of_the_user_can_still_go_backward():
    net = network(training=True)
    value = net(Y).square().mean()
    tc.Pushforward(Y, net).draw(10, seeded())
    value.backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_buffers_that_are_replaced_are_put_back():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls = self.calls + 1
            if self.calls > 2:
                raise RuntimeError("enough")
            return x

    net = Counts()
    calls = net.calls
    assert tc.Pushforward(Y, net, batch_size=30).draw(50, seeded()).shape == (50, 2)
    assert net.calls is calls
    with pytest.raises(RuntimeError, match="enough"):
        tc.Pushforward(Y, net, batch_size=10).draw(50, seeded())
    assert net.calls is calls
    assert calls.item() == 0


def test_the_seed_decides_dropout_too():
    source = tc.Pushforward(Y, network(training=True))
    first, again, other = everything(source), everything(source), everything(source, seed=1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_batches_go_through_the_network_in_bounded_parts():
    seen = []

    def count(x):
        seen.append(len(x))
        return x * 2

    source = tc.Pushforward(Y, count, batch_size=20)
    assert source.materialize(None, seeded())[0].tolist() == (2 * Y).tolist()
    assert seen == [20, 20, 10]


def test_weights_are_those_of_the_source():
    w = torch.arange(50.0)
    source = tc.Pushforward(as_source(Y, weights=w), network())
    points, weights = source.materialize(None, seeded())
    torch.testing.assert_close(weights, w.double() / w.sum())
    total = sum(weights.sum().item() for _, weights in source.batches(8, seeded()))
    assert total == pytest.approx(1)
    assert len(points) == 50


@pytest.mark.parametrize(
    "source",
    [
        Y.double().numpy(),
        DataLoader(TensorDataset(Y, torch.zeros(50)), batch_size=8),
        iter([Y, Y]),
        torch.distributions.Normal(torch.zeros(2, dtype=torch.float64), 1.0),
        lambda m: np.zeros((m, 2)),
    ],
    ids=["float64 array", "loader", "iterator", "float64 distribution", "callable"],
)
def test_any_source_in_the_type_of_the_network(source):
    pushed = tc.Pushforward(source, network())
    assert pushed.draw(9, seeded()).dtype == torch.float32
    assert pushed.endless == as_source(Y if isinstance(source, np.ndarray) else source).endless


def test_pushforwards_of_pushforwards_tuples_and_columns():
    twice = tc.Pushforward(tc.Pushforward(Y, lambda x: (x * 2, None)), lambda x: x.sum(1))
    torch.testing.assert_close(twice.materialize(None, seeded())[0], 2 * Y.sum(1, keepdim=True))


def test_outputs_are_never_the_users_own_tensors():
    source = tc.Pushforward(Y, nn.Identity())
    before = Y.clone()
    source.materialize(None, seeded())[0].zero_()
    source.draw(5, seeded()).zero_()
    assert torch.equal(Y, before)


def test_a_coreset_of_the_image_and_the_image_of_a_coreset():
    net = network()
    image, again = (tc.build_coreset(tc.Pushforward(Y, net), 4, init="random", steps=5) for _ in range(2))
    assert image.coreset.points.shape == (4, 3)
    assert torch.equal(again.coreset.points, image.coreset.points)
    pushed = tc.Coreset(Y, weights=torch.arange(50.0)).pushforward(net)
    torch.testing.assert_close(pushed.points.detach(), tc.Pushforward(Y, net).materialize(None, seeded())[0])


def test_a_coreset_goes_through_a_network_of_another_type_and_its_dropout_is_seeded():
    coreset = tc.Coreset(Y.double())
    net = network(training=True)
    state = torch.get_rng_state()
    first, again, other = (coreset.pushforward(net, seed=seed).points for seed in (1, 1, 2))
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_streams_that_end_end():
    source = tc.Pushforward(iter([Y]), network())
    with pytest.warns(UserWarning, match="ended after 50 of 80 rows"):
        assert len(source.draw(80, seeded())) == 50
    with pytest.raises(ValueError, match="exhausted"):
        source.draw(1, seeded())


def test_copies_of_a_pushforward():
    source = tc.Pushforward(Y, network())
    assert torch.equal(everything(copy.deepcopy(source)), everything(source))


def test_buffers_that_modules_share():
    norm = nn.BatchNorm1d(2).train()
    net = nn.Sequential(norm, norm)
    mean = norm.running_mean
    tc.Pushforward(Y, net).draw(50, seeded())
    assert norm.running_mean is mean
    assert not mean.any()


def test_repr():
    source = tc.Pushforward(Y, nn.Linear(2, 3))
    assert repr(source) == (
        "Pushforward(size=50, dimension=unknown, source=TensorSource(size=50, dimension=2), network=Linear)"
    )


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x[1:], "network: got 6 rows for 7 samples; expected one row for each"),
        (lambda x: x.sum(), "network output: got a single number"),
        (lambda x: x[:, :, None], r"network output: got shape \(7, 2, 1\)"),
        (lambda x: x / 0, "network output: 7 of 7 rows hold NaN or inf, the first is row 0"),
        (nn.LazyLinear(3), "network: its lazy parameters have no shape yet"),
    ],
    ids=["rows", "number", "images", "nan", "lazy"],
)
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_unusable_networks(f, message):
    with pytest.raises(ValueError, match=message):
        tc.Pushforward(Y, f).draw(7, seeded())


def test_unusable_arguments():
    with pytest.raises(TypeError, match="network: got Tensor; expected a module or a function"):
        tc.Pushforward(Y, Y)
    with pytest.raises(TypeError, match="source: got float"):
        tc.Pushforward(1.0, nn.Identity())
    with pytest.raises(ValueError, match="batch_size: got 0; expected a positive integer"):
        tc.Pushforward(Y, nn.Identity(), batch_size=0)


@pytest.mark.gpu
def test_samples_go_to_the_network_on_its_device():
    net = network().cuda()
    source = tc.Pushforward(as_source(Y, weights=torch.arange(50.0)), net)
    points, weights = source.materialize(None, seeded())
    assert points.is_cuda
    assert weights.is_cuda
    assert tc.build_coreset(source, 3, steps=3).coreset.points.is_cuda
    assert tc.Coreset(Y).pushforward(net).points.is_cuda
