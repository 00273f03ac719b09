"""What a notebook shows of a result: its numbers and a small picture, as HTML with SVG in it, without matplotlib.

`card` puts numbers beside a picture; `drawings` are those pictures: points, bounds, and values over the steps of a run.
"""

from .card import card
from .drawings import draw_interval, draw_points, draw_steps

__all__ = ["card", "draw_interval", "draw_points", "draw_steps"]
