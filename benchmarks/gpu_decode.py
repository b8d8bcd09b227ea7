"""Decoder steps on a GPU through HIP's nvidia platform: numerics against float64, then time per token.

`HIP_PLATFORM=nvidia python -m benchmarks.gpu_decode build KEYS --out DIR` compiles shapes of `decoder_shapes` where
there is a compiler: the program as a shared library for any x86-64-v3 CPU, device code beside it, and where each weight
lies. `python benchmarks/gpu_decode.py run DIR KEYS` needs neither compiler nor MLIR nor llvmlite: PyTorch makes the
weights and holds the device memory, ctypes runs the program.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LAYOUT, PROGRAM, TOKENS = "layout.json", "model.so", "tokens.json"


def _module(name: str, path: Path) -> Any:
    """A module of the package by its file: the package itself may need what this machine lacks."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Decoder:
    """A loaded decoder with its weights, caches and logits on the device."""

    def __init__(self, folder: Path, capacity: int, *, capture: bool, named_weights: bool = False) -> None:
        """Weights are random, or, where asked for, those of `decoder_weights`."""
        import numpy as np
        import torch

        self.torch, self.abi = torch, _module("hipc_abi", ROOT / "hip_compiler" / "runtime" / "abi.py")
        self.layout = json.loads((folder / LAYOUT).read_text())
        self.shape = self.layout["shape"]
        self.dtype = {1: torch.float32, 10: torch.float16, 16: torch.bfloat16}[self.shape["dtype"]]
        self.capacity = capacity
        self.constants = self._memory()
        (self._named_weights if named_weights else self._random_weights)()
        self._files = {"constants.bin": self.constants}
        for name in self.layout["device"]:
            self._files[name] = np.fromfile(folder / name, np.uint8)
        self._map = self.abi.MapFile(self._file)
        self.library = ctypes.CDLL(str((folder / PROGRAM).resolve()))
        self.library.inference_last_error.restype = ctypes.c_char_p
        self.library.inference_last_error.argtypes = [ctypes.c_void_p]
        self.library.inference_compute.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.library.inference_cleanup.argtypes = [ctypes.c_void_p]
        self._state = ctypes.c_void_p()
        files = self.abi.Files(None, self._map, 1, 0, int(capture))
        start = time.perf_counter()
        self._check(self.library.inference_init(ctypes.byref(self._state), ctypes.byref(files)))
        self.load_seconds = time.perf_counter() - start
        cache = (1, self.shape["shared"], capacity, self.shape["head_size"])
        caches = sum(name.startswith("past") for name, _, _ in self.layout["inputs"])
        self.caches = [torch.zeros(cache, dtype=self.dtype, device="cuda") for _ in range(caches)]
        self.logits = torch.zeros((capacity, self.shape["vocabulary"]), dtype=self.dtype, device="cuda")
        self._allocate = self.abi.AllocateOutput(self._output)
        self._tensors = (self.abi.Tensor * len(self.layout["inputs"]))()
        self._on_device = (ctypes.c_uint8 * len(self.layout["inputs"]))()
        self._io = self.abi.Io(self._tensors, len(self._tensors), None, self._allocate, self._on_device, 1, None)
        self._host: dict[str, Any] = {}
        for number, (name, dtype, _) in enumerate(self.layout["inputs"]):
            if name.startswith("past"):
                self._set(number, dtype, cache, self.caches[len(self._host_caches(number))].data_ptr(), device=True)

    def _host_caches(self, number: int) -> list[str]:
        return [name for name, _, _ in self.layout["inputs"][:number] if name.startswith("past")]

    def _memory(self) -> Any:
        import numpy as np

        memory = np.zeros(self.layout["bytes"] + 64, np.uint8)
        return memory[-memory.__array_interface__["data"][0] % 64 :][: self.layout["bytes"]]

    def _put(self, entry: Any, values: Any) -> None:
        raw = values.contiguous().view(self.torch.uint8).cpu().numpy().reshape(-1)
        self.constants[entry["offset"] : entry["offset"] + raw.size] = raw

    def _named_weights(self) -> None:
        module = _module("decoder_weights", ROOT / "benchmarks" / "decoder_weights.py")
        for entry in self.layout["constants"]:
            name, shape = entry["key"].removesuffix(".transposed"), tuple(entry["shape"])
            turned = name != entry["key"]
            values = self.torch.from_numpy(module.weight(name, shape[::-1] if turned else shape)).to(self._type(entry))
            self._put(entry, values.T if turned else values)

    def _random_weights(self) -> None:
        """Numbers of a size that keeps activations near 1."""
        import numpy as np

        torch = self.torch
        torch.manual_seed(0)
        for entry in self.layout["constants"]:
            shape, key = entry["shape"], entry["key"]
            count = int(np.prod(shape))
            if entry["dtype"] == "uint8":
                made = torch.randint(0, 256, (count,), dtype=torch.uint8, device="cuda")
            else:
                values = torch.randn(count, device="cuda")
                if "norm" in key:
                    values = 1 + 0.1 * values
                elif "scales" in key:
                    inner = 8 * 0.58 * (self.shape["middle"] if ".down" in key else self.shape["hidden"]) ** 0.5
                    values = (1 + 0.1 * values) / inner
                elif "cache" in key:
                    values = torch.cos(values) if "cos" in key else torch.sin(values)
                elif "embed" not in key:
                    values = values / shape[1 if key.endswith(".transposed") else 0] ** 0.5
                made = values.to(self._type(entry))
            self._put(entry, made)

    def _type(self, entry: Any) -> Any:
        torch = self.torch
        known = {"float16": torch.float16, "float32": torch.float32, "uint8": torch.uint8}
        return known.get(entry["dtype"], torch.bfloat16)

    def _file(self, _: Any, name: bytes, size: Any) -> int | None:
        found = self._files.get(name.decode())
        if found is None:
            return None
        size[0] = found.nbytes
        return int(found.__array_interface__["data"][0])

    def _output(self, _: Any, index: int, dtype: int, rank: int, shape: Any) -> int:
        return int(self.logits.data_ptr() if index == 0 else self.caches[index - 1].data_ptr())

    def _set(self, number: int, dtype: int, shape: Any, pointer: int, *, device: bool) -> None:
        tensor = self._tensors[number]
        tensor.data, tensor.dtype, tensor.rank = pointer, dtype, len(shape)
        step = 1
        for axis in range(len(shape) - 1, -1, -1):
            tensor.shape[axis], tensor.strides[axis] = shape[axis], step
            step *= shape[axis]
        self._on_device[number] = int(device)

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"status {status}: {(self.library.inference_last_error(self._state) or b'').decode()}")

    def step(self, tokens: Any, before: int) -> None:
        """Run tokens (int64 array) behind `before` tokens; row 0 of `logits` is that of the last of them."""
        import numpy as np

        total = before + len(tokens)
        values: dict[str, Any] = {
            "input_ids": np.ascontiguousarray(tokens[None], np.int64),
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
        }
        for number, (name, dtype, _) in enumerate(self.layout["inputs"]):
            if name in values:
                self._host[name] = values[name]
                self._set(number, dtype, values[name].shape, values[name].ctypes.data, device=False)
        self._check(self.library.inference_compute(self._state, ctypes.byref(self._io)))

    def weight(self, key: str) -> Any:
        """A constant in float64."""
        import numpy as np

        torch = self.torch
        entries = {entry["key"]: entry for entry in self.layout["constants"]}
        if key not in entries:
            return self.weight(f"{key}.transposed").T
        entry = entries[key]
        kind = self._type(entry)
        count = int(np.prod(entry["shape"]))
        width = torch.empty(0, dtype=kind).element_size()
        raw = torch.from_numpy(self.constants[entry["offset"] : entry["offset"] + count * width].copy()).view(kind)
        return raw.reshape(entry["shape"]).to("cuda")

    def close(self) -> None:
        self.library.inference_cleanup(self._state)


class Greedy:
    """Greedy decoding that the host only queues: a step takes its token and its place from device memory, and leaves
    the next ones there. Steps run on a stream of their own, which must be PyTorch's current one.
    """

    def __init__(self, decoder: Decoder) -> None:
        import numpy as np

        torch = decoder.torch
        self._decoder, self._stream = decoder, torch.cuda.Stream()
        self.token = torch.zeros((1, 1), dtype=torch.int64, device="cuda")
        self._before = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._total = np.zeros((), np.int32)
        places = {
            "input_ids": ((1, 1), self.token.data_ptr(), True),
            "seqlens_k": ((1,), self._before.data_ptr(), True),
            "total_sequence_length": ((), self._total.ctypes.data, False),
        }
        for number, (name, dtype, _) in enumerate(decoder.layout["inputs"]):
            if name in places:
                shape, pointer, device = places[name]
                decoder._set(number, dtype, shape, pointer, device=device)
        decoder._io.stream = self._stream.cuda_stream
        with torch.cuda.stream(self._stream):
            self._advance()
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=self._stream):
                self._advance()

    def _advance(self) -> None:
        self._decoder.torch.argmax(self._decoder.logits[:1], -1, keepdim=True, out=self.token)
        self._before.add_(1)

    def active(self) -> Any:
        """The context in which steps run."""
        return self._decoder.torch.cuda.stream(self._stream)

    def reset(self, token: int, before: int) -> None:
        """The next step runs this token behind `before` others."""
        self.token.fill_(token)
        self._before.fill_(before)
        self._total[...] = before

    def step(self) -> None:
        decoder = self._decoder
        self._total += 1
        decoder._check(decoder.library.inference_compute(decoder._state, ctypes.byref(decoder._io)))
        self._graph.replay()


def reference(decoder: Decoder, tokens: Any) -> Any:
    """Logits of every position in float64, by the definition of the operators."""
    torch, shape = decoder.torch, decoder.shape

    def w(key: str) -> Any:
        return decoder.weight(key).double()

    def norm(x: Any, key: str) -> Any:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w(key)

    def product(x: Any, key: str) -> Any:
        if shape["bits"] == 16 or key == "lm_head":
            return x @ w(f"{key}.weight")
        packed, scales = decoder.weight(f"{key}.qweight"), w(f"{key}.scales")
        outer, blocks, _ = packed.shape
        levels = torch.stack((packed & 15, packed >> 4), -1).reshape(outer, blocks, -1).double() - 8
        return x @ (levels * scales.reshape(outer, blocks, 1)).reshape(outer, -1).T

    heads, shared, size = shape["heads"], shape["shared"], shape["head_size"]
    count = len(tokens)
    x = w("embed.weight")[torch.as_tensor(tokens, device="cuda")]
    cos, sin = w("cos_cache")[:count, None], w("sin_cache")[:count, None]
    mask = torch.full((count, count), float("-inf"), dtype=torch.float64, device="cuda").triu(1)

    def rotate(v: Any) -> Any:
        a, b = v[..., : size // 2], v[..., size // 2 :]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    normed = norm(x, "first.norm.weight")
    for number in range(shape["layers"]):
        name = f"layers.{number}"
        packed = product(normed, f"{name}.qkv").reshape(count, heads + 2 * shared, size)
        q, k, v = rotate(packed[:, :heads]), rotate(packed[:, heads : heads + shared]), packed[:, heads + shared :]
        k, v = (t.repeat_interleave(heads // shared, 1) for t in (k, v))
        scores = torch.einsum("shd,thd->hst", q, k) / size**0.5 + mask
        attended = torch.einsum("hst,thd->shd", torch.softmax(scores, -1), v).reshape(count, -1)
        x = x + product(attended, f"{name}.o")
        normed = norm(x, f"{name}.post.norm.weight")
        gate, up = product(normed, f"{name}.gate"), product(normed, f"{name}.up")
        x = x + product(gate * torch.sigmoid(gate) * up, f"{name}.down")
        normed = norm(x, f"{name}.next.norm.weight")
    return product(normed, "lm_head")


def check(folder: Path, *, capture: bool, prompt: int = 70, steps: int = 6) -> float:
    """Relative error of the logits of a prompt's last position and of steps behind it, against float64."""
    import numpy as np

    decoder = Decoder(folder, prompt + steps, capture=capture)
    tokens = np.random.default_rng(0).integers(0, decoder.shape["vocabulary"], prompt + steps)
    wanted = reference(decoder, tokens)[prompt - 1 :]
    decoder.logits.fill_(float("nan"))
    decoder.step(tokens[:prompt], 0)
    got = [decoder.logits[:1].double()]
    for position in range(prompt, prompt + steps):
        decoder.logits.fill_(float("nan"))
        decoder.step(tokens[position : position + 1], position)
        got.append(decoder.logits[:1].double())
    found = decoder.torch.cat(got)
    error = float((found - wanted).norm() / wanted.norm())
    decoder.close()
    return error


def check_queued(folder: Path, steps: int = 32) -> None:
    """Queued steps must choose the tokens of steps that the host waits for.

    Raises:
        RuntimeError: they do not.
    """
    import numpy as np

    decoder = Decoder(folder, steps + 8, capture=True)
    token, waited, found = 1, [], []
    for place in range(steps):
        decoder.step(np.array([token]), place)
        token = int(decoder.logits[0].argmax())
        waited.append(token)
    greedy = Greedy(decoder)
    with greedy.active():
        greedy.reset(1, 0)
        for _ in range(steps):
            greedy.step()
            found.append(greedy.token.clone())
    decoder.torch.cuda.synchronize()
    queued = [int(value) for value in found]
    decoder.close()
    if queued != waited:
        raise RuntimeError(f"queued steps chose {queued}, others {waited}")


def check_tokens(folder: Path, near: float = 0.01) -> str:
    """Steps behind the host target's tokens must choose its next one, but where two logits are nearly the same.

    Args:
        near: difference of two logits, relative to the largest, that rounding may turn around.

    Raises:
        RuntimeError: they do not.
    """
    import numpy as np

    wanted = json.loads((folder / TOKENS).read_text())
    tokens, gaps = wanted["tokens"], wanted["gaps"]
    decoder = Decoder(folder, len(gaps), capture=True, named_weights=True)
    equal = ties = 0
    for place, gap in enumerate(gaps):
        decoder.step(np.array(tokens[place : place + 1]), place)
        chosen = int(decoder.logits[0].argmax())
        if chosen == tokens[place + 1]:
            equal += 1
        elif gap < near:
            ties += 1
        else:
            raise RuntimeError(f"token {place}: {chosen} instead of {tokens[place + 1]}, {gap:.1e} apart")
    decoder.close()
    return f"{equal} of {len(gaps)} tokens of the host target, {ties} near ties turned around"


def measure(folder: Path, contexts: tuple[int, ...], prompts: tuple[int, ...], *, capture: bool) -> dict[str, float]:
    """Milliseconds per token behind contexts, and to the first token of prompts: medians.

    `decode` waits for every token, `best` is the fastest of those; `queued` is 64 greedy steps behind each other.
    """
    import numpy as np

    decoder = Decoder(folder, max(*contexts, *prompts, 1) + 72, capture=capture)
    rng, found = np.random.default_rng(0), {"load_s": decoder.load_seconds}
    for context in contexts:
        times = []
        for step in range(60):
            token = rng.integers(0, decoder.shape["vocabulary"], 1)
            decoder.torch.cuda.synchronize()
            start = time.perf_counter()
            decoder.step(token, context + step)
            decoder.torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        found[f"decode@{context}"] = statistics.median(times[10:])
        found[f"best@{context}"] = min(times[10:])
    for prompt in prompts:
        tokens, times = rng.integers(0, decoder.shape["vocabulary"], prompt), []
        for _ in range(8):
            decoder.torch.cuda.synchronize()
            start = time.perf_counter()
            decoder.step(tokens, 0)
            decoder.torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        found[f"first@{prompt}"] = statistics.median(times[3:])
    greedy, peer = Greedy(decoder), _module("gpu_peer", ROOT / "benchmarks" / "gpu_peer.py")
    with greedy.active():
        for context in contexts:
            found[f"queued@{context}"] = peer.queued(greedy.step, functools.partial(greedy.reset, 1, context))
    decoder.close()
    return found


def print_times(key: str, who: str, times: dict[str, float]) -> None:
    print(f"{key} {who}: {', '.join(f'{name} {value:.3f}' for name, value in times.items())}", flush=True)


def run(folder: Path, keys: list[str], variants: tuple[str, ...]) -> None:
    """Check and measure shapes; beside them, in the same process, variants of PyTorch's compiled decoder."""
    contexts = (128, 2048)
    for key in keys:
        try:
            for capture in (False, True):
                print(f"{key} capture={capture}: relative error {check(folder / key, capture=capture):.2e}", flush=True)
            check_queued(folder / key)
            if (folder / key / TOKENS).exists():
                print(f"{key}: {check_tokens(folder / key)}", flush=True)
            for capture in (False, True):
                print_times(key, f"capture={capture}", measure(folder / key, contexts, contexts, capture=capture))
        except RuntimeError as error:
            print(f"{key}: {error}", flush=True)
        if not variants:
            continue
        shape = json.loads((folder / key / LAYOUT).read_text())["shape"]
        for context in contexts:
            # Its time grows with the capacity of its caches.
            peer = _module("gpu_peer", ROOT / "benchmarks" / "gpu_peer.py").Peer(shape, context + 72)
            print_times(key, "inductor", peer.decode(context, variants) | {f"first@{context}": peer.first(context)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("keys", nargs="+")
    building.add_argument("--out", type=Path, required=True)
    building.add_argument("--arch", default="sm_90")
    building.add_argument("--tokens", nargs="*", default=[], help="shapes of 16 bits to decode on the host target too")
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("keys", nargs="+")
    running.add_argument("--peer", nargs="*", default=[], help="PyTorch's variants: products, sdpa, flex")
    arguments = parser.parse_args()
    if arguments.command == "build":
        # Where programs only run there may be no compiler.
        from benchmarks import gpu_decode_build

        for key in arguments.keys:
            gpu_decode_build.build(key, arguments.out, arguments.arch)
        for key in arguments.tokens:
            gpu_decode_build.host_tokens(key, arguments.out)
    else:
        run(arguments.folder, arguments.keys, tuple(arguments.peer))


if __name__ == "__main__":
    main()
