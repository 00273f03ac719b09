"""Which point each row of a table went to, as a table that can be joined to it."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from ...archives import pyarrow
from ...coresets import replacing
from ...errors import meant
from ...sources import Table
from ..settings import UsageError
from .pictures import check_place

FORMATS = (".csv", ".parquet")


def check_assignment(name: str | None) -> None:
    """Raise unless an assignment can be written to this file."""
    if name is None:
        return
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        end = meant(suffix, FORMATS, ".")
        raise UsageError(f"--assignment: got {name!r}; expected a name that ends in {' or '.join(FORMATS)}{end}")
    check_place(Path(name), "--assignment")


def write_assignment(path: Path, table: Table, rows: Tensor, points: Tensor) -> None:
    """Write a line for each row: its number in the table, its id if there are ids, and the number of its point.

    Args:
        path: of the file.
        table: that the rows are from.
        rows: (m,) numbers of the rows in it.
        points: (m,) the point that most of each row's mass goes to, counted as in the coreset's file.
    """
    arrow = pyarrow("pyarrow", path)
    columns = {"row": rows.numpy()}
    if table.ids is not None:
        columns[table.id if table.id not in (None, "row", "point") else "id"] = table.ids[rows.numpy()]
    written = arrow.table({**columns, "point": points.numpy()})
    with replacing(path) as beside:
        if path.suffix.lower() == ".csv":
            pyarrow("pyarrow.csv", path).write_csv(written, beside)
        else:
            pyarrow("pyarrow.parquet", path).write_table(written, beside)
