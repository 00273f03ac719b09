"""Where samples come from: anything that can be sampled, behind one interface.

`as_source` turns tensors, arrays, DataFrames, datasets, loaders, files, distributions, callables and streams into
a `Source`; `Pushforward` maps one through a network.

source          the interface                  convert         `as_source`: which of these it is
layout, rows    where the features are, and how they become rows
random_access   rows by number                 tables, datasets    of tensors and of map-style datasets
file_source     rows of a file, in blocks      file_npy, file_csv, file_parquet    by format
formats         which of these                 file_columns    what pyarrow reads
loaders, streams    batches, again and again, and once             reading    one pass over them
samplers        distributions and callables    pushforward     a source under a network
reservoir       a sample of a pass             randomness      generators, permutations, subsets
split           rows held out                  marks           by what rows are known again
repeated        rows with counts
"""

from .batches import LoaderSource, StreamSource
from .convert import as_source
from .files import CsvSource, FileSource, NpySource, ParquetSource
from .fingerprint import mark_of
from .pushforward import BATCH_SIZE, Pushforward, apply_network
from .randomness import make_generator, permutation
from .samplers import CallableSource, DistributionSource
from .source import Source, SourceExhausted
from .split import hold_out, once
from .tables import DatasetSource, RepeatedRows, TensorSource

__all__ = [
    "BATCH_SIZE",
    "CallableSource",
    "CsvSource",
    "DatasetSource",
    "DistributionSource",
    "FileSource",
    "LoaderSource",
    "NpySource",
    "ParquetSource",
    "Pushforward",
    "RepeatedRows",
    "Source",
    "SourceExhausted",
    "StreamSource",
    "TensorSource",
    "apply_network",
    "as_source",
    "hold_out",
    "make_generator",
    "mark_of",
    "once",
    "permutation",
]
