"""`python -m ackbus.cli`: the command where `bus` may not be on the PATH, as in a git hook."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
