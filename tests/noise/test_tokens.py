from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from seatrial.noise.tokens import between_tokens, tokens

# One sentence each: NLTK's tokenizer of words is to be given sentences.
ORDINARY = [
    "The ship left port at 6:30, two hours late.",
    "They're sure we can't, won't and don't; I'd say we shouldn't try.",
    "Mr. Li's sister paid $1,000.50 (about 930 euros) for it.",
    'She asked, "Did anybody see it?"',
    "It's the dogs' dinner: bones, meat & rice!",
    "Read the e-mail about life-and-death, either/or, state-of-the-art choices.",
    "Wait... what happened -- if anything -- to them?",
    "We cannot stay; gimme that, I'm gonna go.",
    "O'Brien met D'Angelo at 5 o'clock.",
    "Half of #seatrial is 50% luck @ sea [sic] {maybe} <br>.",
    "the movie is so resolutely cobbled together out of older movies that it even uses a prologue , just because .",
    "it 's a film that does n't care whether you 've seen it .",
    "A man , in a `` red '' shirt , is n't looking .",
    "You've got to be kidding me!!!",
    "Temperatures of -5.5 and +3.2 were read at noon.",
    "He said 'hello' and left.",
    "Visit http://example.com/a-b_c?d=1 now",
    "C3PO and R2-D2 have 2*3 legs; 4+5=9.",
    "«Très bien», said the naïve café owner.",
    "It rained all day \u2013 and night \u2014 in Zürich.",
    "No",
    "Yes.",
    "Is that all ?",
    "A list: one, two, three; four.",
    "(He never came back.)",
    "She works for Acme Inc. in town.",
    "I'LL SHOW THEM IT'S FINE, AIN'T IT?",
    "Item 7,b costs 3,50 but 1,2 and 3 do not.",
]


def straight(token: str) -> str:
    """Return a token with the quotes it stood for: NLTK writes them as LaTeX does."""
    return '"' if token in ("``", "''") else token


@pytest.mark.parametrize("sentence", ORDINARY)
def test_sentences_are_split_as_nltk_splits_them(sentence: str) -> None:
    assert list(map(straight, tokens(sentence))) == list(map(straight, NLTKWordTokenizer().tokenize(sentence)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The ship left port.", "It never came back."),
        ("She said so (to me).", '"Why?" I asked.'),
        ("It was 1999.", "The sea rose."),
        ("Did it?", "Yes!"),
        ("He lives in the U.S. now.", "We do not."),
        ("Ask Mr. Li or Prof. May, etc. for more.", "Then decide."),
    ],
)
def test_a_text_of_two_sentences_is_split_as_nltk_splits_each(first: str, second: str) -> None:
    expected = chain(*map(NLTKWordTokenizer().tokenize, (first, second)))
    assert list(map(straight, tokens(f"{first} {second}"))) == list(map(straight, expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don\u2019t, it\u2019s", ["I", "do", "n\u2019t", ",", "it", "\u2019s"]),
        ("No more\u2026", ["No", "more", "\u2026"]),
        ("Dr. Who met J. Smith on Jan. 5", ["Dr.", "Who", "met", "J.", "Smith", "on", "Jan.", "5"]),
        ("its life-at-arm's-length tone", ["its", "life-at-arm's-length", "tone"]),
        ("\u0645\u0631\u062d\u0628\u0627, \u05e9\u05dc\u05d5\u05dd!", ["مرحبا", ",", "שלום", "!"]),
        ("good🧑\u200d🚀 e\u0301te\u0301.", ["good🧑\u200d🚀", "e\u0301te\u0301", "."]),
        (".....", ["....."]),
        ("n't 's ''", ["n't", "'s", "''"]),
    ],
    ids=["curly", "ellipsis", "short-forms", "hyphens", "right-to-left", "joined", "stops", "parts-alone"],
)
def test_what_nltk_does_not_do(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(st.one_of(st.text(), st.text(st.sampled_from("aN.n't\u2019 \n-\"'`(),:;1é\u0301🧑\u200f"), max_size=30)))
def test_parts_are_the_text_and_its_white_space_stands_between_tokens(text: str) -> None:
    parts = between_tokens(text)
    assert "".join(parts) == text
    assert len(parts) % 2 == 1
    assert all(not part or part.isspace() for part in parts[0::2])
    assert all(parts[1::2])
    assert not any(character.isspace() for token in parts[1::2] for character in token)


@pytest.mark.parametrize("part", [".", ".)", ". ", "'", "n't", "-", "a.", ".'", "1,", '."', "a ", " "])
def test_no_text_makes_it_look_ahead_over_the_rest_from_every_place(part: str) -> None:
    # Then this would take minutes.
    text = part * 60_000
    assert "".join(between_tokens(text)) == text
