"""`torchcoreset info`: what a file holds, or what this installation can do."""

from .command import run

__all__ = ["run"]
