"""One-shot streams: nothing is lost between draws, and an early end is reported."""

import pytest
import torch

from torchcoreset.sources import StreamSource, as_source


def stream(*sizes):
    start = 0
    for size in sizes:
        yield torch.arange(float(start), start + size)[:, None]
        start += size


def endless():
    while True:
        yield torch.randn(64, 2)


def test_draws_follow_each_other_without_loss(generator):
    source = as_source(stream(4, 4, 4))
    assert isinstance(source, StreamSource)
    assert source.draw(3, generator).flatten().tolist() == [0, 1, 2]
    assert source.draw(6, generator).flatten().tolist() == [3, 4, 5, 6, 7, 8]
    assert source.draw(3, generator).flatten().tolist() == [9, 10, 11]


def test_batches_go_on_where_a_draw_stopped(generator):
    source = as_source(stream(4, 4, 4))
    source.draw(5, generator)
    batches = [points.flatten().tolist() for points, weights in source.batches(100, generator)]
    assert batches == [[5, 6, 7], [8, 9, 10, 11]]


def test_materialize_reads_all_or_the_next_rows(generator):
    assert as_source(stream(4, 4)).materialize(None, generator)[0].flatten().tolist() == list(range(8))
    source = as_source(stream(4, 4))
    points, weights = source.materialize(5, generator)
    assert points.flatten().tolist() == [0, 1, 2, 3, 4]
    assert weights is None
    assert source.draw(3, generator).flatten().tolist() == [5, 6, 7]


def test_endless_streams_end_at_the_limit_and_follow_the_seed():
    state = torch.get_rng_state()
    first = as_source(endless()).materialize(100, torch.Generator().manual_seed(1))[0]
    again = as_source(endless()).draw(100, torch.Generator().manual_seed(1))
    assert first.shape == (100, 2)
    assert torch.equal(first, again)
    assert not torch.equal(first[:64][:36], first[64:])
    assert torch.equal(torch.get_rng_state(), state)


def test_gradients_are_not_followed(generator):
    scale = torch.ones(2, requires_grad=True)
    source = as_source(scale * torch.ones(4, 2) for _ in range(2))
    assert not source.draw(2, generator).requires_grad
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    "call",
    [
        lambda source, generator: source.draw(1000, generator),
        lambda source, generator: source.materialize(1000, generator)[0],
    ],
    ids=["draw", "materialize"],
)
def test_an_early_end_is_reported(call, generator):
    source = as_source(stream(64, 64, 64))
    with pytest.warns(UserWarning, match="source: the generator ended after 192 of 1000 rows") as record:
        rows = call(source, generator)
    assert rows.flatten().tolist() == list(range(192))
    assert record[0].filename == __file__


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
def test_nothing_left(call, generator):
    with pytest.raises(ValueError, match=r"source: got a generator with no batches; .* drop_last=True"):
        call(as_source(stream()), generator)
    source = as_source(stream(4, 4))
    source.draw(8, generator)
    with pytest.raises(ValueError, match="source: the generator is exhausted after 2 batches"):
        call(source, generator)


def test_a_buffer_that_is_filled_again_is_copied(generator):
    def reused():
        buffer = torch.zeros(2, 1)
        for step in range(3):
            yield buffer.fill_(step)

    assert as_source(reused()).draw(5, generator).flatten().tolist() == [0, 0, 1, 1, 2]


def test_dtypes_and_forms(generator):
    assert as_source(iter([torch.zeros(2, 2).double()])).draw(2, generator).dtype == torch.float64
    assert as_source(iter([torch.zeros(2, 2).int()])).draw(2, generator).dtype == torch.float32
    assert as_source(map(float_rows, range(3))).draw(6, generator).flatten().tolist() == [0, 0, 1, 1, 2, 2]


def float_rows(step):
    return [[float(step)], [float(step)]], "label"


def test_repr(generator):
    source = as_source(stream(3))
    assert repr(source) == "StreamSource(size=unknown, dimension=unknown, iterator=generator)"
    source.draw(1, generator)
    assert repr(source) == "StreamSource(size=unknown, dimension=1, iterator=generator)"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (torch.zeros(0, 1), r"samples, batch 1: got shape \(0, 1\), which is empty"),
        (torch.zeros(4, 2), "samples, batch 1: got rows of dimension 2 after rows of dimension 1"),
        (torch.full((4, 1), float("nan")), "samples, batch 1: 4 of 4 rows hold NaN or inf, the first is row 0"),
        (torch.tensor(1.0), "samples, batch 1: got a single number"),
    ],
    ids=str,
)
def test_an_unusable_batch_is_named(bad, message, generator):
    source = as_source(iter([torch.zeros(4, 1), bad, torch.zeros(4, 1)]))
    assert source.draw(4, generator).shape == (4, 1)
    with pytest.raises(ValueError, match=message):
        source.draw(4, generator)


def test_lines_of_a_file_are_no_numbers(tmp_path, generator):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n")
    with path.open() as file, pytest.raises(TypeError, match="samples, batch 0: got str"):
        as_source(file).draw(1, generator)


@pytest.mark.parametrize("number", [0, 1.5])
def test_counts_are_whole_numbers_of_at_least_one(number, generator):
    source = as_source(stream(4))
    with pytest.raises(ValueError, match="count: got"):
        source.draw(number, generator)
    with pytest.raises(ValueError, match="batch_size: got"):
        next(source.batches(number, generator))
    with pytest.raises(ValueError, match="limit: got"):
        source.materialize(number, generator)
