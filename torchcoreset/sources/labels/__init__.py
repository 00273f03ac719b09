"""What stands beside the features of a row: `Classes` become codes in a column, `Targets` columns of numbers.

Joint rows are (features, columns of labels). `part_of` finds the labels of a batch or of a dataset's row.
"""

from .columns import Classes, Labels, Targets, label_array, labels_from
from .parts import LABEL_KEYS, part_of, without

__all__ = ["LABEL_KEYS", "Classes", "Labels", "Targets", "label_array", "labels_from", "part_of", "without"]
