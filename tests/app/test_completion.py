"""Completion by shells: the scripts are valid, and complete what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")

from torchcoreset.app import main
from torchcoreset.app.commands import COMMANDS
from torchcoreset.app.settings import parser_of


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_its_script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell} to read the script")
    (tmp_path / "script").write_text(script, "utf-8")
    subprocess.run([shell, "-n", tmp_path / "script"], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("me", ["merge"]),
        ("build --alg", ["--algorithm"]),
        ("build --algorithm s", ["sgd"]),
        ("build --header ", ["yes", "no"]),
        ("bound --method li", ["line"]),
        ("build --out fi", []),  # bash then completes names of files
    ],
)
def test_what_bash_completes(words: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    main(["completion", "bash"])
    typed = ["torchcoreset", *words.split(" ")]
    asked = f"COMP_WORDS=({' '.join(repr(word) for word in typed)}); COMP_CWORD={len(typed) - 1}; _torchcoreset"
    script = f'{capsys.readouterr().out}\n{asked}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    said = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout
    assert said.split() == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_can_be_typed(name: str) -> None:
    command = COMMANDS[name]
    assert command.examples
    for example in command.examples:
        words = example.partition(" #")[0].partition(" >")[0].split()
        assert words[0] == name
        parser_of(command.settings, name).parse_args(words[1:])
