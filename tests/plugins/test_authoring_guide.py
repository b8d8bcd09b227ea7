"""docs/plugin_authoring.md says what is so: it quotes the plugins, and every block of it runs."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from hip_compiler.registry.hookspecs import API_VERSION, HOOKS
from hip_compiler.registry.template import write_plugin
from hip_compiler.slots import MEANINGS
from tests.plugins.conftest import ROOT, Site

GUIDE = (ROOT / "docs" / "plugin_authoring.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "plugins" / "sample"
BLOCKS = re.findall(r"(?:<!-- (\w+)(?:: (\S+))? -->\n)?```(\w*)\n(.*?)```\n", GUIDE, re.DOTALL)
CHAPTERS = (
    "Mental model",
    "Quickstart",
    "A minimal plugin",
    "Passes and slots",
    "A custom operator, through all three seams",
    "Runtime functions: bitcode and symbols",
    "Shared libraries",
    "Kernels",
    "Targets",
    "Composing a pipeline",
    "Distribution checklist",
    "Versioning promise",
)


def blocks(kind: str) -> list[tuple[str, str]]:
    """Argument and text of every block marked as a kind."""
    return [(argument, text) for mark, argument, _, text in BLOCKS if mark == kind]


def test_every_chapter_is_there() -> None:
    found = re.findall(r"^## (.*)$", GUIDE, re.MULTILINE)
    assert [chapter for chapter in CHAPTERS if chapter not in found] == []


def test_every_block_is_quoted_or_run() -> None:
    assert len(BLOCKS) == GUIDE.count("```") // 2 >= 20
    for mark, _, language, text in BLOCKS:
        assert mark in ("quote", "new", "run", "session") or language == "console", text
    assert not re.search(r"^    \S", re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL), re.MULTILINE), "indented block"


@pytest.mark.parametrize(("file", "quote"), blocks("quote"))
def test_quotes_are_word_for_word(file: str, quote: str) -> None:
    assert quote in (ROOT / file).read_text(encoding="utf-8"), f"{file} and the guide differ"


def test_the_whole_sample_is_quoted() -> None:
    files = [path for path in SAMPLE.rglob("*") if path.suffix in (".py", ".toml", ".cpp", ".hip")]
    assert len(files) == 9
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        quoted = {line for file, quote in blocks("quote") if file == name for line in quote.splitlines()}
        lines = set(path.read_text(encoding="utf-8").splitlines()) - {""}
        assert lines - quoted == set(), f"lines of {name} are not in the guide"


def test_what_a_new_plugin_holds(tmp_path: Path) -> None:
    folder = write_plugin("acme-fusion", tmp_path)
    assert len(blocks("new")) == 3
    for file, quote in blocks("new"):
        assert quote == (folder / file).read_text(encoding="utf-8"), file


def test_the_slot_table_is_the_slots() -> None:
    rows = [f"| `{slot}` | {meaning} |" for slot, meaning in MEANINGS.items()]
    assert "\n".join(rows) in GUIDE


def test_every_hook_is_shown_and_the_version_is_right() -> None:
    for hook in HOOKS:
        assert f"def {hook}()" in GUIDE
    assert f"now {API_VERSION}." in GUIDE


def test_programs_run(sample: Site) -> None:
    assert blocks("run")
    for _, program in blocks("run"):
        done = sample.run("-c", program)
        assert (done.returncode, done.stdout) == (0, "[1. 2. 3.]\n"), done.stderr


def commands(transcript: str) -> list[tuple[list[str], str]]:
    """Words of each command of a transcript, and what it prints."""
    parts = [part.partition("\n") for part in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]]
    return [(shlex.split(command), expected) for command, _, expected in parts]


def test_transcripts_are_what_the_commands_print(sample: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # pip reads the variable as the value of --no-build-isolation's destination: false is "no isolation".
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "false")
    monkeypatch.chdir(ROOT)
    transcripts = [text for mark, _, language, text in BLOCKS if language == "console" and mark != "session"]
    assert len(transcripts) >= 3
    for (program, *arguments), expected in [entry for text in transcripts for entry in commands(text)]:
        assert program == "hip-compiler"
        done = sample.cli(*arguments)
        assert (done.returncode, done.stdout) == (0, expected), arguments


def test_the_session_goes_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    site = Site.make(tmp_path)

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        if program == "hip-compiler":
            return site.cli(*arguments)
        return site.run("-m", program, "-p", "no:cacheprovider", *arguments)

    ((_, session),) = blocks("session")
    for words, expected in commands(session):
        if words[0] == "pip":
            site.install(*words[2:])
            continue
        done = run(*words)
        printed = re.sub(r"(?<= in )[\d.]+s", "SECONDS", done.stdout)
        assert (done.returncode, printed) == (0, expected), words
