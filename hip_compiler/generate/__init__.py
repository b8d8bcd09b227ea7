"""Text from decoder language models: folders with genai_config.json, a graph and a tokenizer."""

from hip_compiler.generate.config import ModelConfig, read_config
from hip_compiler.generate.decoder import Decoder
from hip_compiler.generate.model import Generated, LanguageModel, Piece
from hip_compiler.generate.sampling import Sampler, Sampling
from hip_compiler.generate.tokenizer import Tokenizer

__all__ = [
    "Decoder",
    "Generated",
    "LanguageModel",
    "ModelConfig",
    "Piece",
    "Sampler",
    "Sampling",
    "Tokenizer",
    "read_config",
]
