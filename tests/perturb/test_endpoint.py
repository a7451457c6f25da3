import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from rapidfuzz.distance import Levenshtein

from app.perturb import service
from app.perturb.schemas import PERTURB_EXAMPLES
from app.web.bodies import parse_json
from app.web.problems import InvalidRequestError
from seatrial.contracts.noise import ATTACKERS, Noise
from seatrial.contracts.perturb import MOST_CHARACTERS, MOST_COPIES, MOST_TEXT_CHARACTERS, MOST_TOKENS, PerturbRequest
from seatrial.noise.perturbing import Perturber
from seatrial.store.seeds import derive_seed
from tests.conftest import key_for
from tests.perturb.asking import ALL, TEXT, refused
from tests.web.test_problems import assert_problem

SENTENCE = ["The", "ship", "may", "leave", "the", "harbour", "."]
Post = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def post(client: httpx.Client) -> Post:
    """Return what posts a body and returns the items."""

    def posted(**body: Any) -> list[dict[str, Any]]:
        answer = client.post("/v1/perturb", json=body)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])

    return posted


def test_each_text_is_perturbed_by_each_attacker_at_each_level_in_each_draw(post: Post) -> None:
    items = post(texts=[TEXT, "Not for me."], attackers=["visual", "truncate"], levels=[0.5, 0.2], draws=2)
    cells = [(one["index"], one["attacker"], one["level"], one["draw"]) for one in items]
    assert cells == [(i, a, p, d) for i in (0, 1) for a in ("visual", "truncate") for p in (0.2, 0.5) for d in (0, 1)]


def test_all_attackers_at_the_papers_levels_are_the_default(post: Post) -> None:
    items = post(texts=[TEXT])
    assert [(one["attacker"], one["level"]) for one in items] == [(a, p) for a in ATTACKERS for p in (0.2, 0.5, 0.8)]


def test_the_noise_is_that_of_the_example_of_an_audit_of_the_seed(post: Post) -> None:
    items = post(texts=["Other.", TEXT], attackers=["intrude"], levels=[0.8], draws=2, seed=7, phi=0.3)
    for draw, item in enumerate(items[2:]):
        rng = random.Random(derive_seed(7, "low_level_attack", f"intrude 0.8 {draw}", 1))
        expected = Perturber("intrude", Noise(phi=0.3), ALL).perturb(TEXT, 0.8, rng)
        assert (item["perturbed"], item["tokens"], item["changed"]) == (
            expected.text,
            expected.tokens,
            expected.changed,
        )


def test_hypotheses_go_on_where_the_noise_of_premises_ended(post: Post) -> None:
    (item,) = post(texts=[[TEXT, "Nobody is awake."]], attackers=["full_shuffle"], levels=[0.5])
    rng = random.Random(derive_seed(0, "low_level_attack", "full_shuffle 0.5 0", 0))
    perturber = Perturber("full_shuffle", Noise(), ALL)
    parts = [perturber.perturb(text, 0.5, rng) for text in (TEXT, "Nobody is awake.")]
    assert item["perturbed"] == [one.text for one in parts]
    assert item["tokens"] == sum(one.tokens for one in parts)


def test_a_word_of_tagged_sentences_has_one_form(post: Post) -> None:
    sentences = [SENTENCE, [*SENTENCE[4:6], "leave", "may"]]
    first, second = post(sentences=sentences, attackers=["full_shuffle"], levels=[1])
    seed = derive_seed(0, "low_level_attack", "full_shuffle 1 0 harbour", 0)
    form = Perturber("full_shuffle", Noise(), ALL).word("harbour", 1.0, random.Random(seed))
    assert first["perturbed"][5] == second["perturbed"][1] == form
    assert len(first["perturbed"]) == first["tokens"] == len(SENTENCE)
    forms = dict(zip(SENTENCE, first["perturbed"], strict=True))
    assert [forms[word] for word in sentences[1]] == second["perturbed"]


def test_texts_are_counted_on_from_first(post: Post) -> None:
    whole = post(texts=[TEXT, TEXT, TEXT], attackers=["visual"])
    assert post(texts=[TEXT], attackers=["visual"], first=2) == whole[6:]


def test_edits_are_counted_over_the_whole_text(post: Post) -> None:
    (pair,) = post(texts=[[TEXT, TEXT]], attackers=["truncate"], levels=[0.5])
    assert pair["edits"] == sum(Levenshtein.distance(TEXT, one) for one in pair["perturbed"]) == pair["changed"]
    assert (pair["characters"], pair["edits_per_character"]) == (2 * len(TEXT), pair["edits"] / (2 * len(TEXT)))
    (sentence,) = post(sentences=[SENTENCE], attackers=["truncate"], levels=[0.5])
    assert sentence["characters"] == len(" ".join(SENTENCE))
    assert sentence["edits"] == sentence["changed"] == 3


def test_an_empty_text_stays_empty(post: Post) -> None:
    for item in post(texts=["", "🙂"]):
        assert item["perturbed"] in ("", "🙂") or item["attacker"] == "visual"
        assert item["edits_per_character"] >= 0


def test_segment_is_not_among_all_for_sentences(post: Post) -> None:
    assert {one["attacker"] for one in post(sentences=[SENTENCE])} == set(ATTACKERS) - {"segment"}


def test_a_token_may_hold_a_space(post: Post) -> None:
    (item,) = post(sentences=[["New York", "sleeps"]], attackers=["truncate"], levels=[1])
    assert len(item["perturbed"]) == item["tokens"] == 2


def test_combined_draws_among_those_named_and_among_all_when_alone(post: Post) -> None:
    among = post(texts=[TEXT], attackers=["truncate", "disemvowel", "combined"], levels=[0.8])[2]["perturbed"]
    rng = random.Random(derive_seed(0, "low_level_attack", "combined 0.8 0", 0))
    perturber = Perturber("combined", Noise(), ALL, among=["truncate", "disemvowel"])
    assert among == perturber.perturb(TEXT, 0.8, rng).text
    rng = random.Random(derive_seed(0, "low_level_attack", "combined 0.8 0", 0))
    alone = post(texts=[TEXT], attackers=["combined"], levels=[0.8])[0]["perturbed"]
    assert alone == Perturber("combined", Noise(), ALL).perturb(TEXT, 0.8, rng).text != among


@pytest.mark.parametrize(
    ("headers", "query"),
    [({"Accept": "application/x-ndjson"}, ""), ({"Accept": "application/jsonl"}, ""), ({}, "?format=jsonl")],
    ids=["ndjson", "jsonl", "query"],
)
def test_json_lines_hold_the_same_items(client: httpx.Client, headers: dict[str, str], query: str) -> None:
    body = {"texts": [TEXT], "attackers": ["visual"]}
    lines = client.post(f"/v1/perturb{query}", json=body, headers=headers)
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in lines.text.splitlines()] == client.post("/v1/perturb", json=body).json()[
        "items"
    ]


def test_another_kind_of_answer_is_refused(client: httpx.Client) -> None:
    answer = client.post("/v1/perturb", json={"texts": [TEXT]}, headers={"Accept": "text/html"})
    assert "jsonl" in assert_problem(answer, 406, "not-acceptable").detail


@pytest.mark.parametrize(
    ("body", "pointer", "told"),
    [
        ({}, "", "exactly one"),
        ({"texts": ["a"], "sentences": [["a"]]}, "", "exactly one"),
        ({"texts": []}, "/texts", "at least 1"),
        ({"texts": [["a", "b", "c"]]}, "/texts/0", "a list of two"),
        ({"texts": ["a", 1]}, "/texts/1", "a text is a string"),
        ({"texts": [["a", 1]]}, "/texts/0", "a list of two"),
        ({"sentences": [["a"], []]}, "/sentences/1", "at least 1"),
        ({"sentences": [["a"], ["b", ""]]}, "/sentences/1/1", "the token is empty"),
        ({"sentences": [["\u2003\t"]]}, "/sentences/0/0", "the token is empty"),
        ({"sentences": [["a"]], "attackers": ["visual", "segment"]}, "/attackers/1", "no tag for each"),
        ({"texts": ["a"], "attackers": "visual"}, "/attackers", r'write \["visual"\]$'),
        ({"texts": ["a"], "attackers": []}, "/attackers", "at least|name one"),
        ({"texts": ["a"], "attackers": ["visual", "combined"]}, "/attackers", "alone"),
        ({"texts": ["a"], "attackers": ["visual", "visual"]}, "/attackers", "differ"),
        ({"texts": ["a"], "levels": [0.0]}, "/levels", r"at least 0\.000001 .*, got 0: a text stays as it is"),
        ({"texts": ["a"], "levels": [1e-9]}, "/levels", r"at least 0\.000001 and at most 1, got 1e-09$"),
        ({"texts": ["a"], "levels": [1.0000001]}, "/levels", r"at most 1, got 1\.0000001$"),
        ({"texts": ["a"], "levels": [0.2, 0.2000001]}, "/levels", "differ from each other in their first six digits"),
        ({"texts": ["a"], "levels": [0.5, 0.5]}, "/levels", "differ"),
        ({"texts": ["a"], "draws": 0}, "/draws", "greater than or equal to 1"),
        ({"texts": ["a"], "phi": 0}, "/phi", "greater than 0"),
        ({"texts": ["a"], "kind": "low_level_attack"}, "/kind", "unknown field; known fields: variant, "),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_what_does_not_fit_is_named(body: dict[str, Any], pointer: str, told: str) -> None:
    with pytest.raises(InvalidRequestError, match=told) as caught:
        parse_json(json.dumps(body), PerturbRequest)
    assert [one.pointer for one in caught.value.errors or ()] == [pointer]


@pytest.mark.parametrize(
    ("body", "field", "limit"),
    [
        ({"texts": ["a"] * 21, "attackers": ["visual"], "levels": [0.5], "draws": 100}, "/texts", MOST_COPIES),
        ({"texts": ["a" * 6_000], "draws": 2}, "/texts", MOST_CHARACTERS),
        ({"sentences": [["a" * 5_000, "b" * 5_000]]}, "/sentences", MOST_CHARACTERS),
        ({"sentences": [["a"] * 5_000], "attackers": ["visual"], "draws": 3}, "/sentences", MOST_TOKENS),
    ],
    ids=["copies", "characters", "characters of tokens", "tokens"],
)
def test_too_much_for_one_request_is_told_with_the_limit(body: dict[str, Any], field: str, limit: int) -> None:
    with pytest.raises(InvalidRequestError, match=f"{limit:,} at most") as caught:
        service.refuse_too_much(PerturbRequest(**body))
    assert [one.pointer for one in caught.value.errors or ()] == [field]


def test_what_is_too_much_is_not_perturbed(client: httpx.Client) -> None:
    pointer, detail = refused(client, texts=["a" * 7_000])
    assert pointer == "/texts"
    assert f"{MOST_CHARACTERS:,} at most" in detail


def test_a_text_too_long_is_named() -> None:
    body = PerturbRequest(texts=["a", "a" * (MOST_TEXT_CHARACTERS + 1)], attackers=["visual"], levels=[0.5])
    with pytest.raises(InvalidRequestError, match=f"{MOST_TEXT_CHARACTERS:,}") as caught:
        service.refuse_too_much(body)
    assert [one.pointer for one in caught.value.errors or ()] == ["/texts/1"]


def test_exactly_the_limit_is_perturbed() -> None:
    service.refuse_too_much(PerturbRequest(texts=["a" * 20_000], attackers=["visual"], levels=[0.5], draws=10))
    service.refuse_too_much(PerturbRequest(texts=["a"] * 20, attackers=["visual"], levels=[0.5], draws=100))


@pytest.mark.parametrize(
    ("lacking", "resource"),
    [({"typos": "nlpaug"}, "typos-nlpaug"), ({"glyphs": "confusables"}, "confusables")],
    ids=["typos", "glyphs"],
)
def test_a_lacking_resource_is_named_with_its_command(
    client: httpx.Client, lacking: dict[str, str], resource: str
) -> None:
    for attackers in ("all", ["combined"]):
        pointer, detail = refused(client, texts=[TEXT], attackers=attackers, **lacking)
        assert pointer == f"/{next(iter(lacking))}"
        assert f"seatrial resources install {resource}" in detail
    assert client.post("/v1/perturb", json={"texts": [TEXT], "attackers": ["intrude"], **lacking}).status_code == 200


def test_an_installed_table_is_used(client: httpx.Client, post: Post) -> None:
    home: Path = client.app.state.services.settings.home  # type: ignore[attr-defined]
    table = home / "resources" / "typos-nlpaug" / "spelling_en.txt"
    table.parent.mkdir(parents=True)
    table.write_text("wonderful wunderfull\ngripping griping\n")
    body = {"texts": [TEXT], "attackers": ["natural_typo"], "levels": [1], "typos": "nlpaug"}
    assert post(**body)[0]["perturbed"] == TEXT.replace("wonderful", "wunderfull").replace("gripping", "griping")


def test_a_reader_may_perturb_and_a_stranger_may_not(keyed: httpx.Client) -> None:
    body = {"texts": [TEXT], "attackers": ["visual"]}
    assert keyed.post("/v1/perturb", json=body, headers=key_for(keyed, "read")).status_code == 200  # type: ignore[arg-type]
    assert_problem(keyed.post("/v1/perturb", json=body), 401)


def test_every_example_of_the_documentation_works(client: httpx.Client) -> None:
    for body in PERTURB_EXAMPLES.values():
        assert client.post("/v1/perturb", json=body).status_code == 200
