"""What to do before a run, and what to know after it, in plain words.

size_for    how many points a distance takes        growth    the fit behind it
preflight   memory and time of a build              doctor    what a finished coreset suffers from
"""

from .diagnose import Finding, Report, doctor
from .preflight import Preflight, preflight
from .size_for import SizeResult, size_for

__all__ = ["Finding", "Preflight", "Report", "SizeResult", "doctor", "preflight", "size_for"]
