"""The runtime on a real GPU through HIP's nvidia platform: numerics, graphs, streams, constants, and what they cost.

`python -m benchmarks.gpu_runtime build DIR` links the runtime to a shared library for any x86-64-v2 CPU, and puts the
kernels beside it. `python benchmarks/gpu_runtime.py run DIR` needs PyTorch, which makes and checks the numbers, and
nothing else of this package but `runtime/abi.py`. Every check that fails is printed, and ends it with status 1.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "runtime.so"
ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu")
TOLERANCE = {"float32": 3e-6, "float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-14}


def build(folder: Path, architecture: str) -> None:
    """The runtime as a shared library, and the library of kernels for one architecture."""
    import llvmlite.binding as llvm

    from hip_compiler.runtime import cpu, devicecode, native
    from hip_compiler.toolchain.lld import link_shared

    (folder / "device").mkdir(parents=True, exist_ok=True)
    module = llvm.parse_bitcode(native.gpu_runtime("nvidia").read_bytes())
    target = cpu.Cpu(cpu.host().triple, "x86-64-v2", "").target_machine()
    module.triple, module.data_layout = target.triple, str(target.target_data)
    names = [f.name for f in module.functions if f.name.startswith("hipc_") and not f.is_declaration]
    link_shared([target.emit_object(module)], folder / PROGRAM, exports=names)
    (folder / "device" / "index").write_text(f"{architecture}\n")
    (folder / "device" / f"{architecture}.library").write_bytes(devicecode.read().get(architecture))


def _abi() -> Any:
    spec = importlib.util.spec_from_file_location("hipc_abi", ROOT / "hip_compiler" / "runtime" / "abi.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hipc_abi"] = module
    spec.loader.exec_module(module)
    return module


class Checks:
    """What held and what did not."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, what: str, holds: bool, figure: str = "") -> None:
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what} {figure}".rstrip(), flush=True)


class State:
    """A state of the runtime: runs of one product after another, on memory of PyTorch."""

    def __init__(self, folder: Path, *, capture: bool = False, constants: Any = None) -> None:
        import numpy as np
        import torch

        self.abi, self.torch, self.np = _abi(), torch, np
        self.numbers = {torch.float32: 1, torch.float16: 10, torch.float64: 11, torch.bfloat16: 16}
        files: dict[str, Any] = {
            str(path.relative_to(folder)): np.frombuffer(path.read_bytes(), np.uint8)
            for path in (folder / "device").iterdir()
        }
        if constants is not None:
            files["constants.bin"] = constants
        self._files = files
        self.target = 0
        self._map = self.abi.MapFile(self._find)
        self._give = self.abi.AllocateOutput(lambda *_: self.target)
        self.library = ctypes.CDLL(str((folder / PROGRAM).resolve()))
        self.library.hipc_last_error.restype = ctypes.c_char_p
        self.library.hipc_alloc_output.restype = self.library.hipc_constants.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p()
        fs = self.abi.Files(None, self._map, 1, 0, int(capture))
        size = 0 if constants is None else constants.nbytes
        self._check(self.library.hipc_init(ctypes.byref(self.handle), ctypes.byref(fs), ctypes.c_int64(size)))

    def _find(self, _: Any, name: bytes, size: Any) -> int | None:
        found = self._files.get(name.decode())
        if found is None:
            return None
        size[0] = found.nbytes
        return int(found.__array_interface__["data"][0])

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"status {status}: {self.library.hipc_last_error(self.handle).decode()}")

    def tensor(self, pointer: int, shape: Sequence[int], dtype: Any) -> Any:
        found = self.abi.Tensor(pointer, self.numbers[dtype], len(shape))
        step = 1
        for axis in range(len(shape) - 1, -1, -1):
            found.shape[axis], found.strides[axis] = shape[axis], step
            step *= shape[axis]
        return found

    def run(self, products: Sequence[Mapping[str, Any]], stream: int = 1) -> None:
        """Products of device tensors, on a stream: a, b, y, and bias, residual, trans, alpha, activation."""
        last = products[-1]["y"]
        self.target = last.data_ptr()
        inputs = (self.abi.Tensor * 1)()
        io = self.abi.Io(inputs, 0, None, self._give, None, 1, stream)
        self._check(self.library.hipc_begin(self.handle, ctypes.byref(io), None, ctypes.c_int64(0), ctypes.c_int64(0)))
        status = 0
        for product in products:
            operands = [product.get(name) for name in ("a", "b", "bias", "residual", "y")]
            tensors = [None if t is None else self.tensor(t.data_ptr(), t.shape, t.dtype) for t in operands]
            trans = product.get("trans", (False, False))
            words = [int(trans[0]), int(trans[1])]
            status = status or self.library.hipc_matmul(
                self.handle,
                *(None if t is None else ctypes.byref(t) for t in tensors),
                *(ctypes.c_int64(word) for word in words),
                ctypes.c_double(product.get("alpha", 1.0)),
                ctypes.c_int64(ACTIVATIONS.index(product.get("activation", "none"))),
                *(ctypes.c_int64(0) for _ in range(2)),
                *(ctypes.c_double(0) for _ in range(2)),
            )
        self._check(self.library.hipc_end(self.handle, status))

    def close(self) -> None:
        self.library.hipc_cleanup(self.handle)


def expected(torch: Any, product: Mapping[str, Any]) -> Any:
    """A product in float64."""
    a, b = product["a"].double(), product["b"].double()
    trans = product.get("trans", (False, False))
    a, b = a.mT if trans[0] else a, b.mT if trans[1] else b
    x = product.get("alpha", 1.0) * (a @ b)
    x = x if product.get("bias") is None else x + product["bias"].double()
    functional = torch.nn.functional
    x = {
        "none": lambda v: v,
        "relu": torch.relu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
        "silu": functional.silu,
    }[product.get("activation", "none")](x)
    return x if product.get("residual") is None else x + product["residual"].double()


def draw(torch: Any, shape: Sequence[int], dtype: Any) -> Any:
    return torch.randn(*shape, device="cuda").to(dtype)


def products(torch: Any, dtype: Any) -> list[tuple[str, dict[str, Any]]]:
    """Kinds of products: every transposition, batches, and every epilogue, fused by the library or not."""
    found: list[tuple[str, dict[str, Any]]] = []
    for trans in ((False, False), (True, False), (False, True), (True, True)):
        a = draw(torch, (300, 130) if trans[0] else (130, 300), dtype)
        b = draw(torch, (257, 300) if trans[1] else (300, 257), dtype)
        found.append((f"trans {trans}", {"a": a, "b": b, "trans": trans, "alpha": 0.5}))
    for left, right in (((3, 4, 33, 65), (4, 65, 17)), ((1, 5, 9), (6, 9, 31)), ((7, 1, 2, 4, 5), (3, 1, 5, 6))):
        found.append((f"{left} x {right}", {"a": draw(torch, left, dtype), "b": draw(torch, right, dtype)}))
    if dtype is torch.float64:
        return found
    for activation in ACTIVATIONS:
        for bias in (False, True):
            for residual in (False, True):
                product = {"a": draw(torch, (64, 512), dtype), "b": draw(torch, (512, 96), dtype), "alpha": 0.05}
                product |= {"bias": draw(torch, (96,), dtype)} if bias else {}
                product |= {"residual": draw(torch, (64, 96), dtype)} if residual else {}
                found.append((f"{activation} bias={bias} residual={residual}", product | {"activation": activation}))
    return found


def check_products(folder: Path, check: Checks) -> None:
    state = State(folder)
    torch = state.torch
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        worst, name = 0.0, ""
        for what, product in products(torch, dtype):
            wanted = expected(torch, product)
            product["y"] = torch.full_like(wanted, float("nan"), dtype=dtype)
            state.run([product])
            torch.cuda.synchronize()
            error = float((product["y"].double() - wanted).norm() / wanted.norm())
            if not error <= worst:
                worst, name = error, what
        word = str(dtype).removeprefix("torch.")
        check(f"products of {word}", worst <= TOLERANCE[word], f"worst {worst:.1e} ({name})")
    state.close()


def chain(state: State, length: int, size: int) -> list[dict[str, Any]]:
    """Products that follow each other."""
    torch = state.torch
    tensors = [draw(torch, (1, size), torch.float16) for _ in range(length + 1)]
    weights = [draw(torch, (size, size), torch.float16) / size**0.5 for _ in range(length)]
    return [
        {"a": tensors[i], "b": weights[i], "y": tensors[i + 1], "activation": "silu" if i % 2 else "none"}
        for i in range(length)
    ]


def check_graphs(folder: Path, check: Checks) -> None:
    """Replays give the bits of plain runs, for new contents too; and what a run costs the host."""
    plain, graph = State(folder), State(folder, capture=True)
    torch = plain.torch
    steps = chain(plain, 24, 512)
    same = True
    for _ in range(5):
        steps[0]["a"].copy_(torch.randn_like(steps[0]["a"]))
        results = []
        for state in (plain, graph):
            steps[-1]["y"].fill_(float("nan"))
            state.run(steps)
            torch.cuda.synchronize()
            results.append(steps[-1]["y"].clone())
        same = same and torch.equal(*results) and bool(results[0].isfinite().all())
    check("a replayed graph gives the same bits", same)
    for name, state in (("plain", plain), ("graph", graph)):
        times, host = [], []
        for _ in range(200):
            torch.cuda.synchronize()
            start = time.perf_counter()
            state.run(steps)
            host.append(1e6 * (time.perf_counter() - start))
            torch.cuda.synchronize()
            times.append(1e6 * (time.perf_counter() - start))
        print(f"     {name}: {statistics.median(host):.0f} us of the host, {statistics.median(times):.0f} us in all")
    plain.close()
    graph.close()


def check_streams(folder: Path, check: Checks) -> None:
    """Runs on two streams in turn use one arena and one workspace, each behind the other."""
    for capture in (False, True):
        state = State(folder, capture=capture)
        torch = state.torch
        streams = [torch.cuda.Stream() for _ in range(2)]
        first, second = chain(state, 12, 1024), chain(state, 12, 1024)
        wanted = []
        for steps in (first, second):
            state.run(steps)
            torch.cuda.synchronize()
            wanted.append(steps[-1]["y"].clone())
            steps[-1]["y"].zero_()
        torch.cuda.synchronize()
        for _ in range(20):
            for stream, steps in zip(streams, (first, second), strict=True):
                state.run(steps, stream.cuda_stream)
        torch.cuda.synchronize()
        same = all(torch.equal(s[-1]["y"], w) for s, w in zip((first, second), wanted, strict=True))
        check(f"two streams in turn, capture={capture}", same)
        state.close()


def check_constants(folder: Path, check: Checks) -> None:
    import numpy as np

    size = 1 << 30
    memory = np.empty(size + 64, np.uint8)
    memory = memory[-memory.__array_interface__["data"][0] % 64 :][:size]
    memory.view(np.uint64)[:] = np.arange(size // 8, dtype=np.uint64)
    start = time.perf_counter()
    state = State(folder, constants=memory)
    seconds = time.perf_counter() - start
    pointer = state.library.hipc_constants(state.handle)
    view = np.zeros(1, np.uint64)
    middle = size // 16
    inputs = (state.abi.Tensor * 1)()
    io = state.abi.Io(inputs, 0, None, state._give, None, 1, None)
    state._check(state.library.hipc_begin(state.handle, ctypes.byref(io), None, ctypes.c_int64(0), ctypes.c_int64(0)))
    # From the device: a copy of the constant, since the constant itself is known to the host.
    target = state.torch.zeros(8, dtype=state.torch.uint8, device="cuda")
    state.torch.cuda.synchronize()
    from_, to = ctypes.c_void_p(pointer + 8 * middle), ctypes.c_void_p(target.data_ptr())
    state._check(state.library.hipc_copy(state.handle, to, from_, ctypes.c_int64(8)))
    state._check(state.library.hipc_read(state.handle, view.ctypes, to, ctypes.c_int64(8)))
    state._check(state.library.hipc_end(state.handle, 0))
    check("constants arrive", int(view[0]) == middle, f"{size / seconds / 1e9:.1f} GB/s with opening the device")
    state.close()


def run(folder: Path) -> int:
    check = Checks()
    for section in (check_products, check_graphs, check_streams, check_constants):
        try:
            section(folder, check)
        except RuntimeError as error:
            check(section.__name__, False, str(error))
    return 1 if check.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("folder", type=Path)
    building.add_argument("--arch", default="sm_90")
    commands.add_parser("run").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "run":
        return run(arguments.folder)
    build(arguments.folder, arguments.arch)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
