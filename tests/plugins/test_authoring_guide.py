"""docs/plugin_authoring.md says what is so: it quotes the sample plugin, and its blocks run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hip_compiler.registry.hookspecs import API_VERSION, HOOKS
from hip_compiler.registry.registration import collect
from hip_compiler.slots import MEANINGS
from tests.plugins.conftest import ROOT, Site

GUIDE = (ROOT / "docs" / "plugin_authoring.md").read_text(encoding="utf-8")
QUOTES = dict(re.findall(r"<!-- quote: (\S+) -->\n```\w+\n(.*?)```\n", GUIDE, re.DOTALL))
PROGRAMS = re.findall(r"\n\n```python\n(.*?)```\n", GUIDE, re.DOTALL)
TRANSCRIPTS = re.findall(r"```console\n(.*?)```\n", GUIDE, re.DOTALL)


def test_the_whole_sample_is_quoted_word_for_word() -> None:
    files = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "plugins" / "sample").rglob("*")
        if path.suffix in (".py", ".toml") and "__pycache__" not in path.parts
    ]
    assert sorted(QUOTES) == sorted(files)
    for file, quote in QUOTES.items():
        assert quote == (ROOT / file).read_text(encoding="utf-8"), f"{file} and the guide differ"


def test_the_slot_table_is_the_slots() -> None:
    rows = [f"| `{slot}` | {meaning} |" for slot, meaning in MEANINGS.items()]
    assert "\n".join(rows) in GUIDE


def test_every_hook_is_mentioned_and_the_version_is_right() -> None:
    for hook in HOOKS:
        assert hook in GUIDE
    assert f"now {API_VERSION}." in GUIDE


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_register(program: str, tmp_path: Path) -> None:
    (tmp_path / "acme_host.bc").touch()
    namespace = {"__file__": str(tmp_path / "plugin.py"), "__name__": "plugin"}
    exec(compile(program, "guide", "exec", dont_inherit=True), namespace)
    plugin = type("Plugin", (), {})()
    hooks = {name: value for name, value in namespace.items() if name in HOOKS}
    assert hooks
    for name, value in hooks.items():
        setattr(plugin, name, value)
    assert len(collect("the guide", lambda: plugin)) >= len(hooks)


def test_transcripts_are_what_the_commands_print(sample: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "false")
    monkeypatch.chdir(ROOT)
    assert TRANSCRIPTS
    for transcript in TRANSCRIPTS:
        for block in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
            command, _, expected = block.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "hip-compiler"
            done = sample.cli(*arguments)
            assert (done.returncode, done.stdout) == (0, expected), command
