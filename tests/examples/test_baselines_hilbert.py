"""Hilbert coresets, examples/baselines/{hilbert,giga,frank_wolfe}.py: known answers."""

import importlib

import pytest
import torch
from torch import Tensor

BOTH = ["giga", "frank_wolfe"]


def weights_after_each_step(name: str, vectors: Tensor, steps: int) -> list[Tensor]:
    return list(getattr(importlib.import_module(f"baselines.{name}"), name)(vectors, steps))


@pytest.mark.parametrize("name", BOTH)
def test_the_sum_of_two_directions_is_found_exactly(name: str) -> None:
    vectors = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 0.5], [0.0, 1.5], [0.0, 0.0]], dtype=torch.float64)
    weights = weights_after_each_step(name, vectors, 200)
    if name == "giga":  # after two steps, with two points
        assert int((weights[1] > 0).sum()) == 2
        torch.testing.assert_close(weights[1] @ vectors, vectors.sum(0))
    torch.testing.assert_close(weights[-1] @ vectors, vectors.sum(0), rtol=1e-2, atol=0)
    assert weights[-1][-1] == 0


def test_one_vector_of_its_own_direction_gets_the_whole_weight() -> None:
    weights = weights_after_each_step("giga", torch.full((7, 1), 2.0, dtype=torch.float64), 5)
    assert len(weights) == 1
    assert weights[0].sum().item() == pytest.approx(7)


@pytest.mark.parametrize("name", BOTH)
def test_weights_are_not_negative_few_and_better_at_each_step(name: str) -> None:
    vectors = torch.rand(300, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 0.2
    weights = weights_after_each_step(name, vectors, 40)
    errors = torch.stack([(w @ vectors - vectors.sum(0)).norm() for w in weights]) / vectors.sum(0).norm()
    assert all((w >= 0).all() and (w > 0).sum() <= k for k, w in enumerate(weights, 1))
    assert (errors[1:] <= errors[:-1] + 1e-12).all()
    assert errors[-1] < (1e-4 if name == "giga" else 0.02)
    lengths = vectors.norm(dim=1)
    if name == "frank_wolfe":
        assert all((w @ lengths).item() == pytest.approx(lengths.sum().item()) for w in weights)


def test_giga_takes_first_what_points_most_nearly_to_the_sum() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.8, 0.9], [0.0, 1.0]], dtype=torch.float64)
    assert weights_after_each_step("giga", vectors, 1)[0].nonzero().flatten().tolist() == [1]


def test_gradient_vectors_and_their_shorter_form() -> None:
    from baselines.hilbert import gradient_vectors, shorten

    generator = torch.Generator().manual_seed(1)
    z, draws = (torch.randn(m, 3, generator=generator, dtype=torch.float64) for m in (50, 4))
    vectors = gradient_vectors(z, draws)
    theta = draws[2].clone().requires_grad_()
    torch.nn.functional.logsigmoid(z[7] @ theta).backward()
    torch.testing.assert_close(vectors[7].view(4, 3)[2], theta.grad / 2)
    short, axes = shorten(torch.cat((vectors, vectors), 1))
    assert short.shape[1] <= 12
    torch.testing.assert_close(short @ short.T, 2 * vectors @ vectors.T, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(torch.cat((vectors, vectors), 1) @ axes, short)
