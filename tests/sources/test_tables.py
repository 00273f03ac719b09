"""Tables: dtypes, views, subsets without replacement, passes and weights."""

import numpy as np
import pandas as pd
import pytest
import torch

from torchcoreset.sources import TensorSource, as_source


def rows_as_set(rows):
    return {tuple(row) for row in rows.tolist()}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_float_dtypes_stay(dtype, generator):
    source = as_source(torch.ones(5, 2, dtype=dtype))
    assert source.draw(3, generator).dtype == dtype
    assert source.materialize(None, generator)[0].dtype == dtype
    assert next(source.batches(2, generator))[0].dtype == dtype


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.bool])
def test_whole_numbers_take_the_default_dtype(dtype, generator):
    assert as_source(torch.ones(5, 2).to(dtype)).draw(3, generator).dtype == torch.get_default_dtype()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.arange(6.0).reshape(3, 2), torch.float64),
        (np.arange(6, dtype=np.float32).reshape(3, 2), torch.float32),
        (np.arange(6, dtype=np.float16).reshape(3, 2), torch.float16),
        (np.arange(6).reshape(3, 2), torch.float32),
        (np.arange(6, dtype=np.uint16).reshape(3, 2), torch.float32),
        (np.arange(6, dtype=np.longdouble).reshape(3, 2), torch.float64),
        (np.arange(6, dtype=">f8").reshape(3, 2), torch.float64),
        (np.arange(6.0).reshape(3, 2).astype(object), torch.float64),
        (np.arange(6.0)[::-1].reshape(3, 2)[::-1, ::-1], torch.float64),
        (pd.DataFrame({"a": [0, 2, 4], "b": [1.0, 3.0, 5.0]}), torch.float64),
        (pd.DataFrame({"a": [0, 2, 4], "b": [1, 3, 5]}).astype("Int64"), torch.float32),
        ([[0, 1], [2, 3], [4, 5]], torch.float32),
        ([(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)], torch.float32),
        (((0.0, 1.0), (2.0, 3.0), (4.0, 5.0)), torch.float32),
        ([[np.float64(0), np.float64(1)], [2.0, 3.0], [4.0, 5.0]], torch.float64),
        (torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.zeros(3)), torch.float32),
    ],
)
def test_every_form_of_table(data, expected, generator):
    source = as_source(data)
    points, weights = source.materialize(None, generator)
    assert isinstance(source, TensorSource)
    assert (source.size, source.dimension, points.dtype, weights) == (3, 2, expected, None)
    assert points.tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    "data",
    [
        torch.arange(3.0),
        np.arange(3.0),
        [0, 1, 2],
        (0.0, 1.0, 2.0),
        [torch.tensor(0.0), torch.tensor(1.0, requires_grad=True), torch.tensor(2.0)],
        [np.float64(0), np.float64(1), np.float64(2)],
        pd.Series([0, 1, 2], name="a"),
    ],
    ids=str,
)
def test_one_dimension_is_read_as_one_column(data, generator):
    assert as_source(data).materialize(None, generator)[0].tolist() == [[0.0], [1.0], [2.0]]


def test_other_libraries_arrays_are_read_through_numpy(generator):
    class Array:
        def __array__(self, dtype=None, copy=None):
            return np.eye(2)

        def __iter__(self):
            raise AssertionError("a table, not an iterable of batches")

    assert as_source(Array()).materialize(None, generator)[0].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "view",
    [
        torch.arange(16.0).reshape(2, 8)[:, ::2].t(),
        torch.tensor([[1.0, 2.0]]).expand(64, 2),
        torch.arange(8.0, requires_grad=True).reshape(4, 2),
        torch.nn.Parameter(torch.arange(8.0).reshape(4, 2)),
    ],
    ids=["strided", "expanded", "non-leaf", "parameter"],
)
def test_views_read_like_copies_and_are_not_written_to(view, generator):
    before = view.detach().clone()
    source = as_source(view)
    drawn = source.draw(3, generator)
    points, _ = source.materialize(None, generator)
    drawn.zero_()
    next(source.batches(2, generator))[0].zero_()
    assert torch.equal(view, before)
    assert torch.equal(points, before)
    assert not points.requires_grad


def test_readonly_arrays_are_read_without_a_warning(generator):
    array = np.arange(6.0).reshape(3, 2)
    array.flags.writeable = False
    for data in (array, np.broadcast_to(np.float32(1.0), (3, 2)), pd.DataFrame(array)):
        assert as_source(data).draw(2, generator).shape == (2, 2)


def test_inference_tensors_become_ordinary_ones(generator):
    with torch.inference_mode():
        data = torch.ones(3, 2)
    points, _ = as_source(data).materialize(None, generator)
    (points * torch.ones(2, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("count", [1, 3, 7, 60, 99])
def test_draw_is_a_subset_without_replacement(count, generator):
    source = as_source(torch.arange(100.0))
    drawn = source.draw(count, generator)
    assert drawn.shape == (count, 1)
    assert len(rows_as_set(drawn)) == count


@pytest.mark.parametrize("count", [100, 1000])
def test_draw_of_all_rows_is_shuffled(count, generator):
    drawn = as_source(torch.arange(100.0)).draw(count, generator)
    assert drawn.shape == (100, 1)
    assert not torch.equal(drawn, torch.arange(100.0).unsqueeze(1))
    assert torch.equal(drawn.sort(dim=0).values, torch.arange(100.0).unsqueeze(1))


@pytest.mark.parametrize("count", [2, 20])
def test_every_row_is_drawn_equally_often(count, generator):
    """2 of 40 rows takes the sparse way, 20 of 40 the permutation; both at every place of the draw."""
    source = as_source(torch.arange(40.0))
    draws = torch.stack([source.draw(count, generator).flatten() for _ in range(4000)]).long()
    for place in (0, count - 1):
        frequency = torch.bincount(draws[:, place], minlength=40) / 4000
        assert (frequency - 1 / 40).abs().max() < 4 * (1 / 40 / 4000) ** 0.5


def test_batches_are_one_shuffled_pass_with_a_short_last_batch(generator):
    batches = list(as_source(torch.arange(10.0)).batches(4, generator))
    assert [len(points) for points, _ in batches] == [4, 4, 2]
    assert all(weights is None for _, weights in batches)
    points = torch.cat([points for points, _ in batches]).flatten()
    assert points.tolist() != list(range(10))
    assert sorted(points.tolist()) == list(range(10))


def test_sorted_classes_are_mixed(generator):
    """Case A36: 500 rows of 0 and then 500 rows of 10."""
    source = as_source(torch.cat([torch.zeros(500), torch.full((500,), 10.0)]))
    first, _ = next(source.batches(50, generator))
    assert 2 < first.mean() < 8


def test_materialize_keeps_the_order_and_the_limit(generator):
    data = torch.arange(100.0).unsqueeze(1)
    source = as_source(data)
    assert torch.equal(source.materialize(100, generator)[0], data)
    points, weights = source.materialize(30, generator)
    assert weights is None
    assert points.flatten().tolist() == sorted(rows for (rows,) in rows_as_set(points))
    assert len(points) == 30


def test_weights_of_any_scale_sum_to_one(generator):
    data = torch.arange(4.0)
    for scale in (1.0, 1e-320, 1e307):
        source = as_source(data, weights=torch.tensor([1.0, 3.0, 0.0, 4.0], dtype=torch.float64) * scale)
        weights = source.materialize(None, generator)[1]
        assert weights.dtype == torch.float64
        assert torch.allclose(weights, torch.tensor([1.0, 3.0, 0.0, 4.0]).double() / 8, rtol=1e-2)
        assert abs(weights.sum().item() - 1) < 1e-12


def test_weighted_draw_is_in_proportion_with_replacement(generator):
    source = as_source(np.arange(4.0), weights=[0, 1, 3, 0])
    drawn = source.draw(20_000, generator).flatten().long()
    frequency = torch.bincount(drawn, minlength=4) / 20_000
    assert frequency[0] == frequency[3] == 0
    assert frequency[2] == pytest.approx(0.75, abs=0.015)


def test_weighted_batches_carry_their_share(generator):
    source = as_source(torch.arange(10.0), weights=np.arange(10))
    batches = list(source.batches(4, generator))
    for points, weights in batches:
        assert torch.allclose(weights, points.flatten().double() / 45)
    assert sum(weights.sum().item() for _, weights in batches) == pytest.approx(1)


def test_weighted_materialize_within_a_limit_is_an_unweighted_draw(generator):
    source = as_source(torch.arange(1000.0), weights=[0.0] * 999 + [1.0])
    points, weights = source.materialize(10, generator)
    assert weights is None
    assert points.flatten().tolist() == [999.0] * 10


def test_returned_weights_are_the_callers_own(generator):
    given = torch.tensor([1.0, 1.0], dtype=torch.float64)
    source = as_source(torch.zeros(2), weights=given)
    source.materialize(None, generator)[1].zero_()
    assert source.materialize(None, generator)[1].tolist() == [0.5, 0.5]
    assert given.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("weights", [None, [1, 2, 3, 4, 5]])
def test_the_seed_decides_and_the_global_state_stays(weights):
    source = as_source(torch.arange(5.0), weights)
    state = torch.get_rng_state()

    def everything():
        generator = torch.Generator().manual_seed(3)
        batches = [points for points, _ in source.batches(2, generator)]
        return torch.cat([source.draw(4, generator), source.materialize(3, generator)[0], *batches])

    assert torch.equal(everything(), everything())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_tables_stay_on_their_device(generator):
    data = torch.arange(10.0, device="cuda")
    for source in (as_source(data), as_source(data, weights=data)):
        assert source.draw(3, generator).is_cuda
        for points, weights in (source.materialize(None, generator), next(source.batches(3, generator))):
            assert points.is_cuda
            assert weights is None or weights.is_cuda
        assert source.draw(3, torch.Generator("cuda")).is_cuda


def test_repr():
    assert repr(as_source(torch.zeros(5, 3))) == "TensorSource(size=5, dimension=3)"
    assert repr(as_source(torch.zeros(5), [1] * 5)) == "TensorSource(size=5, dimension=1, weighted)"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (torch.zeros(8, 1, 28, 28), r"samples: got shape \(8, 1, 28, 28\); .* `.flatten\(1\)`"),
        (torch.zeros(3, 5, 2), r"samples: got shape \(3, 5, 2\)"),
        (torch.zeros(0, 2), r"samples: got shape \(0, 2\), which is empty"),
        (torch.zeros(4, 0), r"samples: got shape \(4, 0\), which is empty"),
        (np.zeros(0), r"samples: got shape \(0,\), which is empty"),
        (torch.tensor(1.0), "samples: got a single number"),
        (torch.zeros(3, 2, dtype=torch.complex64), "samples: got dtype torch.complex64"),
        (torch.zeros(3, 2).to_sparse(), "expected a dense tensor"),
        (np.array([["1", "2"]]), "samples: got values of dtype <U1 that are not all numbers"),
        (pd.DataFrame({"a": [1.0], "b": ["2"]}), r"features: DataFrame has columns that are not numbers: 'b' \(text\)"),
        (
            pd.DataFrame({"a": [1, None]}).astype("Int64"),
            r"DataFrame: 1 of 2 rows hold NaN or inf, the first is row 1 .* in 'a'",
        ),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "not all numbers. Encode or drop"),
        (np.ma.masked_equal(np.arange(3.0), 1.0), "samples: got masked values"),
        ([[1, 2], [3]], "samples: got a list that is not a table .* expected rows of equal length"),
        ([1.0, None], "samples: got a list that is not a table"),
    ],
    ids=str,
)
def test_unusable_tables(data, message):
    with pytest.raises(ValueError, match=message):
        as_source(data)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_refused(layout):
    rows = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)], layout=layout)
    with pytest.raises(ValueError, match="expected a dense tensor"):
        as_source(rows)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_rows_with_nan_or_inf_are_counted(dtype, value):
    data = torch.zeros(100, 2, dtype=dtype)
    data[[17, 40, 90], 1] = value
    message = "samples: 3 of 100 rows hold NaN or inf, the first is row 17. Drop or impute them"
    with pytest.raises(ValueError, match=message):
        as_source(data)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"weights: got shape \(2,\); expected \(3,\), one weight for each row"),
        (torch.ones(3, 1), r"weights: got shape \(3, 1\); expected \(3,\)"),
        (0.5, r"weights: got shape \(\); expected \(3,\)"),
        ([1, -2, -3], "weights: 2 of 3 weights are negative, NaN or infinite, the first is -2 at row 1"),
        ([1, float("nan"), 1], "weights: 1 of 3 weights are negative, NaN or infinite, the first is nan at row 1"),
        (np.array([np.inf, 1, 1]), "weights: 1 of 3 weights are negative, NaN or infinite, the first is inf at row 0"),
        ([0, 0, 0], "weights: all 3 weights are zero; expected a positive sum"),
        (torch.ones(3, dtype=torch.complex64), "weights: got dtype torch.complex64"),
    ],
    ids=str,
)
def test_unusable_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        as_source(torch.zeros(3, 2), weights)


def test_weights_of_the_wrong_type():
    with pytest.raises(TypeError, match="weights: got str"):
        as_source(torch.zeros(3, 2), "abc")


@pytest.mark.parametrize("number", [0, -1, 2.5, True, "3", None])
def test_counts_are_whole_numbers_of_at_least_one(number, generator):
    source = as_source(torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"count: got .* expected a positive integer"):
        source.draw(number, generator)
    with pytest.raises(ValueError, match="batch_size: got"):
        next(source.batches(number, generator))
    if number is not None:
        with pytest.raises(ValueError, match="limit: got"):
            source.materialize(number, generator)
