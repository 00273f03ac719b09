"""What can be promised of a coreset: intervals for its distance to the population, not to a sample of it.

points       what is certified                 fresh        rows that nobody has seen
potential    v, from samples of its own        ledger       what one pass leaves behind
plan         a feasible plan from it           moments, interval    fluctuations
certify      W_p(nu, mu), and the proof        certificate  the result
pushforward  the images under a map            lipschitz    a constant of a network
expectation  the error of one mean             maps         calling the user's function
shared_rows  fresh rows of several ranks      weights      too heavy for an interval
"""

from .certificate import Certificate
from .certify import certify, check_confidence
from .expectation import ExpectationError, expectation_error
from .lipschitz import lipschitz_constant
from .pushforward import PushforwardCertificate, certify_pushforward

__all__ = [
    "Certificate",
    "ExpectationError",
    "PushforwardCertificate",
    "certify",
    "certify_pushforward",
    "check_confidence",
    "expectation_error",
    "lipschitz_constant",
]
