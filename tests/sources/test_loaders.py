"""Loaders and lists of batches: passes, leftovers, the reservoir, and loaders that give nothing."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, TensorDataset

from torchcoreset.sources import LoaderSource, as_source
from torchcoreset.sources.batches.reservoir import reservoir


def loader_of(rows, **settings):
    return DataLoader(TensorDataset(torch.arange(float(rows)), torch.zeros(rows)), **settings)


class Numbers(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return ((torch.tensor([float(i), 0.0]), i) for i in range(self.rows))


class SizedNumbers(Numbers):
    def __len__(self):
        return self.rows


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(2)


class Batches:
    """Starts again each time it is iterated, and has no length."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def test_draw_keeps_what_it_cuts_off_and_starts_a_new_pass(generator):
    source = as_source(loader_of(10, batch_size=4))
    assert isinstance(source, LoaderSource)
    drawn = [source.draw(3, generator).flatten().tolist() for _ in range(4)]
    assert drawn == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 1]]
    assert source.draw(21, generator).flatten().tolist() == [*range(2, 10), *range(10), 0, 1, 2]


def test_batches_are_the_loaders_own(generator):
    source = as_source(loader_of(10, batch_size=4))
    source.draw(3, generator)
    batches = list(source.batches(100, generator))
    assert [points.flatten().tolist() for points, _ in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert all(weights is None for _, weights in batches)
    assert source.draw(2, generator).flatten().tolist() == [3, 4], "a pass beside it leaves the draws alone"


def test_materialize_gives_all_rows_in_order(generator):
    source = as_source(loader_of(10, batch_size=4))
    for limit in (None, 10, 1000):
        points, weights = source.materialize(limit, generator)
        assert points.flatten().tolist() == list(range(10))
        assert weights is None


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("limit", [1, 10, 99])
def test_a_limit_keeps_different_rows_in_order(batch_size, limit, generator):
    points, _ = as_source(loader_of(100, batch_size=batch_size)).materialize(limit, generator)
    rows = points.flatten().tolist()
    assert len(rows) == limit
    assert rows == sorted(set(rows))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_the_limit_is_a_uniform_sample(batch_size, generator):
    batches = torch.arange(12).split(batch_size)
    counts = torch.zeros(12)
    pairs = torch.zeros(12, 12)
    for _ in range(1500):
        kept = reservoir(iter(batches), 4, generator)
        counts[kept] += 1
        pairs[kept[:, None], kept] += 1
    assert (counts / 1500 - 1 / 3).abs().max() < 0.05
    off_diagonal = pairs[~torch.eye(12, dtype=torch.bool)] / 1500
    assert (off_diagonal - 4 * 3 / (12 * 11)).abs().max() < 0.04


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({"batch_size": 4}, 10),
        ({"batch_size": 4, "drop_last": True}, 8),
        ({"batch_size": 4, "sampler": torch.utils.data.RandomSampler(range(10), num_samples=6)}, 6),
        ({"batch_sampler": BatchSampler(SequentialSampler(range(10)), 4, True)}, None),
        ({"batch_size": None}, None),
    ],
)
def test_size_is_what_the_sampler_says(settings, size):
    assert as_source(loader_of(10, **settings)).size == size


def test_size_of_lists_and_unknown_sizes():
    assert as_source([torch.zeros(3, 2), torch.zeros(1, 2)]).size == 4
    assert as_source(DataLoader(SizedNumbers(9), batch_size=4)).size is None
    assert as_source(DataLoader(Numbers(9), batch_size=4)).size is None


def test_repr(generator):
    source = as_source(loader_of(10, batch_size=4))
    assert repr(source) == "LoaderSource(size=10, dimension=unknown, loader=DataLoader)"
    source.draw(1, generator)
    assert repr(source) == "LoaderSource(size=10, dimension=1, loader=DataLoader)"


@pytest.mark.parametrize(
    "batches",
    [
        [torch.ones(2, 2), torch.ones(1, 2)],
        (np.ones((2, 2), dtype=np.float32), np.ones((1, 2), dtype=np.float32)),
        [(torch.ones(2, 2), torch.zeros(2)), (torch.ones(1, 2), torch.zeros(1))],
        [[torch.ones(2, 2), torch.zeros(2)], [torch.ones(1, 2), torch.zeros(1)]],
        [{"x": torch.ones(2, 2), "y": torch.zeros(2)}, {"x": torch.ones(1, 2), "y": torch.zeros(1)}],
        [{"pixels": torch.ones(2, 2), "name": ["a", "b"]}, {"pixels": torch.ones(1, 2), "name": ["c"]}],
        [pd.DataFrame(np.ones((2, 2), dtype=np.float32)), pd.DataFrame(np.ones((1, 2), dtype=np.float32))],
        Batches([[[1, 1], [1, 1]], [[1, 1]]]),
        [([[1, 1], [1, 1]], [0, 0]), ([[1, 1]], [0])],
    ],
    ids=["tensor", "array", "tuple", "list", "dict", "one tensor", "DataFrame", "numbers", "number tuple"],
)
def test_forms_of_a_batch(batches, generator):
    points, _ = as_source(batches).materialize(None, generator)
    assert points.tolist() == [[1, 1]] * 3
    assert points.dtype == torch.float32


def test_default_collate_of_python_floats_stays_double(generator):
    """Case A12: the loss, not the source, casts to the dtype of the points."""
    drawn = as_source(DataLoader([1.0, 2.0, 3.0], batch_size=2)).draw(3, generator)
    assert drawn.tolist() == [[1.0], [2.0], [3.0]]
    assert drawn.dtype == torch.float64


@pytest.mark.parametrize("dataset", [Numbers(600), SizedNumbers(600)], ids=["unsized", "sized"])
def test_iterable_datasets_are_gathered_in_batches(dataset, generator):
    source = as_source(dataset)
    assert [len(points) for points, _ in source.batches(5, generator)] == [256, 256, 88]
    assert source.materialize(None, generator)[0].tolist() == [[float(i), 0.0] for i in range(600)]
    assert source.draw(700, generator)[:, 0].tolist() == [*range(600), *range(100)]


def test_a_sized_iterable_is_sampled_and_an_unsized_one_is_cut(generator):
    sampled = as_source(SizedNumbers(600)).materialize(50, generator)[0][:, 0]
    assert sampled.max() > 300
    cut = as_source(Numbers(600)).materialize(50, generator)[0][:, 0]
    assert cut.tolist() == list(range(50))


def test_endless_loaders_end_at_the_limit(generator):
    for endless in (Endless(), DataLoader(Endless(), batch_size=4)):
        source = as_source(endless)
        assert source.materialize(10, generator)[0].shape == (10, 2)
        assert source.draw(10, generator).shape == (10, 2)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_shuffling_follows_the_seed_and_leaves_the_global_state(workers):
    settings = {"multiprocessing_context": "spawn"} if workers else {}
    source = as_source(loader_of(20, batch_size=8, shuffle=True, num_workers=workers, **settings))
    state = torch.get_rng_state()
    rows = source.materialize(None, torch.Generator().manual_seed(1))[0].flatten().tolist()
    assert rows != sorted(rows)
    assert sorted(rows) == list(range(20))
    if not workers:
        assert source.materialize(None, torch.Generator().manual_seed(1))[0].flatten().tolist() == rows
        assert source.materialize(None, torch.Generator().manual_seed(2))[0].flatten().tolist() != rows
    assert torch.equal(torch.get_rng_state(), state)


def test_a_buffer_that_is_filled_again_is_copied(generator):
    class Reused:
        def __iter__(self):
            buffer = torch.zeros(2, 1)
            for step in range(3):
                yield buffer.fill_(step)

    expected = [0, 0, 1, 1, 2, 2]
    source = as_source(Reused())
    assert source.materialize(None, generator)[0].flatten().tolist() == expected
    assert torch.cat([points for points, _ in source.batches(2, generator)]).flatten().tolist() == expected
    assert torch.cat([source.draw(1, generator) for _ in range(6)]).flatten().tolist() == expected


@pytest.mark.parametrize(
    "loader",
    [
        [],
        (),
        loader_of(3, batch_size=4, drop_last=True),
        DataLoader(TensorDataset(torch.zeros(0, 2)), batch_size=4),
        DataLoader(Numbers(0), batch_size=4),
        Batches([]),
        Numbers(0),
    ],
    ids=lambda loader: type(loader).__name__,
)
@pytest.mark.parametrize(
    "call",
    [
        lambda source, generator: source.draw(2, generator),
        lambda source, generator: list(source.batches(2, generator)),
        lambda source, generator: source.materialize(None, generator),
        lambda source, generator: source.materialize(2, generator),
    ],
    ids=["draw", "batches", "materialize", "limit"],
)
def test_no_batches(loader, call, generator):
    with pytest.raises(ValueError, match=r"source: got a \w+ with no batches; .* drop_last=True"):
        call(as_source(loader), generator)


def test_a_one_shot_iterable_in_disguise_raises_on_its_second_pass(generator):
    iterator = iter([torch.zeros(2, 1), torch.ones(2, 1)])

    class Once:
        def __iter__(self):
            return iterator

    with pytest.raises(ValueError, match="expected at least one each time it is iterated"):
        as_source(Once()).draw(5, generator)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([torch.ones(2, 2), torch.zeros(0, 2)], r"samples, batch 1: got shape \(0, 2\), which is empty"),
        ([torch.ones(2, 2), torch.ones(2, 3)], "samples, batch 1: got rows of dimension 3 after .* 2"),
        ((torch.ones(2, 2), torch.zeros(2)), "If these are labels, pass"),
        ([torch.ones(2, 1, 2)], r"samples, batch 0: got shape \(2, 1, 2\); .* `.flatten\(1\)`"),
        ([torch.ones(2, 1), torch.tensor([[1.0], [float("nan")]])], "samples, batch 1: 1 of 2 rows hold NaN or inf"),
        (
            [{"a": torch.ones(2), "b": torch.ones(2)}],
            r"batch 0: got a dict with the keys \['a', 'b'\]; .*'x'",
        ),
        ([{"x": torch.ones(2), "data": torch.ones(2)}], r"got a dict with the keys \['x', 'data'\]"),
        ([{}], r"samples, batch 0: got a dict with the keys \[\]"),
        ([()], "samples, batch 0: got an empty tuple"),
        ([[]], "samples, batch 0: got an empty list"),
    ],
    ids=str,
)
def test_unusable_batches(batches, message, generator):
    with pytest.raises(ValueError, match=message):
        as_source(batches)
    with pytest.raises(ValueError, match=message):
        as_source(Batches(batches)).materialize(None, generator)


def test_batches_that_are_no_numbers():
    with pytest.raises(TypeError, match="samples, batch 0: got str"):
        as_source(["a", "b"])


@pytest.mark.parametrize("number", [0, -1, 2.5])
def test_counts_are_whole_numbers_of_at_least_one(number, generator):
    source = as_source([torch.zeros(3, 2)])
    with pytest.raises(ValueError, match="count: got"):
        source.draw(number, generator)
    with pytest.raises(ValueError, match="batch_size: got"):
        next(source.batches(number, generator))
    with pytest.raises(ValueError, match="limit: got"):
        source.materialize(number, generator)
