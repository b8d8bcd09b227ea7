"""Decoders whose prompts the provider may pad: what their inputs are, and why tokens behind a prompt change nothing."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hip_compiler.errors import ErrorCode, HipCompilerError

if TYPE_CHECKING:
    import onnx

    from hip_compiler.core.frontend.load import LoadedModel

ARCHITECTURES = ("", "decoder", "other")
"""Values of the option `model_arch`; empty: a model is a decoder when it looks like one."""
ATTENTION = "GroupQueryAttention"
IDS, MASK, POSITIONS = "input_ids", "attention_mask", "position_ids"
# Operators that make each token of its own row, or of constants.
_ROWWISE = frozenset(
    (
        "Add",
        "BiasGelu",
        "Cast",
        "Clip",
        "Constant",
        "DequantizeLinear",
        "Div",
        "Erf",
        "Expand",
        "FastGelu",
        "Flatten",
        "Gather",
        "GatherBlockQuantized",
        "Gelu",
        "Gemm",
        "GreaterOrEqual",
        "HardSigmoid",
        "Identity",
        "LayerNormalization",
        "LeakyRelu",
        "MatMul",
        "MatMulNBits",
        "Max",
        "Min",
        "MoE",
        "Mul",
        "Neg",
        "Pow",
        "QMoE",
        "QuantizeLinear",
        "QuickGelu",
        "RMSNormalization",
        "Reciprocal",
        "Relu",
        "Reshape",
        "RotaryEmbedding",
        "Shape",
        "Sigmoid",
        "Sign",
        "Silu",
        "SimplifiedLayerNormalization",
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "Slice",
        "Softplus",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Swish",
        "Tanh",
        "Transpose",
        "Unsqueeze",
        "Where",
    )
)
_TABLES = {ATTENTION: (7, 8), "RotaryEmbedding": (2, 3)}
_UNLIMITED = 1 << 40


@dataclass(frozen=True)
class Decoder:
    """Inputs and outputs of a decoder, by number.

    Attributes:
        limit: the most positions that its tables have.
        positions: input with the positions of the tokens; -1: it has none.
        caches: inputs and outputs of its caches.
    """

    limit: int
    ids: int
    mask: int
    positions: int
    caches: tuple[tuple[int, int], ...]

    def words(self, multiple: int) -> str:
        """What the provider is told."""
        head = (multiple, self.limit, self.ids, self.mask, self.positions, len(self.caches))
        return " ".join(map(str, (*head, *(number for pair in self.caches for number in pair))))


def decoder_of(model: LoadedModel) -> Decoder:
    """The decoder that a model is.

    Raises:
        HipCompilerError: `HIPC0001`, with what makes it another kind of model, or may let tokens depend on later ones.
    """
    graph = model.proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    inputs = [info.name for info in graph.input if info.name not in constants]
    outputs = [info.name for info in graph.output]
    for name in (IDS, MASK):
        if name not in inputs:
            raise _no_decoder(f"it has no input '{name}'")
    caches: list[tuple[int, int]] = []
    for node in graph.node:
        _check(node, constants.keys())
        if node.op_type == ATTENTION:
            pairs = zip(node.input[3:5], node.output[1:3], strict=False)
            caches += [(inputs.index(i), outputs.index(o)) for i, o in pairs if i in inputs and o in outputs]
    known = {IDS, MASK, POSITIONS} | {inputs[number] for number, _ in caches}
    strange = [name for name in inputs if name not in known]
    if strange or not caches:
        raise _no_decoder(
            f"input '{strange[0]}' is none of a decoder's" if strange else f"it has no {ATTENTION} with caches"
        )
    tables = [constants[name] for node in graph.node for name in _tables(node) if name in constants]
    limit = min((table.dims[0] for table in tables), default=_UNLIMITED)
    positions = inputs.index(POSITIONS) if POSITIONS in inputs else -1
    return Decoder(limit, inputs.index(IDS), inputs.index(MASK), positions, tuple(caches))


def _tables(node: onnx.NodeProto) -> list[str]:
    return [node.input[index] for index in _TABLES.get(node.op_type, ()) if index < len(node.input)]


def _check(node: onnx.NodeProto, constants: Container[str]) -> None:
    title = f"{node.op_type} ({node.name or 'unnamed'})"
    if node.op_type == ATTENTION:
        return
    # A sum over the mask counts the tokens.
    if node.op_type == "ReduceSum" and node.input[0] == MASK:
        return
    mixes = node.op_type not in _ROWWISE
    # A product of two results is attention in parts: whether it looks ahead is nothing that can be seen here.
    mixes = mixes or (node.op_type in ("MatMul", "Gemm") and not any(name in constants for name in node.input[:2]))
    if mixes:
        raise _no_decoder(f"{title} may make tokens depend on later ones")


def _no_decoder(why: str) -> HipCompilerError:
    return HipCompilerError(
        ErrorCode.USAGE,
        "the model is no decoder whose prompts can be padded",
        why=why,
        hint="leave static_pad_prefill and model_arch=decoder out",
    )
