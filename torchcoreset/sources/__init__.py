"""Where samples come from: anything that can be sampled, behind one interface.

`as_source` (`convert`) turns tensors, arrays, datasets, loaders, distributions, callables and streams into a `Source`
(`source`), and tables of columns by way of `read_table` (`files`); `Pushforward` maps one through a network
(`pushforward`). `rows` turns numbers in any form into a checked tensor, and `layout` says where the features are, and
the `labels` beside them. The
sources themselves are in `tables` (rows by number, and points of coresets), `files`, `batches` (loaders and streams)
and `samplers` (distributions and callables). `split` holds rows out, `scaling` gives columns units of their own,
`randomness` makes generators, permutations and subsets.
"""

from .batches import LoaderSource, StreamSource
from .convert import as_source, of_sample_weights, weighted_source, with_labels
from .files import Dialect, FileSource, NamedArrays, Roles, Table, names_of, read_table, table_of
from .labels import Classes, Labels, Targets, label_array, labels_from
from .layout import row_shape
from .pushforward import BATCH_SIZE, Pushforward, apply_network
from .randomness import make_generator, permutation
from .samplers import CallableSource, DistributionSource
from .scaling import UNITS, Scale, Scaling, in_words, same_units, scaled, units_of
from .source import Source, SourceExhausted
from .split import hold_out, once
from .tables import DatasetSource, RepeatedRows, TensorSource, fingerprint_of

CsvSource = NpySource = ParquetSource = FileSource  # one source now serves what had these names

__all__ = [
    "BATCH_SIZE", "UNITS", "CallableSource", "Classes", "CsvSource", "DatasetSource", "Dialect", "DistributionSource",
    "FileSource", "Labels", "LoaderSource", "NamedArrays", "NpySource", "ParquetSource", "Pushforward", "RepeatedRows",
    "Roles", "Scale", "Scaling", "Source", "SourceExhausted", "StreamSource", "Table", "Targets", "TensorSource",
    "apply_network", "as_source", "fingerprint_of", "hold_out", "in_words", "label_array", "labels_from",
    "make_generator", "names_of", "of_sample_weights", "once", "permutation", "read_table", "row_shape", "same_units",
    "scaled", "table_of", "units_of", "weighted_source", "with_labels",
]  # fmt: skip
