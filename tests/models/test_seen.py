"""How much of a long text reaches a model: as much as changes the tokens it is given."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, ByT5Tokenizer, T5Config, T5ForSequenceClassification

from tests import texts
from workers.models.hf_text import HuggingFaceTextClassifier

LONG = (
    "a wonderful film with a moving story and gracefully written dialogue , but the ending is dull and the music loud ."
)


def bert(*, takes_pairs: bool = False) -> HuggingFaceTextClassifier:
    config = BertConfig(
        vocab_size=len(texts.vocabulary()),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    torch.manual_seed(0)
    model, cpu = BertForSequenceClassification(config), torch.device("cpu")
    return HuggingFaceTextClassifier(
        model, texts.review_tokenizer(), labels=["a", "b"], device=cpu, takes_pairs=takes_pairs
    )


def byt5() -> HuggingFaceTextClassifier:
    config = T5Config(vocab_size=384, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0)
    torch.manual_seed(0)
    model, tokenizer = T5ForSequenceClassification(config), ByT5Tokenizer(model_max_length=16)
    return HuggingFaceTextClassifier(model, tokenizer, labels=["a", "b"], device=torch.device("cpu"))


@pytest.mark.parametrize("make", [bert, byt5])
def test_what_is_behind_it_changes_no_bit(make) -> None:
    classifier = make()
    seen = classifier.seen(LONG)
    assert seen is not None
    [most] = seen
    whole, cut, other, less, edited = classifier.logits(
        [LONG, LONG[:most], LONG[:most] + " a dull day" * 9, LONG[: most - 1], "A z" + LONG[3:]]
    )
    assert torch.equal(whole, cut)
    assert torch.equal(whole, other)
    assert not torch.equal(whole, less)
    assert not torch.equal(whole, edited)


def test_bytes_are_counted_in_characters() -> None:
    # 15 bytes and the end of the text: seven letters of two bytes, and the first byte of an eighth.
    assert byt5().seen("é" * 20) == (8,)
    assert byt5().seen("e" * 20) == (15,)
    assert byt5().seen("e" * 15) is None


def test_of_a_pair_both_parts_are_told() -> None:
    classifier = bert(takes_pairs=True)
    short, long = "a dull film", "the story is long and loud and late and the actor is funny"
    assert classifier.seen((short, short)) is None
    # Thirteen tokens besides the three special ones: the longer part loses its end.
    assert classifier.seen((short, long)) == (len(short), len("the story is long and loud and late and the"))
    first, second = classifier.seen((long, long)) or (0, 0)
    assert (first, second) == (len("the story is long and loud"), len("the story is long and loud and"))
    whole, cut = classifier.logits([(long, long), (long[:first], long[:second] + " nobody knows")])
    assert torch.equal(whole, cut)
