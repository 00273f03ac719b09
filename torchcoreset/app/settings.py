"""The settings of a command, written once: a frozen dataclass, read from a command line or from a YAML file alike.

jsonargparse checks values against the types of the fields, and does so for both ways in, which is why it parses here.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from argparse import SUPPRESS, Action, HelpFormatter
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser

from ..errors import nearest

Settings = TypeVar("Settings")


class UsageError(ValueError):
    """The command cannot be understood, or asks for what cannot be; the message is one line that says what to do."""


def argument(text: str, default: Any = dataclasses.MISSING) -> Any:
    """A field that is given by its place; a list takes all that is left."""
    return _field(text, default, None, place=True)


def option(text: str, default: Any = dataclasses.MISSING, *, metavar: str | None = None) -> Any:
    """A field that is given by its name, --like-this; it must be given if there is no default."""
    return _field(text, default, metavar, place=False)


def _field(text: str, default: Any, metavar: str | None, *, place: bool) -> Any:
    metadata = {"text": text, "metavar": metavar, "place": place}
    if default == []:
        return dataclasses.field(default_factory=list, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Common:
    """What every command takes."""

    json: bool = option("print one JSON object on stdout instead of words", False)
    quiet: bool = option("no progress bar and no notes", False)
    traceback: bool = option("show where an error came from, for developers", False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Writes(Common):
    """What every command takes that writes files."""

    force: bool = option("replace files that are there already (never those that are read)", False)


class Help(HelpFormatter):
    """The help of a command without the types in Python's words, which `explain` says where a value is wrong."""

    def _get_help_string(self, action: Action) -> str:
        text, default = action.help or "", action.default
        if action.option_strings and action.required:
            return f"{text} (required)"
        told = (
            isinstance(default, (int, float, str)) and not isinstance(default, bool) and default not in ("", SUPPRESS)
        )
        return f"{text} (default: {default})" if told else text

    def _format_action_invocation(self, action: Action) -> str:
        text = super()._format_action_invocation(action)
        # jsonargparse adds `--columns+` to options that take lists, to append to them.
        return text.partition(f", {action.option_strings[0]}+")[0] if action.option_strings else text


class Parser(ArgumentParser):
    """A parser whose errors are raised, in one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        raise UsageError(message) from ex


def parser_of(settings: type[Any], description: str) -> Parser:
    """The parser of one command, an argument for each field."""
    parser = Parser(description=description, allow_abbrev=False, formatter_class=Help)
    hints = get_type_hints(settings)
    fields = dataclasses.fields(settings)
    # Dataclasses put inherited fields first, even where a subclass names them in another order.
    own = list(inspect.get_annotations(settings))
    places = sorted(
        (field for field in fields if field.metadata["place"]),
        key=lambda field: own.index(field.name) if field.name in own else len(own),
    )
    for field in places + [field for field in fields if not field.metadata["place"]]:
        _add(parser, field, hints[field.name])
    return parser


def _add(parser: Parser, field: dataclasses.Field[Any], hint: Any) -> None:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    how: dict[str, Any] = {"help": field.metadata["text"]}
    if field.metadata["metavar"] is not None:
        how["metavar"] = field.metadata["metavar"]
    if field.metadata["place"]:
        if get_origin(hint) is list:
            parser.add_argument(field.name, type=get_args(hint)[0], nargs="*", default=[], **how)
        elif required:
            parser.add_argument(field.name, type=hint, **how)
        else:
            parser.add_argument(field.name, type=hint, nargs="?", default=field.default, **how)
        return
    flag = "--" + field.name.replace("_", "-")
    if hint is bool:
        parser.add_argument(flag, action="store_true", **how)
    elif required:
        parser.add_argument(flag, type=hint, required=True, **how)
    else:
        parser.add_argument(flag, type=hint, default=field.default, **how)


def from_mapping(settings: type[Settings], values: dict[str, Any], where: str) -> Settings:
    """Settings from the keys of a configuration; unknown keys and wrong types are errors that say what was meant.

    Args:
        settings: the dataclass.
        values: names of fields with underscores or dashes, and their values.
        where: what messages call the configuration.
    """
    fields = {field.name: field for field in dataclasses.fields(settings)}  # type: ignore[arg-type]
    hints = get_type_hints(settings)
    given = {str(key).replace("-", "_"): value for key, value in values.items()}
    for key, value in given.items():
        if key not in fields:
            raise UsageError(f"{where}: unknown key {key!r}{nearest(key, fields)}")
        if hints[key] is bool and not isinstance(value, bool):
            raise UsageError(f"{where}: {key}: got {value!r}; expected true or false.")
    missing = [
        name
        for name, field in fields.items()
        if name not in given and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise UsageError(f"{where}: the key {missing[0]!r} is missing: {fields[missing[0]].metadata['text']}.")
    try:
        parsed = parser_of(settings, "").parse_object(given)
    except UsageError as error:
        raise UsageError(f"{where}: {explain(str(error), settings, dashes=False)}") from error
    return settings(**{name: getattr(parsed, name) for name in fields})


def explain(message: str, settings: type[Any] | None, *, dashes: bool = True) -> str:
    """One line for what the parser said of a value: the name, what came, what was expected."""
    found = re.search(r'Parser key "(?:\w+\.)?(\w+)"', message)
    value = re.search(r"(?:Got value|Given value): (.*)", message)
    if settings is not None and found is not None and value is not None:
        hint = get_type_hints(settings)[found[1]]
        name = "--" + found[1].replace("_", "-") if dashes else found[1]
        return f"{name}: got {value[1]!r}; expected {_words(hint)}."
    required = re.search(r"arguments? (?:is|are) required: (.*)", message)
    if required is not None:
        names = [name.strip().rpartition(".")[2] for name in required[1].split(",")]
        places = {f.name: f.metadata["place"] for f in dataclasses.fields(settings)} if settings is not None else {}
        shown = [name.upper() if places.get(name, True) else "--" + name.replace("_", "-") for name in names]
        return f"{', '.join(shown)} must be given; --help shows how."
    unknown = re.search(r"unrecognized arguments: (\S+)", message)
    if unknown is not None and settings is not None:
        flags = ["--" + field.name.replace("_", "-") for field in dataclasses.fields(settings)]
        if not unknown[1].startswith("--"):
            return f"{unknown[1]!r} is one argument too many; --help shows what is expected."
        return f"unknown option {unknown[1]!r}{nearest(unknown[1].partition('=')[0], flags)}"
    flag = re.search(r"argument (--\S+): ignored explicit argument", message)
    if flag is not None:
        return f"{flag[1]} takes no value: give it or leave it out."
    return " ".join(message.split())


_TYPES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _words(hint: Any) -> str:
    """A type in words."""
    origin = get_origin(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if origin in (Union, types.UnionType):
        return " or ".join(_words(part) for part in get_args(hint) if part is not type(None))
    if origin is list:
        return f"a list of {_words(get_args(hint)[0])} each"
    return _TYPES.get(hint, str(hint))
