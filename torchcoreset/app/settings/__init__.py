"""The settings of the commands: each a frozen dataclass, read from a command line or from a YAML file alike.

`fields` says what a field is called and what it means; `table` and `commands` declare all of them; `parser` checks
values against their types, by jsonargparse, for both ways in. Nothing here imports torch: help is shown without it.
"""

from .commands import (
    BoundSettings,
    BuildSettings,
    CertifySettings,
    ChoiceSettings,
    CompareSettings,
    CompletionSettings,
    DivergenceSettings,
    InfoSettings,
    MergeSettings,
    PushSettings,
    RunSettings,
    SizeSettings,
)
from .fields import Common, UsageError, flag_of
from .parser import explain, flags_of, from_mapping, groups_of, names_of, parser_of
from .table import DataSettings, DistanceSettings, TextSettings

__all__ = [
    "BoundSettings", "BuildSettings", "CertifySettings", "ChoiceSettings", "Common", "CompareSettings",
    "CompletionSettings", "DataSettings", "DistanceSettings", "DivergenceSettings", "InfoSettings", "MergeSettings",
    "PushSettings", "RunSettings", "SizeSettings", "TextSettings", "UsageError", "explain", "flag_of", "flags_of",
    "from_mapping", "groups_of", "names_of", "parser_of",
]  # fmt: skip
