import dataclasses
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import texts as reviews
from tests.attacks.text.classifiers import LetterCounter, at, tiny_sentiment
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.recipes import Recipe, load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.resources.library import Library
from workers.runtime.interruptions import ShardCancelled

RIGHT_ABOUT = reviews.sentences(40, seed=7)


@pytest.fixture(scope="module")
def deepwordbug(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return load_recipe("deepwordbug", Library(tmp_path_factory.mktemp("resources")))


def service(model: object = None) -> ScoringService:
    return ScoringService(model or tiny_sentiment(), max_bytes=10**8)


def jobs(recipe: Recipe, count: int = 40, temperature: float = 1.0, **more: object) -> list[Job]:
    return [
        Job(number, text, label, 1000 + number, at(temperature), recipe, **more)
        for number, (text, label) in enumerate(RIGHT_ABOUT[:count])
    ]


@pytest.mark.slow
def test_outcomes_say_what_happened(deepwordbug) -> None:
    todo, model = jobs(deepwordbug), tiny_sentiment()
    outcomes = attack_all(todo, service())
    assert [outcome.example_id for outcome in outcomes] == list(range(40))
    for job, outcome in zip(todo, outcomes, strict=True):
        clean, final = (int(model([text]).argmax()) for text in (job.text, outcome.text))
        expected = "skipped" if clean != job.label else "failed" if final == job.label else "succeeded"
        assert (outcome.status, outcome.error) == (expected, None)
        before, after = job.text.rstrip(" .").split(), outcome.text.rstrip(" .").split()
        changed = sum(a.strip(",") != b.strip(",") for a, b in zip(before, after, strict=True))
        assert outcome.perturbed_share == pytest.approx(changed / sum(word != "," for word in before))
        if outcome.status == "skipped":
            assert (outcome.text, outcome.queries, outcome.perturbed_share) == (job.text, 1, 0)
        else:
            assert outcome.queries > 3
    assert {"skipped", "failed", "succeeded"} == {outcome.status for outcome in outcomes}


@pytest.mark.slow
def test_an_outcome_depends_on_its_job_alone(deepwordbug) -> None:
    todo = jobs(deepwordbug, 24)
    expected = attack_all(todo, service(), in_flight=1)
    poison = Job(99, "the film is wonderful .", 1, 3, lambda logits: 1 / 0, deepwordbug)
    for in_flight in (7, 64):
        assert attack_all(todo, service(), in_flight=in_flight) == expected
    assert attack_all(todo[::-1], service(), in_flight=7) == expected[::-1]
    assert attack_all(todo[11:23], service(), in_flight=5) == expected[11:23]
    other = [dataclasses.replace(job, seed=job.seed + 1, view=at(0.01, torch.float32)) for job in todo]
    mixed = [job for pair in zip(other, todo, strict=True) for job in pair]
    assert attack_all([poison, *mixed, poison], service(), in_flight=9)[2:-1:2] == expected
    assert attack_all(todo, ScoringService(tiny_sentiment(), max_bytes=0), in_flight=5) == expected


def test_a_poisoned_example_is_errored_and_says_where(deepwordbug) -> None:
    def broken(logits: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("poison")

    todo = jobs(deepwordbug, 3)
    todo[1] = dataclasses.replace(todo[1], view=broken)
    outcome = attack_all(todo, service())[1]
    assert (outcome.status, outcome.text, outcome.queries) == ("errored", todo[1].text, 1)
    assert outcome.error.startswith(f"ZeroDivisionError in {Path(__file__).name}:")
    assert outcome.error.endswith(": poison")


def test_an_unanswered_text_errs_its_example(deepwordbug) -> None:
    def refuses(text: str) -> bool:
        return "[UNK]" in text and "anchor" in text

    todo = [Job(n, text, 0, n, at(1), deepwordbug) for n, text in enumerate(["anchor chain locker", "mast and keel"])]
    model = LetterCounter(refuses=refuses)
    label = [int(model.of(job.text).argmax()) for job in todo]
    todo = [dataclasses.replace(job, label=label[job.example_id]) for job in todo]
    first, second = attack_all(todo, service(model))
    assert first.status == "errored"
    assert first.error.startswith("no answer to '")
    assert first.queries == 4
    assert second.status in ("failed", "succeeded")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_err_the_example(deepwordbug, bad) -> None:
    class Odd(LetterCounter):
        def of(self, text):
            return torch.tensor([bad, 1.0]) if "odd" in text else super().of(text)

    todo = [Job(n, text, 0, n, at(1), deepwordbug) for n, text in enumerate(["odd one", "even two"])]
    first, second = attack_all(todo, service(Odd()))
    assert (first.status, first.error) == ("errored", "the model gave scores that are not finite")
    assert second.status != "errored"


def test_a_view_that_overflows_errs_the_example(deepwordbug) -> None:
    todo = [Job(0, "mast", 0, 0, lambda logits: torch.softmax(logits * 1e300 * 1e300, 1), deepwordbug)]
    assert attack_all(todo, service(LetterCounter()))[0].error == "the scores are not finite at this temperature"


def test_a_goal_without_an_end_is_maximized(tmp_path) -> None:
    reduction = load_recipe("input_reduction", Library(tmp_path))
    outcomes = attack_all(jobs(reduction, 12), service())
    assert {outcome.status for outcome in outcomes} <= {"maximized", "skipped"}
    shorter = [outcome for outcome in outcomes if outcome.status == "maximized"]
    assert len(shorter) >= 6
    for outcome in shorter:
        text, label = RIGHT_ABOUT[outcome.example_id]
        assert int(tiny_sentiment()([outcome.text]).argmax()) == label
        left, whole = len(outcome.text.rstrip(" .").split()), len(text.rstrip(" .").split())
        # Nothing is added: what changed is what went.
        assert 0 < outcome.perturbed_share < 1
        assert left < whole


def test_the_query_budget_is_textattacks(deepwordbug) -> None:
    free = attack_all(jobs(deepwordbug), service())
    for budget in (2, 5, 12):
        for outcome, unlimited in zip(attack_all(jobs(deepwordbug), service(), query_budget=budget), free, strict=True):
            assert outcome.status != "errored"
            assert outcome.queries <= budget
            if unlimited.queries < budget:
                assert outcome == unlimited
            elif unlimited.queries > budget:
                # Cut off: neither a success nor a failure of the attack.
                assert outcome.status in ("succeeded", "unfinished")


@pytest.mark.slow
def test_the_time_budget_errs_the_example(deepwordbug) -> None:
    long = Job(50, " ".join(["tide"] * 3000), 1, 0, at(1), deepwordbug)
    model = LetterCounter()
    long = dataclasses.replace(long, label=int(model.of(long.text).argmax()))
    short = Job(51, "mast and keel", 0, 0, at(1), deepwordbug)
    first, second = attack_all([long, short], service(model), time_budget_s=1.0)
    assert (first.status, first.error) == ("errored", "took more than 1 s of computing")
    assert second.status != "errored"


def test_a_cancellation_goes_through(deepwordbug) -> None:
    done: list[Outcome] = []

    def check_cancelled() -> None:
        if len(done) == 3:
            raise ShardCancelled

    with pytest.raises(ShardCancelled):
        attack_all(jobs(deepwordbug), service(), check_cancelled=check_cancelled, on_done=done.append, in_flight=4)
    assert len(done) == 3
    expected = attack_all(jobs(deepwordbug), service())
    assert all(outcome == expected[outcome.example_id] for outcome in done)


STRANGE = [
    *["", " ", "\n\t", ".", "a", "word", "...!?", "\x00", "a\x00b c\x00", "\u200b\u200d", "\ufeffbom"],
    *[
        "🙂",
        "🙂 good 👩‍👩‍👧 film",
        "שלום עולם",
        "مرحبا بالعالم film",
        "e\u0301te\u0301 good",
        "ﬁlm ﬂow",
        "\u0130stanbul \u0131\u0131",
    ],
    *["the the the the", "'quoted' --- *star*", "x" * 2000, "I am INPUT SPLIT S P L I T"],
    *["a\r\nb\u2028c", "<b>bold</b> &amp;", "\\n \\u0000", "film\u00a0noir", "\uff11\uff12 \uff21\uff22", "Ǆ ǅ ß ẞ"],
]


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts_end_somehow(deepwordbug, text) -> None:
    model = LetterCounter()
    for label in (0, 1):
        (outcome,) = attack_all([Job(0, text, label, 0, at(1), deepwordbug)], service(model))
        assert outcome.status in ("skipped", "failed", "succeeded")
        assert (outcome.status == "skipped") == (int(model.of(text).argmax()) != label)


@pytest.mark.slow
@given(text=st.one_of(st.text(max_size=40), st.tuples(st.text(max_size=20), st.text(max_size=20))), label=st.booleans())
def test_no_text_ends_a_run(deepwordbug, text, label) -> None:
    (outcome,) = attack_all([Job(0, text, int(label), 0, at(1), deepwordbug)], service(LetterCounter()))
    assert (outcome.status == "errored") == (outcome.error is not None)
    assert type(outcome.text) is type(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("half \ud83d a face", "half a character"),
        ("a <SPLIT> b", "contains <SPLIT>"),
        (("premise", "hypo<SPLIT>thesis"), "contains <SPLIT>"),
    ],
)
def test_what_textattack_would_spoil_is_errored(deepwordbug, text, error) -> None:
    model = LetterCounter()
    outcome, other = attack_all(
        [Job(0, text, 0, 0, at(1), deepwordbug), Job(1, "mast", 0, 0, at(1), deepwordbug)], service(model)
    )
    assert (outcome.status, outcome.text, outcome.queries) == ("errored", text, 0)
    assert error in outcome.error
    assert other.status != "errored"
    assert text not in [asked for batch in model.batches for asked in batch]


def test_a_label_the_model_does_not_have_is_errored(deepwordbug) -> None:
    (outcome,) = attack_all([Job(0, "mast and keel", 7, 0, at(1), deepwordbug)], service(LetterCounter()))
    assert outcome.status == "errored"
    assert outcome.error.startswith("IndexError in ")


def test_premise_and_hypothesis_stay_apart(deepwordbug) -> None:
    model, changed = LetterCounter(), Counter[int]()
    for seed in range(30):
        draw = random.Random(seed)
        text = tuple(
            " ".join(draw.sample(["tide", "keel", "mast", "helm", "wake", "buoy", "reef", "knot"], 3)) for _ in range(2)
        )
        (outcome,) = attack_all([Job(0, text, int(model.of(text).argmax()), seed, at(1), deepwordbug)], service(model))
        assert outcome.status in ("succeeded", "failed")
        assert isinstance(outcome.text, tuple)
        words = [[part.split() for part in parts] for parts in (text, outcome.text)]
        assert [len(part) for parts in words for part in parts] == [3, 3, 3, 3]
        changed.update(side for side in (0, 1) if words[0][side] != words[1][side])
    assert {len(text) for batch in model.batches for text in batch} == {2}
    assert min(changed.values()) > 3


def test_a_chain_of_changes_longer_than_the_recursion_limit_ends(deepwordbug) -> None:
    from textattack.shared import AttackedText

    from workers.attacks.text.watched_texts import watched

    def chain(text):
        for _ in range(sys.getrecursionlimit() + 100):
            text = text.replace_word_at_index(0, random.choice(["mast", "keel"]))
        return text

    with pytest.raises(RecursionError):
        chain(AttackedText("mast")).free_memory()
    kept = chain(watched("mast", lambda: None))
    kept.free_memory()
    assert "previous_attacked_text" not in kept.attack_attrs


@pytest.mark.slow
def test_common_random_numbers_try_the_same_words_at_every_temperature(deepwordbug) -> None:
    temperatures = (1.0, 1e-3, 10 ** (-1.5), 1e3, 0.03, 1e-10)
    asked = {}
    for common in (False, True):
        shared = service()
        for temperature in temperatures:
            attack_all(jobs(deepwordbug, temperature=temperature, common_random_numbers=common), shared)
        asked[common] = shared.meters.forward_passes
    assert asked[True] < asked[False]
    todo = jobs(deepwordbug, common_random_numbers=True)
    expected = attack_all(todo, service())
    assert attack_all(todo[::-1], service(), in_flight=3) == expected[::-1]
    # Other luck, the same attack: about as many fall.
    plain = attack_all(jobs(deepwordbug), service())
    fallen = [sum(outcome.status == "succeeded" for outcome in outcomes) for outcomes in (expected, plain)]
    assert abs(fallen[0] - fallen[1]) <= 6


def test_common_random_numbers_spell_a_word_the_same_wherever_the_search_stands(deepwordbug) -> None:
    from workers.attacks.text.attacking import _reseeding
    from workers.attacks.text.watched_texts import watched

    transform = _reseeding(deepwordbug.attack(lambda texts: None).transformation, 5)
    start = watched("the tall mast leans", lambda: None)
    later = start.replace_word_at_index(3, "lens")
    spelled = [
        [candidate.words[2] for candidate in transform(text, indices_to_modify=[2])] for text in (start, later, start)
    ]
    assert spelled[0] == spelled[1] == spelled[2]
    assert len(spelled[0]) == 4
    other = _reseeding(deepwordbug.attack(lambda texts: None).transformation, 6)
    assert spelled[0] != [candidate.words[2] for candidate in other(start, indices_to_modify=[2])]


def test_memory_of_a_long_text_is_bounded(deepwordbug) -> None:
    """The candidates of a text of many words do not each keep their list of words."""
    from workers.attacks.text.watched_texts import LONG_WORDS, watched

    long = watched(" ".join(["tide"] * (LONG_WORDS + 1)), lambda: None)
    short = watched("tide and keel", lambda: None)
    assert long.replace_word_at_index(3, "keel")._words is None
    assert long.replace_word_at_index(3, "keel").words[2:5] == ["tide", "keel", "tide"]
    assert short.replace_word_at_index(0, "keel")._words == ["keel", "and", "keel"]
