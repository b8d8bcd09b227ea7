"""The shared library: every entry point forwards its name and its arguments to one Python function."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from pathlib import Path

from hip_compiler.toolchain.bitcode import alone
from hip_compiler.toolchain.compiler import find_compiler

HIP = {
    "hipInit": "unsigned",
    "hipGetDeviceCount": "int*",
    "hipGetDevice": "int*",
    "hipSetDevice": "int",
    "hipDeviceGetAttribute": "int*, int, int",
    "hipGetDevicePropertiesR0600": "void*, int",
    "hipDrvGetErrorName": "int, const char**",
    "hipRuntimeGetVersion": "int*",
    "hipDriverGetVersion": "int*",
    "hipDeviceSynchronize": "",
    "hipMemGetInfo": "size_t*, size_t*",
    "hipMalloc": "void**, size_t",
    "hipFree": "void*",
    "hipHostMalloc": "void**, size_t, unsigned",
    "hipHostFree": "void*",
    "hipHostGetDevicePointer": "void**, void*, unsigned",
    "hipMemcpy": "void*, const void*, size_t, int",
    "hipMemcpyAsync": "void*, const void*, size_t, int, void*",
    "hipMemcpyHtoDAsync": "void*, const void*, size_t, void*",
    "hipMemcpyDtoHAsync": "void*, const void*, size_t, void*",
    "hipMemcpyDtoDAsync": "void*, const void*, size_t, void*",
    "hipMemsetD8Async": "void*, unsigned char, size_t, void*",
    "hipMemsetD16Async": "void*, unsigned short, size_t, void*",
    "hipMemsetD32Async": "void*, int, size_t, void*",
    "hipStreamCreateWithFlags": "void**, unsigned",
    "hipStreamDestroy": "void*",
    "hipStreamSynchronize": "void*",
    "hipStreamWaitEvent": "void*, void*, unsigned",
    "hipEventCreateWithFlags": "void**, unsigned",
    "hipEventRecord": "void*, void*",
    "hipEventSynchronize": "void*",
    "hipEventDestroy": "void*",
    "hipModuleLoadData": "void**, const void*",
    "hipModuleUnload": "void*",
    "hipModuleGetFunction": "void**, void*, const char*",
    "hipModuleLaunchKernel": "void*" + ", unsigned" * 7 + ", void*, void**, void**",
    "hipStreamBeginCapture": "void*, int",
    "hipStreamEndCapture": "void*, void**",
    "hipGraphInstantiateWithFlags": "void**, void*, unsigned long long",
    "hipGraphLaunch": "void*, void*",
    "hipGraphDestroy": "void*",
    "hipGraphExecDestroy": "void*",
}
"""Parameters of each function, from hip/hip_runtime_api.h."""

BLASLT = {
    "hipblasLtCreate": "void**",
    "hipblasLtDestroy": "void*",
    "hipblasLtMatmulDescCreate": "void**, int, int",
    "hipblasLtMatmulDescDestroy": "void*",
    "hipblasLtMatmulDescSetAttribute": "void*, int, const void*, size_t",
    "hipblasLtMatrixLayoutCreate": "void**, int, uint64_t, uint64_t, int64_t",
    "hipblasLtMatrixLayoutDestroy": "void*",
    "hipblasLtMatrixLayoutSetAttribute": "void*, int, const void*, size_t",
    "hipblasLtMatmulPreferenceCreate": "void**",
    "hipblasLtMatmulPreferenceDestroy": "void*",
    "hipblasLtMatmulPreferenceSetAttribute": "void*, int, const void*, size_t",
    "hipblasLtMatmulAlgoGetHeuristic": "void*" + ", void*" * 6 + ", int, void*, int*",
    "hipblasLtMatmul": "void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, "
    "void*, void*, void*, const void*, void*, size_t, void*",
}
"""Parameters of each function, from hipblaslt/hipblaslt.h."""

CUDA = {
    "cuInit": "hipInit",
    "cuDeviceGetCount": "hipGetDeviceCount",
    "cuDeviceGetAttribute": "hipDeviceGetAttribute",
    "cuGetErrorName": "hipDrvGetErrorName",
    "cuMemAlloc_v2": "hipMalloc",
    "cuMemFree_v2": "hipFree",
    "cuMemHostAlloc": "hipHostMalloc",
    "cuMemFreeHost": "hipHostFree",
    "cuMemcpyHtoDAsync_v2": "hipMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync_v2": "hipMemcpyDtoHAsync",
    "cuMemcpyDtoDAsync_v2": "hipMemcpyDtoDAsync",
    "cuMemsetD8Async": "hipMemsetD8Async",
    "cuMemsetD16Async": "hipMemsetD16Async",
    "cuMemsetD32Async": "hipMemsetD32Async",
    "cuStreamCreate": "hipStreamCreateWithFlags",
    "cuStreamDestroy_v2": "hipStreamDestroy",
    "cuStreamSynchronize": "hipStreamSynchronize",
    "cuStreamWaitEvent": "hipStreamWaitEvent",
    "cuEventCreate": "hipEventCreateWithFlags",
    "cuEventRecord": "hipEventRecord",
    "cuEventSynchronize": "hipEventSynchronize",
    "cuEventDestroy_v2": "hipEventDestroy",
    "cuModuleLoadData": "hipModuleLoadData",
    "cuModuleUnload": "hipModuleUnload",
    "cuModuleGetFunction": "hipModuleGetFunction",
    "cuLaunchKernel": "hipModuleLaunchKernel",
    "cuStreamBeginCapture_v2": "hipStreamBeginCapture",
    "cuStreamEndCapture": "hipStreamEndCapture",
    "cuGraphInstantiateWithFlags": "hipGraphInstantiateWithFlags",
    "cuGraphLaunch": "hipGraphLaunch",
    "cuGraphDestroy": "hipGraphDestroy",
    "cuGraphExecDestroy": "hipGraphExecDestroy",
}
"""Functions of CUDA's driver with the parameters of their HIP counterparts."""

CUDA_ONLY = {
    "cuDeviceGetName": "char*, int, int",
    "cuDevicePrimaryCtxRetain": "void**, int",
    "cuDevicePrimaryCtxRelease_v2": "int",
    "cuCtxPushCurrent_v2": "void*",
    "cuCtxPopCurrent_v2": "void**",
    "cuFuncSetAttribute": "void*, int, int",
    "cuFuncGetParamInfo": "void*, size_t, size_t*, size_t*",
}

Handler = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int32)

_HEAD = """#include <stddef.h>
#include <stdint.h>
typedef int32_t (*Handler)(const char *name, const int64_t *arguments, int32_t count);
static Handler handler;
extern "C" void fake_install(Handler given) { handler = given; }
// 100: there is no device.
static int call(const char *name, const int64_t *arguments, int count) {
  return handler ? handler(name, arguments, count) : 100;
}
extern "C" const char *hipGetErrorName(int error) { return error ? "an error of the fake" : "hipSuccess"; }
extern "C" const char *hipGetErrorString(int error) { return hipGetErrorName(error); }
"""


def _entry(name: str, parameters: str, forwarded: str) -> str:
    types = [kind.strip() for kind in parameters.split(",") if kind.strip()]
    declared = ", ".join(f"{kind} a{number}" for number, kind in enumerate(types))
    values = ", ".join(f"(int64_t)a{number}" for number in range(len(types)))
    body = f'int64_t values[] = {{{values or 0}}}; return call("{forwarded}", values, {len(types)});'
    return f'extern "C" int {name}({declared}) {{ {body} }}\n'


def source() -> str:
    """Text of the library."""
    entries = [_entry(name, parameters, name) for name, parameters in (HIP | BLASLT | CUDA_ONLY).items()]
    entries += [_entry(name, HIP[other], other) for name, other in CUDA.items()]
    entries += [_entry(name.replace("hipblas", "cublas"), parameters, name) for name, parameters in BLASLT.items()]
    return _HEAD + "".join(entries)


def build_library(folder: Path) -> Path:
    """The library in a folder; built when its text has changed."""
    text = source()
    target = folder / hashlib.sha256(text.encode()).hexdigest()[:16] / "lib" / "libamdhip64.so"
    with alone(folder):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            file = target.with_suffix(".cpp")
            file.write_text(text)
            private = target.with_suffix(".tmp")
            command = [*find_compiler().command, "-shared", "-fPIC", "-O1", "-o", str(private), str(file)]
            subprocess.run(command, check=True, capture_output=True, text=True)
            private.replace(target)
    return target


def install(path: Path, handler: object) -> None:
    """Make a `Handler` the one that the library's functions call."""
    ctypes.CDLL(str(path)).fake_install(handler)
