"""A model folder with a tokenizer of a few words, made anew for the tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.decoders import PRECISIONS, SHAPES, write_folder

TEXT = "the of and a to in is it you that he was for on are with as his they be at one have this from"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }} {{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)


def write_tokenizer(folder: Path, size: int) -> None:
    """A byte-level BPE tokenizer with merges for some words; its vocabulary has no more than `size` entries."""
    for package in ("tokenizers", "jinja2"):
        pytest.importorskip(package, reason=f"the package {package} is not installed: pip install '.[test]'")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(set(TEXT) | set("ĠĊÃ¤©.,?")),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<|im_start|>", "eos_token": {"content": "<|endoftext|>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def make_folder(folder: Path, family: str = "llama", precision: str = "fp32", **settings: object) -> Path:
    """The folder of a model of `tests.models.decoders`, tokenizer included."""
    write_folder(folder, SHAPES[family], PRECISIONS[precision], **settings)
    write_tokenizer(folder, SHAPES[family].vocabulary)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("models") / "llama")
