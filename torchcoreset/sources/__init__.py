"""Where samples come from: anything that can be sampled, behind one interface.

`as_source` turns tensors, arrays, DataFrames, datasets, loaders, distributions, callables and streams into a
`Source`.
"""

from .convert import as_source
from .datasets import DatasetSource
from .loaders import LoaderSource
from .marks import mark_of
from .samplers import CallableSource, DistributionSource
from .source import Source, SourceExhausted
from .split import hold_out
from .streams import StreamSource
from .tables import TensorSource

__all__ = [
    "CallableSource",
    "DatasetSource",
    "DistributionSource",
    "LoaderSource",
    "Source",
    "SourceExhausted",
    "StreamSource",
    "TensorSource",
    "as_source",
    "hold_out",
    "mark_of",
]
