"""Confidence intervals for a coreset: its distance to the population, not to a sample of it.

`certify` bounds W_p(nu, mu), and `certificate` is the result; `pushforward` bounds the distance of images under a map
(`maps`), `lipschitz` a network's constant, `expectation` the error of one mean. `points` reads what is certified,
`evaluation` holds what a bound is computed from, and `bounds` the statistics. `optimality` says how near any
points could be.
"""

from .certificate import Certificate
from .certify import certify, check_confidence
from .expectation import ExpectationError, expectation_error
from .lipschitz import lipschitz_constant
from .optimality import OptimalityBound, fewest_points, optimality_bound
from .pushforward import PushforwardCertificate, certify_pushforward

__all__ = [
    "Certificate", "ExpectationError", "OptimalityBound", "PushforwardCertificate", "certify", "certify_pushforward",
    "check_confidence", "expectation_error", "fewest_points", "lipschitz_constant", "optimality_bound",
]  # fmt: skip
