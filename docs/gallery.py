"""A hook of mkdocs that runs the scripts of docs/gallery, and makes a page of each.

The docstring of a script is its title and its text, in Markdown. Its code is shown, then what it prints, and the
pictures that it saves into the folder that it runs in. docs/gallery/index.md lists all scripts, by title; on the site
its lists become grids of pictures.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDER = Path(__file__).parent / "gallery"
ITEM = re.compile(r"^- \[(.+)\]\((\w+)\.py\)$", re.MULTILINE)
LIST = re.compile(rf"(?:{ITEM.pattern}\n?)+", re.MULTILINE)


class Entry(NamedTuple):
    """One script: where it is, its title, the text below it, and its code."""

    path: Path
    title: str
    text: str
    code: str


class Result(NamedTuple):
    """What a script printed, and the pictures that it saved, by their names."""

    printed: str
    pictures: dict[str, bytes]


def entries() -> list[Entry]:
    """The scripts, in the order of index.md. Raises PluginError where it and the folder do not say the same."""
    listed = {name: title for title, name in ITEM.findall((FOLDER / "index.md").read_text("utf-8"))}
    found = {path.stem: read(path) for path in FOLDER.glob("*.py")}
    expected = {name: entry.title for name, entry in found.items()}
    if listed != expected:
        different = sorted(dict(listed.items() ^ expected.items()))
        raise PluginError(f"docs/gallery/index.md: expected each script once, by its title; look at {different}")
    return [found[name] for name in listed]


def read(path: Path) -> Entry:
    """The parts of a script."""
    source = path.read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(source))
    if docstring is None:
        raise PluginError(f"docs/gallery/{path.name} has no docstring; expected one, whose first line is the title")
    title, _, text = docstring.partition("\n")
    return Entry(path, title, text.strip(), source.split('"""', 2)[2].strip())


@functools.cache  # `mkdocs serve` asks again after each change of a page
def run(entry: Entry) -> Result:
    """Run a script in a folder of its own. Warnings are errors: a page would not show them."""
    os.environ["MPLBACKEND"] = "Agg"
    from matplotlib import pyplot as plt

    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(entry.path.read_text("utf-8"), str(entry.path), "exec"), {"__name__": "__main__"})
        except Exception as error:
            raise PluginError(f"docs/gallery/{entry.path.name}: {type(error).__name__}: {error}") from error
        finally:
            plt.close("all")
        pictures = {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.png"))}
    if f"{entry.path.stem}.png" not in pictures:
        raise PluginError(f"docs/gallery/{entry.path.name} saved {list(pictures)}; expected {entry.path.stem}.png")
    return Result(printed.getvalue(), pictures)


def page_of(entry: Entry, result: Result) -> str:
    """The page in Markdown."""
    pictures = "\n".join(f"![{entry.title}]({name})" for name in result.pictures)
    output = f"```output\n{result.printed.rstrip()}\n```\n" if result.printed else ""
    return f"# {entry.title}\n\n{entry.text}\n\n{pictures}\n\n```python\n{entry.code}\n```\n\n{output}"


def on_config(config: MkDocsConfig) -> None:
    """Put the entries into the table of contents, below the gallery."""
    for item in config.nav or []:
        if isinstance(item, dict) and "Gallery" in item:
            pages = [{entry.title: f"gallery/{entry.path.stem}.md"} for entry in entries()]
            item["Gallery"] = ["gallery/index.md", *pages]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages and pictures of all entries."""
    for entry in entries():
        result = run(entry)
        files.append(File.generated(config, f"gallery/{entry.path.stem}.md", content=page_of(entry, result)))
        for name, content in result.pictures.items():
            files.append(File.generated(config, f"gallery/{name}", content=content))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replace the lists of index.md by grids of pictures."""
    return LIST.sub(grid, markdown) if page.file.src_uri == "gallery/index.md" else markdown


def grid(found: re.Match[str]) -> str:
    """A list of scripts as a grid of links to their pages."""
    cells = [
        f'<a href="{name}/"><img src="{name}.png" alt="" loading="lazy"><span>{title}</span></a>'
        for title, name in ITEM.findall(found[0])
    ]
    return "\n".join(['<div class="gallery">', *cells, "</div>\n"])
