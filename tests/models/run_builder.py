"""onnxruntime-genai's model builder, able to read the Gemma-3 settings of transformers 5.

`python -m tests.models.run_builder` takes the builder's own arguments. Those settings have one rotary embedding for
each kind of layer; the builder asks for a global one, and for the base of the local one beside it. Everything else goes
to the builder as it is.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any


def as_the_builder_reads(config: Any) -> None:
    """Changes the settings of a checkpoint, where the builder expects the older form."""
    if config.model_type == "gemma3_text":
        by_kind = config.rope_parameters
        config.rope_local_base_freq = by_kind["sliding_attention"]["rope_theta"]
        config.rope_theta = by_kind["full_attention"]["rope_theta"]
        config.rope_parameters = dict(by_kind["full_attention"])


def main() -> None:
    builder: Any = importlib.import_module("onnxruntime_genai.models.builder")
    arguments = builder.get_args()
    named = (arguments.model_name, arguments.input, arguments.output, arguments.precision)
    places = (*named, arguments.execution_provider, arguments.cache_dir)
    further = {
        name: getattr(arguments, name)
        for name in [*inspect.signature(builder.parse_extra_options).parameters][len(places) + 1 :]
        if hasattr(arguments, name)
    }
    options = builder.parse_extra_options(*places, arguments.extra_options, **further)
    as_the_builder_reads(options["hf_details"]["hf_config"])
    builder.create_model(*places, **options)


if __name__ == "__main__":
    main()
