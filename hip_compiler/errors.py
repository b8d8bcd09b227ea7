"""Every error a user can meet: a stable code, what happened, where, why, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class ErrorCode(StrEnum):
    """Stable error codes. The value is printed; the meaning is in `MEANINGS` and in `docs/errors.md`."""

    USAGE = "HIPC0001"
    INTERNAL = "HIPC0002"
    MODEL_UNREADABLE = "HIPC0100"
    EXTERNAL_DATA = "HIPC0101"
    MODEL_INVALID = "HIPC0102"
    LANGUAGE_MODEL = "HIPC0103"
    UNSUPPORTED = "HIPC0200"
    SHAPE_MISMATCH = "HIPC0201"
    PIPELINE_SYNTAX = "HIPC0300"
    UNKNOWN_PASS = "HIPC0301"
    PASS_FAILED = "HIPC0302"
    IR_INVALID = "HIPC0303"
    PASS_OPTION = "HIPC0304"
    NO_ENTRY_POINT = "HIPC0305"
    LATE_CONSTANT = "HIPC0306"
    PLUGIN_BROKEN = "HIPC0400"
    PLUGIN_UNKNOWN = "HIPC0401"
    PLUGIN_API = "HIPC0402"
    PLUGIN_CONFLICT = "HIPC0403"
    PLUGIN_AUDIT = "HIPC0404"
    CODEGEN = "HIPC0500"
    LINK = "HIPC0501"
    TARGET_UNKNOWN = "HIPC0502"
    NOT_BUILT = "HIPC0503"
    ARTIFACT = "HIPC0600"
    ABI_MISMATCH = "HIPC0601"
    FEED = "HIPC0700"
    RUN_FAILED = "HIPC0701"
    ENVIRONMENT = "HIPC0800"


MEANINGS: dict[ErrorCode, str] = {
    ErrorCode.USAGE: "A command, option or argument is not understood.",
    ErrorCode.INTERNAL: "A defect of hip-compiler itself; the repro bundle belongs in the report.",
    ErrorCode.MODEL_UNREADABLE: "The file is not an ONNX model, or it cannot be read.",
    ErrorCode.EXTERNAL_DATA: "External data of the model is missing, out of bounds, or outside the model's folder.",
    ErrorCode.MODEL_INVALID: "The model breaks the ONNX specification.",
    ErrorCode.LANGUAGE_MODEL: "The folder of a language model is incomplete, or holds no decoder of text.",
    ErrorCode.UNSUPPORTED: "The model needs something that this target cannot do; the report lists every node.",
    ErrorCode.SHAPE_MISMATCH: "Shapes in the model contradict each other.",
    ErrorCode.PIPELINE_SYNTAX: "The text of a pass pipeline does not parse.",
    ErrorCode.UNKNOWN_PASS: "A pipeline names a pass, pipeline or slot that nothing registers.",
    ErrorCode.PASS_FAILED: "A pass reported an error.",
    ErrorCode.IR_INVALID: "The IR does not verify.",
    ErrorCode.PASS_OPTION: "An option of a pass is unknown or has a value of the wrong kind.",
    ErrorCode.NO_ENTRY_POINT: "The pipeline ended without an inference_compute entry point.",
    ErrorCode.LATE_CONSTANT: "A hip.constant was made after the slot that may make one.",
    ErrorCode.PLUGIN_BROKEN: "A plugin could not be imported or registered.",
    ErrorCode.PLUGIN_UNKNOWN: "A plugin was asked for that is not installed.",
    ErrorCode.PLUGIN_API: "A plugin was written for another range of the plugin API.",
    ErrorCode.PLUGIN_CONFLICT: "Two contributions claim the same name.",
    ErrorCode.PLUGIN_AUDIT: "A contribution of a plugin breaks the rules of its kind.",
    ErrorCode.CODEGEN: "LLVM refused the program that the pipeline produced.",
    ErrorCode.LINK: "Symbols of the program could not be resolved.",
    ErrorCode.TARGET_UNKNOWN: "The target is not registered.",
    ErrorCode.NOT_BUILT: "Files that the package's build makes are missing.",
    ErrorCode.ARTIFACT: "The artifact folder is incomplete or damaged.",
    ErrorCode.ABI_MISMATCH: "The artifact was made for another version of the runtime ABI.",
    ErrorCode.FEED: "The inputs given to a run do not fit the model's interface.",
    ErrorCode.RUN_FAILED: "An operator failed while the model ran.",
    ErrorCode.ENVIRONMENT: "An environment variable has a value of the wrong kind.",
}


class HipCompilerError(Exception):
    """An error with a code, made for people.

    Args:
        code: stable code of the error.
        what: one sentence without a full stop.
        where: ONNX node and operator, file, or MLIR location.
        why: the cause, as far as it is known.
        hint: what to do next.
        details: further lines, one per finding.
    """

    def __init__(
        self,
        code: ErrorCode,
        what: str,
        *,
        where: str = "",
        why: str = "",
        hint: str = "",
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint
        self.details = tuple(details)

    def __str__(self) -> str:
        lines = [f"{self.code.value}: {self.what}"]
        lines += [f"  {detail}" for detail in self.details]
        for label, text in (("where", self.where), ("why", self.why), ("do", self.hint)):
            if text:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Unsupported:
    """One thing a model needs and the target cannot do."""

    node: str
    op: str
    domain: str
    opset: int
    dtypes: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        op = f"{self.domain}::{self.op}" if self.domain else self.op
        dtypes = f" ({', '.join(self.dtypes)})" if self.dtypes else ""
        return f"{self.node or '<unnamed>'}: {op} opset {self.opset}{dtypes}: {self.reason}"


class UnsupportedError(HipCompilerError):
    """The one report of everything a model needs that the target cannot do."""

    def __init__(self, findings: Sequence[Unsupported], *, hint: str = "") -> None:
        self.findings = tuple(findings)
        count = len(self.findings)
        super().__init__(
            ErrorCode.UNSUPPORTED,
            f"{count} node{'s' if count != 1 else ''} cannot be compiled",
            details=[str(finding) for finding in self.findings],
            hint=hint,
        )
