"""ONNX's own node cases: every model imports and fits its schema; folding agrees with the expected outputs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend import export_model, import_model, verify_module
from hip_compiler.core.frontend.attributes import constant_array
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.simplify_onnx import SimplifyOnnx
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import TargetContribution
from tests.node_cases import node_cases

NO_TARGET = TargetContribution("none", "no target", Path)


def test_every_case_imports_and_fits_its_schema(context: Any) -> None:
    refused: Counter[ErrorCode] = Counter()
    for case in node_cases():
        pool = ConstantPool()
        try:
            module = import_model(case.model, context, pool)
        except HipCompilerError as error:
            refused[error.code] += 1
            continue
        assert module.operation.verify()
        assert verify_module(module) == [], case.name
        if "!onnx.sequence" not in str(module) and "!onnx.optional" not in str(module):
            onnx.ModelProto.FromString(export_model(module, pool).SerializeToString())
    assert not refused


def test_folding_agrees_with_the_expected_outputs(context: Any) -> None:
    folded: Counter[str] = Counter()
    for case in node_cases():
        values = [*case.data_sets[0][0], *case.data_sets[0][1]]
        arrays = [array for array in map(_array, values) if array is not None]
        count = len(case.model.graph.input)
        node = case.model.graph.node
        if len(node) > 1 or len(arrays) != len(values) or len(case.data_sets[0][0]) != count:
            continue
        inputs, outputs = arrays[:count], arrays[count:]
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        for info, array in zip(model.graph.input, inputs, strict=True):
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
        pool = ConstantPool()
        try:
            module = import_model(model, context, pool)
        except HipCompilerError as error:
            assert error.code == ErrorCode.UNSUPPORTED
            continue
        SimplifyOnnx().apply(module.operation, PassContext(CompileOptions(), NO_TARGET, {}, constants=pool))
        assert module.operation.verify()
        block = module.body.operations[0].regions[0].blocks[0]
        for value, expected in zip(
            block.operations[len(block.operations) - 1].operation.operands, outputs, strict=True
        ):
            actual = constant_array(value, pool)
            if actual is None or actual.dtype == object:
                continue
            assert actual.dtype == expected.dtype, case.name
            tolerance = 1e-3 if actual.dtype.itemsize < 4 else 1e-6
            wide = [array.astype(np.complex128) for array in (actual, expected)]
            np.testing.assert_allclose(wide[0], wide[1], rtol=tolerance, atol=1e-6, err_msg=case.name)
            folded[node[0].op_type] += 1
    assert folded.total() > 500
    assert not folded.keys() & {"RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if isinstance(value, np.ndarray) else None
