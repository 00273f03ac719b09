"""`torchcoreset run CONFIG`: any other command, with its settings from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import nearest, no_file
from ..settings import RunSettings, UsageError, from_mapping

DEEPEST = 8  # lists and mappings within another; settings are a mapping with lists in it


def read_config(settings: RunSettings, commands: Mapping[str, type[Any]]) -> tuple[str, Any]:
    """The command of a configuration file and its settings, checked.

    Args:
        settings: of `run`; what is said there holds too.
        commands: the settings of each command that a file may name.

    Raises:
        UsageError: no such file, invalid YAML, an unknown command or key (with the nearest one), a wrong value.
    """
    import yaml

    path = Path(settings.config)
    if not path.is_file():
        raise UsageError(f"CONFIG: {no_file(settings.config)}")
    try:
        text = path.read_text("utf-8")
        _check_nesting(text, path)
        held = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"CONFIG: {path} is not valid YAML ({' '.join(str(error).split())}).") from error
    if not isinstance(held, dict):
        raise UsageError(f"CONFIG: {path} holds no settings; expected lines such as `command: build`.")
    values = dict(held)
    command = values.pop("command", None)
    if command not in commands:
        said = "has no key 'command'" if command is None else f"names the command {command!r}"
        raise UsageError(f"CONFIG: {path} {said}{nearest(str(command), commands)}")
    over = {name: True for name in ("json", "quiet", "traceback") if getattr(settings, name)}
    for name, wrong in (("resume", "cannot be resumed; expected it with build only"), ("force", "writes no files")):
        if getattr(settings, name):
            if name not in commands[command].__dataclass_fields__:
                raise UsageError(f"--{name}: {command} {wrong}.")
            over[name] = True
    return command, from_mapping(commands[command], {**values, **over}, str(path))


def _check_nesting(text: str, path: Path) -> None:
    """Raise UsageError for what no settings need and a small file can use to fill memory or the stack."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise UsageError(f"CONFIG: {path} repeats a part by an alias (*{event.anchor}); write its value out.")
        if depth > DEEPEST:
            raise UsageError(f"CONFIG: {path} is nested more than {DEEPEST} deep; expected keys and plain values.")
