"""The execution provider on a real GPU through HIP's nvidia platform: results, places of tensors, memory, and time.

`HIP_PLATFORM=nvidia python -m benchmarks.gpu_provider build DIR` puts models, their context models and the provider's
library into a folder. `HIP_PLATFORM=nvidia python benchmarks/gpu_provider.py run DIR` needs NumPy, ONNX Runtime, and
cuBLASLt, which PyTorch brings; it needs neither MLIR nor this package. With `--compile` the package compiles in that
process too. The oracle is ONNX Runtime's CPU provider. Every check that fails is printed, and ends it with status 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROVIDER = "HipExecutionProvider"
LIBRARY = "libhip_ep.so"
VENDOR = 0x1002
"""Of the provider's memory, on both platforms."""
CAPACITY, STEPS = 160, 24
COLUMNS = 256
DECODER: dict[str, Any] = {
    "layers": 2,
    "hidden": 512,
    "heads": 8,
    "shared": 2,
    "size": 64,
    "middle": 1408,
    "vocabulary": 4096,
}
TOLERANCE = 2e-3
"""Of an element, relative to the largest: sums in float32, in another order."""


# ---- build ------------------------------------------------------------------------------------------------------


def build(folder: Path, architecture: str) -> None:
    """Models, context models for a GPU architecture, one of which leaves a node to the CPU, and the library."""
    import onnx

    from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
    from hip_compiler.core.conversion.onnx_op import CONVERTERS
    from hip_compiler.ort import compile_context, library_path
    from tests.llm.decoder import Decoder

    decoder = Decoder(**DECODER)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(_layers(onnx), folder / "layers.onnx")
    onnx.save(decoder.model(), folder / "decoder.onnx")
    (folder / "caches.json").write_text(json.dumps({k: list(v.shape) for k, v in decoder.caches(CAPACITY).items()}))
    options: dict[str, Any] = {"target": "amdgpu", "arch": architecture, "cpu": "x86-64-v3"}
    for name in ("layers", "decoder"):
        compile_context(folder / f"{name}.onnx", folder / f"{name}_ctx.onnx", embed=True, strict=1, **options)
    converter = CONVERTERS.pop(("", "Tanh"))
    compile_context(folder / "layers.onnx", folder / "part_ctx.onnx", **options)
    CONVERTERS[("", "Tanh")] = converter
    (folder / LIBRARY).write_bytes(library_path().read_bytes())


def _layers(onnx: Any) -> Any:
    """y = softmax(tanh(relu(x w1 + b1) w2) w3), rows unknown."""
    import numpy as np

    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((COLUMNS, COLUMNS)) / 16 for name in ("w1", "w2", "w3")}
    weights["b1"] = rng.standard_normal(COLUMNS)
    node = onnx.helper.make_node
    nodes = [
        node("MatMul", ["x", "w1"], ["a"], "first"),
        node("Add", ["a", "b1"], ["b"], "bias"),
        node("Relu", ["b"], ["c"], "relu"),
        node("MatMul", ["c", "w2"], ["d"], "second"),
        node("Tanh", ["d"], ["e"], "tanh"),
        node("MatMul", ["e", "w3"], ["f"], "third"),
        node("Softmax", ["f"], ["y"], "softmax"),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "layers",
        [onnx.helper.make_tensor_value_info("x", kind, ["n", COLUMNS])],
        [onnx.helper.make_tensor_value_info("y", kind, ["n", COLUMNS])],
        [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)


# ---- run --------------------------------------------------------------------------------------------------------


class Checks:
    """What held and what did not."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, what: str, holds: bool, figure: str = "") -> None:
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what} {figure}".rstrip(), flush=True)

    def near(self, what: str, found: Any, expected: Any) -> None:
        import numpy as np

        scale = np.abs(expected).max()
        error = np.abs(found - expected).max() / scale if found.shape == expected.shape else np.inf
        self(what, bool(scale > 0 and error <= TOLERANCE), f"(relative error {error:.1e})")

    def attempt(self, what: str, action: Callable[[], None]) -> None:
        """Run checks; what they raise is a failure, and the next ones go on."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the text is the finding
            self(what, False, f"{type(error).__name__}: {error}")


class Bench:
    """Sessions of ONNX Runtime on the first GPU and on the CPU, from a folder."""

    def __init__(self, folder: Path, compiling: bool) -> None:
        import onnxruntime

        self.ort, self.folder, self.compiling = onnxruntime, folder, compiling
        self.check = Checks()
        if compiling:
            from hip_compiler.ort import register

            self.host, self.devices = register(), register(0)
            return
        onnxruntime.register_execution_provider_library(PROVIDER, str((folder / LIBRARY).resolve()))
        found = [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]
        self.host = [device for device in found if "device_id" not in device.ep_metadata]
        self.devices = [device for device in found if device.ep_metadata.get("device_id") == "0"]

    def session(self, name: str, devices: Any = None, **options: Any) -> Any:
        """A session of what was compiled; on the GPU unless other devices are given."""
        settings = self.ort.SessionOptions()
        if name != "part":
            options = {"strict": "1", **options}
        settings.add_provider_for_devices(devices or self.devices, options)
        path = self.folder / (f"{name}.onnx" if self.compiling and name != "part" else f"{name}_ctx.onnx")
        made = self.ort.InferenceSession(str(path), settings, enable_fallback=0)
        assert made.get_providers()[0] == PROVIDER, made.get_providers()
        return made

    def plain(self, name: str) -> Any:
        """A session of the model on the CPU."""
        return self.ort.InferenceSession(str(self.folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])

    def there(self, array: Any) -> Any:
        """A tensor in memory of the GPU."""
        return self.ort.OrtValue.ortvalue_from_numpy(array, "gpu", 0, VENDOR)

    # -- checks --

    def places(self) -> None:
        """Devices, and tensors that go there and come back."""
        import numpy as np

        [device] = self.devices
        facts = dict(device.ep_metadata)
        is_gpu = device.device.type == self.ort.OrtHardwareDeviceType.GPU
        self.check(
            "the GPU is a device of ONNX Runtime", is_gpu and facts["architecture"].startswith("sm_"), str(facts)
        )
        self.check("the CPU is one too", len(self.host) >= 1)
        for count in (1, 1000, 10_000_000):
            array = np.random.default_rng(count).standard_normal(count).astype(np.float32)
            start = time.perf_counter()
            value = self.there(array)
            middle = time.perf_counter()
            back = value.numpy()
            ended = time.perf_counter()
            figure = (
                f"(there {(middle - start) * 1e3:.2f} ms, back {(ended - middle) * 1e3:.2f} ms, {value.device_name()})"
            )
            self.check(
                f"{count} numbers go there and back",
                value.device_name() != "cpu" and np.array_equal(back, array),
                figure,
            )

    def too_much(self) -> None:
        """Memory that there is not: ONNX Runtime makes a tensor of it all the same, and the run refuses it."""
        made = self.session("layers")
        binding = made.io_binding()
        nowhere = self.ort.OrtValue.ortvalue_from_shape_and_type([1 << 32, COLUMNS], "float32", "gpu", 0, VENDOR)
        binding.bind_ortvalue_input("x", nowhere)
        binding.bind_output("y")
        try:
            made.run_with_iobinding(binding)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's own class
            self.check("more memory than there is", "it ran out" in str(error), str(error)[-80:])
        else:
            self.check("more memory than there is", False)

    def rows(self, count: int) -> Any:
        import numpy as np

        return np.random.default_rng(count).standard_normal((count, COLUMNS)).astype(np.float32)

    def layers(self) -> None:
        """Arrays of the host in and out, of several extents, also replayed as a graph."""
        plain = self.plain("layers")
        for options in ({}, {"graph_capture": "1"}, {"host_accessible_inputs": "0"}):
            made = self.session("layers", **options)
            for count in (7, 300, 1, 1, 1, 1):
                x = self.rows(count)
                self.check.near(
                    f"layers {options or ''} of {count} rows", made.run(None, {"x": x})[0], plain.run(None, {"x": x})[0]
                )

    def host_memory(self) -> None:
        """The device of the CPU: tensors stay on the host."""
        arch = {"arch": self.devices[0].ep_metadata["architecture"]} if self.compiling else {}
        made = self.session("layers", self.host, target="amdgpu", **arch)
        x = self.rows(5)
        self.check.near(
            "layers, tensors on the host", made.run(None, {"x": x})[0], self.plain("layers").run(None, {"x": x})[0]
        )

    def part(self) -> None:
        """A node on the CPU between two programs on the GPU."""
        made = self.session("part")
        x = self.rows(9)
        self.check.near(
            "layers whose tanh is on the CPU", made.run(None, {"x": x})[0], self.plain("layers").run(None, {"x": x})[0]
        )

    def binding(self) -> None:
        """Input and output in memory of the GPU: nothing is copied from or to the host."""
        made = self.session("layers", graph_capture="1")
        x = self.rows(64)
        fed = self.there(x)
        result = self.ort.OrtValue.ortvalue_from_shape_and_type([64, COLUMNS], "float32", "gpu", 0, VENDOR)
        binding = made.io_binding()
        binding.bind_ortvalue_input("x", fed)
        binding.bind_ortvalue_output("y", result)
        self.repeat("layers, bound on the GPU", lambda: made.run_with_iobinding(binding))
        self.check.near("layers, bound on the GPU", result.numpy(), self.plain("layers").run(None, {"x": x})[0])
        self.repeat("layers, arrays of the host", lambda: made.run(None, {"x": x}))

    def repeat(self, what: str, action: Callable[[], Any]) -> None:
        for _ in range(20):
            action()
        times = []
        for _ in range(200):
            start = time.perf_counter()
            action()
            times.append(time.perf_counter() - start)
        print(f"     {what}: {statistics.median(times) * 1e6:.1f} us a run, best {min(times) * 1e6:.1f}", flush=True)

    def decoder(self) -> None:
        """Token by token: caches stay on the GPU, in the buffers that are past and present."""
        import numpy as np

        shapes = json.loads((self.folder / "caches.json").read_text())
        for options in ({}, {"graph_capture": "1"}):
            made, plain = self.session("decoder", **options), self.plain("decoder")
            caches = {name: self.there(np.zeros(shape, np.float32)) for name, shape in shapes.items()}
            own = {
                name: self.ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
                for name, shape in shapes.items()
            }
            worst, times, position, tokens = 0.0, [], 0, np.arange(1, 14)[None] * 37 % DECODER["vocabulary"]
            for _ in range(STEPS):
                length = tokens.shape[1]
                position += length
                mask = np.zeros((1, CAPACITY), np.int64)
                mask[:, :position] = 1
                results = []
                for runner, cached in ((made, caches), (plain, own)):
                    binding = runner.io_binding()
                    binding.bind_cpu_input("input_ids", tokens)
                    binding.bind_cpu_input("attention_mask", mask)
                    for name, value in cached.items():
                        binding.bind_ortvalue_input(name, value)
                        binding.bind_ortvalue_output(name.replace("past", "present"), value)
                    binding.bind_output("logits")
                    start = time.perf_counter()
                    runner.run_with_iobinding(binding)
                    if runner is made:
                        times.append(time.perf_counter() - start)
                    results += [
                        value.numpy() for value in binding.get_outputs() if value.shape()[-1] == DECODER["vocabulary"]
                    ]
                worst = max(worst, float(np.abs(results[0] - results[1]).max() / np.abs(results[1]).max()))
                tokens = results[1][:, -1:].argmax(-1).astype(np.int64)
            figure = f"(relative error {worst:.1e}, {statistics.median(times[8:]) * 1e6:.0f} us a token)"
            self.check(f"decoder {options or ''}: logits of {STEPS} steps", 0 < worst <= TOLERANCE, figure)
            for name in (min(caches), max(caches)):
                on_gpu = caches[name].device_name() != "cpu"
                self.check(f"decoder: {name} is on the GPU", on_gpu)
                self.check.near(
                    f"decoder: {name}", caches[name].numpy()[:, :, :position], own[name].numpy()[:, :, :position]
                )

    def threads(self) -> None:
        """Eight threads and one session."""
        import numpy as np

        made, plain = self.session("layers"), self.plain("layers")
        wrong: list[float] = []

        def work(number: int) -> None:
            x = self.rows(3 + number)
            expected = plain.run(None, {"x": x})[0]
            for _ in range(100):
                error = float(np.abs(made.run(None, {"x": x})[0] - expected).max() / np.abs(expected).max())
                if not error <= TOLERANCE:
                    wrong.append(error)

        crew = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        self.check("8 threads times 100 runs", not wrong, f"{len(wrong)} wrong")

    def sessions(self) -> None:
        """Sessions made and dropped give the memory of the GPU back."""
        from torch import cuda

        def turn(count: int) -> int:
            for _ in range(count):
                self.session("decoder")
            gc.collect()
            return int(cuda.mem_get_info()[0])

        before = turn(3)
        lost = before - turn(20)
        self.check("20 sessions made and dropped", lost < 32 << 20, f"({lost} bytes of the GPU less)")

    def times(self) -> None:
        """The times of nodes and operators."""
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "times.json")
            made = self.session("layers", profile=str(path))
            made.run(None, {"x": self.rows(3)})
            del made
            gc.collect()
            events = json.loads(path.read_text())
            self.check(
                "times are written", any(event.get("cat") == "Node" for event in events), f"{len(events)} events"
            )

    def refusals(self) -> None:
        """What cannot be is an error."""
        for name, options in {"target": {"target": "host"}, "number": {"device_id": "1"}}.items():
            try:
                self.session("layers", **options)
            except Exception as error:  # noqa: BLE001 - ONNX Runtime's own class
                self.check(f"another {name} is refused", "HIPC0001" in str(error), str(error)[:120])
            else:
                self.check(f"another {name} is refused", False)


def run(folder: Path, compiling: bool) -> int:
    """Every check; the number of those that failed."""
    try:
        import torch

        print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}")
    except ImportError:
        print("no torch: cuBLASLt must be where the loader finds it, or HIPC_HIPBLASLT_LIBRARY names it")
    bench = Bench(folder, compiling)
    print(f"onnxruntime {bench.ort.__version__}, {'compiled here' if compiling else 'context models'}")
    for action in (
        *(bench.places, bench.layers, bench.binding, bench.decoder, bench.part, bench.host_memory, bench.threads),
        *(bench.sessions, bench.times, bench.refusals, bench.too_much),
    ):
        bench.check.attempt(action.__name__, action)
    print(f"{bench.check.failed} failed")
    return bench.check.failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="compile here")
    building.add_argument("folder", type=Path)
    building.add_argument("--arch", default="sm_90", help="architecture of the GPU (default: sm_90)")
    running = commands.add_parser("run", help="check and measure on a machine with a GPU")
    running.add_argument("folder", type=Path)
    running.add_argument("--compile", action="store_true", help="compile there, instead of loading context models")
    arguments = parser.parse_args()
    if arguments.command == "run":
        return 1 if run(arguments.folder, arguments.compile) else 0
    build(arguments.folder, arguments.arch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
