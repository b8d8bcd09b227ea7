"""A compiler from ONNX models to programs for the CPU and AMD GPUs, extended by plugins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hip_compiler.runtime import Session

__all__ = ["load"]


def load(path: str | os.PathLike[str], *, num_threads: int = 0) -> Session:
    """Load a compiled model. It needs neither the compiler nor the MLIR bindings.

    Args:
        path: an artifact folder, as `Session.save` writes it.
        num_threads: threads of a run; 0: HIPC_NUM_THREADS, else one per available core.

    Raises:
        HipCompilerError: `HIPC0600`, `HIPC0601` for an artifact that does not load; `HIPC0501`, `HIPC0403`,
            `HIPC0500`, `HIPC0503` for one that does not link; `HIPC0701` when it cannot be initialised.
    """
    # Imports happen here, so that `import hip_compiler` stays quick.
    from hip_compiler.runtime import Session

    return Session(path, num_threads)
