"""Problems with exact answers, to test an optimal transport solver or a coreset against.

Everything is float64, costs are |x - y|^p in full, values are W_p^p, not rooted.

From `line`, the distributions `NORMAL`, `UNIFORM` and `EXPONENTIAL` (all in `LINE_PROBLEMS`; add your own as
a `LineProblem`): optimal coresets with uniform weights, and value, potential and gradient of any points
against the whole distribution, not a sample of it. Closed forms through the monotone coupling.

From `discrete`, `DISCRETE_PROBLEMS`: small weighted problems with values and gradients by hand, most drawn
from bug reports of neighbouring projects (`E1` is the one to try first); and `line_transport`, exact value,
potential and plan between any two weighted sets on the line.

`relaxed_value` solves small problems whose weights are free or bounded, or of which some mass stays unmatched, as a
linear program; `LineProblem.quantizer` has the best points with free weights. `matrix_value` and `bounded_value` are
that program for any matrix of costs: the truth for a distance of your own.

From `sphere`, `cap_value`: from the centre of a cap to all of it along the sphere, and `sample_cap`, which draws from
it. `categories_value`: between categories any two of which are equally far apart.

From `plane`, `BEST_KNOWN`: the best W2^2 of n points in N(0, I_2) and in the unit square, closed forms for
small n and the best of many restarts beyond; the limits `HEXAGON_W1` and `HEXAGON_W2`; and seeded samplers.

From `optimal`, `best_value`: the global optimum over all points, of tiny problems.

From `energy`, the energy distance on the line, `energy_line`, and its minimisers, `support_points_line`.

From `gaussians`, `gaussian_w2` (Dowson and Landau 1982), `entropic_gaussian_line` and
`sinkhorn_gaussian_line` (Janati et al. 2020).

>>> import torch
>>> from torchcoreset.testing import NORMAL
>>> points = torch.tensor([[2.0], [-1.0], [0.5]])
>>> round(NORMAL.value(points, p=1), 6), [round(v, 6) for v in NORMAL.potential(points, p=1).tolist()]
(0.623079, [1.120485, -0.74097, -0.379515])
"""

from .discrete import DISCRETE_PROBLEMS, E1, DiscreteProblem, LineTransport, line_transport
from .energy import energy_line, support_points_line
from .gaussians import entropic_gaussian_line, gaussian_w2, sinkhorn_gaussian_line
from .line import EXPONENTIAL, LINE_PROBLEMS, NORMAL, UNIFORM, LineProblem
from .matrix import bounded_value, categories_value, matrix_value
from .optimal import best_value
from .plane import BEST_KNOWN, HEXAGON_W1, HEXAGON_W2, KnownValue, sample_normal, sample_square
from .relaxed import relaxed_value
from .sphere import cap_value, sample_cap

__all__ = [
    "BEST_KNOWN", "DISCRETE_PROBLEMS", "E1", "EXPONENTIAL", "HEXAGON_W1", "HEXAGON_W2", "LINE_PROBLEMS", "NORMAL",
    "UNIFORM", "DiscreteProblem", "KnownValue", "LineProblem", "LineTransport", "best_value", "bounded_value",
    "cap_value", "categories_value", "energy_line", "entropic_gaussian_line", "gaussian_w2", "line_transport",
    "matrix_value", "relaxed_value", "sample_cap", "sample_normal", "sample_square", "sinkhorn_gaussian_line",
    "support_points_line",
]  # fmt: skip
