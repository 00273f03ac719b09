"""From anything that can be sampled to a Source."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from inspect import isgeneratorfunction
from typing import Any, cast, get_args

from torch import Generator, Tensor, nn
from torch.distributions import Distribution
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from ..errors import warn_user
from ..names import WeightsAre
from ..tensors import LISTS, is_array, weighted_points
from .batches import LoaderSource, RowBatches, StreamSource
from .files import BlockSource, LabeledBlocks, Roles, Table, held_by_name, is_key, is_table, table_of
from .labels import Labels
from .layout import Key, Layout
from .rows import float_tensor, is_rows
from .rows import is_table as is_table_of_numbers
from .samplers import CallableSource, DistributionSource
from .source import Source
from .tables import DatasetSource, LabeledRows, PointsSource, RandomAccessSource, RepeatedRows, TensorSource

_KINDS = (
    "a tensor, an array, a DataFrame, lists of numbers, a torch Dataset or DataLoader, a torch Distribution, "
    "a callable m -> (m, d), a list or iterator of batches, a coreset, or the path of a file or folder"
)


def as_source(
    source: Any,
    weights: Any = None,
    *,
    weights_are: WeightsAre = "importance",
    features: Key | Sequence[Key] | None = None,
    flatten: bool = False,
) -> Source:
    """Read anything that can be sampled as a `Source`.

    | what | how it is read |
    | --- | --- |
    | tensor, array | a table, one sample a row |
    | DataFrame, lazy frame, path of a file, folder or pattern, list of paths, `Table` | see `read_table` |
    | list, tuple or deque of numbers, or of lists, arrays or tensors that are rows (d,) | a table, one sample a row |
    | map-style `Dataset` | a table that is read when needed; the first element of a tuple row is the sample |
    | `DataLoader`, list of batches, other iterable | its batches in its own order, pass after pass |
    | `IterableDataset` | its rows, gathered in batches of 256 |
    | `torch.distributions.Distribution` | fresh samples |
    | callable m -> (m, d), also a network | fresh samples, without gradients, in the mode the network is in |
    | iterator or generator of batches | its batches, once |
    | `Coreset`, or a result that holds one | its points as a table, with its weights; labels are not features |
    | `Source` | returned as it is |

    Samples are (d,) each. One-dimensional tables, (rows,), are read as (rows, 1), and so are one-dimensional batches of
    a DataLoader with a batch_size. Those of any other iterable or iterator may be single rows, and raise an error. A
    batch may be a tuple or list whose first element holds the samples, or a dict with a single tensor or one of the
    keys "x", "features", "data". The data are never written to, and gradients are detached.

    Floats keep their dtype. Whole numbers and booleans are read in torch's default dtype if it represents each of them
    exactly (up to 2^24 in float32), else in float64 (up to 2^53), without scaling: bytes of images are 0 to 255.
    Numbers of CSV files are float64.

    Batches come in the order that loaders, lists and iterators give them: shuffle in the loader if the rows are sorted.
    An iterator, or a loader without a length, may have no end, so no more of it is read than is needed, and a sample of
    it is its beginning. Data loaders with workers should use the "spawn" context where the rows call libraries that
    start threads.

    The points of a coreset keep the units of distances, if it was built with `scale=`, which `build_coreset` and
    `certify` then use, and a fingerprint of the table that it was built on, for the warning of `certify`. For distances
    in the data's own units pass ``as_source(coreset.points, coreset.weights)``.

    Args:
        source: any of the above, with samples of shape (rows, d).
        weights: one for each row, (rows,), non-negative, of any scale, for tables, map-style datasets and files
            only; for files also the name or number of a column. None for equal weights.
        weights_are: what a weight w means. "importance": a row is one observation, and w is proportional to the density
            of the population over that of the rows, as in surveys, importance sampling and class balancing; only
            ratios of weights count. "counts": a row stands for w equal observations, w a whole number, so the table
            has sum w rows without weights. A build uses ratios only; a certificate is wider with "importance", since a
            few heavy rows contain less information on a population than many light ones.
        features: which part of a batch, row or table holds the samples: the key of a dict, the place in a tuple, the
            column of a DataFrame, the name or number of a column of a file; several of them are concatenated.
            None for the rules above, and for all columns of a table or file except its weights.
        flatten: read images, (rows, ...), as vectors, (rows, d).

    Returns:
        The source. No samples have been drawn, but data in memory have been checked.

    Raises:
        TypeError: `source` is none of the above.
        FileNotFoundError, ImportError: no such file, or it needs pyarrow, which is not installed.
        ValueError: there are no samples, they hold NaN or inf or more than two dimensions, or the weights do
            not fit.

    Example:
        >>> import torch
        >>> from torchcoreset.sources import as_source
        >>> source = as_source(torch.arange(6.0).reshape(3, 2), weights=[1, 1, 2])
        >>> source
        TensorSource(size=3, dimension=2, weighted)
        >>> source.materialize(None, torch.Generator())[1]
        tensor([0.2500, 0.2500, 0.5000], dtype=torch.float64)
        >>> normal = as_source(torch.distributions.Normal(0.0, 1.0))
        >>> normal.draw(5, torch.Generator().manual_seed(0)).shape
        torch.Size([5, 1])
        >>> images = [{"image": torch.zeros(4, 1, 28, 28, dtype=torch.uint8), "label": torch.zeros(4)}]
        >>> as_source(images, features="image", flatten=True)
        LoaderSource(size=4, dimension=784, loader=list)
    """
    if weights_are not in get_args(WeightsAre):
        raise ValueError(f"weights_are: got {weights_are!r}; expected 'importance' or 'counts'.")
    if weights_are == "counts":
        if weights is None:
            raise ValueError("weights_are: got 'counts' without weights; expected them, one for each row.")
        weighted = as_source(source, weights, features=features, flatten=flatten)
        assert isinstance(weighted, RandomAccessSource), "others take no weights"
        return RepeatedRows.of(weighted)
    return _read(source, weights, Layout(features, flatten))


def with_labels(
    source: Any,
    y: Any,
    labels: Labels,
    weights: Any = None,
    *,
    weights_are: WeightsAre = "importance",
    features: Key | Sequence[Key] | None = None,
    flatten: bool = False,
) -> Source:
    """A source of joint rows (x, labels), whose `joint` is `labels`: see `joint_source`."""
    held = getattr(source, "source", source) if isinstance(source, Table) else source
    given = source.labels if isinstance(source, Table) and y is None else None if is_key(y) else y
    if given is None and is_table(held):
        if y is None:
            raise ValueError("y: got None with a table of columns; expected the name of the column of labels.")
        roles = Roles(features=features, label=y, weights=weights if is_key(weights) else None)
        mass = None if is_key(weights) else weights
        table = table_of(held, roles, mass, flatten=flatten, counts=weights_are == "counts")
        held, given, weights, features, flatten = table.source, table.labels, None, None, False
        weights_are = "importance"  # the source of the table knows what its weights are
    if given is None:
        if y == 0 and features is None:
            raise ValueError("features: got None with y=0, the usual place of features; expected theirs, such as 1.")
        read = _read(held, weights, Layout(features, flatten, labels, y))
        if weights_are == "counts":
            assert isinstance(read, RandomAccessSource), "others take no weights"
            read = RepeatedRows.of(read)
    else:
        read = _beside(
            as_source(held, weights, weights_are=weights_are, features=features, flatten=flatten),
            labels.columns(given, "y"),
        )
    read.joint = labels
    return read


def _beside(read: Source, columns: Tensor) -> Source:
    """A table with columns of labels (rows, t), one for each of its distinct rows."""
    if read.units is not None or read.metric is not None or read.joint is not None:
        raise ValueError(
            "source: got rows for distances in other units, or with labels already; expected features in the unit of "
            "the price. Pass as_source(coreset.points, coreset.weights)."
        )
    if isinstance(read, RepeatedRows):
        return read.over(cast(RandomAccessSource, _beside(read.whole, columns)))
    if not isinstance(read, RandomAccessSource):
        raise ValueError(
            f"y: given with {read!r}, whose rows have no numbers; expected labels in its batches, (samples, labels), "
            "and y=None or their place."
        )
    if len(columns) != read.size:
        raise ValueError(f"y: got {len(columns)} labels for {read.size} rows; expected one label for each row.")
    return LabeledBlocks(read, columns) if isinstance(read, BlockSource) else LabeledRows(read, columns)


def _read(source: Any, weights: Any, layout: Layout) -> Source:
    """A source by this layout, with weights that are importance."""
    source = source.source if isinstance(source, Table) else source
    if isinstance(source, Source):
        if layout != Layout():
            raise ValueError(
                "features, flatten: given with a source; expected them where the source was made."
                if layout.labels is None
                else f"y: got {layout.label!r} with {source!r}; expected the labels, or what the source was made from."
            )
        read = source
    else:
        if is_table(source):
            return _of_table(source, weights, layout)
        held = None if isinstance(source, type) else weighted_points(source)
        if held is not None:
            if weights is not None:
                raise ValueError(
                    f"weights: got weights with a {type(source).__name__}, which has its own; expected None. Pass "
                    "the coreset's `.points` for other weights."
                )
            return PointsSource(held, layout)
        found = None if isinstance(source, type) else _table_or_dataset(source, weights, layout)
        if found is not None:
            return found
        read = _batches_or_sampler(source, layout)
    if weights is not None:
        raise ValueError(
            f"weights: got weights with a {type(source).__name__}; expected them only with a table, a "
            f"map-style dataset or a file, whose rows can be read in any order."
        )
    return read


def weighted_source(source: Any, sample_weights: Any) -> Source:
    """The same for callers whose argument is called `sample_weights`, which errors then name."""
    with of_sample_weights():
        return as_source(source, sample_weights)


@contextmanager
def of_sample_weights() -> Iterator[None]:
    """Errors of weights name the argument `sample_weights`."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not str(error).startswith("weights: "):
            raise
        raise type(error)(f"sample_{error}") from error


def _of_table(data: Any, weights: Any, layout: Layout) -> Source:
    column, mass = (weights, None) if is_key(weights) else (None, weights)
    table = table_of(data, Roles(features=layout.features, weights=column), mass, flatten=layout.flatten)
    for said in table.findings:
        warn_user(UserWarning(f"{said}. `read_table` takes what is said of it."))
    return table.source


def _frame_batches(batches: Iterable[Any], layout: Layout) -> Iterator[Tensor]:
    """Rows of tables of columns, one after another."""
    for batch in batches:
        yield _of_table(batch, None, layout).materialize(None, Generator())[0]


def _table_or_dataset(source: Any, weights: Any, layout: Layout) -> Source | None:
    if isinstance(source, Tensor) or is_array(source):
        return TensorSource(source, weights, layout)
    if isinstance(source, LISTS) and is_table_of_numbers(source):
        return TensorSource(list(source), weights, layout)
    if isinstance(source, LISTS) and is_rows(source):
        return TensorSource(float_tensor(source, "samples"), weights, layout)
    if type(source) is TensorDataset:  # a subclass may transform its rows
        return TensorSource(source.tensors, weights, layout)
    # Datasets of other libraries are not torch Datasets; `__getitems__` tells them from iterables of batches.
    if _is_dataset(source) or hasattr(source, "__getitems__"):
        return DatasetSource(source, weights, layout)
    return None


def _batches_or_sampler(source: Any, layout: Layout) -> Source:
    if isinstance(source, DataLoader):
        return LoaderSource(source, layout)
    if isinstance(source, IterableDataset):
        # Its rows are read by the layout, and what comes of them has nothing to choose from.
        return LoaderSource(RowBatches(source, layout), Layout(flatten=layout.flatten))
    if isinstance(source, Distribution):
        return DistributionSource(source, layout)
    if isinstance(source, (bytes, Mapping, Set, type)):
        raise _unknown(source)
    if type(source).__name__ == "RecordBatchReader":  # of pyarrow: its batches are tables of columns
        if layout.labels is not None:
            raise ValueError("y: got a RecordBatchReader, of which labels are not read; expected a table: read_all().")
        source, layout = _frame_batches(source, layout), Layout()
    if isinstance(source, Iterator):
        return StreamSource(source, layout)
    # A Sequential can be iterated, but over its layers.
    if isinstance(source, Iterable) and not isinstance(source, nn.Module):
        return LoaderSource(source, layout)
    if isgeneratorfunction(source):
        raise TypeError(
            f"source: got the generator function {source.__name__}; expected what it yields: call it first."
        )
    if callable(source):
        return CallableSource(source, layout)
    raise _unknown(source)


def _is_dataset(source: Any) -> bool:
    # An IterableDataset has a `__getitem__` too, which only raises.
    map_style = isinstance(source, Dataset) and not isinstance(source, IterableDataset)
    return map_style and hasattr(source, "__len__")


def _unknown(source: Any) -> TypeError:
    if isinstance(source, type):
        return TypeError(f"source: got the class {source.__name__}; expected an instance of it, or {_KINDS}.")
    return TypeError(f"source: got {type(source).__name__}; expected {_KINDS}.{held_by_name(source)}")
