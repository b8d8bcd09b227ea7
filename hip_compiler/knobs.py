"""Every environment variable that hip-compiler reads, as a typed entry. `os.environ` appears nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from hip_compiler.errors import ErrorCode, HipCompilerError

T = TypeVar("T", str, int, bool)


@dataclass(frozen=True)
class Knob(Generic[T]):
    """One environment variable.

    Attributes:
        name: name of the variable.
        default: value when it is unset; its type is the knob's type.
        meaning: one sentence for `docs/environment.md`.
    """

    name: str
    default: T
    meaning: str

    def is_set(self) -> bool:
        return self.name in os.environ

    def read(self) -> T:
        """Value of the variable, or the default.

        Raises:
            HipCompilerError: `HIPC0800`, when the text is no value of the knob's type.
        """
        text = os.environ.get(self.name)
        if text is None:
            return self.default
        if isinstance(self.default, bool):
            if text.lower() in ("1", "true", "on", "yes"):
                return True
            if text.lower() in ("", "0", "false", "off", "no"):
                return False
        elif isinstance(self.default, int):
            try:
                return int(text)
            except ValueError:
                pass
        else:
            return text
        kind = type(self.default).__name__
        raise HipCompilerError(ErrorCode.ENVIRONMENT, f"{self.name}={text!r} is not of type {kind}", why=self.meaning)


PLUGINS = Knob(
    "HIPDNN_EP_COMPILER_PLUGINS",
    "",
    "Plugin ids to use, in order, separated by ';' or ','; unset: every installed plugin; empty: none.",
)
PIPELINE = Knob(
    "HIPDNN_EP_PIPELINE", "", "A pass pipeline that replaces the built-in one; `slot:NAME` elements place slots."
)
MLIR_BINDINGS = Knob(
    "HIPC_MLIR_BINDINGS", "torch_mlir", "Import name of the MLIR Python bindings: `torch_mlir` or `mlir`."
)
NUM_THREADS = Knob("HIPC_NUM_THREADS", 0, "Threads of a session on the host target; 0: one per available core.")
CACHE_DIR = Knob("HIPC_CACHE_DIR", "", "Folder of the compile cache; empty: the user's cache folder.")
REPRO_DIR = Knob(
    "HIPC_REPRO_DIR", "", "Folder of the reports of failing compilations; empty: repro in the cache folder."
)
CLANG = Knob(
    "HIPC_CLANG", "", "Path of the clang that builds kernels; empty: clang-22 from PATH, else the ziglang package."
)
LLD = Knob(
    "HIPC_LLD", "", "Path of the LLD that links code objects and shared libraries; empty: from PATH, ROCm or ziglang."
)
ROCM_PATH = Knob("ROCM_PATH", "/opt/rocm", "Folder of the ROCm installation.")
HIP_PLATFORM = Knob("HIP_PLATFORM", "amd", "Platform of the target amdgpu, as HIP itself reads it: `amd` or `nvidia`.")
HIP_LIBRARY = Knob(
    "HIPC_HIP_LIBRARY", "", "Path of the HIP runtime (or of CUDA's driver); empty: where the loader or ROCm has it."
)
HIPBLASLT_LIBRARY = Knob(
    "HIPC_HIPBLASLT_LIBRARY", "", "Path of hipBLASLt (or of cuBLASLt); empty: where the loader or ROCm has it."
)

BUILD_GPUS = Knob(
    "HIPC_BUILD_GPUS",
    "",
    "GPU architectures that `kernels/build.py` builds device kernels for, separated by commas; empty: all.",
)

KNOBS = (
    PLUGINS,
    PIPELINE,
    MLIR_BINDINGS,
    NUM_THREADS,
    CACHE_DIR,
    REPRO_DIR,
    CLANG,
    LLD,
    ROCM_PATH,
    HIP_PLATFORM,
    HIP_LIBRARY,
    HIPBLASLT_LIBRARY,
    BUILD_GPUS,
)


def cache_dir() -> Path:
    """Folder of everything that can be made again: HIPC_CACHE_DIR, else a folder of the user's cache."""
    chosen = CACHE_DIR.read()
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "hip-compiler"


def repro_dir() -> Path:
    """Folder of reports that let someone else see a failure again: HIPC_REPRO_DIR, else one in the cache folder."""
    chosen = REPRO_DIR.read()
    return Path(chosen).expanduser() if chosen else cache_dir() / "repro"
