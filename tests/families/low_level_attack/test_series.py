import json

import pytest
import torch

from tests.families.low_level_attack.fabricated import audit, logits, marked, parameters, sampled, singles
from workers.families.contexts import LabelledText
from workers.families.low_level_attack import estimates

SINGLE, LABELS, TAGS = "text-classification", "multi-label-classification", "token-classification"
FEW = {"attackers": ["truncate", "visual", "intrude"], "levels": [0.2, 0.8]}


@pytest.mark.parametrize(
    ("task", "score", "chance"),
    [(SINGLE, "accuracy", 0.25), (LABELS, "macro AUROC", 0.5), (TAGS, "token accuracy", None)],
)
def test_series_are_what_figures_and_report_read(task, score, chance) -> None:
    params = parameters(**FEW, draws=2, combined=True)
    done = sampled(task, params)
    result = estimates.reduce(params, done, 0)
    series = result.series
    assert (series["task"], series["score"], series["levels"]) == (task, score, [0.2, 0.8])
    if task == TAGS:
        truths = [tag for tags in done["clean"].column("truths").to_pylist() for tag in tags]
        chance = pytest.approx(max(map(truths.count, set(truths))) / len(truths), abs=0.02)
    assert series["chance"] == chance
    ordered = series["attackers"]
    assert set(ordered) == {*params.names, "combined"}
    ranks = [result.estimates[f"rank[attacker={name}]"].value for name in ordered]
    assert ranks == sorted(ranks)
    assert [ranked["attacker"] for ranked in series["ranking"]] == ordered
    for name in ordered:
        assert [point["level"] for point in series["curves"][name]] == [0, 0.2, 0.8]
        assert series["curves"][name][0]["score"] == result.estimates["score[level=0]"].value
        assert [point["level"] for point in series["persistent"][name]] == [0.2, 0.8]
        assert [point["level"] for point in series["calibration"][name]] == [0, 0.2, 0.8]
        assert set(series["calibration"][name][1]) == {"level", "ece", "mean_confidence", "score", "accuracy"}
    assert set(series["reliability"]) == {"clean", *ordered}
    assert len(series["edit_distance"]) == len(ordered) * 2
    assert [point["level"] for point in series["worst"]] == [0.2, 0.8]
    assert json.loads(json.dumps(series, allow_nan=False)) == series


def test_the_most_telling_examples_come_first() -> None:
    params = parameters(attackers=["truncate", "visual"], levels=[0.2, 0.8])
    done = marked(params, "++++-", truncate=["++++-", "-++-+"], visual=["++++-", "--++-"])
    shown = estimates.reduce(params, done, 0).series["examples"]
    # Broken by one of two attackers, by both, by none; wrong from the start.
    assert {one["example_id"] for one in shown[:2]} == {101, 103}
    assert [one["example_id"] for one in shown[2:]] == [100, 102, 104]
    broken = {attack["attacker"]: attack for attack in shown[2]["attacks"]}
    assert broken["visual"]["level"] == 0.8
    assert (broken["visual"]["correct"], broken["visual"]["decisions"], broken["visual"]["prediction"]) == (0, 1, 0)
    assert shown[2]["prediction"] == shown[2]["label"] == 1


def test_an_attack_is_shown_at_the_lowest_level_that_did_harm() -> None:
    params = parameters(attackers=["truncate", "visual"], levels=[0.2, 0.5, 0.8])
    done = marked(params, "+", truncate=["+", "-", "-"], visual=["+", "+", "+"])
    (shown,) = estimates.reduce(params, done, 0).series["examples"]
    assert {attack["attacker"]: attack["level"] for attack in shown["attacks"]} == {"truncate": 0.5, "visual": 0.8}
    assert shown["original"] == ["text number 0"]
    assert shown["attacks"][0]["text"] == ["text number 0" + "x" * 6]


def test_pairs_have_two_parts_and_sentences_one_and_no_class() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    pairs = estimates.reduce(params, sampled("text-pair-classification", params, n=3), 0).series["examples"]
    assert all(len(one["original"]) == len(one["attacks"][0]["text"]) == 2 for one in pairs)
    for task in (TAGS, LABELS):
        shown = estimates.reduce(params, sampled(task, params, n=3), 0).series["examples"]
        assert {(one["label"], one["prediction"], one["attacks"][0]["prediction"]) for one in shown} == {(None,) * 3}
        assert all(len(one["original"]) == 1 and len(one["truths"]) > 1 for one in shown)


def test_at_most_twelve_are_shown_and_of_very_long_texts_few() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    assert len(estimates.reduce(params, sampled(SINGLE, params), 0).series["examples"]) == 12
    long = [LabelledText(at, "a text " * 20_000, (1,)) for at in range(6)]
    done = audit(params, SINGLE, long, logits("++++++"), {"visual": {0.8: [[one] for one in logits("++++--")]}})
    assert len(estimates.reduce(params, done, 0).series["examples"]) == 1


def test_an_example_nobody_broke_has_no_worst_attacker() -> None:
    params = parameters(attackers=["truncate", "visual"], levels=[0.8])
    examples, clean = singles("++"), [torch.tensor([0.0, 2.0])] * 2
    attacked = {"truncate": {0.8: [[clean[0]], [clean[0]]]}, "visual": {0.8: [[clean[0]], [-clean[0]]]}}
    result = estimates.reduce(params, audit(params, SINGLE, examples, clean, attacked), 0)
    assert [row["examples"] for row in result.series["worst_attackers"]] == [1, 0]
