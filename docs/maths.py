"""Writes the formulas of the pages as MathML, which browsers show by themselves: no script, no network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs with the HTML of each page."""
    content = INLINE.sub(lambda found: _mathml(found[1], "inline"), content)
    return DISPLAY.sub(lambda found: _mathml(found[1], "block"), content)


def _mathml(formula: str, display: str) -> str:
    """A formula in LaTeX, as it stands in HTML, as MathML."""
    text = html.unescape(formula).strip()
    found = convert(text, display=display)
    if "\\" in html.unescape(found):
        raise ValueError(f"docs/maths.py: latex2mathml does not know a command of {text!r}")
    return found
