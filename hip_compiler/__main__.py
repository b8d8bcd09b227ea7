"""`python -m hip_compiler`: the command line, where no script is on the path."""

import sys

from hip_compiler.cli import main

if __name__ == "__main__":
    sys.exit(main())
