"""A hook of mkdocs: numbers in tables are not broken at the minus of an exponent, nor apart from their unit."""

from __future__ import annotations

import re
from typing import Any

CELL = re.compile(r"(<td[^>]*>)(.*?)(</td>)", re.DOTALL)
# A number in brackets, or one with its unit or its error.
TOGETHER = re.compile(r"\([-+]?[\d.]+(?:e[-+]?\d+|%)?\)|[\d.,]+ (?:ms|s|GB|MiB|%)(?![\w])|[\d.]+e[-+]\d+|± [\d.e+-]+")


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs with the HTML of each page."""
    return CELL.sub(
        lambda cell: cell[1] + TOGETHER.sub(r'<span class="together">\g<0></span>', cell[2]) + cell[3], content
    )
