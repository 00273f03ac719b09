"""The drift test: silent on streams that stand still, quick on those that do not."""

import pytest
import torch
from torch import Tensor

from torchcoreset.transport.stream.drift import features, first_moments, watched


def alarms(batches: list[Tensor], forgetting: float = 0.0) -> list[int]:
    """Numbers of the batches that show a drift."""
    moments, seen = None, []
    worths = 0.0
    for k, y in enumerate(batches):
        size, a = float(len(y)), torch.full((len(y),), 1 / len(y), dtype=torch.float64)
        worths += size
        if moments is None:
            moments = first_moments(y.double().mean(0), features(y, a, y.double().mean(0)), size)
            continue
        means = features(y, a, moments.origin)
        moments, has_moved = watched(moments, means, size, size * (k + 1) / worths, forgetting)
        seen += [k] if has_moved else []
    return seen


def batches_of(count: int, *sizes: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(sizes[k % len(sizes)], 2, generator=generator) for k in range(count)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_features_are_means_of_powers(dtype: torch.dtype, generator: torch.Generator) -> None:
    y = torch.randn(30, 6, generator=generator).to(dtype)[:, ::2]  # its rows lie apart
    a, origin = torch.rand(30, generator=generator).double(), torch.tensor([0.5, -1.0, 0.0]).double()
    offset = y.double() - origin
    for weights in (torch.full_like(a, 1 / 30), a / a.sum(), a / 60):  # the last of a part of the samples
        first, second, fourth = (weights @ offset**power for power in (1, 2, 4))
        expected = torch.stack((torch.cat((first, second)), torch.cat((second, fourth))))
        torch.testing.assert_close(features(y, weights, origin), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(20,), (1,), (64, 64, 7)])
@pytest.mark.parametrize("forgetting", [0.0, 0.05])
def test_it_is_silent_on_a_stream_that_stands_still(sizes: tuple[int, ...], forgetting: float) -> None:
    for seed in range(3):
        assert alarms(batches_of(2000, *sizes, seed=seed), forgetting) == []


def test_heavy_tails_are_no_drift() -> None:
    cauchy = torch.distributions.Cauchy(0.0, 1.0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert alarms([cauchy.sample((20, 2)) for _ in range(2000)]) == []


@pytest.mark.parametrize("change", [lambda y: y + 0.3, lambda y: y * 1.4, lambda y: y * torch.tensor([1.0, 0.5])])
def test_a_shift_and_a_spread_are_seen_soon(change) -> None:
    batches = batches_of(600, 20)
    seen = alarms(batches[:400] + [change(y) for y in batches[400:]])
    assert 400 <= seen[0] < 440


def test_sorted_classes_are_a_drift() -> None:
    y = torch.cat((torch.zeros(500, 1), torch.full((500, 1), 10.0)))
    assert 10 <= alarms(list(y.split(50)))[0] < 14


def test_columns_that_do_not_vary_and_a_far_origin_are_no_drift() -> None:
    far = [torch.cat((y + 1e6, torch.full((len(y), 1), 0.1)), 1) for y in batches_of(500, 20)]
    assert alarms(far) == []
