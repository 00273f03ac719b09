"""Distances between rows, of which the argument `p` is the power: what `cost=` takes.

| cost | distance |
| --- | --- |
| `Euclidean()` | between rows as they are, the default |
| `Scaled(weights)` | each column counts by its weight |
| `Mahalanobis(matrix)` | by a matrix, such as an inverse covariance |
| `Cosine()` | between directions |
| `GreatCircle()` | along the Earth's surface, rows (latitude, longitude) |
| `Mixed(categorical, price)` | numbers, and categories with a price |
| `Embedded(network)` | between the features of a network |
| `Function(f)`, or f itself | whatever f says |
"""

from .transport.costs import (
    Cosine,
    Embedded,
    Euclidean,
    Function,
    GreatCircle,
    Mahalanobis,
    Metric,
    Mixed,
    Scaled,
)

__all__ = ["Cosine", "Embedded", "Euclidean", "Function", "GreatCircle", "Mahalanobis", "Metric", "Mixed", "Scaled"]
