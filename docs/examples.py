"""An extension of griffe, which reads docstrings for the reference: examples are shown as code, sources as paragraphs.

Of sections it knows "Examples:" and others with a list below. It would take our "Example:", and a "Source:" of several
lines, for boxes with a title, and `>>>` there, or under a constant, for quotations within quotations.
"""

import re
from typing import Any

import griffe

# A word, a colon, and text that goes on in indented lines.
PARAGRAPH = re.compile(r"(?m)^(Source|Gradient): (.+(?:\n +\S.*)*)")


class Examples(griffe.Extension):
    """Docstrings as griffe wants them, in its memory alone."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each object that was read."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
            text = PARAGRAPH.sub(lambda found: f"**{found[1]}.** " + re.sub(r"\n +", "\n", found[2]), text)
            text = re.sub(r"(?m)^((?:Returns|Yields):\n    )`([^`\n]+)`:", r"\1\2:", text)  # a type, which is linked
            obj.docstring.value = re.sub(r"(?m)^(>>> .*(?:\n.+)*)", r"```pycon\n\1\n```", text)
