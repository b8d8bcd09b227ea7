"""``python -m hip_compiler.cli``: the same as the ``hip-compiler`` command."""

import sys

from hip_compiler.cli.main import main

sys.exit(main())
