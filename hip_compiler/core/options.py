"""Options of one compilation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class CompileOptions:
    """Options of `hip_compiler.compile`; they are part of the cache key.

    Attributes:
        target: name of a registered target.
        arch: architectures to generate device code for; empty: the target's own choice.
        pipeline: pass pipeline that replaces the built-in one; empty: HIPDNN_EP_PIPELINE, else the built-in one.
        plugins: plugin ids to use, in order; ``None``: HIPDNN_EP_COMPILER_PLUGINS, else every installed plugin.
        opt_level: LLVM optimisation level, 0 to 3.
        print_ir_after: names of passes after which the IR is printed to standard error; ``*``: every pass.
        timing: collect seconds per pass.
        dump_dir: folder that receives the IR after every pass.
        verify_each: verify the IR after every pass.
        last_position: output `[batch, position, ...]`, such as logits, of which only the last position is computed;
            empty: none is cut.
        profile: the program keeps how long each operator took; runs are slower, on GPUs much.
        cache: keep the artifact in the compile cache, and take it from there when nothing has changed.
        cache_dir: folder of the compile cache; None: HIPC_CACHE_DIR.
    """

    target: str = "host"
    arch: tuple[str, ...] = ()
    pipeline: str = ""
    plugins: tuple[str, ...] | None = None
    opt_level: int = 3
    print_ir_after: tuple[str, ...] = field(default=())
    timing: bool = False
    dump_dir: Path | None = None
    verify_each: bool = True
    last_position: str = ""
    profile: bool = False
    cache: bool = False
    cache_dir: Path | None = None
