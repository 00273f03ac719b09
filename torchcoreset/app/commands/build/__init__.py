"""`torchcoreset build`: from a table to a coreset in a file.

settings   what it can be asked for             command      build, write, draw
job        what is checked and read first       record       what the file and the terminal say of it
ended      a run that has ended or was stopped  picture      the points over the rows
"""

from .command import run
from .settings import BuildSettings

__all__ = ["BuildSettings", "run"]
