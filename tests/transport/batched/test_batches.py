"""A batch of pairs is a loop over them: results, inputs of every kind, and messages."""

from __future__ import annotations

import math
import pickle

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal
from torchcoreset.transport import direct

FIELDS = ("value", "lower", "gap", "potential", "transform", "cell_mass", "marginal_error", "steps", "assignment")


def pairs_of(kind: str, batch: int = 3, n: int = 12, m: int = 60) -> tuple[Tensor, Tensor]:
    """Points (B, n, d) among samples (B, m, d) of one kind."""
    y = cloud(kind, batch * m)[torch.randperm(batch * m, generator=torch.Generator().manual_seed(1))]
    y = y.view(batch, m, -1)
    return y[:, :n] + normal(batch, n, y.shape[-1], seed=3), y


def assert_loop(batch: tc.TransportBatch, loop: list[tc.Transport]) -> None:
    assert len(batch) == len(loop)
    for name in FIELDS:
        found = getattr(batch, name)
        expected = torch.stack([torch.as_tensor(getattr(pair, name), dtype=found.dtype) for pair in loop])
        assert found.shape == expected.shape
        assert found.dtype == (torch.int64 if name in ("steps", "assignment") else torch.float64)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    dense = torch.stack([pair.plan.to_sparse().to_dense() for pair in loop])
    torch.testing.assert_close(batch.plan.to_sparse().to_dense(), dense, rtol=1e-12, atol=1e-12)
    for pair, expected in zip(batch, loop, strict=True):
        assert pair.status is expected.status


@pytest.mark.parametrize("p", [1, 1.5, 2])
@pytest.mark.parametrize("kind", CLOUDS)
def test_a_batch_is_a_loop(kind: str, p: float) -> None:
    x, y = pairs_of(kind)
    assert_loop(tc.transport(x, y, p), [tc.transport(*pair, p) for pair in zip(x, y, strict=True)])


def test_pairs_that_are_not_solved_at_once_are_solved_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = pairs_of("smooth", 5)
    b = torch.ones(5, 12, dtype=torch.float64)
    b[1, 3] = 0  # has a point without weight
    start = torch.zeros(5, 12, dtype=torch.float64)
    start[2] = 1e9 * normal(12)  # leaves few digits for the bounds
    monkeypatch.setattr(direct, "BLOCK", 2 * 12 * 60)  # two pairs in a call
    batch = tc.transport(x, y, 2, b, start=start)
    alone = [tc.transport(x[i], y[i], 2, b[i], start=start[i]) for i in range(5)]
    assert_loop(batch, alone)
    assert all(pair.gap <= 1e-9 for pair in batch)


def test_pairs_of_any_distance_are_solved_at_once() -> None:
    x, y = pairs_of("smooth")
    for cost in (tc.costs.GreatCircle(), lambda a, b: (a - b).abs().sum(-1)):
        assert_loop(
            tc.transport(x[..., :2], y[..., :2], 1, cost=cost),
            [tc.transport(*pair, 1, cost=cost) for pair in zip(x[..., :2], y[..., :2], strict=True)],
        )


@pytest.mark.parametrize("options", [{"exact": True}, {"tolerance": 0.05}, {"engine": "dense", "tolerance": 1e-5}])
def test_options_are_those_of_each_pair(options: dict) -> None:
    x, y = pairs_of("clusters")
    assert_loop(tc.transport(x, y, **options), [tc.transport(*pair, **options) for pair in zip(x, y, strict=True)])


@pytest.mark.parametrize(
    ("points", "samples"),
    [
        (torch.float32, torch.float32),
        (torch.float32, torch.float64),
        (torch.float64, torch.float32),
        (torch.float16, torch.float32),
        (torch.int64, torch.int64),
        (torch.bfloat16, torch.bool),
    ],
)
def test_every_type(points: torch.dtype, samples: torch.dtype) -> None:
    x, y = (rows.mul(4).round() for rows in pairs_of("normal"))
    x, y = x.to(points), y.to(samples)
    assert_loop(tc.transport(x, y), [tc.transport(*pair) for pair in zip(x, y, strict=True)])


def test_each_pair_has_its_own_offset_and_its_own_width() -> None:
    x, y = pairs_of("normal")
    offsets = torch.tensor([0.0, 1e6, 1e9]).double()[:, None, None]
    x, y = x + offsets, y + offsets
    assert_loop(tc.transport(x, y), [tc.transport(*pair) for pair in zip(x, y, strict=True)])
    y[0] *= 1e25  # float32 does not hold squares of this pair's
    x, y = pairs_of("normal")[0].float(), (y - offsets).float()
    assert_loop(tc.transport(x, y), [tc.transport(*pair) for pair in zip(x, y, strict=True)])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (5, 1), (40, 20), (50, 50)])
def test_few_rows(n: int, m: int) -> None:
    x, y = normal(4, n, 2), normal(4, m, 2, seed=1)
    assert_loop(tc.transport(x, y), [tc.transport(*pair) for pair in zip(x, y, strict=True)])


def weights_of(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of each pair on a scale of its own; some are light, some zero."""
    b, a = normal(*x.shape[:2], seed=5).abs(), normal(*y.shape[:2], seed=6).abs()
    b[0, 2], a[1, 3:9], a[2, :5], b[1, 4] = 0, 0, 1e-9, 1e-7
    return b * torch.tensor([1.0, 1e200, 1e-200], dtype=torch.float64)[:, None], a


def test_weights() -> None:
    x, y = pairs_of("clusters")
    b, a = weights_of(x, y)
    loop = [tc.transport(*pair) for pair in zip(x, y, [2] * 3, b, a, strict=True)]
    assert_loop(tc.transport(x, y, 2, b, a), loop)
    assert_loop(tc.transport(x, y, 2, b.tolist(), a.numpy()), loop)


def test_what_is_shared_has_no_leading_dimension() -> None:
    x, y = pairs_of("normal")
    b, a = weights_of(x, y)
    points = [tc.transport(x[0], y[i], 2, b[0], a[i]) for i in range(3)]
    assert_loop(tc.transport(x[0], y, 2, b[0], a), points)
    assert_loop(tc.transport(x[0], y, 2, b[:1].expand(3, -1), a), points)
    samples = [tc.transport(x[i], y[0], 2, b[i], a[0]) for i in range(3)]
    assert_loop(tc.transport(x, y[0], 2, b, a[0]), samples)
    line = [tc.transport(x[0, :, 0], y[i, :, :1]) for i in range(3)]
    assert_loop(tc.transport(x[0, :, 0], y[..., :1]), line)


def test_lists_and_arrays() -> None:
    x, y = pairs_of("normal")
    loop = [tc.transport(*pair) for pair in zip(x, y, strict=True)]
    assert_loop(tc.transport(x.numpy(), y.tolist()), [tc.transport(a.numpy(), b.tolist()) for a, b in zip(x, y)])  # noqa: B905
    assert_loop(tc.transport(list(x), list(y)), loop)


def test_a_start_of_each_pair_or_of_all() -> None:
    x, y = normal(2, 20, 2), normal(2, 20_000, 2, seed=1)
    batch = tc.transport(x, y, tolerance=1e-5)
    for start in (batch.potential, batch.potential[0]):
        starts = start.expand(2, -1)
        again = [tc.transport(x[i], y[i], tolerance=1e-5, start=starts[i]) for i in range(2)]
        assert_loop(tc.transport(x, y, tolerance=1e-5, start=start), again)


def test_the_result_reads_like_a_sequence_and_survives_pickling() -> None:
    x, y = pairs_of("normal")
    batch = tc.transport(x, y)
    assert isinstance(batch[0], tc.Transport)
    assert batch[-1] is list(batch)[2]
    assert len(batch.plan) == 3
    assert batch.plan[1] is batch[1].plan
    assert [plan.shape for plan in batch.plan] == [(60, 12)] * 3
    assert batch.plan.shape == (3, 60, 12)
    assert "3 pairs of 12 points and 60 samples" in repr(batch)
    assert repr(batch).endswith("status=converged)")
    assert repr(batch.plan) == "CouplingBatch(shape=(3, 60, 12))"
    assert torch.equal(pickle.loads(pickle.dumps(batch)).value, batch.value)
    block = batch.plan.block_diagonal()
    assert block.shape == (180, 36)
    torch.testing.assert_close(block.to_sparse().to_dense()[60:120, 12:24], batch.plan[1].to_sparse().to_dense())


def test_no_input_is_written_to_and_none_is_kept() -> None:
    x, y = pairs_of("normal")
    before = x.clone(), y.clone()
    batch = tc.transport(x, y)
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])
    value = batch[0].value
    x.zero_()
    assert batch.value[0] == value


def test_one_warning_for_all_pairs() -> None:
    x, y = normal(3, 100, 4), 2 * normal(3, 2000, 4, seed=1)
    x[1, :], y[1, :] = 0.0, 0.0  # the pair that converges
    with pytest.warns(tc.ConvergenceWarning, match=r"2 of 3 pairs did not converge; the worst .*max_steps") as caught:
        batch = tc.transport(x, y, tolerance=1e-6, max_steps=1)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert caught[0].message.result is batch
    assert batch.status is tc.Status.MAX_STEPS
    assert batch[1].status is tc.Status.CONVERGED
    assert batch.worst.gap == batch.gap.max()
    with pytest.raises(tc.ConvergenceError, match="2 of 3 pairs") as raised:
        tc.transport(x, y, exact=True, max_steps=1)
    assert isinstance(raised.value.result, tc.TransportBatch)


def test_coarse_points_warn_once() -> None:
    x, y = (rows + 1e9 for rows in pairs_of("normal"))
    with pytest.warns(UserWarning, match="points: got torch.float32") as caught:
        tc.transport(x.float(), y)
    assert len(caught) == 1


BAD_INPUTS = {
    "sizes": ({"samples": torch.ones(3, 4, 2)}, r"samples: got a batch of 3 clouds, .* with 2 of points"),
    "dimensions": ({"samples": torch.ones(2, 4, 3)}, "samples: .*same last dimension"),
    "points in 4-d": (
        {"points": torch.ones(2, 1, 3, 2)},
        r"points: got shape \(2, 1, 3, 2\); expected \(rows, dimension\), or \(batch, rows, dimension\)",
    ),
    "samples in 4-d": ({"samples": torch.ones(2, 2, 4, 2)}, r"samples: got shape \(2, 2, 4, 2\).*flatten\(1\)"),
    "no pairs": ({"points": torch.ones(0, 3, 2)}, r"points: got shape \(0, 3, 2\); expected at least one row"),
    "no samples in pairs": ({"samples": torch.ones(2, 0, 2)}, r"samples: got shape \(2, 0, 2\)"),
    "no pairs of samples": (
        {"points": torch.ones(3, 2), "samples": torch.ones(0, 4, 2)},
        r"samples: got shape \(0, 4, 2\)",
    ),
    "nan": (
        {"samples": torch.tensor([[[0.0], [1.0]], [[math.nan], [0.0]]]).expand(2, 2, 2)},
        r"samples\[1\]: 1 of 2 rows hold NaN or inf, the first is row 0",
    ),
    "inf in what is shared": (
        {"samples": torch.tensor([[0.0, 0.0], [1.0, math.inf]])},
        "samples: 1 of 2 rows hold NaN or inf, the first is row 1",
    ),
    "weights of a pair": (
        {"point_weights": torch.tensor([[1.0, 1, 1], [1, -1, 1]])},
        r"point_weights\[1\]: 1 of 3 weights are negative, NaN or infinite, the first is -1 at row 1",
    ),
    "shared weights": ({"point_weights": torch.tensor([1.0, -1, 1])}, "point_weights: 1 of 3 weights are neg"),
    "no weight": (
        {"sample_weights": torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 0]])},
        r"sample_weights\[1\]: all 4 weights are zero",
    ),
    "shape of weights": (
        {"sample_weights": torch.ones(3, 4)},
        r"sample_weights: got shape \(3, 4\); expected \(2, 4\).* or \(4,\) for weights that all pairs share",
    ),
    "few weights": ({"point_weights": torch.ones(2)}, r"point_weights: got shape \(2,\); expected \(2, 3\)"),
    "start": ({"start": torch.zeros(2, 2)}, r"start: got shape \(2, 2\); expected \(2, 3\) finite numbers"),
    "nan in start": ({"start": torch.full((2, 3), math.nan)}, "start: .*finite numbers"),
    "device": ({"samples": torch.ones(2, 4, 2, device="meta")}, "samples: got device meta with points on cpu"),
    "sparse": ({"samples": torch.ones(4, 2).to_sparse()}, "samples: got layout torch.sparse_coo; expected a dense"),
    "sparse weights": ({"point_weights": torch.ones(3).to_sparse()}, "point_weights: got layout torch.sparse_coo"),
    "power": ({"p": 0.5}, "p: got 0.5"),
}


@pytest.mark.parametrize("call", [tc.transport, tc.wasserstein])
@pytest.mark.parametrize(("changes", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS.keys())
def test_unusable_inputs_are_named(changes: dict, message: str, call) -> None:
    arguments = {"points": torch.zeros(2, 3, 2), "samples": torch.ones(2, 4, 2)} | changes
    with pytest.raises(ValueError, match=message):
        call(**arguments)
