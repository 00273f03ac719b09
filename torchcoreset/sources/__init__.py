"""Where samples come from: anything that can be sampled, behind one interface.

`as_source` (`convert`) turns tensors, arrays, DataFrames, datasets, loaders, files, distributions, callables and
streams into a `Source` (`source`); `Pushforward` maps one through a network (`pushforward`). `rows` turns numbers in
any form into a checked tensor, and `layout` says where the features are. The sources themselves are in `tables` (rows
by number), `files`, `batches` (loaders and streams) and `samplers` (distributions and callables). `split` holds rows
out, `fingerprint` knows a finite source again, `randomness` makes generators, permutations and subsets.
"""

from .batches import LoaderSource, StreamSource
from .convert import as_source
from .files import CsvSource, FileSource, NpySource, ParquetSource
from .fingerprint import fingerprint_of
from .pushforward import BATCH_SIZE, Pushforward, apply_network
from .randomness import make_generator, permutation
from .samplers import CallableSource, DistributionSource
from .source import Source, SourceExhausted
from .split import hold_out, once
from .tables import DatasetSource, RepeatedRows, TensorSource

__all__ = [
    "BATCH_SIZE", "CallableSource", "CsvSource", "DatasetSource", "DistributionSource", "FileSource", "LoaderSource",
    "NpySource", "ParquetSource", "Pushforward", "RepeatedRows", "Source", "SourceExhausted", "StreamSource",
    "TensorSource", "apply_network", "as_source", "fingerprint_of", "hold_out", "make_generator", "once", "permutation",
]  # fmt: skip
