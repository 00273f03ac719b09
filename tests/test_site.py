"""The site: it builds, needs no network, and no link, picture or formula of it is broken.

`make docs-check` looks at it in a browser too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted((ROOT / "docs").rglob("*.md"))

# What a browser would fetch from elsewhere; a canonical address is only named.
REMOTE = re.compile(
    r"<(?:script|(?!link rel=.canonical)link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
)
# Words that one would search for, whatever these pages call the thing.
SEARCHED = ("normalize", "standardize", "GPU", "cuda", "medoid", "subset", "k-means", "centroid", "EMD", "MCMC")


@pytest.mark.slow
def test_the_site_builds_needs_no_network_and_is_whole(tmp_path: Path) -> None:
    for package in ("mkdocs", "material", "mkdocstrings", "matplotlib", "sklearn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install 'torchcoreset[docs]'")
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(GUIDES)  # and a page for what is not found
    for page in pages:
        text = page.read_text("utf-8")
        assert not REMOTE.search(text), f"{page.name} loads {REMOTE.search(text)}"
        assert "<blockquote>" not in text, f"{page} shows an example as a quotation"
        assert not re.search(r"<em>[\s).,;-]", text), f"{page} takes an asterisk of the text for emphasis"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()[^;)]*//", style.read_text("utf-8")), style.name
    wrong = runpy.run_path(str(ROOT / "docs" / "check.py"))["broken"](site)
    assert not wrong, "\n".join(wrong)
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    words = " ".join(entry["title"] + " " + entry["text"] for entry in index["docs"]).lower()
    assert not [word for word in SEARCHED if word.lower() not in words]


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    """Of a site made by hand: a link, an anchor and a picture that are not there, and Markdown in the text."""
    (tmp_path / "index.html").write_text(
        '<p id="top">See **this** <a href="other/">page</a> <a href="other/#there">part</a> <a href="#top">top</a>'
        '<a href="https://example.org">elsewhere</a> <code>**kwargs</code> <img src="picture.png"> <a href="none/"></a>'
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<p id="here">Here</p>')
    wrong = runpy.run_path(str(ROOT / "docs" / "check.py"))["broken"](tmp_path)
    said = ["other/#there has no such anchor", "picture.png leads nowhere", "none/ leads nowhere"]
    assert wrong[:3] == [f"index.html: {what}" for what in said]
    assert len(wrong) == 5  # and two asterisks on either side
