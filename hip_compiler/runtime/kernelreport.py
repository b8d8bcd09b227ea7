"""What kernels take of a GPU: registers, LDS, scratch, spills, and the waves that fit beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from hip_compiler.runtime.occupancy import waves_per_simd
from hip_compiler.toolchain import codeobject


@dataclass(frozen=True)
class Row:
    """One kernel on one architecture; sizes in bytes, `waves` a SIMD."""

    architecture: str
    kernel: str
    vgprs: int
    agprs: int
    sgprs: int
    lds: int
    scratch: int
    spills: int
    waves: int

    def as_dict(self) -> dict[str, int | str]:
        """The fields by name."""
        return asdict(self)


def rows(architecture: str, image: bytes) -> list[Row]:
    """Rows for the kernels of a code object, by name.

    Raises:
        HipCompilerError: `HIPC0503`, when the bytes are no code object.
    """
    return [
        Row(
            architecture,
            name,
            kernel.vgprs,
            kernel.agprs,
            kernel.sgprs,
            kernel.lds,
            kernel.scratch,
            kernel.vgpr_spills,
            waves_per_simd(kernel, architecture),
        )
        for name, kernel in sorted(codeobject.read(image).kernels.items())
    ]


def over_budget(found: Sequence[Row], budget: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each kernel with more scratch than `budget[architecture][kernel]` bytes, 0 where it names no kernel.

    Architectures that the budget does not name are not checked.
    """
    lines = []
    for row in found:
        if row.architecture not in budget:
            continue
        allowed = budget[row.architecture].get(row.kernel, 0)
        if row.scratch > allowed:
            lines.append(
                f"{row.kernel} on {row.architecture}: {row.scratch} bytes of scratch ({row.spills} spilled registers), "
                f"{allowed} allowed"
            )
    return lines
