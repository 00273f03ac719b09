"""The commands, a module each, which call the public names of the library; imported when one of them is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..outcome import Outcome
from ..settings import (
    BoundSettings,
    BuildSettings,
    CertifySettings,
    CompareSettings,
    CompletionSettings,
    InfoSettings,
    MergeSettings,
    PushSettings,
    RunSettings,
    SizeSettings,
)
from .run import read_config


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: of the command and of its module.
        settings: that it takes.
        text: what it does.
        examples: command lines, without the name of the program.
    """

    name: str
    settings: type[Any]
    text: str
    examples: tuple[str, ...]

    @property
    def run(self) -> Callable[[Any], Outcome]:
        """From settings to an outcome."""
        found: Callable[[Any], Outcome] = import_module(f"{__name__}.{self.name}").run
        return found


COMMANDS = {
    command.name: command
    for command in (
        Command(
            "build", BuildSettings, "find the points of a coreset for a table",
            (
                "build example:ring -n 40 --out ring.npz --plot ring.png",
                "build data.csv -n 100 --columns height,weight --standardise --hold-out 0.5",
                "build data.csv -n 100 --id customer --rows --keep 3,8",
                "build data.csv -n 50 --divergence energy --out support.npz",
                "build places.csv -n 50 --columns lat,lon --cost great-circle --plot map.png",
            ),
        ),
        Command(
            "certify", CertifySettings, "bound the distance to the population",
            (
                "certify coreset.npz fresh.csv",
                "certify coreset.npz data.csv --at-most 0.5    # rows that build --hold-out has left",
            ),
        ),
        Command(
            "compare", CompareSettings, "measure coresets beside random rows",
            ("compare data.csv first.npz second.npz --plot beside.png",),
        ),
        Command(
            "merge", MergeSettings, "make one coreset of those of several parts",
            ("merge north.npz south.npz --masses rows -n 100 --out both.npz",),
        ),
        Command(
            "bound", BoundSettings, "say what no points can be nearer than",
            ("bound data.csv -n 100 --standardise --distance 0.41",),
        ),
        Command(
            "push", PushSettings, "map a coreset through a network",
            (
                "push coreset.npz --network model.py:Decoder --state decoder.pt --out images.npz",
                "push coreset.npz --network decoder.pt2 --data fresh.csv    # a program by torch.export.save",
            ),
        ),
        Command(
            "size", SizeSettings, "find how many points a distance needs",
            ("size data.csv --epsilon 0.5 --standardise --plot sizes.png",),
        ),
        Command(
            "info", InfoSettings, "say what a file or this installation holds",
            ("info coreset.npz", "info data.csv -n 100", "info"),
        ),
        Command("run", RunSettings, "run the command of a YAML file", ("run job.yaml", "run job.yaml --resume")),
        Command(
            "completion", CompletionSettings, "print a script by which a shell completes these commands",
            (
                "completion bash > ~/.local/share/bash-completion/completions/torchcoreset",
                "completion zsh > ~/.zfunc/_torchcoreset    # a folder of $fpath",
                "completion fish > ~/.config/fish/completions/torchcoreset.fish",
            ),
        ),
    )
}  # fmt: skip

__all__ = ["COMMANDS", "Command", "read_config"]
