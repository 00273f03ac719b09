"""What a solve returns: plans, the main receiver of a split sample, statuses, repr."""

import pytest
import torch

from torchcoreset.testing import E1
from torchcoreset.transport import Coupling, Status, transport


@pytest.fixture
def split() -> Coupling:
    """Sample 1 of three is split over both points, most of it on point 1."""
    return Coupling(
        rows=torch.tensor([0, 1, 1, 2]),
        cols=torch.tensor([0, 0, 1, 1]),
        mass=torch.tensor([0.4, 0.1, 0.2, 0.3], dtype=torch.float64),
        shape=(3, 2),
    )


def test_a_plan_as_a_sparse_tensor(split: Coupling) -> None:
    sparse = split.to_sparse()
    assert sparse.is_coalesced()
    assert sparse.dtype == torch.float64
    assert sparse.to_dense().tolist() == [[0.4, 0.0], [0.1, 0.2], [0.0, 0.3]]
    assert split.column_sums().tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_displacement_is_that_of_the_dense_plan(split: Coupling, dtype: torch.dtype) -> None:
    """Half precision goes the way of other devices."""
    y, x = torch.tensor([[1.0, 2.0, 8.0], [3.0, 5.0, -1.0], [4.0, 0.5, 2.0]], dtype=dtype), torch.eye(3)[:2]
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    dense = torch.zeros(3, 2, dtype=torch.float64).index_put_((split.rows, split.cols), weight)
    expected = (dense[:, :, None] * (y.double()[:, None] - x.double())).sum(0)
    torch.testing.assert_close(split.displacement(x, y, weight), expected, rtol=1e-14, atol=0)


def test_a_split_sample_is_assigned_to_its_main_receiver(split: Coupling) -> None:
    result = transport(E1.points, E1.samples)
    mixed = type(result)(**{**vars(result), "plan": split})
    assert mixed.assignment.tolist() == [0, 1, 1]


def test_the_plan_lists_every_sample(generator: torch.Generator) -> None:
    x, y = (torch.randn(k, 2, generator=generator) for k in (7, 50))
    plan = transport(x, y, sample_weights=torch.rand(50, generator=generator)).plan
    assert plan.rows.unique().tolist() == list(range(50))


def test_the_assignment_follows_the_order_of_the_samples(generator: torch.Generator) -> None:
    x, y = (torch.randn(k, 2, generator=generator) for k in (5, 50))
    result = transport(x, y)
    dense = result.plan.to_sparse().to_dense()
    assert torch.equal(dense[torch.arange(50), result.assignment], dense.amax(1))


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_remedy(status: Status) -> None:
    assert status.remedy.endswith(".")
    assert len(status.remedy) > 10


def test_repr_says_what_matters() -> None:
    shown = repr(transport(E1.points, E1.samples))
    for part in ("2 points", "4 samples", "value=28.5", "lower=28.5", "gap=0.0e+00", "status=converged"):
        assert part in shown
