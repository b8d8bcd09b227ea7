"""Which sentence means the same? A pretrained sentence embedder answers: `python -m examples.sentences [QUESTION]`."""

from __future__ import annotations

import sys

import numpy as np

from examples.race import race
from examples.wordpiece import WordPiece
from tests.models import fetch, find
from tests.models.packages import VOCABULARY

QUESTION = "How do I reset my password?"
ANSWERS = (
    "Steps to recover a forgotten login",
    "Our opening hours on public holidays",
    "A recipe for lentil soup with cumin",
    "Why the train to the airport was late",
)
# The network's output of that name holds the pooled embedding, float32 [batch, 384].
EMBEDDING = "461"


def main() -> None:
    question = " ".join(sys.argv[1:]) or QUESTION
    words = WordPiece(fetch(VOCABULARY, "blingfire/bert_base_tok.i2w"))
    tokens = [words.encode(text) for text in (question, *ANSWERS)]
    length = max(len(row) for row in tokens)
    feeds = {
        "input_ids": np.array([row + [0] * (length - len(row)) for row in tokens], dtype=np.int64),
        "attention_mask": np.array([[1] * len(row) + [0] * (length - len(row)) for row in tokens], dtype=np.int64),
    }
    model = find("minilm_l3")
    print(f"{model.summary} ({model.package.requirement}), {len(tokens)} sentences", flush=True)
    result = race(model.path(), feeds)

    vectors = result.outputs[EMBEDDING]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = vectors[1:] @ vectors[0]
    print(f"  {question!r} is closest to {ANSWERS[int(np.argmax(similarity))]!r}")
    for index in np.argsort(-similarity):
        print(f"    {similarity[index]:+.2f}  {ANSWERS[index]}")
    print(f"  {result}")


if __name__ == "__main__":
    main()
