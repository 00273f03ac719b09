"""`torchcoreset build`: from a table to a coreset in a file.

job        what is checked and read first       command      build, write, draw
ended      a run that has ended or was stopped  record       what the file and the terminal say of it
picture    the points over the rows             baseline     random rows by the same measure
"""

from .command import run

__all__ = ["run"]
