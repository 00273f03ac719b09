"""The running potential of a stream: one batch at a time, each measured at the potential of those before it.

`state` is what is remembered, `batch` what a batch shows of it, `update` how the potential follows; `boundaries` moves
it with the points, `ties` shares samples that several points want equally, `drift` tells whether the stream changed.
`follow` is the way in.
"""

from .follow import MEMORY_DIMENSIONS, Followed, Memory, Seen, StreamStatus, StreamTransport, follow, see

__all__ = ["MEMORY_DIMENSIONS", "Followed", "Memory", "Seen", "StreamStatus", "StreamTransport", "follow", "see"]
