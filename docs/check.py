"""Checks the built site as a reader would see it: `python docs/check.py SITE [--screenshots FOLDER]`.

Without a browser: every link, anchor and picture of every page exists, and no Markdown is left over in the text. With
playwright and Chromium: every page at two widths, in light and dark, scrolls in one direction only, shows its pictures
and formulas, and leaves no error in the console.
"""

from __future__ import annotations

import argparse
import functools
import html.parser
import http.server
import itertools
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What Markdown leaves in the text where it was not understood.
LEFT_OVER = re.compile(r"\*\*|\]\(|^#+ |```|\\\(|\\\[", re.MULTILINE)

# Run in the page: what is wrong with it, in words.
LOOK = """() => {
  const wrong = [], width = document.documentElement.clientWidth
  if (document.documentElement.scrollWidth > width) {
    const wide = [...document.querySelectorAll(".md-content *")].find(e => e.getBoundingClientRect().right > width + 1)
    wrong.push(`scrolls sideways, ${document.documentElement.scrollWidth} pixels: ${wide?.outerHTML.slice(0, 120)}`)
  }
  for (const image of document.images) {
    if (image.complete && image.naturalWidth === 0) wrong.push(`does not show ${image.src}`)
  }
  for (const formula of document.querySelectorAll(".katex-error")) wrong.push(`formula: ${formula.title}`)
  for (const formula of document.querySelectorAll(".arithmatex")) {
    if (!formula.querySelector(".katex")) wrong.push(`formula is not set: ${formula.textContent}`)
  }
  return wrong
}"""


class Reader(html.parser.HTMLParser):
    """Links, pictures, anchors and text of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.text: list[str] = []
        self.code = 0  # depth of elements whose text is not prose

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := values.get(name))]
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        self.code += tag in ("code", "pre", "script", "style") or "arithmatex" in (values.get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        self.code = max(self.code - (tag in ("code", "pre", "script", "style")), 0)

    def handle_data(self, data: str) -> None:
        if not self.code:
            self.text.append(data)


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text("utf-8"))
    return reader


def broken(site: Path) -> list[str]:
    """What is wrong with the pages, without a browser."""
    pages = {page: read(page) for page in sorted(site.rglob("*.html"))}
    if not pages:
        return [f"{site} holds no pages: run `make docs` first"]
    return [
        f"{page.relative_to(site)}: {what}"
        for page, reader in pages.items()
        for what in _wrong(site, page, reader, pages)
    ]


def _wrong(site: Path, page: Path, reader: Reader, pages: dict[Path, Reader]) -> Iterator[str]:
    base = f"http://site/{page.relative_to(site).as_posix()}"
    for link in dict.fromkeys(reader.links):
        url = urlsplit(urljoin(base, link))
        if url.scheme != "http" or url.netloc != "site":
            continue  # elsewhere, or data
        target = site / unquote(url.path).lstrip("/")
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            yield f"{link} leads nowhere"
        elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].anchors:
            yield f"{link} has no such anchor"
    for found in LEFT_OVER.finditer("\n".join(reader.text)):
        yield f"Markdown in the text: {found.string[max(found.start() - 30, 0) : found.end() + 30]!r}"


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of the site on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def browser() -> str | None:
    """The path of a Chromium: CHROMIUM, or one on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def seen(site: Path, executable: str, screenshots: Path | None = None) -> list[str]:
    """What is wrong with the pages in a browser."""
    from playwright.sync_api import sync_playwright

    names = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    wrong = []
    with served(site) as address, sync_playwright() as playwright:
        # A container's root cannot have the sandbox; the pages are our own.
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for width, scheme in itertools.product(WIDTHS, SCHEMES):
            context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = Watched(context.new_page())
            for name in names:
                wrong += [f"{name}, {width} pixels, {scheme}: {what}" for what in page.look(address + name)]
                if screenshots is not None:
                    target = screenshots / f"{name.removesuffix('.html').replace('/', '_')}-{width}-{scheme}.png"
                    page.page.screenshot(path=str(target), full_page=True)
            context.close()
        chromium.close()
    return wrong


class Watched:
    """A page of a browser, and what it has complained of since it was last loaded."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("requestfailed", self.failed)

    def failed(self, request: Any) -> None:
        # What the next page cuts off, such as the worker of the search, is aborted, and is no failure.
        if request.failure != "net::ERR_ABORTED":
            self.said.append(f"could not load {request.url}: {request.failure}")

    def look(self, address: str) -> list[str]:
        """What is wrong with the page at an address."""
        self.said.clear()
        self.page.goto(address)
        # Pictures below the window would be loaded when they are scrolled to.
        self.page.evaluate("document.querySelectorAll('img[loading=lazy]').forEach(i => { i.loading = 'eager' })")
        self.page.wait_for_function("[...document.images].every(image => image.complete)")
        return list(dict.fromkeys([*self.said, *self.page.evaluate(LOOK)]))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="folder that mkdocs wrote")
    parser.add_argument("--screenshots", type=Path, help="folder for a picture of every page at every width and scheme")
    options = parser.parse_args(arguments)
    wrong = broken(options.site)
    print(f"links, anchors, pictures: {len(wrong)} wrong")
    executable = browser()
    try:
        import playwright  # noqa: F401
    except ImportError:
        executable = None
    if executable is None:
        print("no look in a browser: needs `pip install playwright`, and Chromium on the path or in CHROMIUM")
    else:
        if options.screenshots is not None:
            options.screenshots.mkdir(parents=True, exist_ok=True)
        looked = seen(options.site, executable, options.screenshots)
        print(f"in {executable}, at {WIDTHS} pixels, {' and '.join(SCHEMES)}: {len(looked)} wrong")
        wrong += looked
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
