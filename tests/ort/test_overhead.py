"""What the provider costs: next to nothing around a call of the program, and no Python while it computes."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from hip_compiler.ort import compile_context, library_path
from hip_compiler.toolchain import find_compiler
from hip_compiler.version import VERSION
from tests.ort.models import make, node, session, values

ROOT = Path(__file__).resolve().parents[2]
NODES, COUNT = 64, 16
LIMIT_NS = 5000
SIZE = 640


def build(output: Path, *arguments: str | Path) -> Path:
    """A program or library of C++ sources."""
    compiler = find_compiler()
    target = ["-target", f"{platform.machine()}-linux-gnu"] if compiler.is_zig else []
    includes = [f"-I{ROOT / 'kernels' / folder}" for folder in ("ort_ep", "include")]
    words = [*compiler.command, *target, "-std=c++20", "-O2", *includes, *map(str, arguments), "-o", str(output)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def chain(context: onnx.ModelProto, length: int) -> onnx.ModelProto:
    """The node of a context model so many times, one after the other: a session of fused nodes and nothing else."""
    changed = onnx.ModelProto()
    changed.CopyFrom(context)
    [first] = context.graph.node
    del changed.graph.node[:]
    for number in range(length):
        copy = changed.graph.node.add()
        copy.CopyFrom(first)
        copy.name = f"fused{number}"
        copy.input[0] = f"t{number}" if number else "x"
        copy.output[0] = f"t{number + 1}" if number < length - 1 else "y"
        changed.graph.value_info.append(onnx.helper.make_tensor_value_info(f"t{number + 1}", 1, [COUNT]))
    return changed


def test_a_fused_node_costs_less_than_five_microseconds(tmp_path: Path) -> None:
    """More than our own call of the same artifact, in one process, which has no Python."""
    model = make([node("Mul", "x c", "y")], {"x": [COUNT]}, {"y": [COUNT]}, c=np.full(1, 1.01, np.float32))
    onnx.save(model, tmp_path / "m.onnx")
    context = compile_context(tmp_path / "m.onnx", tmp_path / "one.onnx", strict=1)
    onnx.save(chain(onnx.load(context), NODES), tmp_path / "chain.onnx")
    [runtime] = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    source = ROOT / "kernels" / "ort_ep" / "native_model.cpp"
    here = Path(__file__).with_name("overhead.cpp")
    program = build(tmp_path / "overhead", f'-DHIP_EP_VERSION="{VERSION}"', here, source, "-ldl")
    words = [program, runtime, library_path(), tmp_path / "chain.onnx", tmp_path / "one_0.so", str(NODES), "3000"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    alone, fused, same = map(float, done.stdout.split())
    assert same == 1
    assert 0 < alone < fused
    assert fused - alone < LIMIT_NS, f"{alone} ns alone, {fused} ns as a node"


def test_a_thread_that_holds_the_interpreter_does_not_stop_a_run(tmp_path: Path) -> None:
    """A run begins in one thread; another then keeps Python's lock until the run's result is in memory."""
    nodes = [node("MatMul", f"t{i} w" if i else "x w", f"t{i + 1}", f"matmul{i}") for i in range(24)]
    nodes.append(node("Softmax", "t24", "y"))
    model = make(nodes, {"x": [SIZE, SIZE]}, {"y": [SIZE, SIZE]}, w=values(SIZE, SIZE) / np.float32(SIZE**0.5))
    made = session(model, {"strict": "1"})
    result = np.zeros((SIZE, SIZE), np.float32)
    binding = made.io_binding()
    binding.bind_cpu_input("x", values(SIZE, SIZE, seed=1))
    binding.bind_output("y", "cpu", 0, np.float32, result.shape, result.__array_interface__["data"][0])
    start = time.perf_counter()
    made.run_with_iobinding(binding)
    usual = time.perf_counter() - start
    expected = result.copy()
    assert np.isfinite(expected).all() and expected[0, 0] != 0

    library = build(tmp_path / "libhold.so", "-shared", "-fPIC", Path(__file__).with_name("hold.cpp"))
    hold = ctypes.PyDLL(str(library)).hold_until_changed
    hold.argtypes = [ctypes.c_void_p, ctypes.c_float, ctypes.c_double]
    for _ in range(8):
        # Whether the other thread is inside of its run by now is the system's choice: if not, the next turn may tell.
        result[...] = 0
        ended: list[float] = []

        def run(ended: list[float] = ended) -> None:
            made.run_with_iobinding(binding)
            ended.append(time.perf_counter())

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(usual / 10)
        begun = result[0, 0] == 0
        changed = hold(result.ctypes.data, 0.0, 20 * usual + 1)
        # Python itself has not gone on meanwhile.
        kept = not ended
        thread.join()
        np.testing.assert_array_equal(result, expected)
        if begun and changed and kept:
            return
    pytest.fail("no run ended while Python's lock was held")
