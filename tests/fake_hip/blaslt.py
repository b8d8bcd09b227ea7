"""hipBLASLt on numpy. It takes column-major matrices."""

# ruff: noqa: N802 - the names are those of the functions

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tests.fake_hip.state import INVALID_VALUE, Finding

if TYPE_CHECKING:
    from tests.fake_hip.runtime import FakeHip

_DTYPES: dict[int, np.dtype[Any]] = {0: np.dtype(np.float32), 2: np.dtype(np.float16), 14: np.dtype(ml_dtypes.bfloat16)}
_NOT_SUPPORTED = 7
# Numbers of hipBLASLt, then of cuBLASLt.
_DESCRIPTION = {0: "trans_a", 1: "trans_b", 2: "epilogue", 3: "bias", 4: "bias_type"}
_CUDA_DESCRIPTION = {3: "trans_a", 4: "trans_b", 7: "epilogue", 8: "bias", 26: "bias_type"}
_LAYOUT = {0: "batch", 1: "stride"}
_CUDA_LAYOUT = {5: "batch", 6: "stride"}
_TRANSPOSED, _CUDA_TRANSPOSED = 112, 1
_COMPUTE, _CUDA_COMPUTE = 2, 68


@dataclass
class Library:
    device: int


@dataclass
class Description:
    values: dict[str, int] = field(default_factory=lambda: {"epilogue": 1})
    # What its algorithm relies on.
    alignments: tuple[int, ...] = (1, 1, 1, 1)


@dataclass
class Layout:
    dtype: int
    rows: int
    columns: int
    leading: int
    values: dict[str, int] = field(default_factory=lambda: {"batch": 1, "stride": 0})


@dataclass
class Preference:
    workspace: int = 0
    # What algorithms may rely on, of a, b, c and d.
    alignments: list[int] = field(default_factory=lambda: [256] * 4)


class FakeBlasLt:
    """The functions, of a `FakeHip`.

    Attributes:
        finds: whether the heuristic has an algorithm: all kinds, or none (as the library does for some).
        epilogues: epilogues that it has algorithms for.
        workspace: bytes of workspace that its algorithms take.
        products: (m, n, k, batch) of the products computed, as the row-major caller counts.
    """

    def __init__(self, hip: FakeHip) -> None:
        self._hip = hip
        self.finds = True
        self.epilogues = {1, 2, 4, 6, 32, 36}
        self.workspace = 4096
        self.asked = 0
        self.products: list[tuple[int, int, int, int]] = []

    @property
    def _cuda(self) -> bool:
        return self._hip.architectures[self._hip.device].startswith("sm_")

    def _finding(self, text: str) -> Exception:
        return Finding(INVALID_VALUE, text)

    def _make(self, result: int, value: Any) -> None:
        ctypes.c_void_p.from_address(result).value = self._hip.new(value)

    def _drop(self, handle: int, kind: type[Any]) -> None:
        self._hip.get(handle, kind, "a destroy function of hipBLASLt")
        del self._hip.objects[handle]

    def hipblasLtCreate(self, handle: int) -> None:
        self._make(handle, Library(self._hip.device))

    def hipblasLtDestroy(self, handle: int) -> None:
        self._drop(handle, Library)

    def hipblasLtMatmulDescCreate(self, result: int, compute: int, scale: int) -> None:
        if compute != (_CUDA_COMPUTE if self._cuda else _COMPUTE) or scale != 0:
            raise self._finding(f"compute type {compute}, scale type {scale}")
        self._make(result, Description())

    def hipblasLtMatmulDescDestroy(self, handle: int) -> None:
        self._drop(handle, Description)

    def hipblasLtMatmulDescSetAttribute(self, handle: int, attribute: int, value: int, size: int) -> None:
        known = _CUDA_DESCRIPTION if self._cuda else _DESCRIPTION
        found = self._hip.get(handle, Description, "hipblasLtMatmulDescSetAttribute")
        name = known.get(attribute)
        if name is None or size != (8 if name == "bias" else 4):
            raise self._finding(f"attribute {attribute} of a product, {size} bytes")
        found.values[name] = int.from_bytes(ctypes.string_at(value, size), "little")

    def hipblasLtMatrixLayoutCreate(self, result: int, dtype: int, rows: int, columns: int, leading: int) -> None:
        if leading < rows or dtype not in _DTYPES:
            raise self._finding(f"a matrix of {rows} x {columns}, leading extent {leading}, type {dtype}")
        self._make(result, Layout(dtype, rows, columns, leading))

    def hipblasLtMatrixLayoutDestroy(self, handle: int) -> None:
        self._drop(handle, Layout)

    def hipblasLtMatrixLayoutSetAttribute(self, handle: int, attribute: int, value: int, size: int) -> None:
        known = _CUDA_LAYOUT if self._cuda else _LAYOUT
        name = known.get(attribute)
        if name is None or size != {"batch": 4, "stride": 8}[name]:
            raise self._finding(f"attribute {attribute} of a layout, {size} bytes")
        found = self._hip.get(handle, Layout, "hipblasLtMatrixLayoutSetAttribute")
        found.values[name] = int.from_bytes(ctypes.string_at(value, size), "little", signed=True)

    def hipblasLtMatmulPreferenceCreate(self, result: int) -> None:
        self._make(result, Preference())

    def hipblasLtMatmulPreferenceDestroy(self, handle: int) -> None:
        self._drop(handle, Preference)

    def hipblasLtMatmulPreferenceSetAttribute(self, handle: int, attribute: int, value: int, size: int) -> None:
        found = self._hip.get(handle, Preference, "hipblasLtMatmulPreferenceSetAttribute")
        if (attribute, size) == (1, 8):
            found.workspace = ctypes.c_uint64.from_address(value).value
        elif self._cuda and 5 <= attribute <= 8 and size == 4:
            found.alignments[attribute - 5] = ctypes.c_uint32.from_address(value).value
        else:
            raise self._finding(f"attribute {attribute} of a preference, {size} bytes")

    def hipblasLtMatmulAlgoGetHeuristic(self, *arguments: int) -> int:
        _, description, a, b, c, d, preference, asked, results, found = arguments
        self.asked += 1
        values = self._hip.get(description, Description, "heuristic").values
        for layout in (a, b, c, d):
            self._hip.get(layout, Layout, "heuristic")
        preferred = self._hip.get(preference, Preference, "heuristic")
        allowed = preferred.workspace
        if self._cuda:
            self._hip.get(description, Description, "heuristic").alignments = tuple(preferred.alignments)
        if asked < 1:
            raise self._finding(f"{asked} algorithms asked for")
        if not self.finds or values["epilogue"] not in self.epilogues or self.workspace > allowed:
            ctypes.c_int32.from_address(found).value = 0
            return 0 if self.finds else _NOT_SUPPORTED
        # algorithm, then size_t workspace, int status, float waves, int[4]
        size = 64 if self._cuda else 24
        content = description.to_bytes(8, "little").ljust(size, b"\0") + self.workspace.to_bytes(8, "little")
        content += bytes(4 + 4 + 16)
        ctypes.memmove(results, content, len(content))
        ctypes.c_int32.from_address(found).value = 1
        return 0

    def _matrices(self, address: int, layout: Layout, batch: int, what: str) -> np.ndarray:
        """[batch, rows, columns]"""
        dtype = _DTYPES[layout.dtype]
        stride = layout.values["stride"]
        size = (batch - 1) * stride + (layout.columns - 1) * layout.leading + layout.rows
        memory = self._hip.memories[self._hip.device].view(address, size * dtype.itemsize, what)
        strides = (stride * dtype.itemsize, dtype.itemsize, layout.leading * dtype.itemsize)
        shape = (batch, layout.rows, layout.columns)
        return np.lib.stride_tricks.as_strided(memory.view(dtype), shape, strides)

    def hipblasLtMatmul(self, *arguments: int) -> None:
        (library, description, alpha_at, a, a_layout, b, b_layout, beta_at, c, c_layout, d, d_layout) = arguments[:12]
        algorithm, workspace, workspace_bytes, stream = arguments[12:]
        if self._hip.get(library, Library, "hipblasLtMatmul").device != self._hip.device:
            raise self._finding("a product on another device than its library was opened for")
        values = dict(self._hip.get(description, Description, "hipblasLtMatmul").values)
        layouts = [self._hip.get(h, Layout, "hipblasLtMatmul") for h in (a_layout, b_layout, c_layout, d_layout)]
        if ctypes.c_int64.from_address(algorithm).value != description:
            raise self._finding("a product with the algorithm of another")
        relied_on = self._hip.get(description, Description, "hipblasLtMatmul").alignments
        if any(address % alignment for address, alignment in zip((a, b, c, d), relied_on, strict=True)):
            raise self._finding("a matrix is not aligned as the algorithm was asked for")
        if workspace_bytes < self.workspace:
            raise self._finding(f"{workspace_bytes} bytes of workspace")
        if workspace_bytes:
            self._hip.memories[self._hip.device].view(workspace, workspace_bytes, "the workspace")
        alpha, beta = (ctypes.c_float.from_address(address).value for address in (alpha_at, beta_at))

        def work() -> None:
            self._compute(values, layouts, (a, b, c, d), alpha, beta)

        self._hip.enqueue(stream, "hipblasLtMatmul", work)

    def _compute(
        self, values: dict[str, int], layouts: list[Layout], addresses: tuple[int, ...], alpha: float, beta: float
    ) -> None:
        batch = layouts[3].values["batch"]
        if any(layout.values["batch"] != batch for layout in layouts):
            raise self._finding("batches differ")
        left, right, addend, result = (
            self._matrices(address, layout, batch, "an operand of a product")
            for address, layout in zip(addresses, layouts, strict=True)
        )
        transposed = _CUDA_TRANSPOSED if self._cuda else _TRANSPOSED
        x, y = left.astype(np.float32), right.astype(np.float32)
        x = x.swapaxes(1, 2) if values.get("trans_a") == transposed else x
        y = y.swapaxes(1, 2) if values.get("trans_b") == transposed else y
        product = np.float32(alpha) * (x @ y)
        if beta:
            product = product + np.float32(beta) * addend.astype(np.float32)
        epilogue = values["epilogue"]
        if epilogue & 4:
            dtype = _DTYPES[values["bias_type"]]
            rows = layouts[3].rows
            memory = self._hip.memories[self._hip.device].view(values["bias"], rows * dtype.itemsize, "the bias")
            product = product + memory.view(dtype).astype(np.float32)[None, :, None]
        if epilogue & 2:
            product = np.maximum(product, 0)
        if epilogue & 32:
            inner = np.float32(0.7978845608) * (product + np.float32(0.044715) * product**3)
            product = np.float32(0.5) * product * (1 + np.tanh(inner))
        result[...] = product.astype(result.dtype)
        self.products.append((layouts[3].columns, layouts[3].rows, x.shape[2], batch))
