"""Optimal transport between n points and m samples: no autograd, no modules.

`problem` checks the inputs and shifts them to the origin; `costs` has |y - x|^p, its slope, and everything else that
depends on the distance and on p. `call` is the public function, and `solve` the entry for checked problems. `presolve`
reduces these and chooses their arithmetic, and `solving` combines three packages until the bounds of `result` meet:

    passes      reductions over all samples: Laguerre cells, and cells smoothed by a softmin
    dual        Newton on the semi-dual: from a cold start to a nearly optimal potential
    flow        min-cost flow on the cells: from there to a feasible plan and the optimal potential

`direct` solves small problems by the flow alone, all of a batch in one call, and `same_samples` one problem after
another whose points move. `stream` updates the potential of a stream batch by batch, `entropic` solves the entropic
problem, `ranks` wraps a problem and its engine if samples lie on several processes, and `batched` checks many problems
of one shape. `marginals` describes weights and masses that a plan may choose, and `relaxed` solves for such plans.
`reductions` merges equal samples, leaves out points without weight and splits a problem where no mass crosses; `labels`
assigns each sample to one point, and `extent` computes median, scale and diameter.
"""

from .batched import CouplingBatch, TransportBatch
from .call import EXACT_GAP, check_tolerance, report_unconverged, transport
from .costs import DISTANCE, Cost, as_cost, check_power
from .direct import WRONG_MASS, balance_all
from .extent import data_scale, diameter, distances, weighted_median
from .marginals import FREE, as_marginals, check_trim, is_choice
from .problem import Problem, as_table, make_problem, within_range
from .reductions import repeats_of
from .result import Coupling, Status, Transport
from .same_samples import SameSamples
from .solve import check_start, solve, solve_batch, solve_dual
from .solving import may_start_from_cells
from .stream import StreamStatus, StreamTransport

__all__ = [
    "DISTANCE", "EXACT_GAP", "FREE", "WRONG_MASS", "Cost", "Coupling", "CouplingBatch", "Problem", "SameSamples",
    "Status", "StreamStatus", "StreamTransport", "Transport", "TransportBatch", "as_cost", "as_marginals", "as_table",
    "balance_all", "check_power", "check_start", "check_tolerance", "check_trim", "data_scale", "diameter", "distances",
    "is_choice", "make_problem", "may_start_from_cells", "repeats_of", "report_unconverged", "solve", "solve_batch",
    "solve_dual", "transport", "weighted_median", "within_range",
]  # fmt: skip
