"""What kind of file is it? A pretrained classifier looks at the bytes: `python -m examples.file_types [FILE ...]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from examples.race import race
from tests.models import fetch, find
from tests.models.feeds import ROOT, file_bytes

FILES = ("README.md", "pyproject.toml", "Makefile", "hatch_build.py", "kernels/include/hipc.h")


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]] or [ROOT / name for name in FILES]
    model = find("magika")
    config = json.loads(fetch(model.package, "magika/models/standard_v3_3/config.min.json").read_text())
    kinds = json.loads(fetch(model.package, "magika/config/content_types_kb.min.json").read_text())
    labels = config["target_labels_space"]

    print(f"{model.summary} ({model.package.requirement}), {len(paths)} files", flush=True)
    result = race(model.path(), {"bytes": np.stack([file_bytes(path.read_bytes()) for path in paths])})
    for path, scores in zip(paths, result.outputs["target_label"], strict=True):
        best = int(np.argmax(scores))
        print(f"    {path.name:20} {kinds[labels[best]]['description']} ({scores[best]:.0%})")
    print(f"  {result}")


if __name__ == "__main__":
    main()
