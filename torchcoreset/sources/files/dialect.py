"""How a file of text holds its table: found in its first lines, unless it is said."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

from ...archives import pyarrow

HEAD = 1 << 16  # bytes of a file in which its dialect is looked for
LOOKED_AT = 100  # lines of them
SEPARATORS = (",", ";", "\t", "|")

_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_GROUPED = {
    mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}({re.escape(mark)}\d{{3}})+([.,]\d+)?")
    for mark in (",", ".", " ", "'", "\u00a0", "\u202f")
}  # the last two are spaces at which no line breaks, as French and Swiss programs write
LONGEST = 1 << 30  # characters of a field; the limit of Python's reader, 131,072, is less than what one may hold


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How text is read as a table. None stands for what is found in the first lines of the file.

    Attributes:
        separator: between columns, one character.
        decimal: the mark within numbers, "." or ",".
        thousands: the mark between groups of three digits: ",", ".", "'" or a space; "" for none.
        quote: around fields that hold a separator, one character.
        encoding: of the text, such as "utf-8" or "latin-1".
        header: whether the first line names the columns.

    Raises:
        ValueError: one of them is not such a mark, or two are the same.
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    quote: str | None = None
    encoding: str | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.separator in ("\\t", "tab"):  # as a shell passes it
            object.__setattr__(self, "separator", "\t")
        for name, known in (("decimal", (".", ",")), ("thousands", (*_GROUPED, ""))):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name}: got {value!r}; expected one of {', '.join(map(repr, known))}.")
        for name in ("separator", "quote"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or len(value) != 1):
                raise ValueError(f"{name}: got {value!r}; expected one character.")
        if self.decimal is not None and self.decimal == self.thousands:
            raise ValueError(f"thousands: got {self.thousands!r}, which is the decimal mark too; expected another.")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, TypeError):
                raise ValueError(f"encoding: {self.encoding!r} is not known; expected one such as 'latin-1'.") from None

    def __str__(self) -> str:
        """What differs from the plainest: commas, points, UTF-8, a header."""
        name = {"\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}
        said = [
            self.separator != "," and f"separated by {name.get(self.separator or ',', repr(self.separator))}",
            self.decimal == "," and "decimal commas",
            self.thousands and f"thousands {self.thousands!r}",
            self.quote != '"' and f"quotes {self.quote}",
            self.encoding != "utf-8" and f"encoding {self.encoding}",
            self.header is False and "no header",
        ]
        return ", ".join(part for part in said if part)

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        return any(getattr(self, field.name) is not None for field in fields(self))


def dialect_of(path: Path, asked: Dialect) -> tuple[Dialect, list[str]]:
    """What is asked for, completed by what the first lines show; and what of it was a guess, in words.

    Raises:
        ValueError: the file has no lines, or a mark in its numbers can be read in two ways.
    """
    head = _head(path)
    findings: list[str] = []
    if asked.encoding is None:
        asked = replace(asked, encoding=_encoding(head))
        if asked.encoding == "latin-1":
            findings.append(f"{path.name} is not UTF-8 and was read as latin-1")
    assert asked.encoding is not None
    text = head.decode(asked.encoding, errors="replace").removeprefix("\ufeff").replace("\0", "")
    lines = text.splitlines()
    lines = [line for line in lines[: max(1, len(lines) - (len(head) >= HEAD))] if line.strip()][:LOOKED_AT]
    if not lines:
        raise ValueError(f"source: {path.name} has no rows that can be read; expected a table.")
    if asked.quote is None:
        asked = replace(
            asked, quote="'" if '"' not in text and re.search(r"(^|[,;\t])'[^']*'([,;\t]|$)", text) else '"'
        )
    if asked.separator is None:
        asked = replace(
            asked, separator="\t" if ".tsv" in path.suffixes and "\t" in text else _separator(lines, asked, path)
        )
    with long_fields():
        rows = list(csv.reader(lines, delimiter=asked.separator or ",", quotechar=asked.quote))
    asked = _marks(path, [field.strip() for row in rows for field in row], asked, findings)
    if asked.header is None:
        asked = replace(asked, header=_titled(path, rows, asked, findings))
    return asked, findings


def plain_number(text: str, dialect: Dialect) -> str:
    """A number of this dialect in the plain form, with a point; other text as it is."""
    text = text.strip()
    if dialect.thousands:
        text = text.replace(dialect.thousands, "")
    return text.replace(dialect.decimal or ".", ".")


def is_number(text: str) -> bool:
    """Whether this text is one number in the plain form."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


@contextmanager
def long_fields() -> Iterator[None]:
    """Let Python's reader of CSV take fields of any length; its limit is put back."""
    limit = csv.field_size_limit(LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


@contextmanager
def opened_text(path: Path, dialect: Dialect) -> Iterator[TextIO]:
    """The text of a file, which may be compressed."""
    arrow = pyarrow("pyarrow", path.name)
    with arrow.input_stream(str(path)) as stream:
        yield io.TextIOWrapper(stream, encoding=dialect.encoding, errors="replace", newline="")


def _head(path: Path) -> bytes:
    arrow = pyarrow("pyarrow", path.name)
    try:
        with arrow.input_stream(str(path)) as stream:  # which also decompresses
            head = bytes(stream.read(HEAD) or b"")
            while head.count(b"\n") < 2 and (more := stream.read(max(HEAD, len(head)))):  # lines of many columns
                head += more
            return head
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(
            f"source: {path.name} has no rows that can be read: it is damaged, or not compressed as its name says."
        ) from error


def _encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the end of the head cuts in two is no fault.
        return "utf-8" if error.start >= len(head) - 4 and len(head) >= HEAD else "latin-1"
    return "utf-8"


def _separator(lines: Sequence[str], asked: Dialect, path: Path) -> str:
    """The one that cuts all lines into as many columns, more than one; of several, that with the fewest odd fields."""
    found: list[tuple[int, int, str]] = []
    for order, separator in enumerate(SEPARATORS):
        with long_fields():
            rows = list(csv.reader(lines, delimiter=separator, quotechar=asked.quote))
        widths = {len(row) for row in rows if row}
        if max(widths) > 1:
            # Of "1,5;2,5" the commas are decimal commas: the cut at semicolons leaves numbers, with commas or points.
            whole = sum(
                not (is_number(field.strip()) or _COMMA.fullmatch(field.strip())) for row in rows[1:] for field in row
            )
            split_numbers = separator == "," and any(mark in line for line in lines[:1] for mark in (";", "\t", "|"))
            found.append((10 * (len(widths) > 1) + 5 * split_numbers + (whole > 0), order, separator))
    if found:
        return min(found)[2]
    if len(lines[0].split()) > 1 and all(is_number(field) for line in lines[1:] for field in line.split()):
        if any("  " in line.strip() for line in lines):
            raise ValueError(
                f"source: the columns of {path.name} are separated by runs of spaces; expected commas, semicolons, "
                "tabs or bars. Read it by `numpy.loadtxt` and save it as .npy or .csv."
            )
        return " "
    return ","


def _marks(path: Path, values: Sequence[str], asked: Dialect, findings: list[str]) -> Dialect:
    """The marks within numbers: of decimals, and between groups of three digits."""
    decimal, thousands = asked.decimal, asked.thousands
    if thousands is None:
        both = {mark for value in values for mark, other in ((",", "."), (".", ","))
                if _GROUPED[mark].fullmatch(value) and other in value}  # fmt: skip
        plain = {mark for mark in _GROUPED if any(_GROUPED[mark].fullmatch(value) for value in values)}
        commas = [value for value in values if _COMMA.fullmatch(value)]
        points = any(_POINT.fullmatch(value) for value in values)
        if len(both) == 1:  # 1.234,5 tells both marks
            thousands = both.pop()
        elif "," in plain and decimal is None and commas and all(_GROUPED[","].fullmatch(value) for value in commas):
            if not points:
                raise ValueError(
                    f"source: {path.name} holds numbers such as {commas[0]!r}, which may be "
                    f"{plain_number(commas[0], Dialect(decimal=','))} or {commas[0].replace(',', '')}; expected it to "
                    "be said. Pass decimal=',' or thousands=',' to `read_table`."
                )
            thousands = ","
        else:
            thousands = next((mark for mark in _GROUPED if mark in plain and mark not in ",."), "")
        if thousands == decimal:
            thousands = ""
        if thousands:
            findings.append(f"{thousands!r} in the numbers of {path.name} was read as the mark of thousands")
    if decimal is None:
        values = [value.replace(thousands, "") for value in values]
        commas_only = any(_COMMA.fullmatch(value) for value in values) and not any(map(_POINT.fullmatch, values))
        decimal = "," if thousands == "." or (thousands != "," and commas_only) else "."
    return replace(asked, decimal=decimal, thousands=thousands)


def _titled(path: Path, rows: Sequence[Sequence[str]], dialect: Dialect, findings: list[str]) -> bool:
    """Whether the first line names the columns: it does unless all it holds are numbers, which may be names too."""
    first = [plain_number(field, dialect) for field in rows[0]]
    if not all(is_number(field) for field in first):
        return True
    second = [plain_number(field, dialect) for field in rows[1]] if len(rows) > 1 else []
    if _counts(first) and not _counts(second):
        findings.append(
            f"the first line of {path.name}, {rows[0][0]}, {rows[0][1]}, {rows[0][2]}, ..., was read as names, not as "
            "a row (header=False if it is one)"
        )
        return True
    return False


def _counts(fields: Sequence[str]) -> bool:
    """Whether these are three or more whole numbers in equal steps, as 0, 1, 2 or years."""
    if len(fields) < 3 or not all(re.fullmatch(r"-?\d+", field) for field in fields):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(fields)}
    return len(steps) == 1 and steps != {0}


def widths_differ(path: Path, dialect: Dialect) -> str | None:
    """Which line has another number of fields than the first, in words; None if none has."""
    with opened_text(path, dialect) as file, long_fields():
        expected = 0
        reader: Any = csv.reader(file, delimiter=dialect.separator or ",", quotechar=dialect.quote)
        for row in reader:
            if row and expected and len(row) != expected:
                return f"line {reader.line_num} has {len(row)} fields where the first has {expected}"
            expected = expected or len(row)
    return None
