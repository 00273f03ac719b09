"""Names that arguments take, each declared once: also for the help of the command line, which does not import torch."""

from typing import Literal

Algorithm = Literal["auto", "fixed_point", "sgd", "gradient"]
Allocation = Literal["proportional", "equal"]
Backend = Literal["geomloss", "newton"]
BoundMethod = Literal["auto", "line", "semidefinite", "shift", "pairs", "blocks"]
CostName = Literal["cosine", "great-circle"]
DateUnit = Literal["seconds", "hours", "days", "years"]
Divergence = Literal["wasserstein", "sinkhorn", "energy", "mmd"]
Init = Literal["annealed", "random", "kmeans++"]
KernelName = Literal["gaussian", "laplace"]
ScaleName = Literal["standard", "robust", "whiten"]
WeightsAre = Literal["importance", "counts"]
