"""Which plugins take part: the allow-list, its order, unknown ids, and what is imported at all."""

from __future__ import annotations

import json
import resource
import shutil
from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from tests.plugins.conftest import Distribution, Install, Site, marking


@pytest.fixture(scope="module")
def site(install: Install) -> Site:
    return install(marking("alpha"), marking("beta", version="2.5"), marking("gamma"))


def requests(site: Site, plugins: str | None, *arguments: str) -> list[str]:
    done = site.cli("slots", "--json", *arguments, plugins=plugins)
    assert done.returncode == 0, done.stderr
    slots = {slot["slot"]: slot["requests"] for slot in json.loads(done.stdout)}
    assert all(not asked for slot, asked in slots.items() if slot != "AfterConvertOnnxToHip")
    return [request["pipeline"] for request in slots["AfterConvertOnnxToHip"]]


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        (None, ["alpha-mark", "beta-mark", "gamma-mark"]),
        ("gamma;alpha;beta", ["gamma-mark", "alpha-mark", "beta-mark"]),
        (" beta , alpha ", ["beta-mark", "alpha-mark"]),
        ("", []),
    ],
)
def test_unset_is_all_sorted_set_is_exactly_these_empty_is_none(
    site: Site, plugins: str | None, expected: list[str]
) -> None:
    assert requests(site, plugins) == expected


def test_the_option_does_the_same_for_one_call_and_wins(site: Site) -> None:
    assert requests(site, "alpha", "--plugins", "gamma,beta") == ["gamma-mark", "beta-mark"]
    assert requests(site, "alpha", "--plugins", "") == []


def test_nothing_of_an_unselected_plugin_is_imported(site: Site) -> None:
    site.imported()
    assert requests(site, "beta") == ["beta-mark"]
    assert site.imported() == ["vendor_beta"]
    site.cli("--help")
    site.run("-c", "import hip_compiler")
    assert site.imported() == []


def test_an_unknown_id_lists_what_is_installed_and_the_nearest(site: Site) -> None:
    done = site.cli("slots", plugins="alpa")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "HIPC0401: no plugin 'alpa' is installed",
        "  where: HIPDNN_EP_COMPILER_PLUGINS",
        "  why: installed plugins: alpha, beta, gamma",
        "  do: did you mean 'alpha'?",
    ]


def test_an_id_listed_twice_is_wrong_usage(site: Site) -> None:
    done = site.cli("slots", "--plugins", "alpha,alpha")
    assert done.returncode == 2
    assert "HIPC0001: plugin 'alpha' is listed more than once" in done.stderr


def test_the_plugins_table_says_what_became_of_each(site: Site) -> None:
    states = site.states("beta")
    assert {name: entry["state"] for name, entry in states.items()} == {
        "vendor-alpha": "unselected",
        "vendor-beta": "active",
        "vendor-gamma": "unselected",
    }
    assert states["vendor-beta"]["version"] == "2.5"
    assert states["vendor-beta"]["contributions"] == ["pass beta-mark", "slot AfterConvertOnnxToHip: beta-mark"]
    table = site.cli("plugins", plugins="beta").stdout
    assert "beta    vendor-beta   2.5      v1   active" in table


def test_without_plugins_the_command_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    scratch = tmp_path_factory.mktemp("bare")
    done = Site.make(scratch).cli("plugins")
    assert (done.returncode, done.stdout) == (0, "no plugins are installed\n")


BITCODE = """
from pathlib import Path

@hookimpl
def hip_compiler_bitcode():
    return [BitcodeContribution("code", "host", Path(__file__).with_name("code.bc"), "{id}_")]
"""


def fifty(with_bitcode: bool) -> list[Distribution]:
    plugins = [marking(f"p{number:02}") for number in range(50)]
    if not with_bitcode:
        return plugins
    text = "define i32 @{0}_f(i32 %x) {{\n" + "".join(f"  %v{i} = add i32 %x, {i}\n" for i in range(300))
    code = {p.id: llvm.parse_assembly(f"{text.format(p.id)}  ret i32 %x\n}}").as_bitcode() for p in plugins}
    return [replace(p, code=p.code + BITCODE.format(id=p.id), data={"code.bc": code[p.id]}) for p in plugins]


def seconds(site: Site, count: int) -> float:
    """CPU time of the whole command, of this process' child: the machine may be busy with other tests."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    listed = json.loads(site.cli("plugins", "--json").stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert [entry["state"] for entry in listed] == ["active"] * count
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("with_bitcode", [False, True], ids=["passes", "passes and bitcode"])
def test_fifty_plugins_add_little_time_to_the_command(install: Install, with_bitcode: bool) -> None:
    site, bare = install(*fifty(with_bitcode)), install()
    seconds(bare, 0)  # Modules are compiled by the first process that imports them.
    seconds(site, 50)
    with_all, without, with_new = [], [], []
    for _ in range(3):
        without.append(seconds(bare, 0))
        with_all.append(seconds(site, 50))
        # Bitcode that no process has seen yet: LLVM is loaded to read it.
        shutil.rmtree(site.scratch / "cache" / "symbols", ignore_errors=True)
        with_new.append(seconds(site, 50))
    assert min(with_all) - min(without) < 0.15
    assert min(with_new) - min(without) < 0.15


def test_listing_plugins_loads_neither_llvm_nor_numpy(site: Site) -> None:
    code = "import sys\nfrom hip_compiler.registry.registry import survey\nsurvey()\n"
    heavy = ("llvmlite", "numpy", "onnx", "torch_mlir", "mlir")
    done = site.run("-c", code + f"print([name for name in {heavy} if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def test_requests_run_in_the_order_of_the_plugins_and_of_each_ones_list(install: Install) -> None:
    def asking(id_: str) -> Distribution:
        code = """
class Onward:
    def apply(self, op, context):
        print(type(self).__name__, op.name)

class Each(Onward):
    pass

@hookimpl
def hip_compiler_passes():
    return [PassContribution("{0}-b", Onward, ""), PassContribution("{0}-a", Each, "", "func.func")]

@hookimpl
def hip_compiler_slot_requests():
    slot = PipelineSlot.AFTER_POOL_ALLOCS
    return [SlotRequest(slot, "{0}-b,func.func({0}-a)"), SlotRequest(slot, "{0}-b")]
"""
        return Distribution(id_, code.replace("{0}", id_))

    site = install(asking("alpha"), asking("beta"))
    text = "func.func private @f()\nfunc.func private @g()"
    for plugins, order in ((None, ("alpha", "beta")), ("beta;alpha", ("beta", "alpha"))):
        shown = json.loads(site.cli("pipeline", "--json", "slot:AfterPoolAllocs", plugins=plugins).stdout)
        wanted = [text for id_ in order for text in (f"{id_}-b", f"func.func({id_}-a)", f"{id_}-b")]
        assert [entry["pass"] for entry in shown] == wanted
        done = site.cli("opt", "-p", "slot:AfterPoolAllocs", plugins=plugins, stdin=text)
        # A pass of functions runs on each of them, one of modules once.
        calls = ["Onward builtin.module", "Each func.func", "Each func.func", "Onward builtin.module"]
        assert done.stdout.splitlines()[:8] == calls * 2, done.stderr


def test_an_api_range_admits_this_version(install: Install) -> None:
    site = install(marking("wide", api="v1.v3"))
    assert site.states()["vendor-wide"]["state"] == "active"


@pytest.mark.parametrize(
    ("api", "lines"),
    [
        (
            "v2",
            [
                "HIPC0402: plugin 'other' of vendor-other 1.0 was written for version 2 of the plugin API",
                "  why: this hip-compiler offers version 1",
                "  do: upgrade hip-compiler, or leave 'other' out of HIPDNN_EP_COMPILER_PLUGINS",
            ],
        ),
        (
            "v0",
            [
                "HIPC0402: plugin 'other' of vendor-other 1.0 was written for version 0 of the plugin API",
                "  why: this hip-compiler offers version 1",
                "  do: upgrade vendor-other, or leave 'other' out of HIPDNN_EP_COMPILER_PLUGINS",
            ],
        ),
        (
            "",
            [
                "HIPC0402: plugin 'other' of vendor-other 1.0 does not say which plugin API it was written for",
                "  why: it declares no version; this hip-compiler offers version 1",
                '  do: its pyproject.toml needs [project.entry-points."hip_compiler.api"] other = "v1"',
            ],
        ),
    ],
)
def test_another_api_is_refused_before_anything_is_imported(install: Install, api: str, lines: list[str]) -> None:
    site = install(Distribution("other", "", api=api))
    done = site.cli("slots", plugins="other")
    assert done.returncode == 1
    assert done.stderr.splitlines() == lines
    assert site.imported() == []


def test_the_digest_follows_what_is_active_and_what_its_files_hold(install: Install) -> None:
    def digest(site: Site, plugins: str | None = None) -> str:
        code = "from hip_compiler.registry.registry import load_registry\nprint(load_registry().digest)"
        return site.run("-c", code, plugins=plugins).stdout.strip()

    site = install(marking("alpha"), marking("beta"))
    again = install(marking("alpha"), marking("beta"))
    changed = install(marking("alpha"), Distribution("beta", marking("beta").code + "\n# another implementation\n"))
    digests = [digest(site), digest(site, "beta,alpha"), digest(site, "alpha"), digest(changed)]
    assert digest(again) == digests[0]
    assert len(set(digests)) == len(digests) and all(len(text) == 64 for text in digests)


def test_an_editable_installation_counts_by_its_sources(install: Install) -> None:
    code = "from hip_compiler.registry.registry import load_registry\nprint(load_registry().digest)"
    site = install(marking("alpha"))
    (record,) = site.folder.glob("*.dist-info/RECORD")
    # What an editable installation lists: a path, and itself.
    record.write_text("vendor_alpha.pth,,\n" + "".join(f"{record.parent.name}/{name},,\n" for name in ("METADATA",)))
    before = site.run("-c", code).stdout
    assert site.run("-c", code).stdout == before
    with (site.folder / "vendor_alpha" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    assert len(before.strip()) == 64 and site.run("-c", code).stdout != before
