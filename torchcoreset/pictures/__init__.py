"""Pictures for matplotlib (extra `plot`): each function returns a Figure, to show in a notebook or to save.

    from torchcoreset.pictures import draw_cells
    draw_cells(result.coreset, data, result.transport.potential).savefig("cells.png")

points        a coreset over its data: one dimension, the plane, or the two main axes; classes in colours
comparison    several sets of points over the same data, side by side
cells         the Laguerre cells, in the plane
pairs         every pair of a few columns
images        points that are images, as a grid
bounds        how the two bounds on the distance met over a run
certificates  intervals for the distance against the number of points
canvas        figures, colours and arrays, for all of these
"""

from .bounds import draw_bounds
from .cells import draw_cells
from .certificates import draw_certificates
from .comparison import Panel, draw_comparison
from .images import draw_images
from .pairs import draw_pairs
from .points import draw_classes, draw_coreset

__all__ = [
    "Panel", "draw_bounds", "draw_cells", "draw_certificates", "draw_classes", "draw_comparison", "draw_coreset",
    "draw_images", "draw_pairs",
]  # fmt: skip
