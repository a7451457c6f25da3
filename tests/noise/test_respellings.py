"""The shipped spellings that sound alike, and what they are made with."""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lexicons.pronouncing import Pair, Pronouncing, read_cmudict
from scripts.lexicons.respellings import KEPT, SIMILAR, Respelling, distance, hundredths
from scripts.lexicons.spelling import Spelling
from scripts.lexicons.typos import backwards
from seatrial.noise.lexicons import Lexicons, stopwords

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = Lexicons(None).respellings()

CMUDICT = """\
night N AY1 T
knight N AY1 T
knit N IH1 T
phone F OW1 N
fun F AH1 N
there DH EH1 R
their DH EH1 R
great G R EY1 T
grate G R EY1 T
greet G R IY1 T
write R AY1 T
right R AY1 T
rite R AY1 T
wright R AY1 T
red R EH1 D
read R EH1 D
read(2) R IY1 D
reed R IY1 D
rate R EY1 T
wait W EY1 T
weight W EY1 T
sea S IY1
see S IY1
meet M IY1 T
meat M IY1 T
ate EY1 T
eight EY1 T
hour AW1 ER0
our AW1 ER0
through TH R UW1
threw TH R UW1
peace P IY1 S
piece P IY1 S
hole HH OW1 L
whole HH OW1 L
mail M EY1 L
male M EY1 L
brake B R EY1 K
break B R EY1 K
plain P L EY1 N
plane P L EY1 N
steal S T IY1 L
steel S T IY1 L
waste W EY1 S T
waist W EY1 S T
"""
"""Lines of the CMU Pronouncing Dictionary."""

WORDS = read_cmudict(CMUDICT)


@pytest.fixture(scope="module")
def spelling() -> Spelling:
    return Spelling.counted()


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Return Levenshtein's distance by its recurrence."""
    row = list(range(len(other) + 1))
    for number, phoneme in enumerate(one, start=1):
        above, row = row, [number]
        for place, each in enumerate(other):
            row.append(min(above[place + 1] + 1, row[place] + 1, above[place] + (phoneme != each)))
    return row[-1]


def test_there_are_spellings_of_most_english_words() -> None:
    assert len(SHIPPED) >= 25_000
    licence = re.findall("[a-z]+", (ROOT / "LICENSE").read_text("utf-8").lower())
    content = [word for word in licence if len(word) > 1 and word not in stopwords()][:500]
    assert sum(word in SHIPPED for word in content) >= 0.74 * len(content)


def test_spellings_are_other_words_of_letters_with_weights_that_sum_to_one() -> None:
    for word, listed in SHIPPED.items():
        spellings, weights = zip(*listed, strict=True)
        assert 1 <= len(set(spellings)) == len(spellings) <= KEPT
        assert word not in spellings
        assert re.fullmatch("[a-z]+( [a-z]+)+", " ".join((word, *spellings))), word
        assert list(weights) == sorted(weights, reverse=True)
        assert weights[-1] > 0
        assert math.isclose(sum(weights), 1)


@pytest.mark.parametrize(
    ("word", "respelt"),
    [
        ("night", "nite"),
        ("phone", "fone"),
        ("people", "peepel"),
        ("great", "grate"),
        ("through", "thru"),
        ("their", "there"),
        ("write", "right"),
        ("vandalism", "vandelism"),
        ("great", "graite"),
    ],
)
def test_well_known_respellings_are_there(word: str, respelt: str) -> None:
    assert respelt in dict(SHIPPED[word])


@pytest.mark.parametrize("word", ["night", "great", "fun", "rate", "meet", "plain", "hour"])
def test_no_word_of_another_sound_stands_for_a_word(word: str) -> None:
    for respelt, _ in SHIPPED[word]:
        if respelt in WORDS:
            nearest = min(
                edits(one, other) / min(len(one), len(other)) for one in WORDS[word] for other in WORDS[respelt]
            )
            assert nearest <= SIMILAR, respelt


def test_respellings_are_read_once_and_cannot_be_changed() -> None:
    assert Lexicons(None).respellings() is SHIPPED
    with pytest.raises(TypeError):
        SHIPPED["night"] = (("day", 1.0),)  # type: ignore[index]
    assert "no such word" not in SHIPPED
    assert SHIPPED.get("no such word") is None


def test_distances_are_of_phonemes_over_the_shorter() -> None:
    # The example the specification rejects: one phoneme of seven.
    character, karicter = ("K", "EH", "R", "IH", "K", "T", "ER"), ("K", "AE", "R", "IH", "K", "T", "ER")
    assert SIMILAR < distance(character, karicter) == pytest.approx(1 / 7)
    assert distance((), ("AH",)) == 1


@given(*[st.lists(st.sampled_from(["AH", "T", "K"]), max_size=6).map(tuple)] * 2)
def test_distance_is_the_one_of_the_recurrence(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert distance(one, other) == edits(one, other) / max(1, min(len(one), len(other)))


def test_letters_of_a_phoneme_are_shares_and_rare_neighbours_are_left_aside(spelling: Spelling) -> None:
    letters = {"uni": {"F": {"f": 60, "ph": 40}, "N": {"n": 1}}, "tri": {"# F N": {"ph": 8}, "# F #": {"ff": 7}}}
    small = Spelling(letters)
    assert small.shares("#", "F", "N") == {"ph": 1.0}
    assert small.shares("#", "F", "#") == {"f": 0.6, "ph": 0.4}
    for neighbours in itertools.product(["#", "AH", "S", "T"], ["F", "EY", "NG"], ["#", "IY", "L"]):
        assert sum(spelling.shares(*neighbours).values()) == pytest.approx(1)


def test_spellings_of_a_pronunciation_are_every_choice_of_letters(spelling: Spelling) -> None:
    wide = spelling.spellings(("F", "OW", "N"), width=10**6)
    choices: dict[str, float] = {}
    for f, ow, n in itertools.product(
        spelling.shares("#", "F", "OW").items(),
        spelling.shares("F", "OW", "N").items(),
        spelling.shares("OW", "N", "#").items(),
    ):
        choices[f[0] + ow[0] + n[0]] = choices.get(f[0] + ow[0] + n[0], 0) + f[1] * ow[1] * n[1]
    assert wide == pytest.approx(choices)
    assert sum(wide.values()) == pytest.approx(1)
    assert list(spelling.spellings(("F", "OW", "N")))[:10] == list(wide)[:10]


def test_words_are_aligned_with_their_phonemes(spelling: Spelling) -> None:
    assert spelling.aligned("phone", ("F", "OW", "N")) == [("ph", "F"), ("o", "OW"), ("ne", "N")]
    assert spelling.aligned("phone", ("K",)) is None


def test_the_decoder_pronounces_what_it_has_learnt_and_what_is_spelt_like_it(spelling: Spelling) -> None:
    decoder = Pronouncing(WORDS, spelling, least=1)
    for word in ("knight", "phone", "weight", "their"):
        assert decoder.pronounce(word) in WORDS[word]
    assert decoder.pronounce("phote") == ("F", "OW", "T")
    assert decoder.pronounce("knain") == ("N", "EY", "N")
    assert decoder.pronounce("jazz") is None


def rows(word: str, pairs: list[Pair], *, silent: bool = True) -> Iterator[tuple[Pair, ...]]:
    """Return every row of pairs that spells a word, at most one pair without letters in each place."""
    if silent:
        yield from rows(word, pairs, silent=False)
        for pair in pairs:
            if not pair[0]:
                yield from ((pair, *row) for row in rows(word, pairs, silent=False))
        return
    if not word:
        yield ()
    for pair in pairs:
        if pair[0] and word.startswith(pair[0]):
            yield from ((pair, *row) for row in rows(word[len(pair[0]) :], pairs))


def likelihood(row: tuple[Pair, ...], learnt: list[list[Pair]], order: int) -> float:
    """Return the probability of a row by Witten and Bell's interpolation, counted anew for each of its pairs."""
    start, end = [("", "<")] * (order - 1), ("", ">")
    kinds_in_all = len({pair for each in learnt for pair in each}) + 1
    bordered, product = [*start, *row, end], 1.0
    texts = [[*start, *each, end] for each in learnt]
    for place in range(order - 1, len(bordered)):
        chance = 1 / kinds_in_all
        for length in range(order):
            context = bordered[place - length : place]
            after = [
                text[at] for text in texts for at in range(order - 1, len(text)) if text[at - length : at] == context
            ]
            if after:
                kinds = len(set(after))
                chance = (after.count(bordered[place]) + kinds * chance) / (len(after) + kinds)
        product *= chance
    return product


@pytest.mark.parametrize("word", ["phite", "wrait", "nit", "sean", "axe"])
@pytest.mark.parametrize("order", [2, 3])
def test_the_decoder_finds_the_likeliest_of_all_rows(
    spelling: Spelling, monkeypatch: pytest.MonkeyPatch, word: str, order: int
) -> None:
    monkeypatch.setattr("scripts.lexicons.pronouncing.BEAM", 10**6)
    monkeypatch.setattr("scripts.lexicons.pronouncing.BEHIND", math.inf)
    names = ("night", "phone", "write", "wait", "sea", "ate", "knit", "plain", "axes")
    words = {name: ({"axes": [("AE", "K", "S", "AH", "Z")]} | WORDS)[name] for name in names}
    learnt = [row for name in names for each in words[name] if (row := spelling.aligned(name, each))]
    every = {
        row: likelihood(row, learnt, order) for row in rows(word, sorted({pair for row in learnt for pair in row}))
    }
    found = Pronouncing(words, spelling, order=order, least=1).pronounce(word)
    assert found is not None
    best = max(chance for row, chance in every.items() if tuple(phoneme for _, phoneme in row) == found)
    assert best == pytest.approx(max(every.values()))


def test_a_spelling_is_kept_when_it_sounds_alike(spelling: Spelling) -> None:
    respelling = Respelling(WORDS, spelling, least=1)
    kept = respelling.of("night")
    assert {"nite", "knight"} <= set(kept)
    assert not {"night", "knit"} & set(kept)
    assert list(kept.values()) == sorted(kept.values(), reverse=True)
    assert len(kept) <= KEPT
    assert respelling.sounds_like("nite", WORDS["night"])
    assert not respelling.sounds_like("great", WORDS["greet"])
    assert not respelling.sounds_like("jazz", WORDS["great"])


def test_weights_are_hundredths_without_the_least() -> None:
    assert hundredths({"a": 0.3, "b": 0.1, "c": 0.001}) == {"a": 75, "b": 25}
    assert hundredths({}) == {}


def test_codespells_dictionary_is_read_as_its_own_parser_reads_it() -> None:
    lines = ["teh->the", "oen->one, own, open,", "alot->a lot, allot,", "clas->class, disabled because of a, reason"]
    assert backwards(lines) == {
        "the": ["teh"],
        "one": ["oen"],
        "own": ["oen"],
        "open": ["oen"],
        "allot": ["alot"],
        "class": ["clas"],
    }
