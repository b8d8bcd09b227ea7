"""Every family of kernels at real sizes on a real GPU, through HIP's nvidia platform: numerics, and time by a floor.

`python -m benchmarks.gpu build DIR` puts the runtime and the kernels into a folder; `python benchmarks/gpu.py run DIR`
needs PyTorch beside it, which draws the operands and is the oracle, in float64. The floor of a case is the time that
its bytes take at the bandwidth of a copy of this device, or its products at the rate of a float16 product, whichever
is longer. A case that is outside its tolerance is printed, and ends the program with status 1.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

TOLERANCE = {"float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "int64": 0.0, "int32": 0.0, "uint8": 0.0}
"""Of an element, relative to the largest magnitude of the result."""


@dataclass(frozen=True)
class Case:
    """One call of an operator.

    Attributes:
        inputs: tensors on the device; None for an operand that is absent.
        outputs: tensors that the call fills.
        attributes: in the order of the function's signature: ints, floats, and sequences of either.
        oracle: what the outputs should hold, in any floating-point type; one that is None is not checked.
        products: multiplications that belong to a sum.
        factor: widens the tolerance, where rounding adds up.
    """

    name: str
    symbol: str
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    attributes: Sequence[Any]
    oracle: Callable[[], Sequence[Any]]
    products: float = 0
    factor: float = 1

    @property
    def bytes(self) -> int:
        """Of operands and results, each once."""
        tensors = [tensor for tensor in (*self.inputs, *self.outputs) if tensor is not None]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _sibling(name: str) -> Any:
    """Another file of this folder; the package may not be installed where this runs."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Device:
    """A state of the runtime that is called operator by operator, on PyTorch's default stream."""

    def __init__(self, folder: Path) -> None:
        import torch

        self.torch = torch
        self.state = _sibling("gpu_runtime").State(folder)
        integers = {torch.uint8: 2, torch.int8: 3, torch.int32: 6, torch.int64: 7, torch.bool: 9}
        self.state.numbers |= integers

    def call(self, case: Case) -> None:
        """One run of one call; it is queued when this returns.

        Raises:
            RuntimeError: the function, or the run, returned a status other than 0.
        """
        state, abi = self.state, self.state.abi
        io = abi.Io((abi.Tensor * 1)(), 0, None, state._give, None, 1, 1)
        state._check(
            state.library.hipc_begin(state.handle, ctypes.byref(io), None, ctypes.c_int64(0), ctypes.c_int64(0))
        )
        tensors = [
            None if t is None else state.tensor(t.data_ptr(), t.shape, t.dtype) for t in (*case.inputs, *case.outputs)
        ]
        keep: list[Any] = []
        arguments = [None if t is None else ctypes.byref(t) for t in tensors]
        for attribute in case.attributes:
            arguments += _attribute(attribute, keep)
        status = getattr(state.library, case.symbol)(state.handle, *arguments)
        state._check(state.library.hipc_end(state.handle, status))

    def seconds(self, call: Callable[[], None], repeats: int = 20, batches: int = 5) -> float:
        """Median over batches, per call, of the time between two events."""
        cuda = self.torch.cuda
        for _ in range(3):
            call()
        found = []
        for _ in range(batches):
            first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            first.record()
            for _ in range(repeats):
                call()
            last.record()
            cuda.synchronize()
            found.append(first.elapsed_time(last) / 1e3 / repeats)
        return float(statistics.median(found))


def _attribute(value: Any, keep: list[Any]) -> list[Any]:
    if isinstance(value, bool | int):
        return [ctypes.c_int64(int(value))]
    if isinstance(value, float):
        return [ctypes.c_double(value)]
    numbers = list(value)
    element = ctypes.c_double if any(isinstance(number, float) for number in numbers) else ctypes.c_int64
    keep.append((element * max(len(numbers), 1))(*numbers))
    return [keep[-1], ctypes.c_int64(len(numbers))]


class Maker:
    """Draws operands on the device; the same seed gives the same numbers."""

    def __init__(self, torch: Any, dtype: Any) -> None:
        self.torch, self.dtype = torch, dtype
        self.generator = torch.Generator("cuda").manual_seed(1)

    def draw(self, *shape: int, scale: float = 1.0) -> Any:
        numbers = self.torch.randn(shape, device="cuda", generator=self.generator) * scale
        return numbers.to(self.dtype)

    def empty(self, *shape: int, dtype: Any = None) -> Any:
        return self.torch.empty(shape, device="cuda", dtype=dtype or self.dtype)

    def numbers(self, *values: float, dtype: Any) -> Any:
        return self.torch.tensor(values, device="cuda", dtype=dtype)


def pictures(m: Maker) -> Iterator[Case]:
    """Convolutions, pooling, resizing and sampling."""
    nn, torch = m.torch.nn.functional, m.torch
    x, w, bias = m.draw(4, 128, 56, 56), m.draw(128, 128, 3, 3, scale=0.05), m.draw(128)
    yield Case("conv 3x3, 128 channels", "hipc_conv", (x, w, bias, None), (m.empty(4, 128, 56, 56),),
               ((1, 1), (1, 1, 1, 1), (1, 1), 1, 1, 0.0, 0.0),
               lambda: (nn.relu(nn.conv2d(x.double(), w.double(), bias.double(), padding=1)),),
               products=4 * 128 * 128 * 9 * 56 * 56, factor=4)  # fmt: skip
    narrow = m.draw(128, 1, 3, 3)
    yield Case("conv depthwise 3x3", "hipc_conv", (x, narrow, None, None), (m.empty(4, 128, 56, 56),),
               ((1, 1), (1, 1, 1, 1), (1, 1), 128, 0, 0.0, 0.0),
               lambda: (nn.conv2d(x.double(), narrow.double(), padding=1, groups=128),), factor=2)  # fmt: skip
    up = m.draw(128, 64, 2, 2, scale=0.1)
    yield Case("conv_transpose 2x2 / 2", "hipc_conv_transpose", (x, up, None), (m.empty(4, 64, 112, 112),),
               ((2, 2), (0, 0, 0, 0), (1, 1), (0, 0), 1),
               lambda: (nn.conv_transpose2d(x.double(), up.double(), stride=2),),
               products=4 * 128 * 64 * 4 * 56 * 56, factor=4)  # fmt: skip
    yield Case("max pool 3x3 / 2", "hipc_pool_window", (x,), (m.empty(4, 128, 27, 27),),
               (0, (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), 0, 0, 2, 0), lambda: (nn.max_pool2d(x, 3, 2),))  # fmt: skip
    yield Case("global average pool", "hipc_global_pool", (x,), (m.empty(4, 128, 1, 1),), (1, 2),
               lambda: (x.double().mean((2, 3), keepdim=True),))  # fmt: skip

    def resized(word: str) -> Callable[[], Sequence[Any]]:
        return lambda: (nn.interpolate(x.double(), scale_factor=2, mode=word, align_corners=False),)

    for mode, word in ((1, "bilinear"), (2, "bicubic")):
        yield Case(f"resize {word} x 2", "hipc_resize", (x, None, None), (m.empty(4, 128, 112, 112),),
                   (mode, 0, 0, -0.75, False, 0.0, False, False),
                   resized(word),
                   factor=2)  # fmt: skip
    grid = (torch.rand(4, 112, 112, 2, device="cuda", generator=m.generator) * 2 - 1).to(m.dtype)
    yield Case("grid_sample bilinear", "hipc_grid_sample", (x, grid), (m.empty(4, 128, 112, 112),), (0, 0, 0),
               lambda: (nn.grid_sample(x.double(), grid.double(), align_corners=False),), factor=20)  # fmt: skip


def rows(m: Maker) -> Iterator[Case]:
    """Normalisation, softmax, reductions, ranking, sums along an axis."""
    torch, nn = m.torch, m.torch.nn.functional
    x, scale = m.draw(4096, 4096), m.draw(4096)
    yield Case("rms_norm", "hipc_rms_norm", (x, scale), (m.empty(4096, 4096),), (-1, 1e-6),
               lambda: (nn.rms_norm(x.double(), (4096,), scale.double(), 1e-6),), factor=2)  # fmt: skip
    yield Case("layer_norm", "hipc_layer_norm", (x, scale, None), (m.empty(4096, 4096),), (-1, 1e-5),
               lambda: (nn.layer_norm(x.double(), (4096,), scale.double()),), factor=2)  # fmt: skip
    yield Case("softmax", "hipc_softmax", (x,), (m.empty(4096, 4096),), (-1, 0), lambda: (x.double().softmax(-1),))
    yield Case("sum of rows", "hipc_reduce", (x,), (m.empty(4096, 1),), (0, 0),
               lambda: (x.double().sum(1, keepdim=True),), factor=4)  # fmt: skip
    whole = m.empty(4096, dtype=torch.int64)
    yield Case(
        "argmax of rows", "hipc_arg_reduce", (x.float(),), (whole,), (0, -1, 0, 0, 0), lambda: (x.float().argmax(1),)
    )
    logits = torch.randperm(128256, device="cuda", generator=m.generator).float().reshape(1, -1)
    best = (m.empty(1, 50, dtype=torch.float32), m.empty(1, 50, dtype=torch.int64))
    yield Case("50 best of 128256", "hipc_topk", (logits,), best, (-1, 1, 1, 0), lambda: tuple(logits.topk(50)))
    axis = m.numbers(1, dtype=torch.int64)[0]
    yield Case("cumsum", "hipc_cumsum", (x, axis), (m.empty(4096, 4096),), (0, 0, 0),
               lambda: (x.double().cumsum(1),), factor=40)  # fmt: skip
    yield Case(
        "lp_norm", "hipc_lp_norm", (x,), (m.empty(4096, 4096),), (1, 2), lambda: (nn.normalize(x.double(), dim=1),)
    )


def movement(m: Maker) -> Iterator[Case]:
    """Gathers, scatters, padding, selection."""
    torch = m.torch
    x, indices = m.draw(32000, 1024), torch.randint(0, 32000, (4096,), device="cuda", generator=m.generator)
    yield Case("gather rows", "hipc_gather", (x, indices), (m.empty(4096, 1024),), (0,), lambda: (x[indices],))
    small, order = m.draw(4096, 1024), torch.randperm(32000, device="cuda", generator=m.generator)[:4096]
    yield Case("scatter_nd rows", "hipc_scatter_nd", (x, order.reshape(-1, 1), small), (m.empty(32000, 1024),), (0, 0),
               lambda: (x.index_copy(0, order, small),))  # fmt: skip
    mask = torch.rand(1 << 22, device="cuda", generator=m.generator) < 0.3
    found = int(mask.sum())
    yield Case("nonzero of 4M", "hipc_nonzero", (mask,), (m.empty(1, found, dtype=torch.int64),), (),
               lambda: (mask.nonzero().T,))  # fmt: skip
    values = torch.randint(0, 1000, (1 << 20,), device="cuda", generator=m.generator)
    count = int(values.unique().numel())
    outputs = [m.empty(size, dtype=torch.int64) for size in (count, count, 1 << 20, count)]
    yield Case("unique of 1M", "hipc_unique", (values,), outputs, (0, 1, 1, 0), lambda: _unique(torch, values))
    pads = m.numbers(0, 16, 0, 16, dtype=torch.int64)
    yield Case("pad", "hipc_pad", (x, pads, None), (m.empty(32000, 1056),), (0,),
               lambda: (torch.nn.functional.pad(x, (16, 16)),))  # fmt: skip


def _unique(torch: Any, values: Any) -> tuple[Any, Any, Any, Any]:
    kept, inverse, counts = torch.unique(values, return_inverse=True, return_counts=True)
    places = torch.arange(values.numel(), device="cuda")
    first = torch.full_like(kept, values.numel()).scatter_reduce(0, inverse, places, "amin")
    return kept, first, inverse, counts


def sequences(m: Maker) -> Iterator[Case]:
    """Recurrent networks, linear attention, transforms."""
    torch, hidden = m.torch, 256
    x, w, r = m.draw(64, 8, 256), m.draw(1, 4 * hidden, 256, scale=0.05), m.draw(1, 4 * hidden, hidden, scale=0.05)
    outputs = (m.empty(64, 1, 8, hidden), m.empty(1, 8, hidden), m.empty(1, 8, hidden))
    yield Case("lstm, 64 steps of 256", "hipc_lstm", (x, w, r, None, None, None, None, None), outputs,
               ((2, 1, 1), (0.0,) * 3, (0.0,) * 3, 0.0, 0, 0, 0), lambda: _lstm(torch, x, w, r, hidden),
               products=64 * 8 * 4 * hidden * (256 + hidden), factor=4)  # fmt: skip
    signal = m.draw(64, 400, 1)
    yield Case("dft of 400, one side", "hipc_dft", (signal, None, None), (m.empty(64, 201, 2),), (1, 0, 1),
               lambda: (torch.view_as_real(torch.fft.rfft(signal.double()[..., 0])),))  # fmt: skip
    length, heads, size = 128, 16, 64
    q, k, v = (m.draw(1, length, heads * size, scale=0.2) for _ in range(3))
    states = (m.empty(1, length, heads * size), m.empty(1, heads, size, size))
    yield Case("linear attention of 128", "hipc_linear_attention", (q, k, v, None, None, None), states,
               (heads, heads, size, size, 1.0), lambda: _linear(torch, q, k, v, heads), factor=4)  # fmt: skip


def _lstm(torch: Any, x: Any, w: Any, r: Any, hidden: int) -> tuple[Any, Any, Any]:
    """ONNX's gates are i, o, f, c; PyTorch's are i, f, c, o."""
    order = [0, 2, 3, 1]
    network = torch.nn.LSTM(x.shape[2], hidden, bias=False).cuda().double()
    with torch.no_grad():
        for target, source in ((network.weight_ih_l0, w), (network.weight_hh_l0, r)):
            target.copy_(torch.cat([source[0].double().chunk(4)[gate] for gate in order]))
        y, (h, c) = network(x.double())
    return y[:, None], h, c


def _linear(torch: Any, q: Any, k: Any, v: Any, heads: int) -> tuple[Any, Any]:
    q, k, v = (t.double().unflatten(2, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    y = (q @ k.transpose(2, 3)).tril() @ v
    return y.transpose(1, 2).flatten(2), k.transpose(2, 3) @ v


FAMILIES = (pictures, rows, movement, sequences)


def error_of(actual: Any, expected: Any) -> float:
    """The largest distance, relative to the largest magnitude of what is expected."""
    expected, actual = expected.double(), actual.double()
    if tuple(actual.shape) != tuple(expected.shape):
        return float("inf")
    largest = float(expected.abs().max())
    error = float((actual - expected).abs().max()) / (largest or 1.0)
    return error if error == error else float("inf")


def check(device: Device, case: Case) -> tuple[bool, float]:
    """Whether the outputs are within the tolerance of their types, and the worst error."""
    for output in case.outputs:
        output.view(device.torch.uint8).fill_(0xA5)
    device.call(case)
    device.torch.cuda.synchronize()
    worst, good = 0.0, True
    for output, wanted in zip(case.outputs, case.oracle(), strict=True):
        error = error_of(output, wanted)
        worst = max(worst, error)
        good = good and error <= TOLERANCE[str(output.dtype).removeprefix("torch.")] * case.factor
    return good, worst


def run(folder: Path, only: str) -> int:
    """Check and time every case; 1 where one fails."""
    device = Device(folder)
    torch = device.torch
    halves = torch.empty(2, 1 << 29, dtype=torch.uint8, device="cuda")
    bandwidth = halves.numel() / device.seconds(lambda: halves[0].copy_(halves[1]))
    square = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    rate = 4096**3 / device.seconds(lambda: torch.mm(square, square))
    print(f"copies run at {bandwidth / 1e12:.2f} TB/s, float16 products at {2 * rate / 1e12:.0f} TFLOP/s")
    print(f"{'case':28}{'type':10}{'error':>10}{'us':>10}{'floor':>8}{'share':>8}")
    failed = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        word = str(dtype).removeprefix("torch.")
        for family in FAMILIES:
            for case in family(Maker(torch, dtype)):
                if only not in case.name:
                    continue
                try:
                    good, error = check(device, case)
                    seconds = device.seconds(partial(device.call, case))
                except RuntimeError as problem:
                    failed += 1
                    print(f"FAIL {case.name} {word}: {problem}", flush=True)
                    continue
                failed += not good
                floor = max(case.bytes / bandwidth, case.products / rate)
                line = (
                    f"{case.name:28}{word:10}{error:10.1e}{seconds * 1e6:10.1f}{floor * 1e6:8.1f}{floor / seconds:8.0%}"
                )
                print(line + ("" if good else "  FAIL"), flush=True)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("folder", type=Path)
    building.add_argument("--arch", default="sm_90")
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--only", default="", help="cases whose name contains this text")
    arguments = parser.parse_args()
    if arguments.command == "run":
        return run(arguments.folder, arguments.only)
    _sibling("gpu_runtime").build(arguments.folder, arguments.arch)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
