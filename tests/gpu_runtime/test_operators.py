"""Every operator of the host's runtime is there for GPUs, on both platforms of HIP; every kernel is launched by one."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hip_compiler.core.device import callable_symbols
from hip_compiler.core.targets import gpu_target
from hip_compiler.registry.contributions import CallLowering
from hip_compiler.registry.registry import load_registry
from hip_compiler.runtime import devicecode, native
from hip_compiler.toolchain import codeobject

HOST_LAYOUTS = {"hipc_gather_packed"}
"""Functions that read weights in the layout of the host's kernels: no pass makes their operations for GPUs."""
REFUSED = {"hipc_attention_quantized", "hipc_kv_append_quantized"}
"""Caches of 8 and of 4 bits: GPU targets refuse such a model, node by node."""


@pytest.mark.parametrize("platform", ["amd", "nvidia"])
def test_no_operator_is_the_hosts_alone(platform: str) -> None:
    registry = load_registry(())
    lowered = {op.lowering.symbol for op in registry.ops.values() if isinstance(op.lowering, CallLowering)}
    target = dataclasses.replace(gpu_target(frozenset()), runtime_bitcode=lambda: native.gpu_runtime(platform))
    there = callable_symbols(registry, target)
    assert there is not None
    assert "hipc_conv" in lowered & there
    assert lowered - there == HOST_LAYOUTS | REFUSED


RUNTIME = Path(__file__).parents[2] / "kernels" / "runtime"
TYPES = r"f32|f16|bf16|f64|[iu](?:8|16|32|64)|b(?:1|2|4|8|16)"


def _kernels() -> set[str]:
    if not (native.FOLDER / "kernels.pack").is_file():
        pytest.skip("kernels.pack is not built: python kernels/build.py")
    pack = devicecode.read()
    architecture = next(name for name in pack if name.startswith("gfx"))
    return set(codeobject.read(pack.get(architecture)).kernels)


def _names(text: str) -> re.Pattern[str]:
    """Names that the words of a source can be put together to: a family, what follows it, numbers, a type."""
    words = {re.sub(r"%(?:ll)?d", r"\\d+", word) for word in re.findall(r'"([a-z0-9_%]+)"', text)}
    families = "|".join(sorted((word for word in words if word[0] != "_"), key=len, reverse=True))
    return re.compile(rf"(?:{families})(?:_?(?:{'|'.join(words)}|\d+))*(?:_(?:{TYPES}))?")


def test_every_kernel_is_launched() -> None:
    """A source of the runtime has the words that its name is made of."""
    names = [_names(source.read_text()) for source in sorted(RUNTIME.glob("*.cpp")) if '"' in source.read_text()]
    assert not any(name.fullmatch("softmax_of_nobody_f32") for name in names)
    assert [kernel for kernel in sorted(_kernels()) if not any(name.fullmatch(kernel) for name in names)] == []


def test_every_launch_has_a_kernel() -> None:
    found = {
        word
        for source in RUNTIME.glob("*.cpp")
        for word in re.findall(r'(?:launch\(context, |kernel_name(?:_of_size)?\()"([a-z0-9_]+)"', source.read_text())
    }
    assert {"scan_block", "set_counts", "gather_nd", "topk_sort_b4"} & found
    kernels = _kernels()
    assert [word for word in sorted(found) if not any(kernel.startswith(word) for kernel in kernels)] == []
