"""Optimal transport between n points and m samples: no autograd, no modules.

problem     the door: checks, weights, shift          cost      |y - x|^p, pairwise and paired
engine      hard and soft passes over all samples     choose    which engine makes them
dense       the engine of matrix products             nearest   the two lowest of many numbers
fused       engines that never write c - v down       keops, triton    two of these
candidates  soft passes over lists, of many points    overlap   the Hessian from the lists
curvature   Newton directions                         newton    annealed Newton on the smoothed semi-dual
multiscale  where Newton begins: with few points      line      one dimension: sorting
balance     surplus mass along shortest paths         balance_lists    the same, of many points
market      the rounds of both                        stock       what a cell holds meanwhile
untangle    a rough potential where Newton is lost
solver      from a problem to bounds that meet        solve     `transport`: the public way in
sinkhorn    entropic transport at a given eta         geomloss  the same by geomloss' iteration
entropic    what an entropic potential is worth       result    what comes back
state       what is remembered of a stream     batch         what a batch shows of it
running     the potential of a stream          boundaries    how it moves with the points
drift       whether the stream has moved       stream    one batch of it, measured and remembered
ranks       processes that sum and gather      shard     a problem whose samples lie on several of them
movable     the samples that may change cell   listing   where they may go
idle        points of weight zero                  groups    what is so far apart that no mass crosses
offered     which samples may change cell
rounding    what it may hide of a lower bound      whole     labels from a plan: each sample to one point
ties        samples of a stream that several points want equally
extent      median, scale and diameter of a measure
deterministic    sums that repeat on a GPU     modes     what of torch's modes is left at the door
"""

from .cost import paired, paired_gradient, pairwise, pairwise_exact
from .extent import data_scale, diameter, distances, weighted_median
from .problem import Problem, as_table, check_power, make_problem, within_range
from .result import ENTRIES, Coupling, Status, Transport
from .solve import EXACT_GAP, check_start, check_tolerance, report_unconverged, solve, solve_dual, transport
from .solver import DENSE_BALANCE
from .stream import StreamStatus, StreamTransport

__all__ = [
    "DENSE_BALANCE",
    "ENTRIES",
    "EXACT_GAP",
    "Coupling",
    "Problem",
    "Status",
    "StreamStatus",
    "StreamTransport",
    "Transport",
    "as_table",
    "check_power",
    "check_start",
    "check_tolerance",
    "data_scale",
    "diameter",
    "distances",
    "make_problem",
    "paired",
    "paired_gradient",
    "pairwise",
    "pairwise_exact",
    "report_unconverged",
    "solve",
    "solve_dual",
    "transport",
    "weighted_median",
    "within_range",
]
