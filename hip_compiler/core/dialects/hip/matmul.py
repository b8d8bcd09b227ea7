"""hip.matmul."""

from __future__ import annotations

from hip_compiler.core.dialects.hip.element_types import FLOATS, INTEGERS, one_of
from hip_compiler.registry.contributions import (
    AttributeDef,
    CallLowering,
    OpDef,
    OperandDef,
    Operation,
    OpShapes,
    TensorSpec,
)
from hip_compiler.shapes import Dim, Shape, broadcast, dim

PANEL = 32
"""Columns of a panel of a packed right-hand side."""

ACTIVATIONS = (
    "none",
    "relu",
    "gelu",
    "gelu_tanh",
    "silu",
    "sigmoid",
    "tanh",
    "hard_swish",
    "hard_sigmoid",
    "leaky_relu",
    "clip",
)
"""Activations of matmul and conv.

leaky_relu takes its slope from `activation_alpha`; hard_sigmoid its slope and offset, and clip its lowest and highest
value, from `activation_alpha` and `activation_beta`.
"""

INTEGER_ACTIVATIONS = ("none", "relu")


def reify_matmul(shapes: OpShapes) -> list[TensorSpec]:
    """`a [..., M, K]`, `b [..., K, N]` (the last two exchanged by `trans_a`, `trans_b`) to `[..., M, N]`.

    Raises:
        ValueError: ranks below 2, inner extents that differ, or batch extents that do not broadcast.
    """
    a, b = shapes.inputs["a"], shapes.inputs["b"]
    assert a is not None and b is not None
    if len(a) < 2 or len(b) < 2:
        raise ValueError(f"operands of ranks {len(a)} and {len(b)}; both need 2 or more")
    rows, depth = _matrix(a, transposed=shapes.attributes["trans_a"])
    batch = a[:-2]
    if shapes.attributes["packed"]:
        if len(b) != 3:
            raise ValueError(f"a packed right-hand side has rank 3, not {len(b)}")
        other, columns = b[1], dim(shapes.attributes["n"])
    else:
        other, columns = _matrix(b, transposed=shapes.attributes["trans_b"])
        batch = broadcast([batch, b[:-2]])
    if depth.value is not None and other.value is not None and depth != other:
        raise ValueError(f"inner extents {depth} and {other} differ")
    dtype = shapes.dtypes["a"]
    assert dtype is not None
    return [TensorSpec((*batch, rows, columns), dtype)]


def _matrix(shape: Shape, *, transposed: bool) -> tuple[Dim, Dim]:
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def verify_matmul(op: Operation) -> str | None:
    """Element types; activations and scales of integers; `n` of a packed right-hand side."""
    problem = one_of((*FLOATS, *INTEGERS))(op)
    if problem is not None:
        return problem
    attributes = op.attributes
    element = str(op.operands[0].type.element_type)
    if element in INTEGERS:
        activation = attributes["activation"].value if "activation" in attributes else "none"
        if activation not in INTEGER_ACTIVATIONS:
            return f"activation {activation} of {element}; integers allow {', '.join(INTEGER_ACTIVATIONS)}"
        if "alpha" in attributes and attributes["alpha"].value != 1.0:
            return f"a scale of {element}; integers allow alpha = 1 only"
    packed = "packed" in attributes and attributes["packed"].value
    panels = op.operands[1].type
    if packed:
        if panels.rank != 3 or panels.is_dynamic_dim(0) or panels.is_dynamic_dim(1) or panels.get_dim_size(2) != PANEL:
            return f"a packed right-hand side has the static shape [ceil(n / {PANEL}), K, {PANEL}]"
        n = attributes["n"].value if "n" in attributes else 0
        if panels.get_dim_size(0) != -(-n // PANEL):
            return f"n = {n} takes {-(-n // PANEL)} panels; the right-hand side has {panels.get_dim_size(0)}"
    return None


OPS: tuple[OpDef, ...] = (
    OpDef(
        name="hip.matmul",
        summary="Matrix product with NumPy broadcasting: y = activation(alpha * a @ b + bias) + residual.",
        inputs=(
            OperandDef("a"),
            OperandDef("b"),
            OperandDef("bias", optional=True),
            OperandDef("residual", optional=True),
        ),
        outputs=(OperandDef("y"),),
        attributes=(
            AttributeDef("trans_a", "bool", False),
            AttributeDef("trans_b", "bool", False),
            AttributeDef("alpha", "float", 1.0),
            AttributeDef("activation", "string", "none", ACTIVATIONS),
            AttributeDef("packed", "bool", False),
            AttributeDef("n", "int", 0),
            AttributeDef("activation_alpha", "float", 0.0),
            AttributeDef("activation_beta", "float", 0.0),
        ),
        reify=reify_matmul,
        verify=verify_matmul,
        lowering=CallLowering("hipc_matmul"),
    ),
)
