"""From a path, a folder, a pattern or a list of paths to the reader of its table: the one table of suffixes."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ...errors import meant, no_file
from .arrays import ARRAYS, npy_reader
from .arrow import FeatherReader, ParquetReader
from .csv import CsvReader
from .dialect import Dialect
from .reader import Parts, Reader

TEXT = (".csv", ".tsv")
READERS: dict[str, Callable[[Path], Reader]] = {
    ".parquet": ParquetReader,
    ".pq": ParquetReader,
    ".npy": npy_reader,
    ".feather": FeatherReader,
    ".arrow": FeatherReader,
}
FORMATS = (*TEXT, *READERS)
_COMPRESSED = (".gz", ".bz2", ".zst")


def format_of(path: str | os.PathLike[str]) -> str:
    """The suffix that says what a file holds, in lower case; that of a compression comes after it."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes] or [""]
    if suffixes[-1] in _COMPRESSED and len(suffixes) > 1 and suffixes[-2] in TEXT:
        suffixes.pop()
    return suffixes[-1]


def is_path(source: Any) -> bool:
    """Whether this names a file, or several."""
    if isinstance(source, (list, tuple)):  # a list of other text is no table
        return len(source) > 0 and all(is_path(part) and format_of(part) in (*FORMATS, *ARRAYS) for part in source)
    return isinstance(source, (str, os.PathLike))


def is_text(source: Any) -> bool:
    """Whether this names files of text, by the first of them."""
    return is_path(source) and format_of(files_of(source)[0][0]) in TEXT


def reader_of(source: Any, dialect: Dialect) -> Reader:
    """The reader of a file of one table, or of all files that a folder, a pattern or a list names.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: the format needs pyarrow, which is not installed.
        ValueError: a suffix is not known, or a file cannot be used.
    """
    files = files_of(source)
    formats = {format_of(path) for path, _ in files}
    unknown = sorted(formats - {*FORMATS, *ARRAYS})
    if unknown or (len(formats) > 1 and not formats <= set(TEXT)):
        found = ", ".join(sorted(formats))
        raise ValueError(
            f"source: got {_shown(source)}, which ends in {found}; expected one of {', '.join((*FORMATS, *ARRAYS))}"
            + meant(found, (*FORMATS, *ARRAYS), ".")
        )
    if formats & set(ARRAYS):
        raise ValueError(
            f"source: {_shown(source)} are files of several arrays; expected one of them, or one table each."
        )
    parts = [
        READERS[format_of(path)](path) if format_of(path) in READERS else CsvReader(path, dialect) for path, _ in files
    ]
    if len(parts) == 1 and not files[0][1]:
        return parts[0]
    return Parts(_shown(source), parts, [keys for _, keys in files])


def files_of(source: Any) -> list[tuple[Path, dict[str, Any]]]:
    """The files that a path, a folder, a pattern or a list of them names, and the partition keys of each.

    Of a folder all files of known formats are taken, in the order of their names, but hidden ones and those that begin
    with an underscore.
    """
    if isinstance(source, (list, tuple)):
        return [file for part in source for file in files_of(part)]
    source = os.path.expanduser(source)
    path = Path(source)
    if "://" in source:
        raise ValueError(f"source: got the address {source!r}; expected a file. Download it, or pass a frame of it.")
    if path.is_file():
        return [(path, {})]
    if str(source) and path.is_dir():
        found = [
            file for file in sorted(path.rglob("*"))
            if file.is_file() and format_of(file) in FORMATS
            and not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
        ]  # fmt: skip
        if not found:
            raise FileNotFoundError(
                f"source: the folder {str(source)!r} holds no files that end in {', '.join(FORMATS)}."
            )
        return _with_keys(found, path)
    matched = sorted(Path(name) for name in glob.glob(str(source), recursive=True))
    if glob.has_magic(str(source)) and matched:
        return [file for match in matched for file in files_of(match)]
    if format_of(path) not in (*FORMATS, *ARRAYS) and not glob.has_magic(str(source)):
        raise ValueError(
            f"source: got the path {str(source)!r}; expected a file that ends in {', '.join((*FORMATS, *ARRAYS))}, or "
            f"a folder or pattern of such files{meant(path.suffix.lower(), (*FORMATS, *ARRAYS), '.')}"
        )
    raise FileNotFoundError(f"source: {no_file(source)}")


def _with_keys(files: Sequence[Path], folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Hive partitions: the folders key=value on the way to each file, whole numbers where all values are."""
    keys = [
        dict(unquote(part).split("=", 1) for part in file.relative_to(folder).parent.parts if "=" in part)
        for file in files
    ]
    if len({tuple(one) for one in keys}) > 1:
        odd = next(file for file, one in zip(files, keys, strict=True) if tuple(one) != tuple(keys[0]))
        raise ValueError(
            f"source: {odd} lies under other partition keys than {files[0]}; expected the same everywhere."
        )
    whole = [key for key in keys[0] if all(one[key].lstrip("-").isdecimal() for one in keys)]
    return [
        (file, {key: int(value) if key in whole else value for key, value in one.items()})
        for file, one in zip(files, keys, strict=True)
    ]


def _shown(source: Any) -> str:
    if isinstance(source, (list, tuple)):
        return f"{Path(source[0]).name} and {len(source) - 1} others" if len(source) > 1 else Path(source[0]).name
    return Path(source).name or str(source)
