"""From a command line or a YAML file to settings, both checked by jsonargparse against the types of the fields."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from argparse import SUPPRESS, Action, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser

from ...errors import meant, nearest
from .fields import Common, UsageError, Writes, flag_of

Settings = TypeVar("Settings")


class Help(RawDescriptionHelpFormatter):
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


def parser_of(settings: type[Any], name: str = "", description: str = "", examples: Sequence[str] = ()) -> Parser:
    """The parser of one command, an argument for each field, in the groups in which they are declared."""
    shown = "\n".join(["examples:", *(f"  torchcoreset {example}" for example in examples)]) if examples else None
    parser = Parser(
        prog=f"torchcoreset {name}", usage=_usage(settings, name), description=description, epilog=shown,
        allow_abbrev=False, formatter_class=Help,
    )  # fmt: skip
    hints = get_type_hints(settings)
    for field in places_of(settings):
        _add(parser, field, hints[field.name])
    for title, fields in groups_of(settings):
        group = parser.add_argument_group(title) if title else parser
        for field in fields:
            _add(group, field, hints[field.name])
    return parser


def places_of(settings: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields that are given by their place, in their order."""
    # Dataclasses put inherited fields first, even where a subclass names them in another order.
    own = list(inspect.get_annotations(settings))
    places = [field for field in dataclasses.fields(settings) if field.metadata["place"]]
    return sorted(places, key=lambda field: own.index(field.name) if field.name in own else len(own))


def groups_of(settings: type[Any]) -> Iterator[tuple[str, list[dataclasses.Field[Any]]]]:
    """The options of a command, by the class that declares them: titles, "" for its own class, and fields."""
    fields = {field.name: field for field in dataclasses.fields(settings) if not field.metadata["place"]}
    own, *others = [part for part in settings.__mro__ if "__dataclass_fields__" in vars(part)]
    of_all: list[type[Any]] = [part for part in (Writes, Common) if part in others]
    groups: list[list[type[Any]]] = [[own], *([part] for part in others if part not in of_all), of_all]
    for parts in groups:
        names = [name for part in parts for name in inspect.get_annotations(part) if name in fields]
        held = [fields.pop(name) for name in names]
        if held:
            title = "" if parts == [own] else (parts[-1].__doc__ or "").rstrip(".")
            yield title[:1].lower() + title[1:], held


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def names_of(hint: Any) -> tuple[str, ...]:
    """The names that a field of this type may have; none where it may have others."""
    parts: tuple[Any, ...] = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    (part, *others) = [part for part in parts if part is not type(None)]
    return get_args(part) if not others and get_origin(part) is Literal else ()


def _usage(settings: type[Any], name: str) -> str:
    """What has to be given; the rest is said by the list below it."""
    words = []
    for field in places_of(settings):
        word = field.name.upper()
        words.append(f"[{word} ...]" if field.default_factory is list else word if is_required(field) else f"[{word}]")
    for _, fields in groups_of(settings):
        words += [f"{flags_of(field)[0]} {field.metadata['metavar']}" for field in fields if is_required(field)]
    return " ".join(["torchcoreset", name, *words, "[options]"])


def flags_of(field: dataclasses.Field[Any]) -> list[str]:
    """What an option can be called: by a short name, if it has one, and its own."""
    short = field.metadata["short"]
    return [*([short] if short else []), flag_of(field.name)]


def _add(parser: Any, field: dataclasses.Field[Any], hint: Any) -> None:
    """Add one argument to a parser or a group of it."""
    how: dict[str, Any] = {"help": field.metadata["text"]}
    names = names_of(hint)
    if field.metadata["metavar"] is not None:
        how["metavar"] = field.metadata["metavar"]
    elif names and get_origin(hint) is not Literal:
        how["metavar"] = "{" + ",".join(names) + "}"  # jsonargparse shows them only where nothing else is allowed
    if field.metadata["place"]:
        how["metavar"] = field.name.upper()
        if get_origin(hint) is list:
            parser.add_argument(field.name, type=get_args(hint)[0], nargs="*", default=[], **how)
        elif is_required(field):
            parser.add_argument(field.name, type=hint, **how)
        else:
            parser.add_argument(field.name, type=hint, nargs="?", default=field.default, **how)
    elif hint is bool:
        parser.add_argument(*flags_of(field), action="store_true", **how)
    elif is_required(field):
        parser.add_argument(*flags_of(field), type=hint, required=True, **how)
    else:
        parser.add_argument(*flags_of(field), type=hint, default=field.default, **how)


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
        parsed = parser_of(settings).parse_object(given)
    except UsageError as error:
        raise UsageError(f"{where}: {explain(str(error), settings, dashes=False)}") from error
    return settings(**{name: getattr(parsed, name) for name in fields})


def explain(message: str, settings: type[Any] | None, *, dashes: bool = True) -> str:
    """One line for what the parser said of a value: the name, what came, what was expected."""
    found = re.search(r'Parser key "(?:\w+\.)?(\w+)"', message)
    value = re.search(r"(?:Got value|Given value): (.*)", message)
    if settings is not None and found is not None and value is not None:
        hint = get_type_hints(settings)[found[1]]
        name = flag_of(found[1]) if dashes else found[1]
        return f"{name}: got {value[1]!r}; expected {_words(hint)}{meant(value[1], names_of(hint), '.')}"
    required = re.search(r"arguments? (?:is|are) required: (.*)", message)
    if required is not None:
        names = [name.strip().rpartition(".")[2] for name in required[1].split(",")]
        places = {f.name: f.metadata["place"] for f in dataclasses.fields(settings)} if settings is not None else {}
        shown = [name.upper() if places.get(name, True) else flag_of(name) for name in names]
        return f"{', '.join(shown)} must be given; --help shows how."
    unknown = re.search(r"unrecognized arguments: (\S+)", message)
    if unknown is not None and settings is not None:
        flags = [flag_of(field.name) for field in dataclasses.fields(settings)]
        if not unknown[1].startswith("-"):
            return f"{unknown[1]!r} is one argument too many; --help shows what is expected."
        return f"unknown option {unknown[1]!r}{meant(unknown[1].partition('=')[0], flags, '; --help lists all.')}"
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
