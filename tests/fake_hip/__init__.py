"""A HIP runtime and a hipBLASLt without a GPU: they keep books and find misuse.

The shared library holds entry points alone; what they do is Python. Work on a stream is done when someone waits for it
and not before, so that a missing wait shows as wrong numbers. Kernels are run by whoever loads the code objects: the
emulator, or functions of a test.
"""

from tests.fake_hip.blaslt import FakeBlasLt
from tests.fake_hip.library import build_library
from tests.fake_hip.runtime import FakeHip
from tests.fake_hip.state import Finding

__all__ = ["FakeBlasLt", "FakeHip", "Finding", "build_library"]
