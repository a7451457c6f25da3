"""Whole audits in memory, cut, interrupted and cached in several ways: the records are the same."""

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from seatrial.contracts.noise import ATTACKERS
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from seatrial.noise.seeding import noise_generator
from tests.families.in_memory import TextContext, TextModel, run_text_check
from tests.families.low_level_attack.fabricated import parameters
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.errors import PreflightError
from workers.families.contexts import LabelledText, Records
from workers.families.low_level_attack.family import FAMILY, GRAIN
from workers.families.protocol import DataInfo, Shard, TargetInfo
from workers.models import UnansweredError
from workers.resources.library import Library
from workers.runtime.interruptions import ShardCancelled

SINGLE, PAIRS = "text-classification", "text-pair-classification"
LABELS, TAGS = "multi-label-classification", "token-classification"
WORDS = "this wonderful film never forgets what the clever people behind its story really wanted from their audience"
CHEAP = ["inner_shuffle", "full_shuffle", "truncate", "segment", "disemvowel"]


def sample(task: str, n: int = 21) -> list[LabelledText]:
    words = WORDS.split()
    found = []
    for at in range(n):
        tokens = tuple(words[(at * 5 + step) % len(words)] for step in range(3 + at % 6))
        text: Text = {TAGS: tokens, PAIRS: (" ".join(tokens), "it is " + tokens[0])}.get(task, " ".join(tokens))
        truths = {TAGS: tuple(len(token) % 3 for token in tokens), LABELS: (at % 2, int(at % 3 == 0))}
        found.append(LabelledText(1000 + at, text, truths.get(task, (at % 2,))))
    return found


def model(task: str, asked: list[Text] | None = None, preferred: int = 64) -> TextModel:
    """Counts letters: any change of a text changes what it says."""

    def scores(text: Text) -> torch.Tensor:
        if asked is not None:
            asked.append(text)
        if task == TAGS:
            rows = [[float(len(token)), float(token.count("e")), ord(token[0]) / 50] for token in text]
            return torch.tensor(rows)
        joined = text if isinstance(text, str) else " | ".join(text)
        weights = [sum(ord(letter) * (at + 1) for at, letter in enumerate(joined)) % 97 / 30, joined.count("e") / 2]
        return torch.tensor(weights) - 1

    return TextModel(scores, ["a", "b", "c"] if task == TAGS else ["a", "b"], preferred_texts=preferred)


def as_bytes(done: Mapping[str, Records]) -> dict[str, bytes]:
    found = {}
    for name, table in done.items():
        buffer = BytesIO()
        pq.write_table(table.combine_chunks(), buffer)
        found[name] = buffer.getvalue()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("task", [SINGLE, PAIRS, LABELS, TAGS])
def test_neither_shards_nor_batches_change_a_record(task) -> None:
    params = parameters(attackers=CHEAP, levels=[0.3, 0.8], draws=3, combined=True)
    whole, records = run_text_check(FAMILY, params, model(task), sample(task), task=task)
    cut, cut_records = run_text_check(FAMILY, params, model(task, preferred=5), sample(task), task=task, shards=3)
    assert list(records) == ["clean", *[f"attack_{name}" for name in params.runs(task)]]
    assert as_bytes(cut_records) == as_bytes(records)
    assert cut == whole
    assert whole.counts["n"] == 21


def test_texts_are_those_the_perturber_gives_the_examples_seed() -> None:
    params = parameters(attackers=["full_shuffle"], levels=[0.5], draws=2)
    _, done = run_text_check(FAMILY, params, model(PAIRS), sample(PAIRS), task=PAIRS)
    context = TextContext(PAIRS, sample(PAIRS), ScoringService(model(PAIRS), max_bytes=0), Shard("x", 0, 8))
    perturber = Perturber("full_shuffle", params, Lexicons(None))
    rows = done["attack_full_shuffle"].to_pylist()
    for row, example in zip(rows, sample(PAIRS), strict=True):
        made = []
        for draw in range(2):
            rng = noise_generator(context.seed, "full_shuffle", 0.5, draw, example.example_id)
            # Premise, then hypothesis, from one generator.
            made.append([perturber.perturb(part, 0.5, rng).text for part in example.text])
        assert [row["text[level=0.5]"], row["second_text[level=0.5]"]] == made[0]
        worst = row["draw[level=0.5,draw=worst]"]
        assert [row[f"{name}[level=0.5,draw=worst]"] for name in ("text", "second_text")] == made[worst]


def test_a_word_has_one_form_in_all_sentences_of_a_draw_and_keeps_its_tag() -> None:
    params = parameters(attackers=["full_shuffle"], levels=[0.8])
    examples = sample(TAGS)
    _, done = run_text_check(FAMILY, params, model(TAGS), examples, task=TAGS, shards=3)
    forms: dict[str, set[str]] = {}
    for example, tokens in zip(
        examples, done["attack_full_shuffle"].column("tokens[level=0.8]").to_pylist(), strict=True
    ):
        assert len(tokens) == len(example.text)
        for before, after in zip(example.text, tokens, strict=True):
            forms.setdefault(before, set()).add(after)
    assert any(len(found) == 2 for found in forms.values())
    for word, found in forms.items():
        assert len(found - {word}) <= 1


def test_a_shard_resumed_at_any_of_its_saves_gives_the_same_records() -> None:
    params = parameters(attackers=["full_shuffle"], levels=[0.3, 0.8], draws=3)
    examples = sample(SINGLE, 13)
    _, done = run_text_check(FAMILY, params, model(SINGLE), examples, task=SINGLE)
    shard = Shard("attack_full_shuffle", 0, 13)
    for preferred in (1, 4, 40):
        saves = []

        class Keeping(TextContext):
            def save(self, state, notes=None, *, force=False) -> None:
                super().save(state, notes, force=force)
                saves.append(self.kept)  # noqa: B023 - read before the next turn

        service = ScoringService(model(SINGLE, preferred=preferred), max_bytes=0)
        FAMILY.run(params, shard, Keeping(SINGLE, examples, service, shard, 13, done))
        assert len(saves) >= 2
        for kept in saves:
            asked: list[Text] = []
            fresh = ScoringService(model(SINGLE, asked, preferred), max_bytes=0)
            resumed = FAMILY.run(params, shard, TextContext(SINGLE, examples, fresh, shard, 13, done, kept=kept))
            assert as_bytes({"": resumed}) == as_bytes({"": done["attack_full_shuffle"]})
            assert len(asked) < 13 * 6


def test_a_batch_is_filled_across_draws_and_levels() -> None:
    params = parameters(attackers=["truncate"], levels=[0.2, 0.5, 0.8], draws=4)
    calls = []

    class Counting(ScoringService):
        def scores(self, texts):
            calls.append(len(texts))
            return super().scores(texts)

    examples = sample(SINGLE, 8)
    _, done = run_text_check(FAMILY, params, model(SINGLE), examples, task=SINGLE)
    shard = Shard("attack_truncate", 0, 8)
    service = Counting(model(SINGLE, preferred=32), max_bytes=10**6)
    FAMILY.run(params, shard, TextContext(SINGLE, examples, service, shard, 8, done))
    assert calls == [32, 32, 32]


def test_an_example_without_an_answer_is_errored_with_its_reason_and_asked_no_more() -> None:
    params = parameters(attackers=["truncate"], levels=[0.2, 0.5, 0.8])
    examples = sample(SINGLE, 6)
    lost, broken = str(examples[1].text), str(examples[4].text).split()[0][:4]
    asked: list[Text] = []
    good = model(SINGLE, asked)

    def scores(text: Text) -> torch.Tensor | UnansweredError:
        answer = good.function(text)
        if text == lost:
            return UnansweredError("the endpoint is gone")
        return torch.tensor([torch.nan, 0.0]) if str(text).startswith(broken) and text != examples[4].text else answer

    result, done = run_text_check(
        FAMILY, params, TextModel(scores, ["a", "b"], preferred_texts=1), examples, task=SINGLE
    )
    clean, attacked = done["clean"].to_pylist(), done["attack_truncate"].to_pylist()
    assert [row["errored"] for row in clean] == [at == 1 for at in range(6)]
    assert clean[1]["error"] == "the endpoint is gone"
    assert clean[1]["text"] == lost
    assert attacked[1]["error"] == "clean text: the endpoint is gone"
    assert sum(text == lost for text in asked) == 1
    assert attacked[1]["text[level=0.2]"] is None
    for row in attacked:
        if row["errored"] and row["example_id"] != 1001:
            assert row["error"].startswith("at level 0.")
            assert "not finite" in row["error"]
            assert row["correct[level=0.8]"] is None
    assert attacked[4]["errored"]
    assert result.counts["errored[attacker=truncate]"] == sum(row["errored"] for row in attacked)


def test_a_shard_can_be_cancelled_between_the_models_batches() -> None:
    class Cancelled(TextContext):
        def check_cancelled(self) -> None:
            super().check_cancelled()
            if self.ticks == 3:
                raise ShardCancelled("now")

    examples = sample(SINGLE)
    service = ScoringService(model(SINGLE, preferred=4), max_bytes=0)
    with pytest.raises(ShardCancelled):
        FAMILY.run(parameters(), Shard("clean", 0, 21), Cancelled(SINGLE, examples, service, Shard("clean", 0, 21)))
    assert 0 < service.meters.forward_passes < 21


class Unread(Mapping[str, Records]):
    """Stages of which only the names may be looked at, but for some."""

    def __init__(self, names: list[str], readable: Mapping[str, Records]) -> None:
        self._names, self._readable = names, readable

    def __getitem__(self, name: str) -> Records:
        return self._readable[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


def test_what_comes_next_follows_from_names_and_at_most_the_task() -> None:
    two = parameters(attackers=["truncate", "visual"], combined=True)
    stages = ["clean", "attack_truncate", "attack_visual", "attack_combined"]
    for number, name in enumerate(stages):
        stage = FAMILY.next_stage(two, Unread(stages[:number], {}))
        assert (stage.name, stage.source, stage.grain) == (name, "sample", GRAIN)
    assert FAMILY.next_stage(two, Unread(stages, {})) is None
    joins = parameters(attackers=["segment", "visual"])
    for task, expected in ((SINGLE, "attack_segment"), (TAGS, "attack_visual")):
        _, done = run_text_check(
            FAMILY, parameters(attackers=["truncate"], levels=[1.0]), model(task), sample(task, 2), task=task
        )
        assert FAMILY.next_stage(joins, Unread(["clean"], {"clean": done["clean"]})).name == expected


def info(task: str = SINGLE, classes: int = 2) -> TargetInfo:
    return TargetInfo(classes=classes, labels=None, input_shape=None, task=task, has_gradients=False)


def refused(params, target: TargetInfo) -> tuple[str, str | None, str]:
    with pytest.raises(PreflightError) as caught:
        FAMILY.preflight(target, DataInfo(50, 2, 0.9), params)
    problem = caught.value.problem
    return problem.code, problem.field, problem.detail


def test_one_class_is_refused() -> None:
    assert refused(parameters(attackers=["truncate"]), info(classes=1))[:2] == ("too-few-classes", "model")


def test_segment_named_for_a_tagger_is_refused_and_among_all_left_out() -> None:
    code, field, _ = refused(parameters(attackers=["visual", "segment"]), info(TAGS))
    assert (code, field) == ("attacker-not-of-tokens", "attackers/1")
    FAMILY.preflight(info(SINGLE), DataInfo(50, 2, 0.9), parameters(attackers=["visual", "segment"]))
    FAMILY.preflight(info(TAGS), DataInfo(50, 2, 0.9), parameters())
    assert "segment" not in parameters().runs(TAGS)
    assert set(parameters().runs(SINGLE)) == set(ATTACKERS)


@pytest.mark.parametrize(
    ("asked", "field", "command"),
    [
        ({"typos": "nlpaug", "attackers": ["natural_typo"]}, "typos", "seatrial resources install typos-nlpaug"),
        ({"glyphs": "confusables"}, "glyphs", "seatrial resources install confusables"),
    ],
    ids=["typos", "glyphs"],
)
def test_a_lacking_resource_is_refused_with_the_command_that_brings_it(
    asked, field, command, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(Library, "of", lambda: Library(Path(tmp_path)))
    code, blamed, detail = refused(parameters(**asked), info())
    assert (code, blamed) == ("resource-missing", field)
    assert command in detail
    # A worker that lacks what the preflight's had says so too.
    (needs,) = {"typos": ["natural_typo"], "glyphs": ["visual"]}[field]
    shard = Shard(f"attack_{needs}", 0, 21)
    context = TextContext(SINGLE, sample(SINGLE), ScoringService(model(SINGLE), max_bytes=10**6), shard)
    with pytest.raises(PreflightError) as raised:
        FAMILY.run(parameters(**asked), shard, context)
    assert raised.value.problem.field == field
    # Attackers that need none of it run all the same.
    FAMILY.preflight(info(), DataInfo(50, 2, 0.9), parameters(**(asked | {"attackers": ["truncate"]})))


def codes(result) -> dict[str, str]:
    return {flag.code: flag.severity for flag in result.flags}


def test_an_audit_in_a_script_its_attackers_do_not_know_is_an_error_and_no_pass() -> None:
    params = parameters(attackers=["truncate", "disemvowel", "keyboard_typo", "natural_typo", "phonetic"])
    texts = [LabelledText(at, f"我 爱 这 部 电 影 {at % 7} 次", (at % 2,)) for at in range(20)]
    result, _ = run_text_check(FAMILY, params, model(SINGLE), texts, task=SINGLE)
    assert result.estimates["relative_score[attacker=truncate,level=0.8]"].value == 1.0
    assert codes(result)["noise_changed_nothing"] == "error"


def test_a_model_that_looks_at_nothing_the_noise_touches_is_an_error_and_no_pass() -> None:
    def first_letter(text: Text) -> torch.Tensor:
        return torch.tensor([0.0, (ord(str(text)[0]) % 7) - 3.0])

    params = parameters(attackers=["inner_shuffle", "truncate"])
    texts = [LabelledText(at, f"{'abcdefg'[at % 7]} wonderful moving picture", (at % 2,)) for at in range(20)]
    result, _ = run_text_check(FAMILY, params, TextModel(first_letter, ["a", "b"]), texts, task=SINGLE)
    assert result.counts["texts_changed[attacker=truncate,level=0.8]"] == 20
    assert codes(result)["answers_unmoved"] == "error"
