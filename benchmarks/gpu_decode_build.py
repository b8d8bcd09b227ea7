"""What `gpu_decode` runs, made where there is a compiler: programs of decoder shapes, and the host target's tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx

import hip_compiler
from benchmarks.decoder_shapes import SHAPES, WEIGHTS
from benchmarks.decoder_shapes import build as build_model
from benchmarks.decoder_weights import weight
from benchmarks.gpu_decode import LAYOUT, PROGRAM, TOKENS
from hip_compiler.core import driver, prepare
from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.options import CompileOptions
from hip_compiler.runtime import cpu
from hip_compiler.runtime.abi import ENTRY_POINTS, SERVICES
from hip_compiler.runtime.linker import build_object
from hip_compiler.toolchain.lld import link_shared

CPU = ("x86-64-v3", "+avx2,+bmi2,+f16c,+fma,+lzcnt,+movbe")


def build(key: str, out: Path, architecture: str) -> None:
    """Compile a shape into a folder: the program, its device code, its interface and the places of its weights."""
    pools: list[ConstantPool] = []

    class SparsePool(ConstantPool):
        def write(self, path: Path) -> None:
            pools.append(self)
            with path.open("wb") as file:
                file.truncate(self.size)

    folder = out / key
    model = build_model(SHAPES[key], folder / "onnx")
    # Weights stay holes, and the program is for another machine than this.
    with (
        mock.patch.object(prepare, "ConstantPool", SparsePool),
        mock.patch.object(driver, "machine_code", lambda artifact: None),
    ):
        compiled = driver.compile_model(
            model,
            CompileOptions(target="amdgpu", arch=(architecture,)),
            output=folder / "artifact",
        ).artifact
    host = cpu.Cpu(cpu.host().triple, *CPU)
    linked = build_object(compiled.model_bitcode(), compiled.runtime_bitcode(), [], host)
    link_shared([linked.image], folder / PROGRAM, exports=(*ENTRY_POINTS, *SERVICES))
    (folder / "device").mkdir(exist_ok=True)
    for entry in compiled.metadata.device:
        (folder / entry.file).write_bytes((compiled.folder / entry.file).read_bytes())
    pool = pools[-1]
    layout: dict[str, Any] = {
        "bytes": pool.size,
        "constants": [
            {"key": name, "offset": offset, "shape": pool.get(name).shape, "dtype": str(pool.get(name).dtype)}
            for name, offset in pool.offsets.items()
        ],
        "inputs": [[info.name, info.dtype.onnx, list(info.shape)] for info in compiled.metadata.inputs],
        "outputs": [[info.name, info.dtype.onnx, list(info.shape)] for info in compiled.metadata.outputs],
        "shape": vars(SHAPES[key]),
        "ops": dict(compiled.metadata.ops),
        "device": [entry.file for entry in compiled.metadata.device],
    }
    (folder / LAYOUT).write_text(json.dumps(layout, indent=1))
    print(key, layout["ops"])


def host_tokens(key: str, out: Path, steps: int = 64) -> None:
    """Decode greedily on the host target, with `decoder_weights`: what the GPU has to choose, for `check_tokens`."""
    path = build_model(SHAPES[key], out / key / "onnx")
    model = onnx.load(path, load_external_data=False)
    with (path.parent / WEIGHTS).open("r+b") as file:
        for tensor in model.graph.initializer:
            places = {entry.key: entry.value for entry in tensor.external_data}
            if not places:
                continue
            file.seek(int(places["offset"]))
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            file.write(weight(tensor.name, tuple(tensor.dims)).astype(kind).tobytes())
    caches = {
        entry.name: np.zeros((1, SHAPES[key].shared, steps, SHAPES[key].head_size), np.float16)
        for entry in model.graph.input
        if entry.name.startswith("past")
    }
    tokens, gaps = [1], []
    with hip_compiler.compile(path) as session:
        for place in range(steps):
            found = session.run(
                {
                    "input_ids": np.array([tokens[-1:]]),
                    "seqlens_k": np.array([place], np.int32),
                    "total_sequence_length": np.array(place + 1, np.int32),
                    **caches,
                }
            )
            caches = {name: found[name.replace("past_key_values", "present")] for name in caches}
            logits = found["logits"].reshape(-1).astype(np.float64)
            second, first = np.sort(logits)[-2:]
            gaps.append((first - second) / np.abs(logits).max())
            tokens.append(int(logits.argmax()))
    (out / key / TOKENS).write_text(json.dumps({"tokens": tokens, "gaps": gaps}))
    print(f"{key}: {steps} tokens of the host target, smallest gap {min(gaps):.1e} of the largest logit")
