"""A fake HIP in the place of the real one."""

from tests.gpu_runtime.conftest import fake_library, make_hip

__all__ = ["fake_library", "make_hip"]
