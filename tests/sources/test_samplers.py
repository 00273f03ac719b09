"""Distributions and callables: shapes, seeds, and global state that stays as it was."""

import numpy as np
import pytest
import torch
from torch import distributions, nn

from torchcoreset.sources import CallableSource, DistributionSource, as_source


@pytest.mark.parametrize(
    ("distribution", "dimension"),
    [
        (distributions.Normal(0.0, 1.0), 1),
        (distributions.Normal(torch.zeros(3), torch.ones(3)), 3),
        (distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)), 2),
        (distributions.Independent(distributions.Uniform(torch.zeros(4), torch.ones(4)), 1), 4),
        (distributions.Normal(torch.zeros(2, requires_grad=True), 1.0), 2),
        (distributions.Categorical(torch.ones(3)), 1),
    ],
    ids=str,
)
def test_distributions(distribution, dimension, generator):
    source = as_source(distribution)
    assert isinstance(source, DistributionSource)
    assert (source.size, source.dimension, source.endless) == (None, dimension, True)
    drawn = source.draw(5, generator)
    assert drawn.shape == (5, dimension)
    assert drawn.dtype == torch.float32
    assert not drawn.requires_grad


def test_double_distributions_stay_double(generator):
    normal = distributions.Normal(torch.zeros(2, dtype=torch.float64), 1.0)
    assert as_source(normal).draw(5, generator).dtype == torch.float64


@pytest.mark.parametrize(
    "sampler",
    [
        lambda m: torch.randn(m, 2),
        lambda m: (torch.randn(m, 2), torch.zeros(m)),
        lambda m: {"x": torch.randn(m, 2), "y": torch.zeros(m)},
        lambda m: torch.randn(m, 2).numpy(),
    ],
    ids=["tensor", "tuple", "dict", "array"],
)
def test_callables(sampler, generator):
    source = as_source(sampler)
    assert isinstance(source, CallableSource)
    assert source.draw(5, generator).shape == (5, 2)
    assert source.dimension == 2


def test_a_column_and_whole_numbers(generator):
    drawn = as_source(np.arange).draw(3, generator)
    assert drawn.tolist() == [[0.0], [1.0], [2.0]]
    assert drawn.dtype == torch.get_default_dtype()


def test_samples_that_are_the_users_data_are_copied(generator):
    data = torch.ones(5, 2)
    as_source(lambda m: data[:m]).draw(3, generator).zero_()
    assert torch.equal(data, torch.ones(5, 2))


def test_batches_are_endless_and_fresh(generator):
    batches = as_source(distributions.Normal(0.0, 1.0)).batches(4, generator)
    drawn = [next(batches) for _ in range(50)]
    assert all(points.shape == (4, 1) and weights is None for points, weights in drawn)
    assert len(torch.cat([points for points, _ in drawn]).unique()) == 200


def test_materialize_draws_the_limit(generator):
    points, weights = as_source(lambda m: torch.randn(m, 2)).materialize(7, generator)
    assert points.shape == (7, 2)
    assert weights is None


@pytest.mark.parametrize("source", [distributions.Normal(0.0, 1.0), torch.rand], ids=["normal", "rand"])
def test_the_seed_decides_and_the_global_state_stays(source):
    state = torch.get_rng_state()
    first, again, other = (as_source(source).draw(9, torch.Generator().manual_seed(k)) for k in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_global_state_stays_when_the_callable_raises(generator):
    def broken(m):
        torch.randn(m)
        raise RuntimeError("from the user")

    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="from the user"):
        as_source(broken).draw(3, generator)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_numpy_and_settings_are_left_alone(generator):
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    as_source(distributions.Normal(0.0, 1.0)).draw(3, generator)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert (torch.get_default_dtype(), torch.get_num_threads()) == (dtype, threads)


@pytest.mark.parametrize("training", [False, True])
def test_networks_keep_their_mode(training, generator):
    """Case A26: eval statistics are bit-equal, and train mode is the user's choice."""
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).train(training)
    before = network[1].running_mean.clone()

    def sampler(m):
        assert not torch.is_grad_enabled()
        return network(torch.randn(m, 2))

    drawn = as_source(sampler).draw(8, generator)
    assert not drawn.requires_grad
    assert network.training == network[1].training == training
    assert torch.equal(network[1].running_mean, before) != training


def test_a_module_is_a_callable_even_if_it_can_be_iterated(generator):
    class Noise(nn.Module):
        def forward(self, m):
            return torch.randn(m, 2)

    assert as_source(nn.Sequential(Noise(), nn.Linear(2, 3))).draw(4, generator).shape == (4, 3)


def test_samples_made_in_inference_mode_can_be_trained_on(generator):
    """Case A29."""

    @torch.inference_mode()
    def sampler(m):
        return torch.ones(m, 2)

    drawn = as_source(sampler).draw(3, generator)
    (drawn * torch.ones(2, requires_grad=True)).sum().backward()


def test_repr(generator):
    assert (
        repr(as_source(distributions.Normal(0.0, 1.0)))
        == "DistributionSource(size=endless, dimension=1, distribution=Normal)"
    )
    source = as_source(torch.rand)
    assert repr(source) == "CallableSource(size=endless, dimension=unknown, sampler=rand)"
    source.draw(1, generator)
    assert repr(source) == "CallableSource(size=endless, dimension=1, sampler=rand)"


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (
            lambda m: torch.zeros(m + 1, 2),
            r"source: asked for 3 samples and got shape \(4, 2\); expected \(3, d\)",
        ),
        (lambda m: torch.zeros(0, 2), r"samples: got shape \(0, 2\), which is empty"),
        (lambda m: torch.zeros(m, 1, 2), r"samples: got shape \(3, 1, 2\); .* `.flatten\(1\)`"),
        (lambda m: torch.tensor([0.0, 1.0, float("inf")]), "samples: 1 of 3 rows hold NaN or inf"),
    ],
    ids=["rows", "empty", "images", "inf"],
)
def test_unusable_samples(sampler, message, generator):
    with pytest.raises(ValueError, match=message):
        as_source(sampler).draw(3, generator)


def test_a_generator_function_is_no_sampler(generator):
    def stream(m):
        yield torch.zeros(m, 2)

    with pytest.raises(TypeError, match="source: got the generator function stream"):
        as_source(stream).draw(3, generator)


def test_a_dimension_that_changes(generator):
    source = as_source(lambda m: torch.zeros(m, m))
    source.draw(2, generator)
    with pytest.raises(ValueError, match="samples: got rows of dimension 3 after rows of dimension 2"):
        source.draw(3, generator)


def test_matrix_distributions():
    wishart = distributions.Wishart(torch.tensor(3.0), torch.eye(2))
    with pytest.raises(ValueError, match=r"source: got a Wishart with samples of shape \(2, 2\); .*flatten=True"):
        as_source(wishart)


def test_endless_sources_need_a_limit(generator):
    with pytest.raises(ValueError, match=r"limit: got None with DistributionSource.* which is endless"):
        as_source(distributions.Normal(0.0, 1.0)).materialize(None, generator)


@pytest.mark.parametrize("number", [0, 1.5])
def test_counts_are_whole_numbers_of_at_least_one(number, generator):
    source = as_source(torch.rand)
    with pytest.raises(ValueError, match="count: got"):
        source.draw(number, generator)
    with pytest.raises(ValueError, match="batch_size: got"):
        next(source.batches(number, generator))
    with pytest.raises(ValueError, match="limit: got"):
        source.materialize(number, generator)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_samples_follow_the_seed_and_leave_the_global_state():
    torch.zeros(1, device="cuda")
    state = torch.cuda.get_rng_state()
    source = as_source(lambda m: torch.randn(m, 2, device="cuda"))
    first, again = (source.draw(9, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.cuda.get_rng_state(), state)
