"""Rewrites that remove or merge what only moves data: identity, casts, shapes, transpositions, folding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend import import_model
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.simplify_onnx import SimplifyOnnx
from hip_compiler.registry.contributions import TargetContribution

Text = Callable[..., None]
Numbers = Callable[..., dict[str, int]]


def test_identity_and_dead_operations(check_text: Text) -> None:
    check_text(
        """
        %0 = "onnx.Identity"(%x) : (tensor<?xf32>) -> tensor<*xf32>
        %1 = "onnx.Abs"(%0) : (tensor<*xf32>) -> tensor<*xf32>
        %2 = "onnx.Neg"(%1) : (tensor<*xf32>) -> tensor<*xf32>
        return %0 : tensor<*xf32>
        // CHECK: func.func @main_graph(%arg0: tensor<?xf32>) -> tensor<?xf32>
        // CHECK-NEXT: return %arg0 : tensor<?xf32>
        """,
        arguments="%x: tensor<?xf32>",
        results="tensor<*xf32>",
    )


def test_identity_of_values_that_are_not_known(check_text: Text) -> None:
    check_text(
        """
        %0 = "onnx.Identity"(%x) : (!onnx.unknown) -> !onnx.unknown
        %1 = "onnx.Cast"(%0) {to = 1 : i64} : (!onnx.unknown) -> tensor<*xf32>
        %2 = "onnx.Transpose"(%1) : (tensor<*xf32>) -> tensor<*xf32>
        %3 = "onnx.Transpose"(%2) : (tensor<*xf32>) -> tensor<*xf32>
        %4 = "onnx.Mul"(%3, %3) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        %5 = "onnx.Div"(%4, %3) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        %6 = "onnx.Shape"(%5) : (tensor<*xf32>) -> tensor<*xi64>
        return %5, %6 : tensor<*xf32>, tensor<*xi64>
        // CHECK: %0 = "onnx.Cast"(%arg0) {to = 1 : i64} : (!onnx.unknown) -> tensor<*xf32>
        // CHECK-NEXT: "onnx.Transpose"
        // CHECK-NEXT: "onnx.Transpose"
        // CHECK-NEXT: "onnx.Mul"
        // CHECK-NEXT: "onnx.Div"
        // CHECK-NEXT: "onnx.Shape"
        """,
        arguments="%x: !onnx.unknown",
        results="tensor<*xf32>, tensor<*xi64>",
    )


def test_dropout_goes_unless_it_trains_or_its_mask_is_used(check_text: Text) -> None:
    check_text(
        """
        %none = "onnx.NoValue"() : () -> none
        %true = "onnx.Constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
        %0, %m0 = "onnx.Dropout"(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>)
        %1, %m1 = "onnx.Dropout"(%0, %none, %true) : (tensor<2xf32>, none, tensor<i1>) -> (tensor<2xf32>, tensor<2xi1>)
        %2, %m2 = "onnx.Dropout"(%1) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>)
        return %2, %m2 : tensor<2xf32>, tensor<2xi1>
        // CHECK: "onnx.Dropout"(%arg0, %{{.*}}, %{{.*}})
        // CHECK-NEXT: "onnx.Dropout"
        // CHECK-NEXT: return
        """,
        arguments="%x: tensor<2xf32>",
        results="tensor<2xf32>, tensor<2xi1>",
    )


def test_operations_of_other_domains_stay(check_text: Text) -> None:
    check_text(
        """
        %0 = "onnx.Identity"(%x) {domain = "vendor"} : (tensor<2xf32>) -> tensor<2xf32>
        %1 = "onnx.Cast"(%0) {domain = "vendor", to = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
        return %1 : tensor<2xf32>
        // CHECK: "onnx.Identity"
        // CHECK-NEXT: "onnx.Cast"
        """,
        arguments="%x: tensor<2xf32>",
        results="tensor<2xf32>",
    )


def test_cast_like_and_casts_to_the_same_type(check_text: Text) -> None:
    check_text(
        """
        %0 = "onnx.CastLike"(%x, %h) {saturate = 0 : i64} : (tensor<2xf32>, tensor<*xf16>) -> tensor<2xf16>
        %1 = "onnx.Cast"(%0) {to = 10 : i64} : (tensor<2xf16>) -> tensor<2xf16>
        return %1 : tensor<2xf16>
        // CHECK: %0 = "onnx.Cast"(%arg0) {saturate = 0 : i64, to = 10 : i64} : (tensor<2xf32>) -> tensor<2xf16>
        // CHECK-NEXT: return %0
        """,
        arguments="%x: tensor<2xf32>, %h: tensor<*xf16>",
        results="tensor<2xf16>",
        opset=19,
    )


def test_pieces_of_shapes_are_constants(check_text: Text) -> None:
    check_text(
        """
        %i = "onnx.Constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
        %j = "onnx.Constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
        %1 = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
        %9 = "onnx.Constant"() {value = dense<9> : tensor<1xi64>} : () -> tensor<1xi64>
        %s = "onnx.Shape"(%x) : (tensor<?x3x4xf32>) -> tensor<3xi64>
        %last = "onnx.Gather"(%s, %i) : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
        %first = "onnx.Gather"(%s, %j) : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
        %rest = "onnx.Slice"(%s, %1, %9) : (tensor<3xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
        %end = "onnx.Shape"(%x) {start = -2 : i64} : (tensor<?x3x4xf32>) -> tensor<2xi64>
        return %last, %first, %rest, %end : tensor<i64>, tensor<i64>, tensor<2xi64>, tensor<2xi64>
        // CHECK-DAG: %[[LAST:.*]] = "onnx.Constant"() {value = dense<4> : tensor<i64>}
        // CHECK-DAG: %[[FIRST:.*]] = "onnx.Gather"
        // CHECK-DAG: %[[REST:.*]] = "onnx.Constant"() {value = dense<[3, 4]> : tensor<2xi64>}
        // CHECK: return %[[LAST]], %[[FIRST]], %[[REST]], %
        """,
        arguments="%x: tensor<?x3x4xf32>",
        results="tensor<i64>, tensor<i64>, tensor<2xi64>, tensor<2xi64>",
    )


def test_transpositions_merge_and_cancel(check_text: Text) -> None:
    check_text(
        """
        %0 = "onnx.Transpose"(%x) {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x4x2x3xf32>
        %1 = "onnx.Transpose"(%0) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x4x2x3xf32>) -> tensor<1x2x3x4xf32>
        %2 = "onnx.Transpose"(%1) {perm = array<i64: 1, 0, 2, 3>} : (tensor<1x2x3x4xf32>) -> tensor<2x1x3x4xf32>
        %3 = "onnx.Transpose"(%2) : (tensor<2x1x3x4xf32>) -> tensor<4x3x1x2xf32>
        return %1, %3 : tensor<1x2x3x4xf32>, tensor<4x3x1x2xf32>
        // CHECK: %0 = "onnx.Transpose"(%arg0) {perm = array<i64: 3, 2, 0, 1>}
        // CHECK-NEXT: return %arg0, %0
        """,
        arguments="%x: tensor<1x2x3x4xf32>",
        results="tensor<1x2x3x4xf32>, tensor<4x3x1x2xf32>",
    )


def test_only_the_last_shape_counts(check_text: Text) -> None:
    check_text(
        """
        %s = "onnx.Constant"() {value = dense<[2, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
        %z = "onnx.Constant"() {value = dense<[0, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
        %0 = "onnx.Flatten"(%x) : (tensor<?x?x4xf32>) -> tensor<?x?xf32>
        %1 = "onnx.Reshape"(%0, %s) : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<2x?xf32>
        %2 = "onnx.Reshape"(%0, %z) : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
        return %1, %2 : tensor<2x?xf32>, tensor<?x?xf32>
        // CHECK: %[[F:.*]] = "onnx.Flatten"(%arg0)
        // CHECK: %[[A:.*]] = "onnx.Reshape"(%arg0, %
        // CHECK: %[[B:.*]] = "onnx.Reshape"(%[[F]], %
        // CHECK: return %[[A]], %[[B]]
        """,
        arguments="%x: tensor<?x?x4xf32>",
        results="tensor<2x?xf32>, tensor<?x?xf32>",
    )


def test_squeeze_and_unsqueeze_cancel(check_text: Text) -> None:
    check_text(
        """
        %a = "onnx.Constant"() {value = dense<[0, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
        %b = "onnx.Constant"() {value = dense<[2, 0]> : tensor<2xi64>} : () -> tensor<2xi64>
        %c = "onnx.Constant"() {value = dense<[0, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
        %0 = "onnx.Unsqueeze"(%x, %a) : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
        %1 = "onnx.Squeeze"(%0, %b) : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
        %2 = "onnx.Squeeze"(%0, %c) : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
        return %1, %2 : tensor<*xf32>, tensor<*xf32>
        // CHECK: %[[U:.*]] = "onnx.Unsqueeze"(%arg0
        // CHECK: %[[S:.*]] = "onnx.Squeeze"(%[[U]]
        // CHECK: return %arg0, %[[S]]
        """,
        arguments="%x: tensor<*xf32>",
        results="tensor<*xf32>, tensor<*xf32>",
    )


def test_constants_fold_in_subgraphs_too(check_text: Text) -> None:
    check_text(
        """
        %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
        %0 = "onnx.If"(%c) ({
            %1 = "onnx.Neg"(%two) : (tensor<f32>) -> tensor<f32>
            "onnx.Yield"(%1) : (tensor<f32>) -> ()
        }, {
            %2 = "onnx.Identity"(%two) : (tensor<f32>) -> tensor<f32>
            "onnx.Yield"(%2) : (tensor<f32>) -> ()
        }) {region_names = ["else_branch", "then_branch"]} : (tensor<i1>) -> tensor<f32>
        return %0 : tensor<f32>
        // CHECK: %[[TWO:.*]] = "onnx.Constant"() {value = dense<2.0{{.*}}
        // CHECK: "onnx.If"
        // CHECK-NEXT: %[[N:.*]] = "onnx.Constant"() {value = dense<-2.0{{.*}}
        // CHECK-NEXT: "onnx.Yield"(%[[N]])
        // CHECK: "onnx.Yield"(%[[TWO]])
        """,
        arguments="%c: tensor<i1>",
        results="tensor<f32>",
    )


def test_dead_operation_with_a_subgraph_goes_whole(check_text: Text) -> None:
    check_text(
        """
        %0 = "onnx.Exp"(%x) : (tensor<f32>) -> tensor<f32>
        %1 = "onnx.If"(%c) ({
            %2 = "onnx.Neg"(%0) : (tensor<f32>) -> tensor<f32>
            "onnx.Yield"(%2) : (tensor<f32>) -> ()
        }, {
            "onnx.Yield"(%0) : (tensor<f32>) -> ()
        }) {region_names = ["else_branch", "then_branch"]} : (tensor<i1>) -> tensor<f32>
        return %x : tensor<f32>
        // CHECK: func.func
        // CHECK-NEXT: return %arg1
        """,
        arguments="%c: tensor<i1>, %x: tensor<f32>",
        results="tensor<f32>",
    )


def test_what_must_not_fold(check_text: Text) -> None:
    """Random numbers, undefined casts, divisions by zero, and constants that would grow."""
    check_text(
        """
        %big = "onnx.Constant"() {value = dense<1.0e+20> : tensor<1xf32>} : () -> tensor<1xf32>
        %one = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
        %zero = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
        %huge = "onnx.Constant"() {value = dense<[4096, 9216]> : tensor<2xi64>} : () -> tensor<2xi64>
        %0 = "onnx.RandomNormalLike"(%big) : (tensor<1xf32>) -> tensor<1xf32>
        %1 = "onnx.Cast"(%big) {to = 7 : i64} : (tensor<1xf32>) -> tensor<1xi64>
        %2 = "onnx.Div"(%one, %zero) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
        %3 = "onnx.ConstantOfShape"(%huge) : (tensor<2xi64>) -> tensor<*xf32>
        %4 = "onnx.Neg"(%one) : (tensor<1xi64>) -> tensor<1xi64>
        return %0, %1, %2, %3, %4 : tensor<1xf32>, tensor<1xi64>, tensor<1xi64>, tensor<*xf32>, tensor<1xi64>
        // CHECK: "onnx.RandomNormalLike"
        // CHECK: "onnx.Cast"
        // CHECK: "onnx.Div"
        // CHECK: "onnx.ConstantOfShape"
        // CHECK-NEXT: "onnx.Constant"() {value = dense<-1> : tensor<1xi64>}
        """,
        arguments="",
        results="tensor<1xf32>, tensor<1xi64>, tensor<1xi64>, tensor<*xf32>, tensor<1xi64>",
    )


@pytest.mark.parametrize("spelling", ["dequantize", "dequantize-axis", "dequantize-block", "cast-mul"])
def test_quantised_weights_fold(check_numbers: Numbers, spelling: str) -> None:
    random = np.random.default_rng(1)
    weights = random.integers(-128, 127, (8, 6)).astype(np.int8)
    scale = {"dequantize-axis": (6,), "dequantize-block": (2, 6)}.get(spelling, ())
    initializers = [
        numpy_helper.from_array(weights, "w"),
        numpy_helper.from_array(random.random(scale, np.float32) + np.float32(0.01), "s"),
        numpy_helper.from_array(random.integers(-9, 9, scale).astype(np.int8), "z"),
    ]
    attributes: dict[str, Any] = {
        "dequantize-axis": {"axis": -1},
        "dequantize-block": {"axis": 0, "block_size": 4},
    }.get(spelling, {})
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], **attributes)]
    if spelling == "cast-mul":
        nodes = [
            helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["c", "s"], ["f"]),
        ]
    nodes.append(helper.make_node("MatMul", ["x", "f"], ["y"]))
    feeds = {"x": random.standard_normal((3, 8)).astype(np.float32)}
    applied = check_numbers(make_model(nodes, feeds, initializers), feeds)
    assert applied == {"fold-constants": len(nodes) - 1}


def test_batch_norm_folds_into_the_convolution(check_numbers: Numbers) -> None:
    random = np.random.default_rng(2)
    shapes = {"w": (4, 3, 3, 3), "b": (4,), "scale": (4,), "shift": (4,), "mean": (4,)}
    initializers = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    initializers.append(numpy_helper.from_array(random.random(4).astype(np.float32) + np.float32(0.1), "var"))
    for inputs in (["x", "w", "b"], ["x", "w"]):
        nodes = [
            helper.make_node("Conv", inputs, ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["y"], epsilon=1e-3),
        ]
        feeds = {"x": random.standard_normal((2, 3, 5, 6)).astype(np.float32)}
        assert check_numbers(make_model(nodes, feeds, initializers), feeds) == {"fold-batch-norm": 1}
        # The convolution's own result is wanted as well: it has to stay as it is.
        both = make_model(nodes, feeds, initializers, outputs=("y", "c"))
        assert check_numbers(both, feeds) == {}


CHANNELS = np.array([0.5, -2.0, 3.0, 1.5], np.float32)


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (1,), ()])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "swapped Add", "swapped Sub", "swapped Mul"])
def test_arithmetic_per_channel_folds_into_the_convolution(
    check_numbers: Numbers, op: str, shape: tuple[int, ...]
) -> None:
    random = np.random.default_rng(3)
    constant = CHANNELS.reshape(shape) if len(shape) > 1 else CHANNELS[:1].reshape(shape)
    initializers = [
        numpy_helper.from_array(random.standard_normal((4, 2, 3, 3)).astype(np.float32), "w"),
        numpy_helper.from_array(random.standard_normal(4).astype(np.float32), "b"),
        numpy_helper.from_array(constant, "k"),
    ]
    operands = ["k", "c"] if op.startswith("swapped") else ["c", "k"]
    feeds = {"x": random.standard_normal((2, 2, 5, 6)).astype(np.float32)}
    for inputs in (["x", "w", "b"], ["x", "w"]):
        nodes = [
            helper.make_node("Conv", inputs, ["c"], pads=[1, 1, 1, 1]),
            helper.make_node(op.split()[-1], operands, ["y"]),
        ]
        assert check_numbers(make_model(nodes, feeds, initializers), feeds) == {"fold-into-convolution": 1}


@pytest.mark.parametrize(
    ("op", "constant"),
    [
        ("Add", np.ones((1, 1, 1, 6), np.float32)),
        ("Add", np.ones((2, 1, 1, 1), np.float32)),
        ("Mul", np.ones((1, 1, 4, 1, 1), np.float32)),
        ("Div", np.array([[[1.0]], [[0.0]], [[2.0]], [[3.0]]], np.float32)),
    ],
)
def test_other_arithmetic_stays_behind_the_convolution(
    simplified: Callable[..., dict[str, int]], op: str, constant: np.ndarray
) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node(op, ["c", "k"], ["y"])]
    weights = np.ones((4, 2, 1, 1), np.float32)
    initializers = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(constant, "k")]
    feeds = {"x": np.ones((2, 2, 5, 6), np.float32)}
    assert simplified(make_model(nodes, feeds, initializers)) == {}


def test_transpositions_move_behind_arithmetic_and_cancel(check_numbers: Numbers) -> None:
    """A channels-last exporter: every convolution is wrapped in transpositions."""
    random = np.random.default_rng(4)
    initializers = [
        numpy_helper.from_array(random.standard_normal((3, 3, 1, 1)).astype(np.float32), "w"),
        numpy_helper.from_array(random.standard_normal((1, 1, 1, 3)).astype(np.float32), "shift"),
        numpy_helper.from_array(random.standard_normal(3).astype(np.float32), "scale"),
        numpy_helper.from_array(np.array(6, np.float32), "six"),
    ]
    back, forth = [0, 2, 3, 1], [0, 3, 1, 2]
    nodes = [
        helper.make_node("Transpose", ["x"], ["x1"], perm=forth),
        helper.make_node("Conv", ["x1", "w"], ["c1"]),
        helper.make_node("Transpose", ["c1"], ["t1"], perm=back),
        helper.make_node("Add", ["shift", "t1"], ["a1"]),
        helper.make_node("Clip", ["a1", "", "six"], ["r1"]),
        helper.make_node("Transpose", ["r1"], ["x2"], perm=forth),
        helper.make_node("Conv", ["x2", "w"], ["c2"]),
        helper.make_node("Transpose", ["c2"], ["t2"], perm=back),
        helper.make_node("Mul", ["t2", "scale"], ["m2"]),
        helper.make_node("Add", ["m2", "r1"], ["y"]),
    ]
    feeds = {"x": random.standard_normal((2, 5, 6, 3)).astype(np.float32)}
    applied = check_numbers(make_model(nodes, feeds, initializers), feeds)
    assert applied == {"fold-into-convolution": 2, "merge-transposes": 1, "sink-transpose": 4}


def test_transposition_with_other_users_stays(check_text: Text) -> None:
    check_text(
        """
        %0 = "onnx.Transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x?xf32>) -> tensor<?x2xf32>
        %1 = "onnx.Relu"(%0) : (tensor<?x2xf32>) -> tensor<?x2xf32>
        return %0, %1 : tensor<?x2xf32>, tensor<?x2xf32>
        // CHECK: %0 = "onnx.Transpose"
        // CHECK-NEXT: %1 = "onnx.Relu"(%0)
        """,
        arguments="%x: tensor<2x?xf32>",
        results="tensor<?x2xf32>, tensor<?x2xf32>",
    )


def test_moved_operations_have_the_turned_type(check_text: Text) -> None:
    check_text(
        """
        %c = "onnx.Constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
        %0 = "onnx.Transpose"(%x) {perm = array<i64: 1, 2, 0>} : (tensor<3x?x5xf32>) -> tensor<?x5x3xf32>
        %1 = "onnx.Mul"(%0, %c) : (tensor<?x5x3xf32>, tensor<3xf32>) -> tensor<?x5x3xf32>
        return %1 : tensor<?x5x3xf32>
        // CHECK: %[[C:.*]] = "onnx.Constant"()
        // CHECK-SAME: -> tensor<3x1x1xf32>
        // CHECK: %[[M:.*]] = "onnx.Mul"(%arg0, %[[C]]) : (tensor<3x?x5xf32>, tensor<3x1x1xf32>) -> tensor<3x?x5xf32>
        // CHECK: "onnx.Transpose"(%[[M]]) {perm = array<i64: 1, 2, 0>} : (tensor<3x?x5xf32>) -> tensor<?x5x3xf32>
        """,
        arguments="%x: tensor<3x?x5xf32>",
        results="tensor<?x5x3xf32>",
    )


def test_contents_that_nothing_needs_leave_the_pool(mlir_context: Any) -> None:
    weights = numpy_helper.from_array(np.arange(64, dtype=np.float32).reshape(8, 8), "w")
    nodes = [helper.make_node("Transpose", ["w"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    pool = ConstantPool()
    module = import_model(make_model(nodes, {"x": np.ones((1, 8), np.float32)}, [weights]), mlir_context, pool)
    assert list(pool.arrays) == ["w"]
    context = PassContext(CompileOptions(), TargetContribution("none", "no target", Path), {}, constants=pool)
    SimplifyOnnx().apply(module.operation, context)
    ((key, array),) = pool.arrays.items()
    assert key != "w"
    np.testing.assert_array_equal(array, np.arange(64, dtype=np.float32).reshape(8, 8).T)


def test_report_counts_the_rewrites(check_numbers: Numbers) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["h"]), helper.make_node("Identity", ["h"], ["y"])]
    feeds = {"x": np.ones((2, 2), np.float32)}
    assert check_numbers(make_model(nodes, feeds, []), feeds) == {"remove-identity": 2}


def make_model(
    nodes: list[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    initializers: list[TensorProto],
    outputs: tuple[str, ...] = ("y",),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
