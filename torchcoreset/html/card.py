"""Numbers beside a picture."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def card(title: str, numbers: Mapping[str, str], *pictures: str) -> str:
    """HTML of a title, numbers by name, and pictures (SVG, or "" for none) beside them.

    Example:
        >>> card("Certificate", {"W_2": "<= 0.5"})[:80]
        '<div style="display: flex; gap: 1.5em; align-items: center"><div><b>Certificate<'
    """
    rows = "".join(
        f'<tr><td style="text-align: left">{escape(name)}</td><td style="text-align: left">{escape(text)}</td></tr>'
        for name, text in numbers.items()
    )
    return (
        f'<div style="display: flex; gap: 1.5em; align-items: center"><div><b>{escape(title)}</b>'
        f'<table style="color: inherit">{rows}</table></div>{"".join(pictures)}</div>'
    )
