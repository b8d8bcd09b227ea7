"""TfIdfVectorizer."""

from __future__ import annotations

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import select
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

FLOAT, INT64 = BY_NAME["float"], BY_NAME["int64"]


@onnx_op(
    "TfIdfVectorizer",
    since=9,
    how="hip.count_ngrams",
    dtypes=frozenset({"int32", "int64", "string"}),
    limits="rank 1 or 2",
    texts=True,
)
def convert_tf_idf(emitter: Emitter, op: OnnxOp) -> Tensor:
    """How often n-grams occur, weighted; weights belong to columns, as ONNX's reference and ONNX Runtime have it."""
    x = op.input(0)
    op.require(x.rank in (1, 2), f"rank {x.rank}")
    columns = np.asarray(op.attr("ngram_indexes"), np.int64)
    texts, numbers = op.attr("pool_strings", []), op.attr("pool_int64s", [])
    of_texts = x.dtype.kind == "string"
    op.require(len(texts if of_texts else numbers) > 0, f"no n-grams of {x.dtype}")
    pool = emitter.strings(np.array(texts, object)).constant if of_texts else np.asarray(numbers, np.int64)
    assert pool is not None
    table = _table(op, pool, columns)
    width = int(columns.max()) + 1
    rows = x if x.rank == 2 else emitter.reshape(x, (dim(1), x.shape[0]))
    attributes = {
        "min_length": op.attr("min_gram_length"),
        "max_length": op.attr("max_gram_length"),
        "max_skip": op.attr("max_skip_count"),
    }
    inputs = {"x": rows, "pool": constant(pool, INT64), "table": constant(table, INT64)}
    counts = emitter.hip("hip.count_ngrams", inputs, [FLOAT], [(rows.shape[0], dim(width))], **attributes)[0]
    mode, weights = op.attr("mode"), op.attr("weights")
    op.require(mode in ("TF", "IDF", "TFIDF"), f"mode {mode}")
    given = np.ones(width, np.float32) if not weights else np.asarray(weights, np.float32)
    op.require(given.size == width, f"{given.size} weights for {width} columns")
    if mode != "TF":

        def weighted(count: Scalar, weight: Scalar) -> Scalar:
            return count * weight if mode == "TFIDF" else select(count > 0.0, weight, 0.0, count)

        counts = emitter.elementwise(weighted, [counts, constant(given, FLOAT)], FLOAT)
    return emitter.reshape(counts, (*x.shape[:-1], dim(width)))


def _table(op: OnnxOp, pool: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Offset, length and column of every n-gram of the pool, sorted by length and content."""
    starts = [int(start) for start in op.attr("ngram_counts")]
    found: list[tuple[int, tuple[int, ...], int]] = []
    for length, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        op.require(0 <= start <= end and (end - start) % length == 0, "ngram_counts that do not divide the pool")
        found += [(length, tuple(pool[at : at + length].tolist()), at) for at in range(start, end, length)]
    op.require(len(found) == len(columns) > 0 and columns.min() >= 0, "ngram_indexes of another length")
    rows = sorted((length, content, at, int(columns[i])) for i, (length, content, at) in enumerate(found))
    return np.array([(at, length, column) for length, _, at, column in rows], np.int64).reshape(-1, 3)
