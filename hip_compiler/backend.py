"""The ONNX Backend API (`onnx.backend.base`), so that ONNX's own test suite runs against hip-compiler.

import hip_compiler.backend
rep = hip_compiler.backend.prepare(model)
outputs = rep.run([x])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY
from hip_compiler.errors import ErrorCode, HipCompilerError

if TYPE_CHECKING:
    from hip_compiler.runtime import Session

__all__ = [
    "HipCompilerBackend",
    "HipCompilerRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


class HipCompilerRep(BackendRep):
    """A compiled model.

    Args:
        session: the loaded model.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Args:
            inputs: one array per input in order, or by name; a single array for a model of one input.
            kwargs: none is known.

        Returns:
            One array per output in order, which can be had by name, too.

        Raises:
            HipCompilerError: `HIPC0700` when the inputs do not fit, `HIPC0701` when an operator fails.
        """
        _no_options(kwargs)
        names = [info.name for info in self.session.inputs]
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        else:
            values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(values) != len(names):
                raise HipCompilerError(
                    ErrorCode.FEED,
                    f"{len(values)} inputs were given to a model of {len(names)}",
                    hint=f"inputs in order: {', '.join(names)}",
                )
            feeds = dict(zip(names, values, strict=True))
        results = self.session.run(feeds)
        outputs = namedtupledict("Outputs", [info.name for info in self.session.outputs])
        return outputs(*(results[info.name] for info in self.session.outputs))


class HipCompilerBackend(Backend):
    """Compiles for the `host` target; the device is `CPU`."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the device is known; what a model needs and the target lacks, `prepare` reports."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> HipCompilerRep:
        """Compile a model.

        Args:
            model: message, serialised bytes, or path of a file.
            device: `CPU`.
            kwargs: options of `hip_compiler.compile`.

        Raises:
            HipCompilerError: `HIPC0502` for another device, else what `hip_compiler.compile` raises.
        """
        if not cls.supports_device(device):
            raise HipCompilerError(ErrorCode.TARGET_UNKNOWN, f"there is no device '{device}'", hint="devices: CPU")
        return HipCompilerRep(hip_compiler.compile(model, **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile a model and run it once; see `prepare` and `HipCompilerRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node.

        Args:
            node: node whose subgraphs, if any, use nothing but its inputs.
            inputs: one array per input that is not absent, in order, or by name.
            device: `CPU`.
            outputs_info: dtype and shape of the outputs; they need not be given.
            kwargs: `opset_version` of the node's domain (the newest when not given); options of `compile`.
        """
        version = kwargs.pop("opset_version", None)
        model = node_model(node, inputs, version)
        return cls.run_model(model, inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device is `CPU`, with or without a number."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False


def node_model(node: onnx.NodeProto, inputs: Any, opset_version: int | None = None) -> onnx.ModelProto:
    """The model of one node, with the types of the arrays that it is to be given.

    Raises:
        HipCompilerError: `HIPC0700` when the arrays are not one per input that is not absent.
    """
    names = list(dict.fromkeys(name for name in node.input if name))
    if isinstance(inputs, Mapping):
        arrays = [inputs.get(name) for name in names]
    else:
        arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    if len(arrays) != len(names) or any(array is None for array in arrays):
        raise HipCompilerError(
            ErrorCode.FEED,
            f"the node has {len(names)} inputs ({', '.join(names)}), {len(arrays)} arrays were given",
            hint="give one array per input that is not absent, in order or by name",
        )
    infos = [_value_info(name, np.asarray(array)) for name, array in zip(names, arrays, strict=True)]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    if opset_version is None:
        opset_version = onnx.defs.onnx_opset_version() if node.domain in ("", "ai.onnx") else 1
    graph = helper.make_graph([node], node.op_type, infos, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset_version)])


def _value_info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    if array.dtype not in BY_NUMPY:
        raise HipCompilerError(ErrorCode.FEED, f"input '{name}' is of dtype {array.dtype}, which ONNX does not have")
    return helper.make_tensor_value_info(name, BY_NUMPY[array.dtype].onnx, array.shape)


def _no_options(kwargs: Mapping[str, Any]) -> None:
    if kwargs:
        raise HipCompilerError(ErrorCode.USAGE, f"a run has no option '{next(iter(kwargs))}'")


is_compatible = HipCompilerBackend.is_compatible
prepare = HipCompilerBackend.prepare
run_model = HipCompilerBackend.run_model
run_node = HipCompilerBackend.run_node
supports_device = HipCompilerBackend.supports_device
