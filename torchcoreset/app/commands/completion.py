"""`torchcoreset completion SHELL`: a script by which bash, zsh or fish completes commands, options and their names.

The script is made from the declared settings and stands on its own: completing runs nothing of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_type_hints

from ...errors import nearest
from ..outcome import Outcome
from ..settings import CompletionSettings, UsageError, flags_of, groups_of, names_of
from . import COMMANDS, Command


@dataclass(frozen=True)
class Option:
    """An option of a command: its flags, what it means, the names it takes if these are known, and of what kind."""

    flags: tuple[str, ...]
    text: str
    names: tuple[str, ...]
    takes_value: bool
    takes_file: bool


def run(settings: CompletionSettings) -> Outcome:
    """Print the script."""
    if settings.shell not in SHELLS:
        raise UsageError(f"SHELL: got {settings.shell!r}{nearest(settings.shell, SHELLS)}")
    lines = SHELLS[settings.shell]()
    return Outcome({"command": "completion", "shell": settings.shell, "script": "\n".join(lines)}, lines)


def options_of(command: Command) -> Iterator[Option]:
    """All options of a command."""
    hints = get_type_hints(command.settings)
    yield Option(("-h", "--help"), "show what the command takes", (), False, False)
    for _, fields in groups_of(command.settings):
        for field in fields:
            hint, metavar = hints[field.name], field.metadata["metavar"]
            names = ("yes", "no") if metavar == "{yes,no}" else names_of(hint)
            yield Option(tuple(flags_of(field)), field.metadata["text"], names, hint is not bool, metavar == "FILE")


def _bash() -> list[str]:
    flags, names = [], []
    for command in COMMANDS.values():
        options = list(options_of(command))
        flags.append(f"    {command.name}) known='{' '.join(flag for option in options for flag in option.flags)}' ;;")
        for option in options:
            if option.names:
                cases = " | ".join(f"'{command.name} {flag}'" for flag in option.flags)
                names.append(f"    {cases}) known='{' '.join(option.names)}' ;;")
    return [
        "# torchcoreset: completion for bash",
        "_torchcoreset() {",
        '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} known=""',
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f"    known='{' '.join(COMMANDS)} --help --version'",
        '  else case "${COMP_WORDS[1]} $before" in',
        *names,
        '    *) case "$word" in -*) case "${COMP_WORDS[1]}" in',
        *(f"    {line}" for line in flags),
        "    esac ;; esac ;;",
        "  esac; fi",
        '  COMPREPLY=($(compgen -W "$known" -- "$word"))',
        "}",
        "complete -o default -F _torchcoreset torchcoreset  # files where nothing else is known",
    ]


def _zsh() -> list[str]:
    lines = [
        "#compdef torchcoreset",
        "# torchcoreset: completion for zsh",
        "_torchcoreset() {",
        "  local -a commands",
        "  if (( CURRENT == 2 )); then",
        "    commands=(",
        *(f"      {_quoted(f'{command.name}:{command.text}')}" for command in COMMANDS.values()),
        "    )",
        "    _describe command commands",
        "    return",
        "  fi",
        "  local command=$words[2]",
        "  shift words",
        "  (( CURRENT-- ))",
        "  case $command in",
    ]
    for command in COMMANDS.values():
        lines.append(f"    {command.name})")
        lines.append("      _arguments \\")
        for option in options_of(command):
            text = "".join(f"\\{one}" if one in "[]:\\" else one for one in option.text)
            value = (
                f":value:({' '.join(option.names)})"
                if option.names
                else ":file:_files"
                if option.takes_file
                else ":value:"
            )
            for flag in option.flags:
                lines.append(f"        {_quoted(f'{flag}[{text}]' + value * option.takes_value)} \\")
        lines += ["        '*:file:_files'", "      ;;"]
    # The file may be loaded by zsh on the first completion, which it then has to give, or be sourced.
    return [
        *lines, "  esac", "}",
        'if [ "$funcstack[1]" = "_torchcoreset" ]; then _torchcoreset "$@"',
        "else compdef _torchcoreset torchcoreset; fi",
    ]  # fmt: skip


def _fish() -> list[str]:
    lines = ["# torchcoreset: completion for fish"]
    for command in COMMANDS.values():
        lines.append(
            f"complete -c torchcoreset -n __fish_use_subcommand -f -a {command.name} -d {_quoted(command.text)}"
        )
        for option in options_of(command):
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            value = " -x" if option.takes_value and not option.takes_file else " -r -F" if option.takes_file else ""
            names = f" -a {_quoted(' '.join(option.names))}" if option.names else ""
            lines.append(
                f"complete -c torchcoreset -n '__fish_seen_subcommand_from {command.name}' {flags}{value}{names} "
                f"-d {_quoted(option.text)}"
            )
    return lines


def _quoted(text: str) -> str:
    """Text between single quotes, as all three shells read it."""
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
