"""What `as_source` takes and what it refuses."""

from pathlib import Path

import pytest
import torch
from torch import distributions, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.processes import run
from torchcoreset.sources import TensorSource, as_source


def test_a_source_passes_through():
    source = as_source(torch.zeros(3, 2))
    assert as_source(source) is source


class Unsized(Dataset):
    def __getitem__(self, index):
        return 0.0


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (None, "NoneType"),
        (b"data", "bytes"),
        ({"x": torch.zeros(3, 2)}, "dict"),
        ({1.0, 2.0}, "set"),
        (3.0, "float"),
        (Unsized(), "Unsized"),
        (object(), "object"),
    ],
)
def test_what_is_no_source(thing, name):
    message = rf"source: got {name}; expected a tensor, an array, .* callable m -> \(m, d\)"
    with pytest.raises(TypeError, match=message):
        as_source(thing)


@pytest.mark.parametrize("path", ["data.txt", Path("data.csv.zip"), "csv", ""], ids=str)
def test_paths_of_unknown_formats(path):
    with pytest.raises(
        ValueError, match=r"source: got the path .*; expected a file that ends in .csv, .tsv, .parquet, .pq, .npy"
    ):
        as_source(path)


@pytest.mark.parametrize("path", ["data.csv", Path("data.csv.gz"), "no/data.parquet", "data.npy"], ids=str)
def test_files_that_are_not_there(path):
    with pytest.raises(FileNotFoundError, match=r"source: there is no file '.*data"):
        as_source(path)


@pytest.mark.parametrize("kind", [distributions.Normal, TensorDataset, TensorSource, nn.Linear, torch.Tensor])
def test_a_class_is_no_source(kind):
    with pytest.raises(TypeError, match=f"source: got the class {kind.__name__}; expected an instance of it"):
        as_source(kind)


@pytest.mark.parametrize(
    "source",
    [
        as_source(torch.zeros(3, 2)),
        DataLoader(TensorDataset(torch.zeros(3, 2))),
        [torch.zeros(3, 2)],
        iter([torch.zeros(3, 2)]),
        distributions.Normal(0.0, 1.0),
        torch.rand,
    ],
    ids=lambda source: type(source).__name__,
)
def test_weights_need_rows_in_any_order(source):
    with pytest.raises(ValueError, match=r"weights: got weights with a .* a table, a map-style dataset or a file"):
        as_source(source, weights=[1, 1, 1])


def test_import_changes_nothing_and_needs_torch_and_numpy_only():
    """Case A32, in a fresh process."""
    script = """
import sys, warnings, torch
def state():
    return (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(), torch.get_rng_state().tolist(), warnings.filters[:])
before = state()
import torchcoreset.sources.convert
assert state() == before
assert "pandas" not in sys.modules
"""
    run(script)


def test_a_generator_function_has_to_be_called():
    def batches():
        yield torch.zeros(3, 2)

    with pytest.raises(TypeError, match=r"got the generator function batches; .* call it first"):
        as_source(batches)
    assert as_source(batches()).draw(2, torch.Generator()).shape == (2, 2)


def test_a_network_that_takes_no_number_names_pushforward():
    with pytest.raises(TypeError, match=r"the Linear cannot be called with a number .* give Pushforward"):
        as_source(nn.Linear(2, 2)).draw(3, torch.Generator())


def test_text_columns_of_a_frame_are_named():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "city": ["Oslo", "Hamar"], "points": [1, 2], "weights": [1, 2]})
    with pytest.raises(ValueError, match=r"columns that are not numbers: 'city' \(text\)"):
        as_source(frame)
    assert as_source(frame.drop(columns="city")).dimension == 3
