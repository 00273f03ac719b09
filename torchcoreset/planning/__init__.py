"""Planning of a build, and diagnosis of its result.

size_for    how many points a distance takes        growth    the fit behind it
preflight   memory and time of a build              doctor    diagnosis of a finished coreset
"""

from .diagnose import Finding, Report, doctor
from .preflight import Preflight, preflight
from .size_for import SizeResult, size_for

__all__ = ["Finding", "Preflight", "Report", "SizeResult", "doctor", "preflight", "size_for"]
