"""`python -m torchcoreset`: the command line, where the script `torchcoreset` is not on the path."""

import sys

from .app import main

if __name__ == "__main__":
    sys.exit(main())
