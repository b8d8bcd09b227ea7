"""The audit of runtime bitcode: every way of defining a symbol that others see, and every kind of bad file."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import pytest

from hip_compiler.registry import symbols
from hip_compiler.registry.audit import audit_bitcode, exported_symbols
from hip_compiler.registry.bitstream import producer
from hip_compiler.registry.contributions import BitcodeContribution, TargetContribution
from tests.plugins.conftest import Distribution, Install, Site

HOST = TargetContribution("host", "", lambda: None, overridable=frozenset({"hipc_matmul"}))  # type: ignore[arg-type,return-value]
OURS = "define i32 @acme_f() {\n  ret i32 1\n}\n"


def bitcode(text: str, triple: str = "") -> bytes:
    """Bitcode of LLVM IR text."""
    header = f'target triple = "{triple}"\n' if triple else ""
    data: bytes = llvm.parse_assembly(header + text).as_bitcode()
    return data


def audit(source: bytes, **more: object) -> list[str]:
    return audit_bitcode(BitcodeContribution("acme.bc", "host", source, "acme_", **more), HOST)  # type: ignore[arg-type]


def test_prefixed_and_local_symbols_pass() -> None:
    text = OURS + (
        "@acme_table = global i32 1\n@private_one = private constant i32 1\n@internal_one = internal global i32 1\n"
        "@elsewhere = external global i32\ndeclare i32 @printf(ptr, ...)\n"
        "define internal i32 @helper() {\n  ret i32 2\n}\n@acme_alias = alias i32 (), ptr @acme_f\n"
        '@llvm.used = appending global [1 x ptr] [ptr @acme_f], section "llvm.metadata"\n'
    )
    assert audit(bitcode(text)) == []
    found = exported_symbols(BitcodeContribution("acme.bc", "host", bitcode(text), "acme_"))
    assert sorted(found) == ["acme_alias", "acme_f", "acme_table"]


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("define i32 @bad() {\n  ret i32 1\n}", "function 'bad' (external)"),
        ("define weak i32 @bad() {\n  ret i32 1\n}", "function 'bad' (weak)"),
        ("define weak_odr i32 @bad() {\n  ret i32 1\n}", "function 'bad' (weak_odr)"),
        ("define linkonce i32 @bad() {\n  ret i32 1\n}", "function 'bad' (linkonce)"),
        ("define linkonce_odr hidden i32 @bad() {\n  ret i32 1\n}", "function 'bad' (linkonce_odr)"),
        ("define available_externally i32 @bad() {\n  ret i32 1\n}", "function 'bad' (available_externally)"),
        ('define i32 @"odd name"() {\n  ret i32 1\n}', "function 'odd name' (external)"),
        ("@bad = global i32 1", "global 'bad' (external)"),
        ("@bad = constant i32 1", "global 'bad' (external)"),
        ("@bad = common global i32 0", "global 'bad' (common)"),
        ("@bad = weak global i32 0", "global 'bad' (weak)"),
        ("@bad = thread_local global i32 0", "global 'bad' (external)"),
        (OURS + "@bad = alias i32 (), ptr @acme_f", "alias 'bad' (external)"),
        (OURS + "@bad = weak alias i32 (), ptr @acme_f", "alias 'bad' (weak)"),
        ("define internal ptr @r() {\n  ret ptr null\n}\n@bad = ifunc i32 (), ptr @r", "ifunc 'bad' (external)"),
    ],
)
def test_an_unprefixed_definition_is_named_with_its_kind_and_linkage(text: str, symbol: str) -> None:
    assert audit(bitcode(text)) == [f"acme.bc: {symbol} lacks the prefix 'acme_' and is not listed in overrides="]


def test_every_finding_is_reported_at_once() -> None:
    assert len(audit(bitcode("@one = global i32 1\n@two = global i32 1"))) == 2


def test_static_constructors_are_refused() -> None:
    text = (
        "define internal void @c() {\n  ret void\n}\n"
        "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @c, ptr null }]"
    )
    assert audit(bitcode(text)) == ["acme.bc: llvm.global_ctors: static constructors and destructors are not run"]


def test_overrides_must_exist_in_the_runtime_as_overridable_and_in_the_bitcode() -> None:
    text = "define i32 @hipc_matmul() {\n  ret i32 1\n}"
    assert audit(bitcode(text), overrides=("hipc_matmul",)) == []
    assert audit(bitcode(OURS), overrides=("hipc_matmul",)) == [
        "acme.bc: override 'hipc_matmul' is not defined in the bitcode"
    ]
    assert audit(bitcode("define i32 @hipc_conv() {\n  ret i32 1\n}"), overrides=("hipc_conv",)) == [
        "acme.bc: override 'hipc_conv' is no overridable symbol of target 'host'; those are: hipc_matmul"
    ]


@pytest.mark.parametrize(("prefix", "words"), [("", "has no prefix"), ("hipc_x", "belongs to the runtime")])
def test_the_prefix_itself(prefix: str, words: str) -> None:
    findings = audit_bitcode(BitcodeContribution("acme.bc", "host", bitcode("declare void @f()"), prefix), HOST)
    assert len(findings) == 1 and words in findings[0]


def test_files_that_are_no_bitcode() -> None:
    assert audit(b"") == ["acme.bc: is empty"]
    assert audit(b"; ModuleID") == [r"acme.bc: is no LLVM bitcode: it starts with b'; Mo'"]
    assert audit(OURS.encode()) == [r"acme.bc: is no LLVM bitcode: it starts with b'defi'"]


def test_truncated_bitcode_names_its_maker_and_never_crashes() -> None:
    whole = bitcode(OURS)
    assert producer(whole).startswith("LLVM22")
    for length in range(4, len(whole) - 4, 97):
        findings = audit(whole[:length])
        assert len(findings) == 1 and "damaged bitcode of" in findings[0]
    assert "damaged bitcode of LLVM22" in audit(whole[: len(whole) // 2])[0]


def test_bitcode_of_a_newer_llvm_is_refused_with_both_versions() -> None:
    newer = with_producer(bitcode(OURS), "LLVM99")
    assert producer(newer) == "LLVM99"
    ours = ".".join(map(str, llvm.llvm_version_info))
    assert audit(newer) == [f"acme.bc: made by LLVM99, which is newer than LLVM {ours}; build it with clang 22"]


def test_bitcode_for_another_machine_is_refused() -> None:
    own = llvm.get_process_triple()
    assert audit(bitcode(OURS, own)) == []
    (finding,) = audit(bitcode(OURS, "amdgcn-amd-amdhsa"))
    assert "triple 'amdgcn-amd-amdhsa' is not for this machine" in finding
    gpu = TargetContribution("amdgpu", "", lambda: None, architecture="amdgcn")  # type: ignore[arg-type,return-value]
    device = BitcodeContribution("acme.bc", "amdgpu", bitcode(OURS, "amdgcn-amd-amdhsa"), "acme_")
    assert audit_bitcode(device, gpu) == []
    (finding,) = audit_bitcode(BitcodeContribution("acme.bc", "amdgpu", bitcode(OURS, own), "acme_"), gpu)
    assert "is not for amdgcn (target 'amdgpu')" in finding


def test_a_plugin_with_bad_bitcode_is_refused_as_a_whole(install: Install) -> None:
    code = """
from pathlib import Path
@hookimpl
def hip_compiler_passes():
    return [PassContribution("{id}-pass", Nothing, "")]

@hookimpl
def hip_compiler_bitcode():
    return [BitcodeContribution("{id}.bc", "host", Path(__file__).parent / "code.bc", "{prefix}")]
"""
    bad = bitcode(OURS + "define weak i32 @hipc_softmax() {\n  ret i32 1\n}")
    site = install(
        Distribution("bad", code.format(id="bad", prefix="acme_"), data={"code.bc": bad}),
        Distribution("one", code.format(id="one", prefix="acme_"), data={"code.bc": bitcode(OURS)}),
        Distribution("two", code.format(id="two", prefix="acme_"), data={"code.bc": bitcode(OURS)}),
    )
    done = site.cli("passes", plugins="bad")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "HIPC0404: plugin 'bad' of vendor-bad 1.0 does not pass the audit"
    assert "bad.bc: function 'hipc_softmax' (weak) lacks the prefix 'acme_'" in lines[1]
    assert "bad-pass" not in site.cli("passes", plugins=None).stdout
    done = site.cli("passes", plugins="one,two")
    assert "HIPC0403: symbol 'acme_f' for target 'host' is registered by plugin 'one' of vendor-one 1.0" in done.stderr
    assert "and by plugin 'two' of vendor-two 1.0" in done.stderr


class TestKeptSymbols:
    """What was read of a file is kept by content; nothing of it is believed when it is damaged."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path))
        symbols.read_symbols.cache_clear()
        return tmp_path / "symbols"

    def read(self, data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[object, bool]:
        """Symbols of bitcode as a new process reads them, and whether LLVM was asked."""
        asked = []
        fresh = symbols._read_fresh

        def reading(data: bytes) -> object:
            asked.append(data)
            return fresh(data)

        monkeypatch.setattr(symbols, "_read_fresh", reading)
        symbols.read_symbols.cache_clear()
        found = symbols.read_symbols(data)
        monkeypatch.setattr(symbols, "_read_fresh", fresh)
        return found, bool(asked)

    def test_the_second_reading_needs_no_llvm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first, second = self.read(bitcode(OURS), monkeypatch), self.read(bitcode(OURS), monkeypatch)
        assert first[0] == second[0] == ((symbols.Symbol("acme_f", "function", "external"),), "")
        assert (first[1], second[1]) == (True, False)
        assert self.read(bitcode(OURS.replace("1", "2")), monkeypatch)[1]

    @pytest.mark.parametrize("damage", ["", "{", "{}", "[1]", '{"triple": "", "symbols": [["a"]]}'])
    def test_a_damaged_file_is_read_anew(self, folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = self.read(bitcode(OURS), monkeypatch)[0]
        (file,) = folder.iterdir()
        file.write_text(damage)
        assert self.read(bitcode(OURS), monkeypatch) == (whole, True)
        assert self.read(bitcode(OURS), monkeypatch) == (whole, False)

    def test_a_folder_that_cannot_be_written_to_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HIPC_CACHE_DIR", "/dev/null/cache")
        assert self.read(bitcode(OURS), monkeypatch)[1] and self.read(bitcode(OURS), monkeypatch)[1]


FAULTS = {
    "function": (lambda: bitcode("define i32 @bad() {\n  ret i32 1\n}"), "function 'bad' (external) lacks the prefix"),
    "weak": (lambda: bitcode("define weak i32 @bad() {\n  ret i32 1\n}"), "function 'bad' (weak) lacks the prefix"),
    "global": (lambda: bitcode("@bad = global i32 1"), "global 'bad' (external) lacks the prefix"),
    "alias": (lambda: bitcode(OURS + "@bad = alias i32 (), ptr @acme_f"), "alias 'bad' (external) lacks the prefix"),
    "ifunc": (
        lambda: bitcode("define internal ptr @r() {\n  ret ptr null\n}\n@bad = ifunc i32 (), ptr @r"),
        "ifunc 'bad' (external) lacks the prefix",
    ),
    "silent": (
        lambda: bitcode("define i32 @hipc_softmax() {\n  ret i32 1\n}"),
        "function 'hipc_softmax' (external) lacks the prefix",
    ),
    "truncated": (lambda: bitcode(OURS)[:200], "damaged bitcode of LLVM22"),
    "text": (lambda: OURS.encode(), "is no LLVM bitcode"),
    "newer": (lambda: with_producer(bitcode(OURS), "LLVM99"), "made by LLVM99, which is newer than LLVM 22"),
    "machine": (lambda: bitcode(OURS, "amdgcn-amd-amdhsa"), "triple 'amdgcn-amd-amdhsa' is not for this machine"),
    "constructor": (
        lambda: bitcode(
            "define internal void @c() {\n  ret void\n}\n@llvm.global_ctors = appending global"
            " [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @c, ptr null }]"
        ),
        "llvm.global_ctors: static constructors",
    ),
}


@pytest.fixture(scope="module")
def faulty(install: Install) -> Site:
    """A distribution for every fault."""
    code = """
from pathlib import Path
@hookimpl
def hip_compiler_bitcode():
    return [BitcodeContribution("acme.bc", "host", Path(__file__).parent / "code.bc", "acme_")]
"""
    return install(*(Distribution(name, code, data={"code.bc": make()}) for name, (make, _) in FAULTS.items()))


@pytest.mark.parametrize("name", FAULTS)
def test_installed_each_fault_is_refused_with_plugin_distribution_and_symbol(faulty: Site, name: str) -> None:
    done = faulty.cli("passes", plugins=name)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == f"HIPC0404: plugin '{name}' of vendor-{name} 1.0 does not pass the audit"
    assert lines[1].startswith(f"  acme.bc: {FAULTS[name][1]}")


def test_installed_beside_each_other_all_are_left_out(faulty: Site) -> None:
    states = faulty.states()
    assert len(states) == len(FAULTS)
    assert {entry["state"] for entry in states.values()} == {"refused"}


def with_producer(data: bytes, name: str) -> bytes:
    """Bitcode with another producer name: the identification block rewritten with unabbreviated records."""
    bits: list[int] = []

    def put(value: int, width: int) -> None:
        bits.extend(value >> bit & 1 for bit in range(width))

    def put_vbr(value: int, width: int) -> None:
        high = 1 << (width - 1)
        while value >= high:
            put(value & (high - 1) | high, width)
            value >>= width - 1
        put(value, width)

    def align() -> None:
        bits.extend([0] * (-len(bits) % 32))

    put(3, 3)  # unabbreviated record: STRING
    put_vbr(1, 6)
    put_vbr(len(name), 6)
    for character in name:
        put_vbr(ord(character), 6)
    put(3, 3)  # unabbreviated record: EPOCH 0
    put_vbr(2, 6)
    put_vbr(1, 6)
    put_vbr(0, 6)
    put(0, 3)  # end of the block
    align()
    body = _packed(bits)
    bits.clear()
    put(1, 2)
    put_vbr(13, 8)
    put_vbr(3, 4)
    align()
    put(len(body) // 4, 32)
    head = _packed(bits)
    old_words = int.from_bytes(data[8:12], "little")
    return data[:4] + head + body + data[12 + 4 * old_words :]


def _packed(bits: list[int]) -> bytes:
    return sum(bit << position for position, bit in enumerate(bits)).to_bytes(len(bits) // 8, "little")
