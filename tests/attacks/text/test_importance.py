import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from tests import texts as reviews
from tests.attacks.text.classifiers import LetterCounter, at, tiny_sentiment
from workers.attacks.text.importance import Example, leave_one_out, rank_correlation, word_importances
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.textattack_environment import prepare, quiet
from workers.runtime.interruptions import ShardCancelled

VIEWS = [at(1.0, torch.float32), at(0.02, torch.float32), at(3.0)]
EXAMPLES = [Example(text, label) for text, label in reviews.sentences(12, seed=3)]


@pytest.mark.parametrize(("how", "method"), [("saliency", "unk"), ("deletion", "delete")])
def test_words_are_ordered_as_the_search_orders_them(how, method) -> None:
    """TextAttack's own ranking, with no word excluded, goes by the same numbers."""
    prepare()
    from textattack import Attack
    from textattack.goal_functions import UntargetedClassification
    from textattack.search_methods import GreedyWordSwapWIR
    from textattack.shared import AttackedText
    from textattack.transformations import WordSwapRandomCharacterDeletion

    class Wrapper:
        model = tiny_sentiment()

        def __call__(self, texts):
            return torch.softmax(self.model(texts).double(), 1)

    found = word_importances(ScoringService(tiny_sentiment(), max_bytes=10**7), [at(1.0)], EXAMPLES, how)
    for example, (importances,) in zip(EXAMPLES, found, strict=True):
        search = GreedyWordSwapWIR(wir_method=method)
        with quiet():
            attack = Attack(UntargetedClassification(Wrapper()), [], WordSwapRandomCharacterDeletion(), search)
        attack.goal_function.init_attack_example(AttackedText(example.text), example.label)
        order, _ = search._get_index_order(AttackedText(example.text))
        assert list(order) == list(np.argsort(-importances))


@pytest.mark.parametrize("at_once", [1, 20, 4096])
def test_all_views_cost_one_question_a_text(at_once) -> None:
    model = LetterCounter(preferred_texts=10**6)
    service = ScoringService(model, max_bytes=10**7)
    found = word_importances(service, VIEWS, EXAMPLES, "deletion", at_once=at_once)
    texts = [text for example in EXAMPLES for text in leave_one_out(example.text, "deletion")]
    assert service.meters.queries == len(texts)
    assert service.meters.forward_passes == len(set(texts))
    assert len(model.batches) == {1: 12, 20: 6, 4096: 1}[at_once]
    for example, importances in zip(EXAMPLES, found, strict=True):
        logits = torch.stack([model.of(text) for text in leave_one_out(example.text, "deletion")])
        expected = np.stack([(1 - view(logits)[:, example.label]).double().numpy() for view in VIEWS])
        assert importances.dtype == np.float64
        np.testing.assert_array_equal(importances, expected)


def test_leave_one_out_leaves_one_out() -> None:
    prepare()
    assert leave_one_out("Not bad, at all!", "deletion") == [
        "bad, at all!",
        "Not, at all!",
        "Not bad, all!",
        "Not bad, at!",
    ]
    assert leave_one_out("Not bad!", "saliency") == ["[UNK] bad!", "Not [UNK]!"]
    assert leave_one_out(("a dog", "it barks"), "saliency") == [
        *[("[UNK] dog", "it barks"), ("a [UNK]", "it barks")],
        *[("a dog", "[UNK] barks"), ("a dog", "it [UNK]")],
    ]


def test_texts_without_scores_or_words() -> None:
    class Odd(LetterCounter):
        def of(self, text):
            return torch.tensor([float("nan"), 0.0]) if "odd" in text else super().of(text)

    examples = [
        *[Example("", 0), Example("silent night sky", 0), Example("a <SPLIT> b", 1), Example("odd one out", 1)],
        Example("keel and mast", 0),
    ]
    model = Odd(refuses=lambda text: text == "silent sky")
    found = word_importances(ScoringService(model, max_bytes=10**6), VIEWS, examples, "deletion")
    assert found[0].shape == (3, 0)
    assert found[1:4] == [None, None, None]
    assert found[4].shape == (3, 3)


def test_a_cancellation_goes_through() -> None:
    ticks = iter(range(5))

    def check_cancelled() -> None:
        if next(ticks) == 3:
            raise ShardCancelled

    with pytest.raises(ShardCancelled):
        word_importances(
            ScoringService(LetterCounter(), max_bytes=10**6),
            VIEWS,
            EXAMPLES,
            "saliency",
            check_cancelled=check_cancelled,
        )


def test_a_long_text_can_be_left_in_its_middle() -> None:
    ticks = iter(range(100))

    def check_cancelled() -> None:
        if next(ticks) == 50:
            raise ShardCancelled("now")

    model = LetterCounter()
    long = Example("mast keel " * 100, 0)
    with pytest.raises(ShardCancelled):
        word_importances(
            ScoringService(model, max_bytes=10**6), VIEWS, [long], "deletion", check_cancelled=check_cancelled
        )
    assert model.batches == []


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=12))
def test_the_correlation_is_pearsons_of_average_ranks(points) -> None:
    first, second = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    correlation = rank_correlation(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert math.isnan(correlation)
    else:
        assert correlation == pytest.approx(np.corrcoef(rankdata(first), rankdata(second))[0, 1], abs=1e-12)


@pytest.mark.parametrize(
    ("first", "second"),
    [([], []), ([1, 2], [2, 1]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1, 2, math.inf], [1, 2, 3])],
)
def test_a_correlation_that_says_nothing_is_nan(first, second) -> None:
    assert math.isnan(rank_correlation(np.array(first, dtype=float), np.array(second, dtype=float)))
