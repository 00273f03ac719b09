"""From anything that can be sampled to a Source."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from torch import Tensor, nn
from torch.distributions import Distribution
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from .datasets import DatasetSource
from .loaders import LoaderSource, RowBatches
from .rows import is_array, is_table
from .samplers import CallableSource, DistributionSource
from .source import Source
from .streams import StreamSource
from .tables import TensorSource

_KINDS = (
    "a tensor, an array, a DataFrame, lists of numbers, a torch Dataset or DataLoader, a torch Distribution, "
    "a callable m -> (m, d), or a list or iterator of batches"
)


def as_source(source: Any, weights: Any = None) -> Source:
    """Read anything that can be sampled as a `Source`.

    | what | how it is read |
    | --- | --- |
    | tensor, array, DataFrame, list of numbers or of number lists | a table, one sample a row |
    | map-style `Dataset` | a table that is read when needed; the first element of a tuple row is the sample |
    | `DataLoader`, list of batches, other iterable | its batches in its own order, pass after pass |
    | `IterableDataset` | its rows, gathered in batches of 256 |
    | `torch.distributions.Distribution` | fresh samples |
    | callable m -> (m, d), also a network | fresh samples, without gradients, in the mode the network is in |
    | iterator or generator of batches | its batches, once |
    | `Source` | returned as it is |

    Samples are (d,) each. One-dimensional data, (rows,), are read as (rows, 1); images must be flattened
    first. A batch may be a tuple or list whose first element holds the samples, or a dict with a single
    tensor or one of the keys "x", "features", "data". Floating point dtypes stay as they are, and integers
    and booleans take torch's default dtype. The data are never written to, and their gradients are not
    followed.

    Args:
        source: any of the above, with samples of shape (rows, d).
        weights: one for each row, (rows,), non-negative, of any scale, for tables and map-style datasets
            only. None for equal weights.

    Returns:
        The source. No samples have been drawn, but what is in memory has been checked.

    Raises:
        TypeError: `source` is none of the above.
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
    """
    found = _table_or_dataset(source, weights)
    if found is not None:
        return found
    read = source if isinstance(source, Source) else _batches_or_sampler(source)
    if weights is not None:
        raise ValueError(
            f"weights: got weights with a {type(source).__name__}; expected them only with a table or a "
            f"map-style dataset, whose rows can be read in any order."
        )
    return read


def _table_or_dataset(source: Any, weights: Any) -> Source | None:
    if isinstance(source, (Source, type)):
        return None
    if isinstance(source, Tensor) or is_array(source):
        return TensorSource(source, weights)
    if isinstance(source, (list, tuple)) and is_table(source):
        return TensorSource(list(source), weights)
    if type(source) is TensorDataset:  # a subclass may transform its rows
        return TensorSource(source.tensors[0], weights)
    # Datasets of other libraries are no torch Datasets; `__getitems__` tells them from iterables of batches.
    if _is_dataset(source) or hasattr(source, "__getitems__"):
        return DatasetSource(source, weights)
    return None


def _batches_or_sampler(source: Any) -> Source:
    if isinstance(source, DataLoader):
        return LoaderSource(source)
    if isinstance(source, IterableDataset):
        return LoaderSource(RowBatches(source))
    if isinstance(source, Distribution):
        return DistributionSource(source)
    if isinstance(source, (str, bytes, Mapping, Set, type)):
        raise _unknown(source)
    if isinstance(source, Iterator):
        return StreamSource(source)
    # A Sequential can be iterated, but over its layers.
    if isinstance(source, Iterable) and not isinstance(source, nn.Module):
        return LoaderSource(source)
    if callable(source):
        return CallableSource(source)
    raise _unknown(source)


def _is_dataset(source: Any) -> bool:
    # An IterableDataset has a `__getitem__` too, which only raises.
    map_style = isinstance(source, Dataset) and not isinstance(source, IterableDataset)
    return map_style and hasattr(source, "__len__")


def _unknown(source: Any) -> TypeError:
    if isinstance(source, type):
        return TypeError(f"source: got the class {source.__name__}; expected an instance of it, or {_KINDS}.")
    return TypeError(f"source: got {type(source).__name__}; expected {_KINDS}.")
