"""Feature transforms of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import NUMBERS, select
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME, BY_NUMPY, DType
from hip_compiler.shapes import Dim, dim, product

DOMAIN = "ai.onnx.ml"
FLOAT, DOUBLE, INT64, STRING = (BY_NAME[name] for name in ("float", "double", "int64", "string"))


@onnx_op("Scaler", domain=DOMAIN, how="linalg.generic", dtypes=NUMBERS)
def convert_scaler(emitter: Emitter, op: OnnxOp) -> Tensor:
    """(x - offset) * scale, per feature; of doubles in double, as their difference may be of little size."""
    x = op.input(0)
    op.require(x.dtype.name in NUMBERS and x.rank >= 1, f"element type {x.dtype}, rank {x.rank}")
    given = [np.asarray(op.attr(name, []), np.float32) for name in ("offset", "scale")]
    op.require(given[0].size == given[1].size > 0, f"{given[0].size} offsets, {given[1].size} scales")
    op.require(given[0].size == 1 or x.rank <= 2, f"{given[0].size} offsets for rank {x.rank}")
    offset, scale = (constant(values, FLOAT) for values in given)
    wide = DOUBLE if x.dtype is DOUBLE else FLOAT

    def scaled(v: Scalar, o: Scalar, s: Scalar) -> Scalar:
        return (v.cast(wide) - o.cast(wide)) * s.cast(wide)

    return emitter.elementwise(scaled, [x, offset, scale], FLOAT, x.shape)


@onnx_op("Normalizer", domain=DOMAIN, how="linalg.generic", limits="rank 1 or 2")
def convert_normalizer(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Rows divided by their maximum, by the sum of magnitudes or by the root of the sum of squares."""
    x, norm = op.input(0), op.attr("norm", "MAX")
    op.require(x.rank in (1, 2), f"rank {x.rank}")
    values = emitter.cast(x, FLOAT)
    # The maximum is that of the numbers; a row without one has NaNs whatever they are divided by.
    before = {"MAX": lambda v: select(v == v, v, float("-inf"), v), "L1": abs, "L2": lambda v: v * v}
    op.require(norm in before, f"norm {norm}")
    prepared = emitter.elementwise(before[norm], [values], FLOAT)
    total = emitter.reduce(prepared, [x.rank - 1], "max" if norm == "MAX" else "sum")
    column = emitter.reshape(total, (*x.shape[:-1], dim(1)))

    def divided(v: Scalar, t: Scalar) -> Scalar:
        size = t.apply("sqrt") if norm == "L2" else t
        return select(t == 0.0, v, v / size, v)

    return emitter.elementwise(divided, [values, column], FLOAT)


@onnx_op("Binarizer", domain=DOMAIN, how="linalg.generic", dtypes=NUMBERS)
def convert_binarizer(emitter: Emitter, op: OnnxOp) -> Tensor:
    """1 above a threshold, else 0."""
    x, threshold = op.input(0), op.attr("threshold", 0.0)
    op.require(x.dtype.name in NUMBERS, f"element type {x.dtype}")
    # An integer is above a threshold when it is above the whole number below it.
    bound = threshold if x.dtype.kind == "float" else int(np.floor(threshold))
    return emitter.elementwise(lambda v: select(v > bound, 1, 0, v), [x], x.dtype)


@onnx_op("Imputer", domain=DOMAIN, how="linalg.generic", dtypes=frozenset({"float", "double", "int32", "int64"}))
def convert_imputer(emitter: Emitter, op: OnnxOp) -> Tensor:
    """One value, which may be NaN, replaced by a number per feature."""
    x = op.input(0)
    op.require(x.dtype.name in ("float", "double", "int32", "int64") and x.rank >= 1, f"element type {x.dtype}")
    floats, integers = op.attr("imputed_value_floats", []), op.attr("imputed_value_int64s", [])
    op.ignore("replaced_value_float", "replaced_value_int64")
    is_float = x.dtype.kind == "float"
    given = floats if is_float else integers
    op.require(len(given) > 0, "no values to put in")
    replaced = op.attr("replaced_value_float" if is_float else "replaced_value_int64", 0)
    values = constant(np.asarray(given, x.dtype.numpy), x.dtype)

    def filled(v: Scalar, value: Scalar) -> Scalar:
        missing = v != v if is_float and np.isnan(replaced) else v == replaced
        return select(missing, value, v, v)

    return emitter.elementwise(filled, [x, values], x.dtype, x.shape)


@onnx_op("CategoryMapper", domain=DOMAIN, how="hip.lookup and hip.gather", texts=True)
def convert_category_mapper(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Strings replaced by the integers at their place in two lists, or integers by strings."""
    x = op.input(0)
    texts, numbers = np.array(op.attr("cats_strings"), object), np.asarray(op.attr("cats_int64s"), np.int64)
    op.require(len(texts) == len(numbers) > 0, f"{len(texts)} strings for {len(numbers)} integers")
    sides = [_contents(emitter.strings(texts)), numbers]
    others = [op.attr("default_string", "_Unused"), op.attr("default_int64", -1)]
    if x.dtype is STRING:
        keys, values, otherwise, dtype = sides[0], sides[1], others[1], INT64
    else:
        keys, values, dtype = sides[1], sides[0], STRING
        otherwise = _contents(emitter.strings(np.asarray(others[0], object)))[0]
    positions, order = _positions(emitter, x, keys)
    table = constant(np.concatenate([values[order], [otherwise]]), dtype)
    return emitter.hip("hip.gather", {"data": table, "indices": positions}, [dtype], axis=0)[0]


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN, how="hip.gather", texts=True)
def convert_array_feature_extractor(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Columns picked by their numbers."""
    x, indices = op.input(0), op.input(1)
    op.require(x.rank >= 1, "a scalar input")
    count: Dim = dim(1)
    for extent in indices.shape:
        count = count * extent
    flat = emitter.reshape(indices, (count,))
    axis = x.rank - 1
    picked = emitter.hip("hip.gather", {"data": x, "indices": flat}, [x.dtype], axis=axis)[0]
    return emitter.reshape(picked, (dim(1), count)) if x.rank == 1 else picked


@onnx_op("FeatureVectorizer", domain=DOMAIN, how="copies into one buffer")
def convert_feature_vectorizer(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Inputs side by side, as floats; 1-D ones are rows. Widths that are given cut, or fill up with zeros."""
    widths = op.attr("inputdimensions")
    op.require(widths is None or len(widths) == len(op.inputs), "inputdimensions that are not one for each input")
    parts: list[Tensor] = []
    total = dim(0)
    for i in range(len(op.inputs)):
        part = _matrix(emitter, emitter.cast(op.input(i), FLOAT))
        part = part if widths is None else _of_width(emitter, part, int(widths[i]))
        if parts:
            emitter.check_equal(part.shape[0], parts[0].shape[0], "FeatureVectorizer, rows")
        parts.append(part)
        total = total + part.shape[1]
    return parts[0] if len(parts) == 1 else emitter.concat(parts, 1, (parts[0].shape[0], total))


def _matrix(emitter: Emitter, x: Tensor) -> Tensor:
    if x.rank == 0:
        raise NotSupportedError("a scalar input")
    shape = (dim(1), *x.shape) if x.rank == 1 else (x.shape[0], product(x.shape[1:]))
    return emitter.reshape(x, shape)


def _of_width(emitter: Emitter, x: Tensor, width: int) -> Tensor:
    """The first columns of a matrix, and zeros where it has no more."""
    rows, has = x.shape[0], x.shape[1].value
    if has is None:
        emitter.check_equal(x.shape[1], dim(width), "FeatureVectorizer, inputdimensions")
        return emitter.reshape(x, (rows, dim(width)))
    if has >= width:
        return x if has == width else emitter.slice(x, [dim(0), dim(0)], [rows, dim(width)], [1, 1])
    missing = (rows, dim(width - has))
    return emitter.concat([x, Tensor(missing, FLOAT, emitter.fill(0, missing, FLOAT))], 1, (rows, dim(width)))


def _positions(emitter: Emitter, x: Tensor, keys: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """Position of every element in sorted keys (their number where it is none), and the keys' order."""
    first = {}
    for i, key in enumerate(keys.tolist()):
        # Of equal keys the last counts; NaNs are one key.
        first["nan" if key != key else key] = i
    order = np.array(sorted(first.values(), key=lambda i: (keys[i] != keys[i], keys[i])), np.int64)
    inputs = {"x": x, "keys": constant(keys[order], x.dtype)}
    return emitter.hip("hip.lookup", inputs, [INT64])[0], order


@onnx_op("LabelEncoder", domain=DOMAIN, since=2, how="hip.lookup and hip.gather", texts=True)
def convert_label_encoder(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Every number or string replaced by what a table has for it."""
    x = op.input(0)
    keys, values = _column(emitter, op, "keys"), _column(emitter, op, "values")
    otherwise = _otherwise(emitter, op, values.dtype)
    op.require((keys.dtype is STRING) == (x.dtype is STRING), f"keys of {keys.dtype} for {x.dtype}")
    known, found = _contents(keys), _contents(values)
    op.require(len(known) == len(found) > 0, f"{len(known)} keys for {len(found)} values")
    positions, order = _positions(emitter, x, known if x.dtype is STRING else known.astype(x.dtype.numpy))
    table = constant(np.concatenate([found[order], otherwise.reshape(1)]).astype(found.dtype), values.dtype)
    return emitter.hip("hip.gather", {"data": table, "indices": positions}, [values.dtype], axis=0)[0]


def _contents(known: Tensor) -> np.ndarray:
    assert known.constant is not None, "attributes are known"
    return known.constant.reshape(-1)


def _column(emitter: Emitter, op: OnnxOp, side: str) -> Tensor:
    """Keys or values: the one attribute that gives them."""
    kinds: dict[str, Any] = {"strings": object, "int64s": np.int64, "floats": np.float32, "tensor": None}
    given = {kind: op.attr(f"{side}_{kind}") for kind in kinds}
    for kind, value in given.items():
        if value is not None:
            array = np.asarray(value, kinds[kind])
            return emitter.strings(array) if array.dtype == object else constant(array, BY_NUMPY[array.dtype])
    raise NotSupportedError(f"no {side}")


def _otherwise(emitter: Emitter, op: OnnxOp, dtype: DType) -> np.ndarray:
    """What stands for an unknown key; one element, of strings their number."""
    unset: dict[str, tuple[str, Any]] = {
        "string": ("default_string", "_Unused"), "int64": ("default_int64", -1), "float": ("default_float", -0.0),
    }  # fmt: skip
    op.ignore(*(name for name, _ in unset.values()))
    given = op.attr("default_tensor")
    if given is None:
        name, default = unset.get(dtype.name, ("", -1 if dtype.kind == "int" else 0))
        given = op.attr(name, default) if name else default
    if dtype is STRING:
        return _contents(emitter.strings(np.asarray(given, object)))[:1]
    return np.asarray(given, dtype.numpy).reshape(-1)[:1]


@onnx_op("OneHotEncoder", domain=DOMAIN, how="hip.lookup and linalg.generic", texts=True)
def convert_one_hot_encoder(emitter: Emitter, op: OnnxOp) -> Tensor:
    """1 at the position of every category along a new last axis."""
    x = op.input(0)
    categories = op.attr("cats_strings" if x.dtype is STRING else "cats_int64s", [])
    op.ignore("cats_strings", "cats_int64s")
    op.require(len(categories) > 0, f"no categories for element type {x.dtype}")
    if x.dtype is STRING:
        keys = _contents(emitter.strings(np.array(categories, object)))
    else:
        op.require(x.dtype.name in NUMBERS, f"element type {x.dtype}")
        x, keys = emitter.cast(x, INT64), np.asarray(categories, np.int64)
    positions, order = _positions(emitter, x, keys)
    if not op.attr("zeros", 1):
        known = emitter.elementwise(lambda p: p < len(order), [positions], BY_NAME["bool"])
        emitter.check_all(known, "OneHotEncoder, an input that is none of the categories")
    column = emitter.reshape(positions, (*x.shape, dim(1)))
    places = np.full(len(keys), -1, np.int64)
    places[order] = np.arange(len(order))

    def hit(position: Scalar, place: Scalar) -> Scalar:
        return (position == place).cast(FLOAT)

    shape = (*x.shape, dim(len(keys)))
    return emitter.elementwise(hit, [column, constant(places, INT64)], FLOAT, shape)


def matrix(op: OnnxOp, name: str, rows: int) -> np.ndarray:
    """Coefficients [rows, features]."""
    values = np.asarray(op.attr(name, []), np.float32)
    op.require(rows > 0 and values.size > 0 and values.size % rows == 0, f"{values.size} {name} for {rows} rows")
    return values.reshape(rows, -1)


def as_rows(emitter: Emitter, x: Tensor) -> Tensor:
    """x [rows, features] as floats; [features] is one row.

    Raises:
        NotSupportedError: another rank.
    """
    if x.rank not in (1, 2):
        raise NotSupportedError(f"rank {x.rank}")
    return emitter.cast(x if x.rank == 2 else emitter.reshape(x, (dim(1), x.shape[0])), FLOAT)


def linear(emitter: Emitter, x: Tensor, coefficients: np.ndarray, intercepts: Sequence[float]) -> Tensor:
    """x [rows, features] times coefficients [targets, features], plus intercepts."""
    rows = as_rows(emitter, x)
    emitter.check_equal(rows.shape[1], dim(coefficients.shape[1]), "features and coefficients")
    weights = constant(np.ascontiguousarray(coefficients.T), FLOAT)
    bias = constant(np.asarray(intercepts, np.float32), FLOAT) if len(intercepts) else None
    inputs = {"a": rows, "b": weights, "bias": bias, "residual": None}
    shape = (rows.shape[0], dim(coefficients.shape[0]))
    return emitter.hip("hip.matmul", inputs, [FLOAT], [shape])[0]
