"""The running potential of a stream: one batch at a time, each evaluated at the potential of the previous batches.

`state` is the state of the stream, `batch` evaluates a batch at it, and `update` updates it; `boundaries` moves the
potential with the points, `ties` shares samples that are equally near to several points, and `drift` detects changes of
the stream. `follow` is the entry point.
"""

from .follow import MEMORY_DIMENSIONS, Followed, Memory, Seen, StreamStatus, StreamTransport, follow, see

__all__ = ["MEMORY_DIMENSIONS", "Followed", "Memory", "Seen", "StreamStatus", "StreamTransport", "follow", "see"]
