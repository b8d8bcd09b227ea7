"""LLVM dialect -> LLVM bitcode of generated code."""

from hip_compiler.core.codegen.translate import check_translatable, to_text, translate

__all__ = ["check_translatable", "to_text", "translate"]
