"""What comes nearest to an operator that has no conversion, as words for the report."""

from __future__ import annotations

import difflib

from hip_compiler.core.conversion.onnx_op import CONVERTERS, OnnxOp


def nearest(op: OnnxOp) -> str:
    """The same operator of another opset or domain, or else one of a similar name; empty where there is none."""
    entries = CONVERTERS.get((op.domain, op.op))
    if entries:
        spans = " or ".join(_span(entry.since, entry.until) for entry in entries)
        return f"it is compiled as of opset {spans}"
    elsewhere = sorted(domain for domain, name in CONVERTERS if name == op.op and domain != "hip")
    if elsewhere:
        return f"the operator of that name in domain {elsewhere[0] or 'ai.onnx'} is compiled"
    names = sorted({name for domain, name in CONVERTERS if domain in ("", op.domain)})
    similar = difflib.get_close_matches(op.op, names, 1, cutoff=0.75)
    return f"the nearest that is compiled is {similar[0]}" if similar else ""


def _span(since: int, until: int | None) -> str:
    return f"{since} and later" if until is None else str(since) if since == until else f"{since} to {until}"
