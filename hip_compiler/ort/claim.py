"""Which nodes of a graph the provider takes: those that the compiler converts, in as few groups as can be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from hip_compiler.core.capability import unsupported
from hip_compiler.core.frontend.load import LoadedModel
from hip_compiler.core.options import CompileOptions
from hip_compiler.dtypes import BY_ONNX
from hip_compiler.errors import HipCompilerError, Unsupported
from hip_compiler.ort.graph import extract, name_nodes, nested, reads, value_types
from hip_compiler.registry.registry import Registry

LEFT = -1
_SHOWN = 12
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_INPUT = "graph input"


@dataclass(frozen=True)
class Claim:
    """What the provider takes.

    Attributes:
        groups: for each node the number of its group; `LEFT` for one that stays on the CPU.
        left: the nodes that stay on the CPU, and why: `Op (node): reason`.
    """

    groups: tuple[int, ...]
    left: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The nodes that stay, in one line; empty when there are none."""
        more = [f"and {len(self.left) - _SHOWN} more"] if len(self.left) > _SHOWN else []
        return "; ".join([*self.left[:_SHOWN], *more])


def claim(
    model: LoadedModel,
    options: CompileOptions,
    registry: Registry,
    outer_values: bool = True,
    taken: frozenset[int] = frozenset(),
) -> Claim:
    """Divide a graph.

    The compiler's own conversion judges: first the whole graph, then each group by itself, as it will be compiled,
    until it has nothing to report. The names of the model's nodes are changed.

    Args:
        outer_values: ONNX Runtime gives a fused node what the subgraphs of its nodes read from around them.
        taken: numbers of the nodes that are another provider's.

    Raises:
        HipCompilerError: what keeps the compiler from judging at all.
    """
    division = _Division(model, options, registry, taken)
    if not outer_values:
        division.leave_readers_of_outer_values()
    return division.run()


def divide(feeds: Sequence[set[int]], taken: Sequence[bool]) -> list[int]:
    """Groups of nodes that can each become one node: no way from a group leaves it and comes back.

    A node's rank is the most changes between taken and left nodes on any way to it; nodes of one rank and kind have no
    way between them through another kind.

    Args:
        feeds: for each node the nodes whose results it reads, all of them before it.
        taken: for each node whether it is to be in a group.

    Returns:
        The number of each node's group; `LEFT` for nodes that are not taken.
    """
    rank: list[int] = []
    for number, sources in enumerate(feeds):
        # Ranks of taken nodes are odd, so that both kinds have their own.
        start = 1 if taken[number] else 0
        rank.append(max([start, *(rank[i] + (taken[i] != taken[number]) for i in sources)]))
    numbers = {value: index for index, value in enumerate(sorted({r for r, t in zip(rank, taken, strict=True) if t}))}
    return [numbers[value] if kept else LEFT for value, kept in zip(rank, taken, strict=True)]


class _Division:
    def __init__(self, model: LoadedModel, options: CompileOptions, registry: Registry, taken: frozenset[int]) -> None:
        self.taken = taken
        self.model = model
        self.options = options
        self.registry = registry
        graph = model.proto.graph
        self.nodes = list(graph.node)
        self.shown, self.numbers = name_nodes(graph)
        self.types = value_types(graph)
        self.reads = [reads(node) for node in self.nodes]
        makers = {name: number for number, node in enumerate(self.nodes) for name in node.output if name}
        self.feeds = [{makers[name] for name in names if name in makers} for names in self.reads]
        self.reasons: dict[int, str] = dict.fromkeys(taken, "")
        for number, node in enumerate(self.nodes):
            for inner in (node, *nested(node)):
                hidden = [attribute.name for attribute in inner.attribute if not attribute.type]
                if hidden:
                    self._leave(number, f"ONNX Runtime does not hand over attribute '{hidden[0]}' of {inner.op_type}")

    def run(self) -> Claim:
        self._check([number for number in range(len(self.nodes)) if number not in self.reasons])
        sound: set[frozenset[int]] = set()
        while True:
            groups = divide(self.feeds, [number not in self.reasons for number in range(len(self.nodes))])
            members: dict[int, list[int]] = {}
            for number, group in enumerate(groups):
                if group != LEFT:
                    members.setdefault(group, []).append(number)
            before = len(self.reasons)
            for numbers in members.values():
                if frozenset(numbers) not in sound and not self._check(numbers):
                    sound.add(frozenset(numbers))
            if len(self.reasons) == before:
                left = tuple(f"{self._title(n)}: {self.reasons[n]}" for n in sorted(self.reasons.keys() - self.taken))
                return Claim(tuple(groups), left)

    def leave_readers_of_outer_values(self) -> None:
        """Leave nodes whose subgraphs read values that are none of the node's own inputs."""
        for number, node in enumerate(self.nodes):
            outer = sorted(self.reads[number] - set(node.input))
            if outer:
                self._leave(number, f"ONNX Runtime before 1.27 hides '{outer[0]}' from it, which its subgraph reads")

    def _check(self, numbers: Sequence[int]) -> bool:
        """Note why nodes of a group cannot be compiled with it; whether there are such nodes."""
        if not numbers:
            return False
        before = len(self.reasons)
        part = extract(self.model, numbers, self.types)
        self._check_borders(part.proto.graph, numbers)
        if len(self.reasons) > before:
            return True
        try:
            findings = unsupported(part, self.options, self.registry)
        except HipCompilerError as error:
            # An error that names a node is about that node; any other is about all of them.
            named = self._named(error.where)
            if not named:
                raise
            for number in named:
                self._leave(number, error.what)
            return True
        for finding in findings:
            self._note(finding, part.proto.graph, numbers)
        return len(self.reasons) > before

    def _check_borders(self, part: onnx.GraphProto, numbers: Sequence[int]) -> None:
        """Values of some types cannot go between ONNX Runtime and a program: their memory is another."""
        for info in part.input:
            problem = _cannot_cross(info)
            if problem:
                for number in numbers:
                    if info.name in self.reads[number]:
                        self._leave(number, f"it reads '{info.name}', which is {problem}")
        for info in part.output:
            problem = _cannot_cross(info)
            if problem:
                for number in numbers:
                    if info.name in self.nodes[number].output:
                        self._leave(number, f"its result '{info.name}' is {problem}")

    def _note(self, finding: Unsupported, part: onnx.GraphProto, numbers: Sequence[int]) -> None:
        if finding.op == _INPUT:
            readers = [number for number in numbers if finding.node in self.reads[number]]
            for number in readers:
                self._leave(number, f"it reads '{finding.node}': {finding.reason}")
            return
        named = self._named(finding.node) & set(numbers)
        for number in named or set(numbers):
            inner = finding.op != self.nodes[number].op_type
            self._leave(number, f"{finding.op}: {finding.reason}" if inner else finding.reason)

    def _named(self, words: str) -> set[int]:
        """Nodes that words name: a name itself, names in quotation marks, or the name of a node around another."""
        if words in self.numbers:
            return {self.numbers[words]}
        quoted = {self.numbers[name] for name in _NAME.findall(words) if name in self.numbers}
        if quoted:
            return quoted
        around = [name for name in self.numbers if words.startswith((f"{name}/", f"{name} ("))]
        return {self.numbers[max(around, key=len)]} if around else set()

    def _leave(self, number: int, reason: str) -> None:
        self.reasons.setdefault(number, reason)

    def _title(self, number: int) -> str:
        node = self.nodes[number]
        op = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        return f"{op} ({self.shown[number] or 'unnamed'})"


def _cannot_cross(info: onnx.ValueInfoProto) -> str:
    """What is wrong with the type of a value between ONNX Runtime and a program; empty: nothing."""
    if not info.type.HasField("tensor_type"):
        return "no tensor"
    dtype = BY_ONNX.get(info.type.tensor_type.elem_type)
    if dtype is None or dtype.kind in ("string", "complex"):
        return "no tensor of numbers" if dtype is None else f"of type {dtype}"
    if dtype.is_narrow_integer or dtype.name == "float4e2m1":
        return f"of type {dtype}, of which ONNX Runtime packs several elements into a byte"
    return ""
