import random
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from seatrial.contracts.noise import ATTACKERS, COMBINED, Attacker, Noise
from seatrial.noise import attackers
from seatrial.noise.perturbing import Perturbation, PerturbedTokens, Perturber
from seatrial.noise.tokens import between_tokens, tokens
from seatrial.noise.words import truncate
from tests.noise.fakes import LETTERS, SENTENCE, FewLexicons

SEEDS = st.integers(0, 2**32)
NOISES = st.builds(
    Noise,
    variant=st.sampled_from(["code", "paper"]),
    selection=st.sampled_from([None, "code", "paper"]),
    phi=st.sampled_from([None, 0.3, 1.0]),
)
LEVELS = st.sampled_from([1e-6, 0.2, 0.5, 0.8, 1.0])
NAMES = st.sampled_from([*ATTACKERS, COMBINED])
OF_TOKENS = tuple(name for name in ATTACKERS if name != "segment")
MIXED = st.text(
    st.sampled_from("aeitnsE.,!' -\t\n\u00a01\u05d0\u0645e\u0301\u200d🧑🚀\u202e"),
    max_size=40,
)
TEXTS = st.one_of(st.text(max_size=40), MIXED)


def perturber(attacker: str, *, among: tuple[Attacker, ...] = ATTACKERS, **noise) -> Perturber:
    return Perturber(attacker, Noise(**noise), FewLexicons(), among=among)


@pytest.mark.slow
@given(TEXTS, NAMES, NOISES, LEVELS, SEEDS)
def test_no_text_fails_and_no_word_disappears(text: str, name: str, noise: Noise, level: float, seed: int) -> None:
    found = Perturber(name, noise, FewLexicons()).perturb(text, level, random.Random(seed))
    assert found.tokens == (len(text.split()) if name == "segment" else len(tokens(text)))
    assert 0 <= found.changed <= found.tokens
    assert (found.changed == 0) == (found.text == text)
    assert bool(found.text.strip()) == bool(text.strip())


@given(TEXTS, NAMES, NOISES, SEEDS)
def test_level_0_changes_nothing(text: str, name: str, noise: Noise, seed: int) -> None:
    attacker = Perturber(name, noise, FewLexicons())
    count = len(text.split()) if name == "segment" else len(tokens(text))
    assert attacker.perturb(text, 0.0, random.Random(seed)) == Perturbation(text, count, 0)
    assert attacker.word(text, 0.0, random.Random(seed)) is None


@given(TEXTS, st.sampled_from(OF_TOKENS), NOISES, LEVELS, SEEDS)
def test_words_are_edited_where_they_stand(text: str, name: str, noise: Noise, level: float, seed: int) -> None:
    attacker = Perturber(name, noise, FewLexicons())
    parts = between_tokens(text)
    found = attacker.perturb(text, level, random.Random(seed))
    if name == "visual" and noise.variant == "code" and noise.phi is None:
        # No words are selected there: all are hit, in order.
        rng = random.Random(seed)
        parts[1::2] = [attacker.word(word, level, rng) or word for word in parts[1::2]]
        assert found.text == "".join(parts)
        return
    as_tokens = attacker.perturb_tokens(parts[1::2], level, random.Random(seed))
    parts[1::2] = as_tokens.tokens
    assert (found.text, found.changed) == ("".join(parts), as_tokens.changed)


@given(st.lists(st.text(max_size=6), max_size=12), st.sampled_from([*OF_TOKENS, COMBINED]), NOISES, LEVELS, SEEDS)
def test_tokens_stay_in_their_places(words: list[str], name: str, noise: Noise, level: float, seed: int) -> None:
    found = Perturber(name, noise, FewLexicons()).perturb_tokens(words, level, random.Random(seed))
    assert len(found.tokens) == len(words)
    assert sum(one != other for one, other in zip(words, found.tokens, strict=True)) == found.changed
    assert [bool(token) for token in found.tokens] == [bool(word) for word in words]
    # Exactly as many as asked for where all could be changed, never more.
    assert found.changed <= ceil(len(words) * level)


@pytest.mark.parametrize("variant", ["code", "paper"])
@pytest.mark.parametrize("name", [*ATTACKERS, COMBINED])
def test_ten_thousand_words(name: str, variant: str) -> None:
    text = "Most people  saw their\tships at night\n" * 1_429
    found = perturber(name, variant=variant).perturb(text, 0.5, random.Random(0))
    assert found.tokens == 10_003
    assert 0 < found.changed <= 10_003
    assert found.text.endswith("\n")


@pytest.mark.parametrize("text", ["", " ", "\n\t", "a", "!", "\u0301", "🧑\u200d🚀", "\u05d0", "\u202eab\u202c"])
@pytest.mark.parametrize("name", [*ATTACKERS, COMBINED])
def test_texts_of_nothing_much(name: str, text: str) -> None:
    found = perturber(name).perturb(text, 1.0, random.Random(0))
    assert found.tokens == len(text.split())
    assert bool(found.text.strip()) == bool(text.strip())


@cache
def sentences(count: int) -> list[str]:
    rng = random.Random(0)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 8))) for _ in range(1_000)]
    return [" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(count)]


# Which words each can change, in the code's reading (C5).
CHANGES = {
    "disemvowel": cache(lambda word: len(word) >= 3 and 0 < len(re.sub("[aeiou]", "", word)) < len(word)),
    "truncate": lambda word: len(word) > 3,
    "intrude": lambda word: len(word) >= 2,
}


@pytest.mark.parametrize("level", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("name", CHANGES)
def test_the_code_changes_the_share_exactly_or_all_it_can(name: str, level: float) -> None:
    attacker, rng = perturber(name), random.Random(1)
    for sentence in sentences(10_000):
        words = sentence.split()
        can_change = sum(map(CHANGES[name], words))
        found = attacker.perturb(sentence, level, rng)
        assert found.changed == min(ceil(len(words) * level), can_change)
        changed = [one for one, other in zip(words, found.text.split(), strict=True) if one != other]
        assert len(changed) == found.changed
        assert all(map(CHANGES[name], changed))


@pytest.mark.parametrize(
    ("words", "level", "published"),
    [
        (10, 0.2, 0.152),
        (10, 0.5, 0.438),
        (10, 0.8, 0.752),
        (40, 0.2, 0.175),
        (40, 0.5, 0.469),
        (40, 0.8, 0.775),
    ],
)
def test_the_paper_changes_the_share_that_was_computed_from_its_text(
    words: int, level: float, published: float
) -> None:
    most = round(words * level)
    law = [min(heads, most) * binom.pmf(heads, words, level) for heads in range(words + 1)]
    assert sum(law) / words == pytest.approx(published, abs=0.0005)
    attacker, rng = perturber("truncate", variant="paper"), random.Random(2)
    sentence = " ".join(["ships"] * words)
    shares = [attacker.perturb(sentence, level, rng).changed / words for _ in range(3_000)]
    mean = sum(shares) / len(shares)
    error = (sum((share - mean) ** 2 for share in shares) / len(shares) ** 2) ** 0.5
    assert mean == pytest.approx(sum(law) / words, abs=4 * error)


def test_without_a_selection_the_readings_own_is_taken() -> None:
    for variant in ("code", "paper"):
        ours = perturber("truncate", variant=variant)
        same = perturber("truncate", variant=variant, selection=variant)
        other = perturber("truncate", variant=variant, selection="paper" if variant == "code" else "code")
        texts = [
            [attacker.perturb(SENTENCE, 0.5, random.Random(seed)).text for seed in range(20)]
            for attacker in (ours, same, other)
        ]
        assert texts[0] == texts[1] != texts[2]


def share(attacker: Perturber, text: str, level: float, count: Callable[[str], int]) -> float:
    """Return the mean of what is counted in 2,000 draws."""
    rng = random.Random(5)
    return sum(count(attacker.perturb(text, level, rng).text) for _ in range(2_000)) / 2_000


def test_visual_of_the_code_hits_each_character_of_the_text_by_the_level() -> None:
    attacker, rng = perturber("visual"), random.Random(6)
    counts = Counter(sum(c.islower() for c in attacker.perturb("ab cd", 0.3, rng).text) for _ in range(20_000))
    # A capital takes a letter's place three times in four, a letter with an accent the fourth.
    law = [binom.pmf(kept, 4, 1 - 0.3 * 0.75) * 20_000 for kept in range(5)]
    assert [counts[kept] for kept in range(5)] == pytest.approx(law, abs=4 * 5_000**0.5)


def test_phi_is_how_hard_a_word_is_hit_and_the_level_how_many_are() -> None:
    text = "abc def ghi jkl mno pqr stu vwx yza bcd"
    whole = re.compile(r"(?:[A-Z]|[a-z]\u0301){3}")
    for variant in ("code", "paper"):
        hit = perturber("visual", variant=variant, selection="code", phi=1.0).perturb(text, 0.5, random.Random(7))
        assert hit.changed == 5
        assert sum(whole.fullmatch(word) is not None for word in hit.text.split()) == 5
    dense = share(perturber("intrude", phi=1.0), text, 0.5, len)
    assert dense == len(text) + 5 * 2
    # Without zero, a binomial of two gaps has the mean 2 phi / (1 - (1 - phi)**2).
    assert share(perturber("intrude", phi=0.5), text, 0.8, len) == pytest.approx(len(text) + 8 * 4 / 3, abs=0.1)
    assert share(perturber("intrude"), text, 0.8, len) == pytest.approx(len(text) + 8 * 1.6 / 0.96, abs=0.1)


def test_rules_of_the_code_have_no_phi() -> None:
    for name in ("inner_shuffle", "full_shuffle", "disemvowel", "truncate", "keyboard_typo", "natural_typo"):
        with_phi, without = (perturber(name, phi=phi).perturb(SENTENCE, 0.5, random.Random(8)) for phi in (1.0, None))
        assert with_phi == without


def test_segment_of_a_noise_is_that_of_the_reading() -> None:
    text = " ".join(["sea"] * 20_001)
    for noise, second in (
        ({"variant": "code"}, 0.5),
        ({"variant": "paper"}, 0.25),
        ({"variant": "code", "phi": 0.9}, 0.9),
        ({"variant": "paper", "phi": 0.9}, 0.81),
        ({"variant": "code", "selection": "paper"}, 0.5),
    ):
        found = perturber("segment", **noise).perturb(text, 0.5, random.Random(9))
        chunks = [len(chunk) // 3 for chunk in found.text.split()]
        once = sum(length >= 2 for length in chunks)
        assert once / len(chunks) == pytest.approx(0.5, abs=0.02)
        assert sum(length >= 3 for length in chunks) / once == pytest.approx(second, abs=0.03)
        assert found.changed == 20_001 - len(chunks)


def test_phonetic_changes_what_is_listed_and_counts_nothing_else() -> None:
    attacker = perturber("phonetic")
    for seed in range(20):
        found = attacker.perturb("The people of the night they fear!", 0.2, random.Random(seed))
        assert found.changed == 2
        assert re.fullmatch(r"The (peepel|peaple) of the nite they fear!", found.text)


def test_a_word_attacked_for_certain() -> None:
    assert perturber("truncate").word("ships", 0.2, random.Random(0)) == "ship"
    assert perturber("truncate").word("sea", 0.2, random.Random(0)) is None
    assert perturber("segment").word("ships", 0.2, random.Random(0)) is None
    assert perturber(COMBINED, among=("segment",)).word("ships", 0.2, random.Random(0)) is None
    assert perturber(COMBINED, among=("segment", "truncate")).word("ships", 0.2, random.Random(0)) == "ship"


def test_a_word_type_has_its_one_form_wherever_it_is_selected() -> None:
    asked: list[str] = []

    def form(word: str) -> str | None:
        asked.append(word)
        return {"sea": "aes", "ship": "pish", "of": "of", "": ""}.get(word)

    words = ["sea", "ship", "sea", "of", "!", "sea"]
    found = perturber("full_shuffle").perturb_tokens(words, 1.0, random.Random(0), form=form)
    assert found == PerturbedTokens(("aes", "pish", "aes", "of", "!", "aes"), 4)
    assert sorted(asked) == sorted(words)
    some = perturber("full_shuffle").perturb_tokens(words, 0.5, random.Random(0), form=form)
    assert some.changed == 3
    assert {one: other for one, other in zip(words, some.tokens, strict=True) if one != other} == {
        "sea": "aes",
        "ship": "pish",
    }


def test_which_tokens_are_selected_does_not_hang_on_their_forms() -> None:
    words = ["ships"] * 10
    attacker = perturber("truncate")
    plain = attacker.perturb_tokens(words, 0.5, random.Random(1))
    formed = attacker.perturb_tokens(words, 0.5, random.Random(1), form=lambda word: word[:-1])
    assert plain == formed


def test_the_code_looks_typos_up_as_they_stand_and_the_paper_in_any_case() -> None:
    word = next(word for word in FewLexicons().typos("codespell") if word.islower()).capitalize()
    assert perturber("natural_typo").word(word, 1.0, random.Random(0)) is None
    assert perturber("natural_typo", variant="paper").word(word, 1.0, random.Random(0)) is not None


def test_combined_draws_its_attackers_evenly() -> None:
    attacker, rng = perturber(COMBINED, among=("truncate", "disemvowel")), random.Random(2)
    counts = Counter(attacker.perturb("great", 1.0, rng).text for _ in range(4_000))
    assert set(counts) == {"grea", "grt"}
    assert counts["grt"] == pytest.approx(2_000, abs=4 * 1_000**0.5)


def test_combined_does_not_depend_on_the_order_its_attackers_are_named_in() -> None:
    named = ("visual", "truncate", "segment", "intrude")
    orders = (named, named[::-1], tuple(sorted(named)))
    made = {perturber(COMBINED, among=among).perturb(SENTENCE, 0.8, random.Random(5)).text for among in orders}
    assert len(made) == 1


def test_combined_goes_on_until_one_changes_the_word() -> None:
    attacker = perturber(COMBINED, among=("disemvowel", "truncate", "natural_typo"))
    for seed in range(20):
        assert attacker.perturb("myths", 0.2, random.Random(seed)) == Perturbation("myth", 1, 1)
        assert attacker.perturb("my", 0.2, random.Random(seed)) == Perturbation("my", 1, 0)


def test_combined_joins_a_word_with_the_next_where_segment_is_drawn() -> None:
    attacker = perturber(COMBINED, among=("segment",))
    assert attacker.perturb(" to  sea\t, we ", 1.0, random.Random(0)) == Perturbation(" tosea,we ", 4, 3)
    assert attacker.perturb("don't", 1.0, random.Random(0)) == Perturbation("don't", 2, 0)
    half = attacker.perturb("a b c d", 0.5, random.Random(0))
    assert (half.changed, len(half.text.split())) == (2, 2)


def test_draws_of_an_attacker_move_neither_the_selection_nor_other_attackers(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = sentences(50)

    def all_texts(name: str) -> list[Perturbation]:
        attacker = perturber(name, among=("keyboard_typo", "truncate", "full_shuffle"))
        return [attacker.perturb(text, 0.5, random.Random(seed)) for seed, text in enumerate(texts)]

    before = {name: all_texts(name) for name in ("truncate", COMBINED)}

    def drawing_more(word: str, level: float, rng: random.Random, *, shortest: int) -> str:
        rng.random()
        return truncate(word, level, rng, shortest=shortest)

    monkeypatch.setattr(attackers, "truncate", drawing_more)
    assert {name: all_texts(name) for name in before} == before


PINNED = {
    ("code", "inner_shuffle"): "Msot pploee saw teihr sphis, at nghit; tehy can't cnout tehm on Fiardy.",
    ("code", "full_shuffle"): "oMst peleop aws eirth hpsis, at night; yteh catn' uncto them on dFriay.",
    ("code", "intrude"): "M+o+s+t p/eople saw t!h!eir s>h>ip>s, at night; t`h`ey c'an?'t c]ou]nt them on Frid~ay.",
    ("code", "disemvowel"): "Mst ppl sw thr shps, at night; thy can't cnt thm on Frdy.",
    ("code", "truncate"): "Mos peopl saw thei ship, at nigh; the can't coun the on Frida.",
    ("code", "segment"): "Mostpeople saw theirships, at night;they can't count themonFriday.",
    ("code", "keyboard_typo"): "Mlst [eople saw thwir shi's, at night; tjey xab't coknt them on Fridah.",
    ("code", "natural_typo"): "Most poeple saw ther ships, at night; they can't count them on Firday.",
    ("code", "phonetic"): "Most peaple saw their ships, at nite; they can't count them on Friday.",
    (
        "code",
        "visual",
    ): "MOsT pEopLe\u0301 sa\u0301w thEiR SHips, AT nighT; The\u0301y\u0301 cAn't\u0301 CouNt\u0301 tHEm ON FrIDAy.",
    ("code", "combined"): "Msot poeple saw the\u0301iR sgips, at night; eyht CAn`'t coun them on F]r]i]d]a]y.",
    ("paper", "inner_shuffle"): "Most pleope saw their ships, at ngiht; they can't count them on Friday.",
    ("paper", "full_shuffle"): "Most people swa their ships, at ihgtn; tehy catn' tunco them on Friday.",
    ("paper", "intrude"): "Most peop l e sa'w their ships, at n i ght; the-y can@'@t c*ou*nt them on Friday.",
    ("paper", "disemvowel"): "Most ppl saw their ships, at nght; thy can't cnt them on Friday.",
    ("paper", "truncate"): "Most peopl sa their ships, at nigh; the can' coun them on Friday.",
    ("paper", "segment"): "Mostpeople saw theirships, at night;they can't count themon Friday.",
    ("paper", "keyboard_typo"): "Most peopow sqa their ships, at bihyt; tbwy can'5 clhn5 them ob Friday.",
    ("paper", "natural_typo"): "Most poeple saw their ships, at night; they can't count them on Friday.",
    ("paper", "phonetic"): "Most peepel saw their ships, at nite; they can't count them on Friday.",
    (
        "paper",
        "visual",
    ): "Most peopLE sAw\u0301 their ships, at Nig\u0301Ht; th\u0301Ey can'T co\u0301u\u0301nT them oN Friday.",
    ("paper", "combined"): "Most opeelp sa\"w their ships,at b8fgt; the:y cant' countthem ;n Friday.",
}


@pytest.mark.parametrize(("variant", "name"), PINNED)
def test_a_seed_gives_the_noise_it_gave_when_this_was_written(variant: str, name: str) -> None:
    assert perturber(name, variant=variant).perturb(SENTENCE, 0.5, random.Random(11)).text == PINNED[variant, name]


@pytest.mark.parametrize("level", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("name", ["truncate", "segment", COMBINED])
def test_a_level_is_a_share(name: str, level: float) -> None:
    attacker = perturber(name)
    with pytest.raises(ValueError, match="a level is a share"):
        attacker.perturb("sea", level, random.Random(0))
    with pytest.raises(ValueError, match="a level is a share"):
        attacker.word("sea", level, random.Random(0))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="no attacker of words named 'typo'"):
        perturber("typo")
    with pytest.raises(ValueError, match="combined has no attackers"):
        perturber(COMBINED, among=())
    with pytest.raises(ValueError, match="segment joins words"):
        perturber("segment").perturb_tokens(["a", "b"], 0.5, random.Random(0))
