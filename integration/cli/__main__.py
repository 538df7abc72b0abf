"""`python -m stackmask.integration.cli`: the command line where no script was installed."""

import sys

from .entry import main

if __name__ == "__main__":
    sys.exit(main())
