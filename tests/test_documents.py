"""The documents keep their word: their code runs, their configurations are read, their commands and links exist.

Blocks of a page run in order in one folder: ```python in one namespace; ```yaml title="FILE" is written and, if it has
a `command`, run; of ```bash the lines that start with `torchcoreset` run, and of all others what they name must exist.
A block of Python whose title begins with "excerpt" must parse. What a ```output block shows, the block of Python before
it must print: the same words, and numbers within 5 %.
"""

from __future__ import annotations

import ast
import contextlib
import html
import importlib.util
import inspect
import io
import itertools
import re
import runpy
import shlex
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import torchcoreset
from torchcoreset import testing

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)(?: .*?title=\"(?P<title>[^\"]*)\")?.*$")
CODE_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|<(?:img|a)\b[^>]*?\b(?:src|href)=[\"']([^\"']+)")
TARGET = re.compile(r"^([A-Za-z][\w-]*(?: +[A-Za-z][\w-]*)*) *:(?!=)", re.MULTILINE)
COMMENT = re.compile(r"(?:^|\s)#.*")
MAKE = re.compile(r"(?:^|[\s;&|(])make +([^;&|)\n]+)", re.MULTILINE)


class Block(NamedTuple):
    language: str
    line: int  # of the first line of code, counted from 1
    code: str
    title: str = ""


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
            text = "\n".join(code) + "\n"
            blocks.append(Block(opened["language"], number - len(code), text, opened["title"] or ""))
            opened = None
        else:
            code.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise ValueError(f"a code block is never closed: {opened[0]}")
    return "\n".join(prose), blocks


def make_goals(text: str) -> set[str]:
    """The goals of every `make ...` in code: spans of prose, and fenced blocks that are neither Python nor output."""
    prose, blocks = split(text)
    pieces = [span[1] for span in CODE_SPAN.findall(prose)]
    pieces += [block.code for block in blocks if block.language not in ("python", "output")]
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


# What a page may need beyond torch and numpy, by the names that its blocks import or call.
NEEDS = {
    "torchcoreset.sklearn": "sklearn",
    "sklearn": "sklearn",
    "pandas": "pandas",
    "matplotlib": "matplotlib",
    "lightning": "lightning",
}
CLI_NEEDS = ("jsonargparse", "pyarrow", "yaml", "matplotlib")


def missing_for(blocks: list[Block]) -> list[str]:
    """Packages that the blocks of a page need and that are not installed."""
    python = "".join(block.code for block in blocks if block.language == "python")
    needed = {package for name, package in NEEDS.items() if re.search(rf"(?:import|from) {re.escape(name)}\b", python)}
    if any(commands(block) for block in blocks):
        needed.update(CLI_NEEDS)
    return sorted(name for name in needed if importlib.util.find_spec(name) is None)


def commands(block: Block) -> list[list[str]]:
    """The words of every command of a block of shell, without comments."""
    if block.language not in ("bash", "console", "shell", "sh"):
        return []
    lines = block.code.replace("\\\n", " ").splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def run_block(block: Block, path: Path, namespace: dict[str, Any]) -> None:
    """Run what can be run of a block, in the present folder."""
    if block.language == "python":
        # Empty lines in front make a traceback show the line numbers of the document.
        code = "\n" * (block.line - 1) + block.code
        if block.title.startswith("excerpt"):
            ast.parse(code)
        else:
            exec(compile(code, str(path), "exec"), namespace)
    elif block.language == "yaml":
        run_yaml(block)
    for words in commands(block):
        if words[0] == "torchcoreset":
            run_cli(words[1:], f"{path.name}:{block.line}: {shlex.join(words)}")
        else:
            check_command(words)


def run_yaml(block: Block) -> None:
    import yaml

    content = yaml.safe_load(block.code)
    assert isinstance(content, dict)
    if block.title:
        Path(block.title).write_text(block.code, "utf-8")
        if "command" in content:
            file = Path(block.title).resolve()
            # Elsewhere: a command of the page that runs it too must not find its outputs.
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                run_cli(["run", str(file)], block.title)


def run_cli(arguments: list[str], where: str) -> None:
    from torchcoreset.app import main

    try:
        code = main([*arguments, "--quiet"] if "--help" not in arguments else arguments)
    except SystemExit as stop:  # --help
        code = stop.code
    assert code in (0, None), f"{where} ended with {code}"


NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?")


def differs(printed: str, shown: str) -> str:
    """How what was printed differs from what a document shows; empty where they agree.

    Runs of blanks count as one; numbers agree within 5 % or 0.01, since other processors add in another order.
    """
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", shown).split():
        return "other words"
    numbers = [[float(found.replace(",", "")) for found in NUMBER.findall(text)] for text in (printed, shown)]
    wrong = [pair for pair in zip(*numbers, strict=True) if abs(pair[0] - pair[1]) > 0.01 + 0.05 * abs(pair[1])]
    return f"{wrong[0][0]} is shown as {wrong[0][1]}" if wrong else ""


def check_command(words: list[str]) -> None:
    """What a command names has to exist: files of examples, folders of configurations, extras of the package."""
    for word in words:
        if re.match(r"(?:examples|configs|docs|tests)/[\w/.-]+$", word):
            assert (ROOT / word).exists(), f"{word} does not exist"
    for extra in re.findall(r"(?:torchcoreset|\.)\[([\w,]+)\]", " ".join(words)):
        known = set(re.findall(r"^([a-z]+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE))
        assert set(extra.split(",")) <= known, f"{extra} is no extra of pyproject.toml"


def check_neighbours(namespace: dict[str, Any], folder: Path) -> None:
    """What other libraries say of the coreset on that page."""
    exact = torchcoreset.transport(namespace["coreset"].points, namespace["data"], exact=True).value
    assert namespace["value"] == pytest.approx(exact)
    assert list(folder.glob("runs/coreset/events*"))


# What is asked once the blocks of a page have run.
AFTERWARDS = {"docs/how-to/neighbours.md": check_neighbours}


@pytest.mark.parametrize(
    "path", [path if path == README else pytest.param(path, marks=pytest.mark.slow) for path in RUNNABLE], ids=name_of
)
def test_code_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    blocks = split(path.read_text("utf-8"))[1]
    missing = missing_for(blocks)
    if missing:
        pytest.skip(f"{name_of(path)} needs {', '.join(missing)}, not installed; `make test` installs all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr("torchcoreset.coresets.start.restarts.MOST", 1)  # starts: what they bring is tested elsewhere
    namespace: dict[str, Any] = {"__name__": "__document__"}
    for block, shown in itertools.zip_longest(blocks, blocks[1:]):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run_block(block, path, namespace)
        if block.language == "python" and shown is not None and shown.language == "output":
            difference = differs(printed.getvalue(), shown.code)
            assert not difference, f"{name_of(path)}:{shown.line}: {difference}\nprinted was:\n{printed.getvalue()}"
    if name_of(path) in AFTERWARDS:
        AFTERWARDS[name_of(path)](namespace, tmp_path)


def test_every_public_name_is_in_the_reference() -> None:
    """By `::: module.name` of its own module, or by that module as a whole."""
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    things = {name: getattr(torchcoreset, name) for name in torchcoreset.__all__}
    for name in [name for name, it in things.items() if inspect.ismodule(it)]:
        module = things.pop(name)
        things |= {f"{name}.{inner}": getattr(module, inner) for inner in module.__all__}
    missing = [name for name, it in things.items() if not shown & {it.__module__, f"{it.__module__}.{it.__qualname__}"}]
    missing += [name for name in testing.__all__ if f"torchcoreset.testing.{name}" not in shown]
    missing += [name for name in ["torchcoreset.sklearn.WassersteinCoreset"] if name not in shown]
    assert not missing, f"docs/reference lacks {missing}"


def test_the_citation_is_that_of_this_version() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert str(citation["version"]) == re.findall(r'^version = "(.+)"$', project, re.MULTILINE)[0]
    assert citation["license"] == re.findall(r'^license = "(.+)"$', project, re.MULTILINE)[0]
    paper = citation["references"][0]
    assert paper["title"] == "Wasserstein Measure Coresets"
    assert [author["family-names"] for author in paper["authors"]] == ["Claici", "Genevay", "Solomon"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"), [("pictures", {"size": 20, "rows": 1000, "pixels": 200}), ("speed", {})]
)
def test_pictures_can_be_drawn_again(name: str, arguments: dict[str, int], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'torchcoreset[plot]'")
    pytest.importorskip("PIL", reason="needs Pillow, which comes with matplotlib")
    runpy.run_path(str(ROOT / "docs" / f"{name}.py"))["draw"](tmp_path, **arguments)
    drawn = sorted(tmp_path.iterdir())
    assert [path.stem.partition("-")[2] for path in drawn] == ["dark", "light"]
    assert all((ROOT / "docs" / "images" / path.name).is_file() for path in drawn)


def test_the_chart_of_speed_shows_the_numbers_of_the_tables() -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'torchcoreset[plot]'")
    speed = runpy.run_path(str(ROOT / "docs" / "speed.py"))
    shown = speed["record"](speed["bars"]((ROOT / "docs" / "benchmarks.md").read_text("utf-8")))
    for file in sorted((ROOT / "docs" / "images").glob("speed-*.svg")):
        assert shown in html.unescape(file.read_text("utf-8")), f"{file.name} is old: run `python docs/speed.py`"


@pytest.mark.parametrize("path", PROSE, ids=name_of)
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


def test_the_title_of_a_block_is_found() -> None:
    blocks = split('```yaml title="run.yaml"\nx: 1\n```\n')[1]
    assert blocks == [Block("yaml", 2, "x: 1\n", "run.yaml")]


def test_outputs_are_compared_by_words_and_numbers() -> None:
    assert not differs("W2 = 0.587,\n n=1,000", "W2 =   0.59, n=1,000\n")
    assert differs("W2 = 0.587", "W2 = 0.687") == "0.587 is shown as 0.687"
    assert differs("W2 = 0.587", "W1 = 0.587") == "other words"
    assert differs("1 2", "1") == "other words"


def test_commands_are_read_as_a_shell_would() -> None:
    block = Block("bash", 1, "# a note\ntorchcoreset build 'my data.csv' \\\n  --size 4  # twice\nmake docs\n")
    assert commands(block) == [["torchcoreset", "build", "my data.csv", "--size", "4"], ["make", "docs"]]


def test_a_command_that_names_what_is_not_there_is_seen() -> None:
    with pytest.raises(AssertionError, match="does not exist"):
        check_command(["python", "examples/no_such.py"])
    with pytest.raises(AssertionError, match="no extra"):
        check_command(["pip", "install", "torchcoreset[nothing]"])
