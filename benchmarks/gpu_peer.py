"""The peer of `gpu_decode`: the same decoder shapes in PyTorch, a layer compiled by inductor, a step as one CUDA graph.

A step takes its token, its place in the caches and its position from device memory and leaves the next ones there, so
that steps can be queued without a word from the host. Weights are random: what is compared is time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

VARIANTS = ("products", "sdpa", "flex")
"""How a step attends: two batched products, `scaled_dot_product_attention` with a mask, `flex_attention`."""

QUEUED = 64
"""Steps that are queued before the host waits."""


def queued(step: Callable[[], None], reset: Callable[[], object], repeats: int = 7) -> float:
    """Milliseconds a step: the median over repeats of `QUEUED` steps behind each other."""
    import torch

    times = []
    for _ in range(repeats + 2):
        reset()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(QUEUED):
            step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start) / QUEUED)
    return statistics.median(times[2:])


class Peer:
    """A decoder of 16-bit weights on the device; `shape` as in `decoder_shapes.Shape`, a mapping."""

    def __init__(self, shape: dict[str, Any], capacity: int) -> None:
        import torch

        self.torch, self.shape = torch, shape
        self.dtype = {10: torch.float16, 16: torch.bfloat16}[shape["dtype"]]
        hidden, heads, shared, size = (shape[key] for key in ("hidden", "heads", "shared", "head_size"))

        def weight(outer: int, inner: int) -> Any:
            return (torch.randn(outer, inner, device="cuda") * inner**-0.5).to(self.dtype)

        def one() -> Any:
            return torch.ones(hidden, device="cuda", dtype=self.dtype)

        self.layers = [
            (
                weight((heads + 2 * shared) * size, hidden),
                weight(hidden, heads * size),
                weight(2 * shape["middle"], hidden),
                weight(hidden, shape["middle"]),
                one(),
                one(),
            )
            for _ in range(shape["layers"])
        ]
        self.table, self.head = weight(shape["vocabulary"], hidden), weight(shape["vocabulary"], hidden)
        self.norm = one()
        cache = (shared, capacity, size)
        self.keys = [torch.randn(cache, device="cuda").to(self.dtype) for _ in self.layers]
        self.values = [torch.randn(cache, device="cuda").to(self.dtype) for _ in self.layers]
        angles = torch.outer(
            torch.arange(capacity, device="cuda"), 10000.0 ** (-torch.arange(size // 2, device="cuda") * 2 / size)
        )
        self.cos, self.sin = angles.cos(), angles.sin()
        self.place = torch.zeros(1, dtype=torch.long, device="cuda")
        self.token = torch.zeros(1, dtype=torch.long, device="cuda")

    def decode(self, context: int, variants: tuple[str, ...]) -> dict[str, float]:
        """Milliseconds per token behind a context, by variant."""
        return {
            f"{variant}@{context}": queued(self._captured(self._step(variant)), lambda: self.place.fill_(context))
            for variant in variants
        }

    def first(self, prompt: int) -> float:
        """Milliseconds to the first token of a prompt."""
        torch = self.torch
        tokens = torch.randint(0, self.shape["vocabulary"], (prompt,), device="cuda")
        layer, head = self._compile(self._prompt_layer), self._compile(self._next)

        def run() -> None:
            x = self.table[tokens]
            for weights, keys, values in zip(self.layers, self.keys, self.values, strict=True):
                x = layer(x, *weights, keys, values, self.cos, self.sin)
            self.token.copy_(head(x[-1:], self.norm, self.head))

        captured, times = self._captured(run), []
        for _ in range(10):
            torch.cuda.synchronize()
            start = time.perf_counter()
            captured()
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times[3:])

    def _compile(self, function: Any) -> Any:
        torch = self.torch
        torch._dynamo.reset()
        torch._inductor.config.coordinate_descent_tuning = True
        return torch.compile(function, fullgraph=True, dynamic=False)

    def _captured(self, run: Callable[[], object]) -> Callable[[], None]:
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(3):
                run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                run()
        return graph.replay  # type: ignore[no-any-return]

    def _step(self, variant: str) -> Callable[[], None]:
        def layer(*operands: Any) -> Any:
            return self._step_layer(variant, *operands)

        compiled, head = self._compile(layer), self.torch.compile(self._next, fullgraph=True, dynamic=False)

        def run() -> None:
            x = self.table[self.token]
            for weights, keys, values in zip(self.layers, self.keys, self.values, strict=True):
                x = compiled(x, *weights, keys, values, self.cos, self.sin, self.place)
            self.token.copy_(head(x, self.norm, self.head))
            self.place.add_(1)

        return run

    def _normed(self, x: Any, scale: Any) -> Any:
        wide = x.float()
        return (wide * self.torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * scale

    def _turned(self, x: Any, cos: Any, sin: Any) -> Any:
        low, high = x.float().chunk(2, -1)
        return self.torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)

    def _next(self, x: Any, norm: Any, head: Any) -> Any:
        return self.torch.nn.functional.linear(self._normed(x, norm), head).argmax(-1)

    def _behind(self, x: Any, attended: Any, out: Any, gate_up: Any, down: Any, norm: Any) -> Any:
        linear, silu = self.torch.nn.functional.linear, self.torch.nn.functional.silu
        x = x + linear(attended, out)
        gate, up = linear(self._normed(x, norm), gate_up).chunk(2, -1)
        return x + linear(silu(gate) * up, down)

    def _step_layer(
        self, variant: str, x: Any, qkv: Any, out: Any, gate_up: Any, down: Any, first: Any, second: Any,
        keys: Any, values: Any, cos: Any, sin: Any, place: Any,
    ) -> Any:  # fmt: skip
        torch, functional = self.torch, self.torch.nn.functional
        heads, shared, size = (self.shape[key] for key in ("heads", "shared", "head_size"))
        packed = functional.linear(self._normed(x, first), qkv).view(heads + 2 * shared, size)
        q, k, v = packed.split((heads, shared, shared))
        q, k = self._turned(q, cos[place], sin[place]), self._turned(k, cos[place], sin[place])
        keys.index_copy_(1, place, k[:, None])
        values.index_copy_(1, place, v[:, None])
        seen = torch.arange(keys.shape[1], device=x.device) <= place
        if variant == "products":
            scores = torch.matmul(q.view(shared, -1, size), keys.transpose(1, 2)).float() * size**-0.5
            weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1)
            attended = torch.matmul(weights.to(x.dtype), values)
        elif variant == "sdpa":
            attended = functional.scaled_dot_product_attention(
                q.view(1, heads, 1, size), keys[None], values[None], attn_mask=seen.view(1, 1, 1, -1), enable_gqa=True
            )
        else:
            from torch.nn.attention.flex_attention import flex_attention

            def mask(score: Any, _batch: Any, _head: Any, _query: Any, key: Any) -> Any:
                return torch.where(key <= place[0], score, -float("inf"))

            attended = flex_attention(
                q.view(1, heads, 1, size).clone(), keys[None], values[None], score_mod=mask, enable_gqa=True
            )
        return self._behind(x, attended.reshape(1, -1), out, gate_up, down, second)

    def _prompt_layer(
        self, x: Any, qkv: Any, out: Any, gate_up: Any, down: Any, first: Any, second: Any,
        keys: Any, values: Any, cos: Any, sin: Any,
    ) -> Any:  # fmt: skip
        functional, count = self.torch.nn.functional, x.shape[0]
        heads, shared, size = (self.shape[key] for key in ("heads", "shared", "head_size"))
        packed = functional.linear(self._normed(x, first), qkv).view(count, heads + 2 * shared, size)
        q, k, v = packed.split((heads, shared, shared), 1)
        q, k = (self._turned(t, cos[:count, None], sin[:count, None]) for t in (q, k))
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        keys[:, :count], values[:, :count] = k, v
        attended = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)
        attended = attended[0].transpose(0, 1).reshape(count, -1)
        return self._behind(x, attended, out, gate_up, down, second)
