"""What a column is: feature, label, weight, id or none of these; and how features become rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ...archives import pyarrow
from ...errors import nearest
from ...names import DateUnit
from ...tensors import check_name, check_whole
from ..layout import Key
from ..rows import float_tensor, shaped_rows
from .arrays import ArrayReader
from .arrow import kind_of
from .dialect import is_number
from .reader import NUMBERS, Reader

SECONDS: dict[str, float] = {"seconds": 1.0, "hours": 3600.0, "days": 86400.0, "years": 365.2425 * 86400.0}
TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of a second, by Arrow's units of time
MOST_CATEGORIES = 1000  # of a column; more are refused: each becomes a column of its own
ENOUGH = 1000  # rows at the beginning in which a column of text shows whether it holds numbers
COUNTED = 10  # rows at the beginning in which a column of whole numbers that counts them is noticed
NOT_CHOSEN = "not chosen"  # why a column is left out where others were asked for

OneHot = bool | float | str | Sequence[Key] | Mapping[Key, float]


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What the columns of a table are for, each by name or number.

    Attributes:
        features: what points are made of; None for all columns without another role that are not an index.
        label, weights, id: a column each, not used as features; None if there is none.
        one_hot: text columns that become a column for each category, in which the row's own is one_hot / sqrt(2), so
            that two categories are that far apart. True for all of text, 1 apart; a number, how far; or names, or a
            dict from names to how far. None refuses text.
        dates: the unit in which dates become numbers since 1970; None refuses dates.
        categories: of columns of text, where they are known already; others are then errors.
    """

    features: Key | Sequence[Key] | None = None
    label: Key | None = None
    weights: Key | None = None
    id: Key | None = None
    one_hot: OneHot | None = None
    dates: DateUnit | None = None
    categories: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True)
class Feature:
    """One column of a table, and how it becomes columns of numbers.

    Attributes:
        name: of the column.
        categories: of text, sorted; None for numbers.
        apart: distance of two categories.
        unit: seconds in the unit of dates; 0 for numbers.
    """

    name: str
    categories: tuple[str, ...] | None = None
    apart: float = 1.0
    unit: float = 0.0

    def titles(self, width: int) -> list[str]:
        """Names of the columns that it becomes."""
        if self.categories is not None:
            return [f"{self.name}={category}" for category in self.categories]
        return [self.name] if width == 1 else [f"{self.name}[{k}]" for k in range(width)]


@dataclass(frozen=True)
class Chosen:
    """The columns of a table by what they are for; `left_out` says why of those that serve nothing."""

    features: tuple[Feature, ...]
    label: str | None
    weights: str | None
    id: str | None
    left_out: dict[str, str]


def is_key(value: Any) -> bool:
    """Whether this is the name or number of a column."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def column_named(names: Iterable[str], key: Key, argument: str, where: str) -> str:
    """The name of the column that is given by name or number; a column may itself be called 7.

    Raises:
        ValueError: there is none.
    """
    names = list(names)
    if str(key) in names:
        return str(key)
    number = int(key) if isinstance(key, str) and key.isdecimal() else key
    if isinstance(number, int) and 0 <= number < len(names):
        return names[number]
    raise ValueError(f"{argument}: {key!r} is not a column of {where}{nearest(str(key), names)}")


def choose(reader: Reader, roles: Roles) -> Chosen:
    """Tell features from labels, weights, ids and what is none of them.

    Raises:
        ValueError: a column is not there, has two roles, or is a feature and holds no numbers.
    """
    names = list(reader.kinds)

    def named(key: Key | None, argument: str) -> str | None:
        return None if key is None else column_named(names, key, argument, reader.name)

    label, weights, id_ = (named(getattr(roles, role), role) for role in ("label", "weights", "id"))
    if weights is not None and reader.kinds[weights] not in NUMBERS:
        raise ValueError(f"weights: {weights!r} of {reader.name} holds {reader.kinds[weights]}; expected numbers.")
    one_hot = _apart(reader, roles.one_hot)
    if roles.dates is not None:
        check_name(roles.dates, "dates", get_args(DateUnit))
    left_out = dict.fromkeys(reader.index, "index")
    if roles.features is None:
        taken = [name for name in names if name not in (label, weights, id_, *reader.index)]
    else:
        keys = roles.features if isinstance(roles.features, (tuple, list)) else (roles.features,)
        taken = [column_named(names, key, "features", reader.name) for key in keys]
        if doubled := [name for name in taken if taken.count(name) > 1]:
            raise ValueError(f"features: {doubled[0]!r} is named twice; expected each column once.")
        left_out |= {name: NOT_CHOSEN for name in names if name not in taken and name not in left_out}
    for role, name in (("label", label), ("weights", weights), ("id", id_)):
        if name in taken:
            raise ValueError(f"features: {name!r} is the {role} too; expected it once. Leave it out of one of the two.")
        if name is not None:
            left_out.pop(name, None)
    if not taken:
        raise ValueError(f"features: {reader.name} has no columns but label, weights and ids; expected features.")
    if roles.one_hot is not True and not isinstance(roles.one_hot, float):
        for name in one_hot:
            if name not in taken:
                raise ValueError(f"one_hot: {name!r} is not among the features; expected it there.")
    _check_kinds(reader, taken, one_hot, roles)
    features = [_feature(reader, name, one_hot.get(name), roles) for name in taken]
    return Chosen(tuple(features), label, weights, id_, {k: v for k, v in left_out.items() if k not in taken})


def counting(reader: Reader, features: Sequence[Feature]) -> tuple[str, ...]:
    """Features that count the rows, by the first of them: an id that was not named, as it seems."""
    whole = [feature.name for feature in features if reader.kinds[feature.name] == "whole"]
    if not whole or len(whole) == len(reader.kinds) or reader.lengths[0] < COUNTED:
        return ()
    head = rows_of(next(reader.blocks([0], whole)), [Feature(name) for name in whole], reader.name)[:COUNTED]
    return tuple(name for name, column in zip(whole, head.T, strict=True) if bool((column.diff() == 1).all()))


def rows_of(block: Any, features: Sequence[Feature], name: str, flatten: bool = False) -> Tensor:
    """Rows (rows, d) of one block, in the widest of the dtypes of its columns; a missing value becomes NaN.

    Raises:
        ValueError: a column holds no numbers, whole ones that float64 cannot hold, or lists of several lengths.
    """
    if isinstance(block, np.ndarray):
        return shaped_rows(float_tensor(block, name), name, flatten)
    parts = [
        _numbers(block.column(feature.name), feature, f"source: {name}, column {feature.name!r}")
        for feature in features
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def titles_of(reader: Reader, features: Sequence[Feature], dimension: int) -> tuple[str, ...]:
    """Names of the columns of rows (rows, dimension) that the features become."""
    if isinstance(reader, ArrayReader):
        return tuple(feature.name for feature in features) if len(features) == dimension else tuple(
            f"x{k}" for k in range(dimension)
        )  # fmt: skip
    titles: list[str] = []
    for feature in features:
        width = 1
        if reader.kinds[feature.name] == "vector":
            head = next(iter(reader.blocks([0], [feature.name])))
            width = rows_of(head, [feature], reader.name).shape[1]
        titles += feature.titles(width)
    return tuple(titles)


def plain_array(column: Any) -> np.ndarray[Any, Any]:
    """Labels or ids as an array of numbers or text; whole numbers that a table keeps as floats are integers."""
    array = np.asarray(column)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.round(array)).all():
        return array.astype(np.int64)
    return array


def _apart(reader: Reader, one_hot: OneHot | None) -> dict[str, float]:
    """The columns of text to encode, and how far apart their categories are."""
    if one_hot is None or one_hot is False:
        return {}
    text = [name for name, kind in reader.kinds.items() if kind == "text"]
    if isinstance(one_hot, int) and one_hot is not True:
        raise ValueError(
            f"one_hot: got {one_hot}, which may be a column or a distance; expected [{one_hot}] or {float(one_hot)}."
        )
    if one_hot is True or isinstance(one_hot, float):
        found = dict.fromkeys(text, float(one_hot))
    else:
        keys: Any = [one_hot] if isinstance(one_hot, str) else one_hot
        asked: dict[Any, float] = dict(keys) if isinstance(keys, Mapping) else dict.fromkeys(keys, 1.0)
        found = {column_named(reader.kinds, key, "one_hot", reader.name): float(apart) for key, apart in asked.items()}
    for name, apart in found.items():
        if not 0 < apart < math.inf:
            raise ValueError(f"one_hot: got {apart!r} for {name!r}; expected a distance of two categories above 0.")
        if reader.kinds[name] in ("vector", "date", "other"):
            raise ValueError(
                f"one_hot: {name!r} holds {reader.kinds[name]}; expected text, or numbers that name kinds."
            )
    return found


def _feature(reader: Reader, name: str, apart: float | None, roles: Roles) -> Feature:
    known = (roles.categories or {}).get(name)
    if apart is not None and known is not None:
        return Feature(name, tuple(known), apart)
    if apart is not None:
        compute = pyarrow("pyarrow.compute", reader.name)
        found = compute.unique(_as_text(reader.column(name))).to_pylist()
        if len(found) > MOST_CATEGORIES:
            raise ValueError(
                f"one_hot: {name!r} has {len(found):,} categories; expected at most {MOST_CATEGORIES:,}. "
                "If it names the rows, it is their id."
            )
        return Feature(name, tuple(sorted(category for category in found if category is not None)), apart)
    return Feature(name, unit=SECONDS[roles.dates] if roles.dates is not None and reader.kinds[name] == "date" else 0.0)


def _check_kinds(reader: Reader, taken: Sequence[str], one_hot: Mapping[str, float], roles: Roles) -> None:
    """Raise ValueError unless all features are numbers or become some, and name columns that are."""
    odd = {
        name: "dates" if kind == "date" else kind
        for name in taken
        if (kind := reader.kinds[name]) in ("other", "text") or (kind == "date" and roles.dates is None)
        if name not in one_hot
    }
    if not odd:
        return
    found = ", ".join(f"{name!r} ({kind})" for name, kind in list(odd.items())[:6])
    numbers = [name for name in reader.kinds if name not in odd and reader.kinds[name] not in ("text", "date", "other")]
    numbers = [name for name in numbers if name in taken] or numbers
    remedies = [f"Choose others, such as features={numbers[:6]}." if numbers else ""]
    texts = [name for name, kind in odd.items() if kind == "text"]
    if ids := [name for name in texts if _names_rows(reader, name)]:
        remedies.append(f"{ids[0]!r} differs from row to row, as an id does: pass id={ids[0]!r}, or leave it out.")
    if others := [name for name in texts if name not in ids]:
        text = others[0]
        remedies.append(
            f"Is {text!r} a label, an id or a category? Then pass label={text!r}, id={text!r} or one_hot={text!r}."
            + _example(reader, text)
        )
    if "dates" in odd.values():
        remedies.append("Take dates as numbers: dates='days'.")
    if not numbers and texts:
        remedies.append("If the columns are separated otherwise, pass separator=...")
    raise ValueError(
        f"features: {reader.name} has columns that are not numbers: {found}. {' '.join(filter(None, remedies))}"
        + " `read_table` takes all of these." * any(remedies)
    )


def _names_rows(reader: Reader, name: str) -> bool:
    """Whether a column of text is different in each of the first rows, of which there are enough to tell."""
    head = _as_text(next(iter(reader.blocks([0], [name]))).column(name)).to_pylist()
    return len(head) >= COUNTED and len({*head}) == len(head) and not any(map(is_number, filter(None, head)))


def _example(reader: Reader, name: str) -> str:
    """The first text of a column that is no number: it may stand for a missing value, or be a number with a unit."""
    head = _as_text(next(iter(reader.blocks([0], [name]))).column(name)).to_pylist()
    odd = next((value for value in head if value and not is_number(value)), None)
    if not any(letter.isdigit() for value in head[:ENOUGH] if value for letter in value):
        return ""  # no number among them
    return f" If {odd[:40]!r} in it is a missing value, or a number with a unit or other marks, mend it." if odd else ""


def _numbers(column: Any, feature: Feature, where: str) -> Tensor:
    """One column as (rows, 1), or (rows, k) for vectors and categories."""
    compute = pyarrow("pyarrow.compute", where)
    if feature.categories is not None:
        return _one_hot(column, feature, where)
    if str(column.type).startswith("dictionary"):
        column = column.cast(column.type.value_type)
    kind = kind_of(column.type)
    if feature.unit:
        column, kind = _dates(column, feature.unit), "number"
    rows, values, inner = len(column), column, column.type
    if kind == "vector":
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            found = "lists of several lengths" if len(lengths) > 1 else "empty lists"
            raise ValueError(f"{where}: got {found}; expected vectors of one length. Pad or cut them.")
        values, inner = compute.list_flatten(column), column.type.value_type
    elif kind not in ("number", "whole", "bool"):
        raise ValueError(f"{where}: got {kind}; expected numbers. Encode it or leave it out.")
    # Decimals become objects in NumPy, and so do bits with gaps.
    each = kind_of(inner)
    if each == "bool" or "decimal" in str(inner):
        values = values.cast("uint8" if each == "bool" else "float64")
    array = np.asarray(values)
    if each == "whole" and array.dtype.kind == "f" and array.size:  # of a column with gaps, which are NaN
        check_whole(torch.from_numpy(np.nan_to_num(array)), where)
    return float_tensor(array.reshape(rows, -1), where)


def _as_text(column: Any) -> Any:
    """Categories as text, also those that are numbers or booleans."""
    if "values=string_view" in str(column.type):  # of Polars; Arrow does not decode them
        return pyarrow("pyarrow", "categories").array(column.to_pylist(), "string")
    return column.cast(getattr(column.type, "value_type", column.type)).cast("string")


def _one_hot(column: Any, feature: Feature, where: str) -> Tensor:
    arrow, compute = pyarrow("pyarrow", where), pyarrow("pyarrow.compute", where)
    assert feature.categories is not None
    column = _as_text(column)
    found = compute.index_in(column, arrow.array(feature.categories, arrow.string()))
    new = compute.unique(column.filter(compute.and_(compute.is_null(found), compute.is_valid(column)))).to_pylist()
    if new:
        raise ValueError(
            f"{where}: got {new[0]!r}, which is none of its {len(feature.categories)} known categories. Drop its rows, "
            "or build anew on a table that has it."
        )
    place = torch.tensor(compute.fill_null(found, -1).to_numpy(), device="cpu")
    rows = torch.zeros(len(place), len(feature.categories), device="cpu")
    known = (place >= 0).nonzero().flatten()
    rows[known, place[known].long()] = feature.apart / math.sqrt(2)
    rows[place < 0] = math.nan  # a missing value
    return rows


def _dates(column: Any, unit: float) -> Any:
    """Numbers of `unit` seconds since 1970, or since midnight for times of the day, or the length of a duration."""
    arrow, compute = pyarrow("pyarrow", "dates"), pyarrow("pyarrow.compute", "dates")
    if arrow.types.is_date(column.type):
        column = column.cast(arrow.timestamp("s"))
    elif arrow.types.is_time32(column.type):
        column = column.cast(arrow.time64("us"))
    # Not checked: that float64 rounds nanoseconds, or the ticks of distant years, is no loss.
    return compute.divide(column.cast(arrow.int64()).cast(arrow.float64(), safe=False), TICKS[column.type.unit] * unit)
