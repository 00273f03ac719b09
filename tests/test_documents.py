"""The documents keep their word: their Python runs, their make targets exist, their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[\w+-]*).*$")
CODE_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|<(?:img|a)\b[^>]*?\b(?:src|href)=[\"']([^\"']+)")
TARGET = re.compile(r"^([A-Za-z][\w-]*(?: +[A-Za-z][\w-]*)*) *:(?!=)", re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s)#.*")
MAKE = re.compile(r"(?:^|[\s;&|(])make +([^;&|)\n]+)", re.MULTILINE)


class Block(NamedTuple):
    language: str
    line: int  # of the first line of code, counted from 1
    code: str


def split(text: str) -> tuple[str, list[Block]]:
    """The prose of a Markdown text, and its fenced blocks of code."""
    prose: list[str] = []
    blocks: list[Block] = []
    opened: re.Match[str] | None = None
    code: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if opened is None:
            opened = FENCE.match(line)
            code = []
            if opened is None:
                prose.append(line)
        elif line.strip() == opened["fence"]:
            blocks.append(Block(opened["language"], number - len(code), "\n".join(code) + "\n"))
            opened = None
        else:
            code.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise ValueError(f"a code block is never closed: {opened[0]}")
    return "\n".join(prose), blocks


def make_goals(text: str) -> set[str]:
    """The goals of every `make ...` in code: spans of prose, and fenced blocks that are not Python."""
    prose, blocks = split(text)
    pieces = [span[1] for span in CODE_SPAN.findall(prose)]
    pieces += [block.code for block in blocks if block.language != "python"]
    commands = [command for piece in pieces for command in MAKE.findall(COMMENT.sub("", piece))]
    words = [word for command in commands for word in command.split()]
    return {word for word in words if re.fullmatch(r"[a-z][\w-]*", word)}


def relative_links(text: str) -> list[str]:
    """Paths that links and images of the prose point to, without their anchors."""
    prose, _ = split(text)
    found = ["".join(pair) for pair in LINK.findall(CODE_SPAN.sub("", prose))]
    paths = [link.partition("#")[0] for link in found if not re.match(r"[a-z][a-z0-9+.-]*:", link)]
    return [path for path in paths if path]


def documents(*names: str) -> list[Path]:
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


GUIDES = sorted((ROOT / "docs").rglob("*.md"))
RUNNABLE = [README, *GUIDES]
PROSE = [*documents("README.md", "CONTRIBUTING.md", "CHANGELOG.md"), *GUIDES]


def test_there_is_a_readme() -> None:
    assert README.is_file(), "README.md is missing"


@pytest.mark.parametrize("path", RUNNABLE, ids=name_of)
def test_python_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not path.is_file():
        pytest.skip(f"{name_of(path)} is missing, which has its own test")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace: dict[str, object] = {"__name__": "__document__"}
    for block in split(path.read_text("utf-8"))[1]:
        if block.language == "python":
            # Empty lines in front make a traceback show the line numbers of the document.
            exec(compile("\n" * (block.line - 1) + block.code, str(path), "exec"), namespace)


@pytest.mark.parametrize("path", documents("README.md", "CONTRIBUTING.md"), ids=name_of)
def test_make_goals_exist(path: Path) -> None:
    rules = TARGET.findall((ROOT / "Makefile").read_text("utf-8"))
    targets = {word for rule in rules for word in rule.split()}
    unknown = make_goals(path.read_text("utf-8")) - targets
    assert not unknown, f"{name_of(path)} mentions make goals that the Makefile lacks: {sorted(unknown)}"


@pytest.mark.parametrize("path", PROSE, ids=name_of)
def test_links_resolve(path: Path) -> None:
    broken = [link for link in relative_links(path.read_text("utf-8")) if not (path.parent / link).exists()]
    assert not broken, f"{name_of(path)} has links that lead nowhere: {broken}"


SAMPLE = """\
See [the guide](docs/guide.md#start), [site](https://example.org/), [below](#here), ![plot](a.png "title") and
`make demo`, `[not](a-link)`, or make sure of `make -j2 test PYTHON=python3.12 # twice`.

```python
x = 1
```

1. In a list:
   ```bash
   cd there && make bench  # make nothing
   ```
"""


def test_split_finds_blocks_and_lines() -> None:
    blocks = split(SAMPLE)[1]
    assert blocks == [
        Block("python", 5, "x = 1\n"),
        Block("bash", 10, "cd there && make bench  # make nothing\n"),
    ]


def test_an_open_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="never closed"):
        split("```python\nx = 1\n")


def test_make_goals_are_found_in_code_only() -> None:
    assert make_goals(SAMPLE) == {"demo", "test", "bench"}


def test_relative_links_are_found_in_prose_only() -> None:
    assert relative_links(SAMPLE) == ["docs/guide.md", "a.png"]
