"""A few points that stand in for a distribution you can only sample, with a number that says how well."""

from .sources import Source, as_source

__all__ = ["Source", "as_source"]
