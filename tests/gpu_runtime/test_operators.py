"""Every operator of the host's runtime has an implementation for GPUs, on both platforms of HIP."""

from __future__ import annotations

import dataclasses

import pytest

from hip_compiler.core.device import callable_symbols
from hip_compiler.core.targets import gpu_target
from hip_compiler.registry.contributions import CallLowering
from hip_compiler.registry.registry import load_registry
from hip_compiler.runtime import native

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
