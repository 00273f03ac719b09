"""CSV files: text that can only be read from its beginning, block after block."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...archives import pyarrow
from ...tensors import check_whole
from .arrow import chosen, kinds_of
from .dialect import Dialect, dialect_of, is_number, long_fields, opened_text, plain_number, widths_differ
from .reader import NUMBERS, Reader

BLOCK = 1 << 20  # bytes; more where the first line is longer, and a later line that does not fit is an error
_UNNAMED = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__)?")  # what pandas and R make of row labels


class CsvReader(Reader):
    """A .csv or .tsv file, possibly compressed, in blocks of about a megabyte; numbers are float64.

    The file is read once to count its rows, when they are asked for. A first column without a name is taken for row
    labels, as pandas and R write them.

    Args:
        path: of the file.
        asked: the dialect, as far as it is known.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: the file has no rows, rows of several lengths, or columns of the same name or of none.
    """

    any_order = False

    def __init__(self, path: Path, asked: Dialect) -> None:
        self.name, self._path = path.name, path
        self._lengths: list[int] | None = None
        self._as_text: set[str] = set()
        self._dialect, findings = dialect_of(path, asked)
        with opened_text(path, self._dialect) as file:
            self._block = max(BLOCK, 8 * len(next(file, "")))
        schema, head = self._head()
        if asked.encoding is None and any(kind == "binary" for kind in schema.types):  # no UTF-8 beyond the first lines
            self._dialect = replace(self._dialect, encoding="latin-1")
            findings.append(f"{path.name} is not UTF-8 and was read as latin-1")
            schema, head = self._head()
        if head is None or head.num_rows == 0:
            raise ValueError(f"source: {path.name} has no rows; expected at least one.")
        names = [name.strip() for name in schema.names]
        empty = {k for k, name in enumerate(names) if k and not name}  # as spreadsheets write on the right
        names = [f"Unnamed: {k}" if k in empty else name for k, name in enumerate(names)]
        bare = [k for k, name in enumerate(names) if _UNNAMED.fullmatch(name)]
        for place in bare:
            if place in empty and schema.field(place).type != "null":
                raise ValueError(
                    f"source: column {place} (counted from 0) of {path.name} has no name in the first line; expected "
                    "one. Name it, or pass header=False to `read_table` if the first line is a row."
                )
            findings.append(
                f"column {place} of {path.name} has no name and was left out"
                + (", as row labels" if place == 0 else ", since it is empty" if place in empty else "")
            )
        schema = pyarrow("pyarrow", path.name).schema(
            [field.with_name(name) for field, name in zip(schema, names, strict=True)]
        )
        self._raw = dict(zip(names, head.schema.names, strict=True))
        self.kinds, self.findings = kinds_of(schema), tuple(findings)
        self._dates = {field.name: field.type for field in schema if self.kinds[field.name] == "date"}
        self.index = tuple(names[k] for k in bare)
        self._as_text = self._numbers_as_text(head)
        self.kinds.update(dict.fromkeys(self._as_text, "number"))

    def _head(self) -> tuple[Any, Any]:
        """Names and types of all columns, and the first block."""
        with self._opened(None) as reader:
            list(reader.schema.names)  # raises here if they are no text of the encoding
            return reader.schema, next(iter(reader), None)

    @property
    def lengths(self) -> Sequence[int]:
        if self._lengths is None:
            self._read_through(min(self.kinds, key=lambda name: self.kinds[name] not in ("whole", "number")))
        assert self._lengths is not None
        return self._lengths

    def blocks(self, wanted: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        with self._opened(columns) as reader:
            for block in chosen((batch for batch in reader if batch.num_rows), wanted):
                yield self._table(block, columns)

    def column(self, name: str) -> Any:
        read = pyarrow("pyarrow.csv", self.name).read_csv
        with self._explained([name]):  # later blocks may hold what the first does not
            return read(self._path, **self._options([name], {})).column(0)

    def numbers(self, name: str) -> Any:
        return np.concatenate([np.asarray(part) for part in self._read_through(name)])

    def _read_through(self, name: str) -> list[Any]:
        """One column of all blocks, which counts their rows."""
        with self._opened([name]) as reader:
            parts = [self._table(batch, [name]).column(0) for batch in reader if batch.num_rows]
        self._lengths = [len(part) for part in parts]
        return parts

    @contextmanager
    def _opened(self, columns: Sequence[str] | None) -> Iterator[Any]:
        """A reader of these columns, or, for None, of all with the types of their first values."""
        arrow, reader = pyarrow("pyarrow", self.name), pyarrow("pyarrow.csv", self.name)
        types = {name: arrow.float64() for name in columns or () if self.kinds[name] in ("whole", "number")}
        types |= {name: arrow.string() for name in columns or () if name in self._as_text or self.kinds[name] == "text"}
        with self._explained(columns or ()), reader.open_csv(self._path, **self._options(columns, types)) as opened:
            yield opened

    def _options(self, columns: Sequence[str] | None, types: dict[str, Any]) -> dict[str, Any]:
        reader, dialect = pyarrow("pyarrow.csv", self.name), self._dialect
        raw = None if columns is None else [self._raw[name] for name in columns]
        return {
            "read_options": reader.ReadOptions(
                block_size=self._block,
                autogenerate_column_names=not dialect.header,
                encoding=(dialect.encoding or "utf8").replace("utf-8", "utf8"),
            ),
            "parse_options": reader.ParseOptions(delimiter=dialect.separator, quote_char=dialect.quote),
            "convert_options": reader.ConvertOptions(
                decimal_point=dialect.decimal,
                include_columns=raw,
                column_types={self._raw[name]: kind for name, kind in types.items()},
                strings_can_be_null=True,
            ),
        }

    def _table(self, batch: Any, columns: Sequence[str]) -> Any:
        """A block with the plain names, and numbers that Arrow reads as text as numbers."""
        arrow, compute = pyarrow("pyarrow", self.name), pyarrow("pyarrow.compute", self.name)
        table = arrow.table(dict(zip(columns, batch.columns, strict=True)))
        for name in columns:
            if self.kinds[name] == "whole":  # read as floats, which may have lost their digits
                ends = [end or 0.0 for end in compute.min_max(table.column(name)).as_py().values()]
                check_whole(torch.tensor(ends, device="cpu"), f"source: {self.name}, column {name!r}")
        for name in self._as_text & set(columns):
            text = compute.utf8_trim_whitespace(table.column(name))
            for mark, plain in ((self._dialect.thousands, ""), (self._dialect.decimal, ".")):
                text = compute.replace_substring(text, mark, plain) if mark and mark != plain else text
            text = compute.if_else(compute.equal(text, ""), None, compute.utf8_ltrim(text, "+"))
            table = table.set_column(table.schema.get_field_index(name), name, text.cast(arrow.float64()))
        return table

    def _numbers_as_text(self, head: Any) -> set[str]:
        """Columns that Arrow reads as text and that are numbers with marks of thousands or a plus sign."""
        found = set()
        for name, kind in self.kinds.items():
            if kind != "text":
                continue
            values = [value for value in head.column(self._raw[name]).slice(0, 1000).to_pylist() if value]
            if values and all(is_number(plain_number(value, self._dialect)) for value in values):
                found.add(name)
        return found

    @contextmanager
    def _explained(self, columns: Sequence[str]) -> Iterator[None]:
        """Say of what Arrow cannot read where it is, in our words."""
        try:
            yield
        except (pyarrow("pyarrow", self.name).ArrowException, UnicodeError) as error:
            raise ValueError(f"source: {self._fault(columns)}") from error

    def _fault(self, columns: Sequence[str]) -> str:
        """Where the file is not a table: the first line that has other fields, or a field that is no number."""
        odd = widths_differ(self._path, self._dialect)
        if odd is not None:
            how = f" ({self._dialect})" if str(self._dialect) else ""
            return (
                f"{self.name} cannot be read as a table{how}: {odd}. Mend the line, or pass separator=... or quote=... "
                "to `read_table`. Lines above the names of the columns have to go, and row labels need a name too."
            )
        places = {list(self.kinds).index(name): name for name in columns if self.kinds[name] in (*NUMBERS, "date")}
        with opened_text(self._path, self._dialect) as file, long_fields():
            reader = csv.reader(file, delimiter=self._dialect.separator or ",", quotechar=self._dialect.quote)
            for number, row in enumerate(reader):
                if sum(map(len, row)) > self._block:
                    return (
                        f"{self.name}, line {reader.line_num}: has more than {self._block:,} characters. Shorten it, "
                        "or save the table as .parquet."
                    )
                for place, name in places.items() if row and (number or not self._dialect.header) else ():
                    if not self._fits(row[place], name):
                        expected = {"bool": "true or false", "date": "a date"}.get(self.kinds[name], "a number")
                        return (
                            f"{self.name}, line {reader.line_num}, column {name!r}: got {row[place][:40]!r}; expected "
                            f"{expected}, as in the lines before. Mend it, or leave the column out."
                        )
        return (
            f"{self.name} cannot be read as a table in {self._dialect.encoding}. Pass encoding=..., separator=... or "
            "quote=... to `read_table`."
        )

    def _fits(self, text: str, name: str) -> bool:
        if self.kinds[name] == "bool":
            return text.lower() in ("true", "false", "0", "1", "")
        if name in self._dates and text and text not in _MISSING:
            arrow = pyarrow("pyarrow", self.name)
            try:
                return arrow.scalar(text).cast(self._dates[name]) is not None
            except arrow.ArrowException:
                return False
        return not text.strip() or text in _MISSING or is_number(plain_number(text, self._dialect))


_MISSING = frozenset(("NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A", "-nan", "-NaN", "1.#IND", "1.#QNAN"))
