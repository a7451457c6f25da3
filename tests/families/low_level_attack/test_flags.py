"""Each doubt is raised where it is due; robustness that was never tested is an error."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from seatrial.contracts.noise import Noise
from seatrial.noise.edits import levenshtein
from seatrial.noise.graphemes import graphemes
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from tests.families.low_level_attack.fabricated import audit, logits, marked, parameters, sampled, singles
from workers.families.contexts import LabelledText
from workers.families.low_level_attack import estimates
from workers.families.low_level_attack.flags import level_not_reached
from workers.models import UnansweredError

SINGLE, LABELS, TAGS = "text-classification", "multi-label-classification", "token-classification"
TWO = {"attackers": ["truncate", "visual"], "levels": [0.5]}
RIGHT = "+" * 40
HALF = "+" * 20 + "-" * 20


def flags(params, done) -> dict[str, str]:
    found = estimates.reduce(params, done, 0).flags
    assert all(len(flag.message) > 80 for flag in found)
    assert len({flag.code for flag in found}) == len(found)
    told = {flag.code: flag.severity for flag in found}
    # All tests here name attackers, but for its own.
    told.pop("attackers_not_asked", None)
    return told


def message(params, done, code: str) -> str:
    (flag,) = [flag for flag in estimates.reduce(params, done, 0).flags if flag.code == code]
    return flag.message


def test_a_model_that_loses_to_noise_and_says_so_gets_no_flag() -> None:
    params = parameters(**TWO)
    # As right as it is sure: 0.7 of the texts without noise and hardly fewer with it, and unlike harm.
    done = marked(params, "+" * 35 + "-" * 15, margin=0.9, truncate=["-" * 10 + "+" * 40], visual=["+-" * 25])
    assert flags(params, done) == {}


def test_noise_that_changes_nothing_is_an_error_however_good_the_scores() -> None:
    params = parameters(**TWO)
    done = marked(params, RIGHT, changed=0.0, truncate=[RIGHT], visual=[RIGHT])
    assert flags(params, done)["noise_changed_nothing"] == "error"
    assert "0.0%" in message(params, done, "noise_changed_nothing")
    assert "little_noise" not in flags(params, done)


def test_a_low_level_is_held_against_what_it_asks_for() -> None:
    params = parameters(attackers=["truncate", "visual"], levels=[0.01])
    for changed, is_tested in ((0.01, True), (0.0016, True), (0.0014, False)):
        done = marked(params, RIGHT, changed=changed, truncate=[HALF], visual=[HALF])
        assert ("noise_changed_nothing" not in flags(params, done)) == is_tested
    assert "0.15% of the tokens (the most: 0.1%)" in message(params, done, "noise_changed_nothing")


def test_an_attacker_that_changes_little_is_named() -> None:
    params = parameters(**TWO)
    done = marked(params, RIGHT, truncate=[HALF], visual=[RIGHT])
    done["attack_visual"] = marked(params, RIGHT, changed=0.03, truncate=[HALF], visual=[RIGHT])["attack_visual"]
    assert flags(params, done)["little_noise"] == "warning"
    assert "visual 3.0%" in message(params, done, "little_noise")
    assert "truncate" not in message(params, done, "little_noise")


ENGLISH = ["the long quiet film shows a wonderful actor in the end", "it keeps a clumsy story from the village ."]
CHINESE = ["这部电影的故事非常感人值得再看一遍", "演员的表演既单调又做作令人失望"]
# Words of this script are not told apart.
TIBETAN = ["གློག་བརྙན་འདི་ཧ་ཅང་ཡག་པོ་འདུག", "གློག་བརྙན་འདི་ཡག་པོ་མི་འདུག"]


@pytest.mark.parametrize(
    ("texts", "severity"),
    [
        (TIBETAN, "warning"),
        (CHINESE, None),
        (ENGLISH, None),
        (ENGLISH * 4 + TIBETAN[:1], "info"),
        (["fine"], "warning"),
    ],
)
def test_a_level_that_texts_cannot_honour_is_told(texts, severity) -> None:
    perturber = Perturber("full_shuffle", Noise(), Lexicons(None))
    drawn = [(text, perturber.perturb(text, 0.2, random.Random(7)).text) for text in texts]
    changed = np.array([levenshtein(before, after) / len(graphemes(before)) for before, after in drawn])
    noise = SimpleNamespace(characters_changed=changed)
    found = level_not_reached(
        SimpleNamespace(attackers=["full_shuffle"], levels=[0.2], noise=lambda attacker, level: noise)
    )
    assert [flag.severity for flag in found] == ([severity] if severity else [])


def same_answers(attackers: list[str], unmoved: set[str]) -> dict[str, str]:
    params = parameters(attackers=attackers, levels=[0.5])
    clean = logits(RIGHT)
    other = logits(HALF, margin=1.5)
    attacked = {name: {0.5: [[one] for one in (clean if name in unmoved else other)]} for name in attackers}
    return flags(params, audit(params, SINGLE, singles(RIGHT), clean, attacked))


def test_answers_that_stay_bit_for_bit_while_texts_change_are_not_the_models_robustness() -> None:
    assert same_answers(["truncate", "visual"], {"truncate", "visual"})["answers_unmoved"] == "error"
    assert same_answers(["truncate", "visual"], {"visual"})["answers_unmoved"] == "warning"
    assert "answers_unmoved" not in same_answers(["truncate", "visual"], set())


def test_texts_that_did_not_change_may_be_answered_as_they_were() -> None:
    params = parameters(**TWO)
    clean = logits(RIGHT)
    attacked = {name: {0.5: [[one] for one in clean]} for name in params.names}
    assert "answers_unmoved" not in flags(params, audit(params, SINGLE, singles(RIGHT), clean, attacked, changed=0.0))


def test_a_saturated_model_is_not_taken_for_one_that_sees_nothing() -> None:
    params = parameters(**TWO)
    done = marked(params, RIGHT, margin=300.0, truncate=[RIGHT], visual=[RIGHT])
    assert set(done["attack_visual"].column("mean_confidence[level=0.5]").to_pylist()) == {1.0}
    assert "answers_unmoved" not in flags(params, done)


def test_nothing_answered_is_an_error() -> None:
    params = parameters(**TWO)
    gone = [UnansweredError("no route to the model")] * 4
    done = audit(params, SINGLE, singles("++++"), gone, {name: {0.5: [[one] for one in gone]} for name in params.names})
    assert flags(params, done)["nothing_measured"] == "error"
    assert "no route to the model" in message(params, done, "nothing_measured")
    clean = logits("++++")
    done = audit(
        params, SINGLE, singles("++++"), clean, {name: {0.5: [[one] for one in gone]} for name in params.names}
    )
    assert flags(params, done)["nothing_measured"] == "error"
    # Half of the texts are something, if little.
    some = {name: {0.5: [[one] for one in (*clean[:2], *gone[2:])]} for name in params.names}
    assert "nothing_measured" not in flags(params, audit(params, SINGLE, singles("++++"), clean, some))


@pytest.mark.parametrize(("lost", "severity"), [(1, "info"), (5, "warning")])
def test_examples_that_errored_are_told_with_their_reason(lost, severity) -> None:
    params = parameters(**TWO)
    gone = UnansweredError("too many requests")
    visual = [[gone] if at < lost else [one] for at, one in enumerate(logits(HALF))]
    attacked = {"truncate": {0.5: [[one] for one in logits(HALF)]}, "visual": {0.5: visual}}
    done = audit(params, SINGLE, singles(RIGHT), logits(RIGHT), attacked)
    assert flags(params, done)["errored_examples"] == severity
    assert "too many requests" in message(params, done, "errored_examples")


def test_an_attacker_left_out_of_the_worst_case_is_an_error() -> None:
    params = parameters(**TWO)
    gone = UnansweredError("the budget is spent")
    attacked = {"truncate": {0.5: [[one] for one in logits(HALF)]}, "visual": {0.5: [[gone]] * 40}}
    done = audit(params, SINGLE, singles(RIGHT), logits(RIGHT), attacked)
    assert flags(params, done)["attackers_left_out"] == "error"
    assert "Under visual less" in message(params, done, "attackers_left_out")
    for answered, is_left in ((19, True), (20, False)):
        some = [[one] for one in logits(HALF)[:answered]] + [[gone]] * (40 - answered)
        done = audit(params, SINGLE, singles(RIGHT), logits(RIGHT), attacked | {"visual": {0.5: some}})
        assert ("attackers_left_out" in flags(params, done)) == is_left


def test_a_model_with_nothing_to_lose_is_told() -> None:
    params = parameters(**TWO)
    assert flags(params, marked(params, HALF, truncate=[HALF], visual=[HALF[::-1]]))["score_at_chance"] == "warning"
    assert "score_at_chance" not in flags(params, marked(params, RIGHT, truncate=[HALF], visual=[HALF]))
    # Of 40 texts, 27 right answers are shown to be more than half, and 26 are not.
    for right, is_told in ((26, True), (27, False)):
        given = "+" * right + "-" * (40 - right)
        assert ("score_at_chance" in flags(params, marked(params, given, truncate=[HALF], visual=[HALF]))) == is_told


def test_confidence_that_stays_while_the_score_falls_is_told() -> None:
    params = parameters(**TWO)
    sure = marked(params, RIGHT, margin=4.0, truncate=[RIGHT], visual=[HALF])
    assert flags(params, sure)["confident_under_noise"] == "info"
    assert "Under visual at level 0.5, 50.0%" in message(params, sure, "confident_under_noise")
    assert "truncate" not in message(params, sure, "confident_under_noise")
    unsure = marked(params, RIGHT, margin=0.1, truncate=[RIGHT], visual=[HALF])
    assert "confident_under_noise" not in flags(params, unsure)
    # As over-confident before: that is not the noise's doing.
    always = marked(params, HALF, margin=4.0, truncate=[HALF], visual=[HALF])
    assert "confident_under_noise" not in flags(params, always)


def tagged(tokens: int, lost: int, untagged: int = 0) -> dict[str, str]:
    params = parameters(attackers=["visual"], levels=[0.5])
    sentences = [LabelledText(at, ("a",) * tokens, (at % 2,) * tokens) for at in range(20)]
    clean = [torch.tensor([[2.0, 0.0], [0.0, 2.0]][at % 2]).repeat(tokens, 1) + 0.01 * at for at in range(20)]
    for scores in clean:
        scores[:untagged] = torch.nan
    noisy = [[scores - 0.5] for scores in clean]
    for at in range(lost):
        noisy[at][0][-1] = torch.nan
    return flags(params, audit(params, TAGS, sentences, clean, {"visual": {0.5: noisy}}))


def test_tokens_without_a_tag_are_told() -> None:
    assert "tokens_unanswered" not in tagged(10, 0)
    assert tagged(10, 1)["tokens_unanswered"] == "info"
    assert tagged(10, 10)["tokens_unanswered"] == "warning"
    assert tagged(10, 0, untagged=1)["tokens_untagged"] == "warning"
    assert tagged(200, 0, untagged=1)["tokens_untagged"] == "info"


def test_labels_without_auroc_are_named() -> None:
    params = parameters(attackers=["visual"], levels=[0.5])
    examples = [LabelledText(at, f"text {at}", (at % 2, 0, 1)) for at in range(20)]
    clean = [torch.tensor([at % 2 - 0.5, -1.0, 1.0 + at / 10]) for at in range(20)]
    done = audit(params, LABELS, examples, clean, {"visual": {0.5: [[one * 0.9] for one in clean]}})
    assert flags(params, done)["classes_left_out"] == "warning"
    assert "2 of 3 labels (1, 2, counted from 0)" in message(params, done, "classes_left_out")
    # On one text, and missing from one, they have an AUROC each.
    rare = [LabelledText(at, f"text {at}", (at % 2, int(at == 3), int(at != 3))) for at in range(20)]
    done = audit(params, LABELS, rare, clean, {"visual": {0.5: [[one * 0.9] for one in clean]}})
    assert "classes_left_out" not in flags(params, done)


def test_ranks_that_may_be_any_are_told() -> None:
    params = parameters(**TWO)
    assert flags(params, marked(params, RIGHT, truncate=[HALF], visual=[HALF[::-1]]))["ranks_unclear"] == "info"
    assert "ranks_unclear" not in flags(params, marked(params, RIGHT, truncate=["-" * 40], visual=[RIGHT]))


def test_those_that_may_do_most_harm_are_named_and_others_are_not() -> None:
    params = parameters(attackers=["truncate", "visual", "intrude"], levels=[0.5])
    done = marked(params, RIGHT, truncate=[HALF], visual=[HALF[::-1]], intrude=[RIGHT])
    assert "the ranks of truncate, visual have intervals" in message(params, done, "ranks_unclear")
    done = marked(params, RIGHT, truncate=[RIGHT], visual=[HALF[::-1]], intrude=[RIGHT])
    assert "ranks_unclear" not in flags(params, done)


def test_what_the_worst_of_several_draws_can_be_compared_with_is_told() -> None:
    params = parameters(**TWO, draws=7)
    assert "worst of 7 draws" in message(params, sampled(SINGLE, params, n=20), "worst_of_draws")
    assert "worst_of_draws" not in flags(parameters(**TWO), sampled(SINGLE, parameters(**TWO), n=20))


def test_attackers_that_were_not_asked_for_are_told_whatever_the_mean_is_called() -> None:
    some = parameters(**TWO)
    told = message(some, marked(some, RIGHT, truncate=[RIGHT], visual=[RIGHT]), "attackers_not_asked")
    assert told.startswith("8 of 10 attackers were not asked for (inner shuffle, full shuffle, ")
    whole = parameters(levels=[0.5])
    done = marked(whole, RIGHT, **{attacker: [RIGHT] for attacker in whole.names})
    assert "attackers_not_asked" not in {flag.code for flag in estimates.reduce(whole, done, 0).flags}


@pytest.mark.parametrize(
    ("attackers", "phi", "variant", "is_told"),
    [
        (["truncate", "visual"], 0.49, "code", True),
        (["truncate", "visual"], 0.5, "code", False),
        (["truncate", "visual"], None, "code", False),
        (["truncate", "keyboard_typo"], 0.1, "code", False),
        (["truncate", "keyboard_typo"], 0.1, "paper", True),
        # Which selects words by a coin.
        (["truncate"], None, "paper", True),
    ],
)
def test_words_that_are_hit_less_hard_than_the_level_says_are_told(attackers, phi, variant, is_told) -> None:
    params = parameters(attackers=attackers, levels=[0.5], phi=phi, variant=variant)
    done = marked(params, RIGHT, **{attacker: [RIGHT] for attacker in attackers})
    assert flags(params, done).get("mild_noise") == ("warning" if is_told else None)
