"""`python -m stackmask`: the command line, also where no script was installed."""

import sys

from .integration.cli import main

if __name__ == "__main__":
    sys.exit(main())
