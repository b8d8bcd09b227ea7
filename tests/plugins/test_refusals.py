"""Plugins that are broken, clash or misbehave: who is named, what still works, and that nothing of them stays."""

from __future__ import annotations

import pytest

from tests.plugins.conftest import Distribution, Install, Site, marking

BROKEN = {
    "importerror": ("import no_such_package", ["cannot be imported", "ModuleNotFoundError: No module named"]),
    "exits": ("import sys\nsys.exit(3)", ["cannot be imported", "SystemExit: 3"]),
    "misspelt": (
        "@hookimpl\ndef hip_compiler_pases():\n    return []",
        [
            "implements a hook that does not fit",
            "unknown hook 'hip_compiler_pases'",
            "did you mean 'hip_compiler_passes'?",
        ],
    ),
    "argument": (
        "@hookimpl\ndef hip_compiler_passes(registry):\n    return []",
        ["implements a hook that does not fit", "registry", "hooks take no arguments"],
    ),
    "unmarked": (
        "def hip_compiler_passes():\n    return []",
        ["defines hip_compiler_passes without @hookimpl", "from hip_compiler.plugin import hookimpl"],
    ),
    "raises": (
        """
@hookimpl
def hip_compiler_passes():
    return [PassContribution("raises-mark", Nothing, "")]

@hookimpl
def hip_compiler_targets():
    raise KeyError("gone")
""",
        ["hook hip_compiler_targets of plugin 'raises'", "KeyError: 'gone'"],
    ),
    "nothing": (
        "@hookimpl\ndef hip_compiler_passes():\n    [1]",
        ["hook hip_compiler_passes of plugin 'nothing'", "returned NoneType", "return a list of PassContribution"],
    ),
    "wrongtype": (
        "@hookimpl\ndef hip_compiler_passes():\n    return ['a-pass']",
        ["returned a list with str in it", "every element is a PassContribution"],
    ),
    "noslot": (
        "@hookimpl\ndef hip_compiler_slot_requests():\n    return [SlotRequest('AfterPoolAlloc', 'cse')]",
        ["HIPC0404", "there is no slot 'AfterPoolAlloc'; did you mean 'AfterPoolAllocs'?"],
    ),
    "badname": (
        "@hookimpl\ndef hip_compiler_passes():\n    return [PassContribution('a b', Nothing, '')]",
        ["HIPC0404", "'a b' is no name of a pass"],
    ),
    "badop": (
        """
@hookimpl
def hip_compiler_dialects():
    return [DialectContribution("mine", (), (PlainOpDef("other.op", ""),))]
""",
        ["HIPC0404", "operation 'other.op' of dialect 'mine' does not start with 'mine.'"],
    ),
    "badclaim": (
        "@hookimpl\ndef hip_compiler_onnx_ops():\n    return [OnnxOpClaim('vendor', 'Swirl', 'hip.softmaxx')]",
        ["HIPC0404", "vendor::Swirl: operation 'hip.softmaxx' is not registered; did you mean 'hip.softmax'?"],
    ),
    "nolibrary": (
        """
from pathlib import Path
@hookimpl
def hip_compiler_libraries():
    return [LibraryContribution("missing", "host", (Path("/nowhere"),))]
""",
        ["HIPC0404", "library 'missing' (libmissing.so) is in none of: /nowhere"],
    ),
    "notarget": (
        """
@hookimpl
def hip_compiler_bitcode():
    return [BitcodeContribution("code", "hots", b"BC", "notarget_")]
""",
        ["HIPC0404", "code: target 'hots' is not registered; targets: amdgpu, host"],
    ),
}


@pytest.fixture(scope="module")
def site(install: Install) -> Site:
    broken = [Distribution(name, code) for name, (code, _) in BROKEN.items()]
    return install(marking("alpha"), *broken)


@pytest.mark.parametrize("name", BROKEN)
def test_asked_for_by_name_it_fails_with_a_sentence(site: Site, name: str) -> None:
    done = site.cli("slots", plugins=f"alpha,{name}")
    assert done.returncode == 1
    assert f"plugin '{name}' of vendor-{name} 1.0" in done.stderr
    for words in BROKEN[name][1]:
        assert words in done.stderr


def test_not_asked_for_by_name_each_is_left_out_with_one_warning(site: Site) -> None:
    done = site.cli("slots")
    assert done.returncode == 0
    assert "alpha-mark" in done.stdout
    for name in BROKEN:
        assert done.stderr.count(f"the compile goes on without plugin '{name}' of vendor-{name} 1.0") == 1
    states = site.states()
    assert states.pop("vendor-alpha")["state"] == "active"
    assert {entry["state"] for entry in states.values()} == {"refused"}
    assert all(entry["reason"].startswith("HIPC040") for entry in states.values())
    assert all(entry["contributions"] == [] for entry in states.values())


def test_a_plugin_that_fails_halfway_leaves_nothing_behind(site: Site) -> None:
    assert "raises-mark" not in site.cli("passes").stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["plugins"], ["passes"], ["doctor"]])
def test_the_command_line_starts_whatever_is_installed(site: Site, arguments: list[str]) -> None:
    done = site.cli(*arguments)
    assert done.stdout
    assert site.run("-c", "import hip_compiler").returncode == 0


def test_doctor_reports_refused_plugins(site: Site) -> None:
    done = site.cli("doctor")
    assert done.returncode == 1
    assert "plugin misspelt" in done.stdout and "plugin alpha" in done.stdout


class TestConflicts:
    """A name with two owners is an error, asked for by name or not, and both owners are named."""

    def test_one_entry_point_name_in_two_distributions(self, install: Install) -> None:
        twins = [marking("twin", name="acme-twin", version="1.2"), marking("twin", name="zeta-twin", version="0.9")]
        site = install(*twins, marking("alpha"))
        for plugins in (None, "twin"):
            done = site.cli("slots", plugins=plugins)
            assert done.returncode == 1
            assert "HIPC0403: plugin id 'twin' is claimed by acme-twin 1.2 and zeta-twin 0.9" in done.stderr
        assert site.cli("slots", plugins="alpha").returncode == 0
        assert site.states()["acme-twin"]["state"] == "refused"

    def test_one_pass_name_in_two_plugins(self, install: Install) -> None:
        thief = Distribution("thief", marking("alpha").code, version="3.1")
        site = install(marking("alpha"), thief)
        done = site.cli("slots")
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            "HIPC0403: pass or pipeline 'alpha-mark' is registered by plugin 'alpha' of vendor-alpha 1.0"
            " and by plugin 'thief' of vendor-thief 3.1",
            "  do: select only one of them with HIPDNN_EP_COMPILER_PLUGINS, or uninstall one",
        ]
        assert site.cli("slots", plugins="thief").returncode == 0
        listing = site.cli("plugins")
        assert listing.returncode == 1
        assert "refused" in listing.stdout

    @pytest.mark.parametrize(
        ("code", "claim"),
        [
            (
                "@hookimpl\ndef hip_compiler_pipelines():\n"
                "    return [PipelineContribution('hipdnn-pipeline', lambda o: 'cse', '')]",
                "pass or pipeline 'hipdnn-pipeline'",
            ),
            (
                "@hookimpl\ndef hip_compiler_dialects():\n    return [DialectContribution('hip', ())]",
                "dialect 'hip'",
            ),
            (
                "@hookimpl\ndef hip_compiler_targets():\n    return [TargetContribution('host', '', lambda: None)]",
                "target 'host'",
            ),
        ],
    )
    def test_a_name_of_a_built_in(self, install: Install, code: str, claim: str) -> None:
        site = install(Distribution("greedy", code))
        done = site.cli("slots")
        assert done.returncode == 1
        assert f"HIPC0403: {claim} is registered by plugin 'builtin' of hip-compiler" in done.stderr
        assert "and by plugin 'greedy' of vendor-greedy 1.0" in done.stderr

    def test_onnx_operators_conflict_where_their_opsets_overlap(self, install: Install) -> None:
        def claim(id_: str, since: int, until: int | None) -> Distribution:
            return Distribution(
                id_,
                "@hookimpl\ndef hip_compiler_onnx_ops():\n"
                f"    return [OnnxOpClaim('vendor', 'Swirl', 'hip.softmax', since={since}, until={until})]",
            )

        site = install(claim("old", 1, 4), claim("new", 5, None), claim("wide", 3, 7))
        assert site.cli("slots", plugins="old,new").returncode == 0
        done = site.cli("slots", plugins="old,wide")
        assert "HIPC0403: ONNX operator 'vendor::Swirl' is registered by plugin 'old'" in done.stderr
        assert "and by plugin 'wide' of vendor-wide 1.0" in done.stderr


def test_a_slot_request_that_does_not_resolve_names_slot_plugin_text_and_nearest(install: Install) -> None:
    site = install(
        Distribution(
            "lost",
            """
@hookimpl
def hip_compiler_slot_requests():
    return [SlotRequest(PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP, "canonicalize,func.func(canonicalise)")]
""",
        )
    )
    done = site.cli("opt", "--pass-pipeline", "slot:AfterConvertOnnxToHip", stdin="module {}")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "HIPC0301: nothing registers a pass or pipeline 'canonicalise'"
    assert lines[1:3] == ["  canonicalize,func.func(canonicalise)", "                         ^"]
    assert "  where: slot AfterConvertOnnxToHip, requested by plugin 'lost' of vendor-lost 1.0" in lines
    assert "  do: did you mean 'canonicalize'?" in lines
