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

from .convert import as_source
from .datasets import DatasetSource
from .file_csv import CsvSource
from .file_npy import NpySource
from .file_parquet import ParquetSource
from .file_source import FileSource
from .loaders import LoaderSource
from .marks import mark_of
from .pushforward import Pushforward
from .repeated import RepeatedRows
from .samplers import CallableSource, DistributionSource
from .source import Source, SourceExhausted
from .split import hold_out, once
from .streams import StreamSource
from .tables import TensorSource

__all__ = [
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
    "as_source",
    "hold_out",
    "mark_of",
    "once",
]
