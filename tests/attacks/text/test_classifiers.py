"""The tiny sentiment model of these tests is the one that transformers computes."""

import torch

from tests import texts
from tests.attacks.text.classifiers import of_transformers, tiny_sentiment


def test_its_layers_are_those_of_transformers() -> None:
    theirs, tokenizer = of_transformers()
    asked = [
        "",
        "x" * 900,
        "\u00e9 \u4f60 the film is good . " * 30,
        *(text for text, _ in texts.sentences(20, seed=77)),
    ]
    with torch.inference_mode():
        inputs = [tokenizer(text, truncation=True, return_tensors="pt") for text in asked]
        expected = torch.cat([theirs(**one).logits for one in inputs])
    torch.testing.assert_close(tiny_sentiment()(asked), expected)
    assert len({tuple(row) for row in expected.tolist()}) > 15
