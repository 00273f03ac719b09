"""Samples that several points want equally, and labels from a plan that splits some."""

import numpy as np
import torch

import torchcoreset as tc
from torchcoreset.transport.labels import whole_labels
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.stream.ties import distinct, shared


def test_an_atom_is_shared_so_that_cells_get_what_they_lack() -> None:
    x = torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)[:, None]
    y = torch.tensor([-1.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)[:, None]
    cell, plan = shared(make_engine(make_problem(x, y), "dense"), torch.zeros(3, dtype=torch.float64), 1e-3)
    dense = plan.to_sparse().to_dense()
    torch.testing.assert_close(dense.sum(0), torch.full((3,), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(dense.sum(1), torch.full((5,), 0.2, dtype=torch.float64))
    assert torch.equal(dense[1], dense[2]), "equal rows have equal shares"
    assert float(dense[0, 0]) == 0.2
    assert torch.equal(cell[:1], torch.tensor([0]))


def test_nothing_is_shared_beyond_the_margin() -> None:
    x, y = torch.tensor([0.0, 1.0])[:, None], torch.tensor([0.1, 0.2, 0.3])[:, None]
    _, plan = shared(make_engine(make_problem(x, y), "dense"), torch.zeros(2, dtype=torch.float64), 1e-3)
    assert plan is None


def test_equal_rows_are_found() -> None:
    rows = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    first, kind = distinct(rows)
    assert len(first) == 3
    assert torch.equal(rows[first[kind]], rows)


def test_labels_need_an_augmenting_path() -> None:
    """Greedy shares would leave the last point with nothing."""
    rows, cols = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 1, 2])
    mass = np.array([0.5, 0.5, 0.5, 0.5, 0.0, 1.0])
    counts = np.bincount(whole_labels(rows, cols, mass, (3, 3)), minlength=3)
    assert counts.tolist() == [1, 1, 1]


def test_a_state_without_the_mass_of_atoms_is_taken() -> None:
    generator = torch.Generator().manual_seed(0)
    x, loss = torch.randn(4, 1, generator=generator), tc.CoresetLoss(online=True)
    for _ in range(5):
        loss(x, torch.randn(20, 1, generator=generator))
    state = loss.state_dict()
    state["counters"] = state["counters"][:-1].clone()
    later, batch = tc.CoresetLoss(online=True), torch.randn(20, 1, generator=generator)
    later.load_state_dict(state)
    assert torch.equal(later(x, batch), loss(x, batch))
    assert later.last.batches == 6
