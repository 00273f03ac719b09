"""Map-style datasets: forms of a row, lazy reading, random transforms and errors."""

import itertools

import numpy as np
import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from tests.data import Rows
from torchcoreset.sources import DatasetSource, as_source


class Recorded(Rows):
    def __init__(self, rows):
        super().__init__(rows)
        self.read = []

    def __getitem__(self, index):
        self.read.append(index)
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("rows", "shape", "dtype"),
    [
        ([1.5, 2.5, 3.5], (3, 1), torch.float32),
        ([np.float64(1.5)] * 3, (3, 1), torch.float64),
        ([np.ones(2)] * 3, (3, 2), torch.float64),
        ([torch.ones(2, dtype=torch.float16)] * 3, (3, 2), torch.float16),
        ([torch.ones(2, dtype=torch.uint8)] * 3, (3, 2), torch.float32),
        ([(torch.ones(2), 7)] * 3, (3, 2), torch.float32),
        ([(0.5, 1)] * 3, (3, 1), torch.float32),
        ([[0.5, 1.0]] * 3, (3, 2), torch.float32),
        ([[torch.ones(2), torch.zeros(5)]] * 3, (3, 2), torch.float32),
        ([{"x": torch.ones(2), "y": 1}] * 3, (3, 2), torch.float32),
        ([{"features": [1.0, 2.0], "label": 1}] * 3, (3, 2), torch.float32),
        ([torch.ones(2, requires_grad=True)] * 3, (3, 2), torch.float32),
    ],
    ids=str,
)
def test_forms_of_a_row(rows, shape, dtype, generator):
    source = as_source(Rows(rows))
    points, weights = source.materialize(None, generator)
    assert isinstance(source, DatasetSource)
    assert (points.shape, points.dtype, points.requires_grad, weights) == (shape, dtype, False, None)
    assert source.dimension == shape[1]


def test_only_the_rows_needed_are_read(generator):
    dataset = Recorded([float(i) for i in range(1000)])
    source = as_source(dataset)
    assert repr(source) == "DatasetSource(size=1000, dimension=unknown)"
    assert dataset.read == []
    drawn = source.draw(5, generator)
    assert dataset.read == drawn.flatten().tolist()
    assert len(set(dataset.read)) == 5


def test_order_batches_and_limit(generator):
    source = as_source(Rows([float(i) for i in range(10)]))
    assert source.materialize(None, generator)[0].flatten().tolist() == list(range(10))
    kept = source.materialize(4, generator)[0].flatten().tolist()
    assert len(kept) == 4
    assert kept == sorted(kept)
    batches = [points.flatten().tolist() for points, _ in source.batches(4, generator)]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(itertools.chain(*batches)) == list(range(10))


def test_rows_are_read_in_chunks(generator):
    source = as_source(Rows([float(i) for i in range(5000)]))
    assert source.materialize(None, generator)[0].flatten().tolist() == list(range(5000))


def test_weights(generator):
    source = as_source(Rows([0.0, 1.0, 2.0]), weights=[0, 0, 5])
    assert repr(source) == "DatasetSource(size=3, dimension=unknown, weighted)"
    assert source.draw(4, generator).flatten().tolist() == [2.0] * 4
    assert source.materialize(None, generator)[1].tolist() == [0, 0, 1]


def test_subsets_and_transforming_tensor_datasets_are_read_row_by_row(generator):
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return 2 * super().__getitem__(index)[0]

    data = torch.arange(6.0).reshape(3, 2)
    assert as_source(Doubled(data)).materialize(None, generator)[0].tolist() == (2 * data).tolist()
    subset = as_source(Subset(TensorDataset(data, torch.zeros(3)), [2, 0]))
    assert subset.materialize(None, generator)[0].tolist() == data[[2, 0]].tolist()


def test_datasets_of_other_libraries(generator):
    class Table:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            raise AssertionError("rows are read together")

        def __getitems__(self, indices):
            return [{"x": [float(i), 0.0]} for i in indices]

    points, _ = as_source(Table()).materialize(None, generator)
    assert points.tolist() == [[0, 0], [1, 0], [2, 0]]


def test_random_transforms_follow_the_seed_and_leave_the_global_state():
    class Noisy(Rows):
        def __getitem__(self, index):
            return super().__getitem__(index) + torch.rand(2)

    source = as_source(Noisy([torch.zeros(2)] * 4))
    state = torch.get_rng_state()
    first = source.materialize(None, torch.Generator().manual_seed(1))[0]
    again = source.materialize(None, torch.Generator().manual_seed(1))[0]
    other = source.materialize(None, torch.Generator().manual_seed(2))[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "samples: got an empty Rows; expected at least one row"),
        ([torch.ones(1, 28, 28)] * 3, r"samples: got shape \(3, 1, 28, 28\); .* `.flatten\(1\)`"),
        ([torch.ones(2), torch.ones(3)], r"samples, row 1: got shape \(3,\) after \(2,\)"),
        ([0.0, float("nan"), 2.0], "samples: 1 of 3 rows hold NaN or inf, the first is row 1"),
        (
            [{"a": torch.ones(2), "b": torch.ones(2)}],
            r"samples, row 0: got a dict with the keys \['a', 'b'\]",
        ),
        ([()], "samples, row 0: got an empty tuple"),
    ],
    ids=str,
)
def test_unusable_datasets(rows, message, generator):
    with pytest.raises(ValueError, match=message):
        as_source(Rows(rows)).materialize(None, generator)


def test_a_bad_row_is_named_by_its_index_in_the_dataset(generator):
    rows = [0.0] * 50
    rows[17] = float("inf")
    source = as_source(Rows(rows))
    with pytest.raises(ValueError, match="samples: 1 of 50 rows hold NaN or inf, the first is row 17"):
        source.draw(50, generator)


def test_rows_of_another_dimension_later(generator):
    source = as_source(Rows([torch.zeros(2)] * 4096 + [torch.zeros(3)]))
    with pytest.raises(ValueError, match="got rows of dimension 3 after rows of dimension 2"):
        source.materialize(None, generator)


def test_rows_that_are_no_numbers(generator):
    with pytest.raises(TypeError, match="samples, row 0: got str; expected a tensor, an array"):
        as_source(Rows(["a.png"])).draw(1, generator)
