"""`torchcoreset run CONFIG`: any other command, with its settings from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...errors import nearest
from ..settings import Common, UsageError, argument, from_mapping, option


@dataclass(frozen=True, kw_only=True)
class RunSettings(Common):
    """Settings of `run`."""

    config: str = argument("YAML file: `command: build` and the settings of that command")
    resume: bool = option("of build: go on from the checkpoint of an interrupted run", False)


def read_config(settings: RunSettings, commands: Mapping[str, type[Any]]) -> tuple[str, Any]:
    """The command of a configuration file and its settings, checked.

    Args:
        settings: of `run`; what is said there holds too.
        commands: the settings of each command that a file may name.

    Raises:
        UsageError: no such file, invalid YAML, an unknown command or key (with the nearest one), a wrong value.
    """
    path = Path(settings.config)
    if not path.is_file():
        raise UsageError(f"CONFIG: there is no file {settings.config!r}.")
    try:
        held = yaml.safe_load(path.read_text("utf-8"))
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
    if settings.resume:
        if "resume" not in commands[command].__dataclass_fields__:
            raise UsageError(f"--resume: {command} cannot be resumed; expected it with build only.")
        over["resume"] = True
    return command, from_mapping(commands[command], {**values, **over}, str(path))
