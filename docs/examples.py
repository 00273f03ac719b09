"""An extension of griffe, which reads docstrings for the reference: examples are shown as code.

It knows the section "Examples:" only. It would take our "Example:" for a note, and `>>>` there, or under a constant,
for quotations within quotations.
"""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Docstrings as griffe wants them, in its memory alone."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each object that was read."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
            obj.docstring.value = re.sub(r"(?m)^(>>> .*(?:\n.+)*)", r"```pycon\n\1\n```", text)
