"""An edited text by what a model says about fragments of it, asked before anything near to it is."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rapidfuzz.distance import OSA

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.sent import FRAGMENTS, WORDS_ALONE
from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.word_edits import SEARCHED, WordsOf, misspelt
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.displaced import lead

OPENING, QUESTIONS, ANSWER = "opening", "opening_queries", "opening_logits"
"""Parts of an edited text that is sent before its text is attacked, the questions that it took, and what was answered;
null without an answer."""

SIZES = (1, 2, 4, 8)
"""Words of a fragment, the same of all of a text's, or half of its words: who answers one size otherwise than texts
answers others."""


@dataclass(frozen=True)
class Edited:
    """What is sent.

    Attributes:
        text: With words misspelt as searches do it.
        edits: How many.
        foreseen: The sum of what pieces of such a text speak for its class; None where a piece has no answer, or the
            text is of one piece.
    """

    text: Text
    edits: int
    foreseen: float | None


def edit_by_fragments(params: TemperatureAttackParams, context: TextContext, example: TextExample) -> Edited:
    """Return a text with a wrong letter in as many of its words as speak for its class.

    Args:
        params: Of the check.
        context: The shard's, which is asked about fragments of the text and of the edited one.
        example: It.
    """
    rng = random.Random(context.salted_seed("sent once", example.example_id))  # noqa: S311 - not for secrets
    cut, other = (WordsOf.cut(example.text, context.scoring().seen(example.text)) for _ in range(2))
    said = _said(context, example, _words(cut), rng)
    chosen = speaking(cut, said, rng)
    # As one search writes or the other.
    kind, edits = rng.choice((None, SEARCHED)), 0
    for part, at, word in misspell(cut, chosen, letters_allowed(params, cut), rng, kind):
        edits += 1
        # Who has read the pieces has not read what is sent.
        other.pieces[part][at] = misspelt(word, rng, kind)
    return Edited(cut.joined, edits, _foreseen(context, example, other, rng))


def edit_by_words(params: TemperatureAttackParams, context: TextContext, example: TextExample) -> tuple[Text, int]:
    """Return a text with a wrong letter in as many of its words as speak for its class, and the questions it took.

    Each word is asked about alone, and one of no meaning.

    Args:
        params: Of the check.
        context: The shard's.
        example: It.
    """
    rng = random.Random(context.salted_seed("opening", example.example_id))  # noqa: S311 - not for secrets
    cut = WordsOf.cut(example.text, context.scoring().seen(example.text))
    words = _words(cut)
    asked = rng.sample(words, min(len(words), WORDS_ALONE))
    said = _said(context, example, asked, rng, size=1)
    chosen = speaking(cut, said, rng)
    for _ in misspell(cut, chosen, letters_allowed(params, cut), rng, rng.choice((None, SEARCHED))):
        pass
    return cut.joined, len(asked) + 1


def _words(cut: WordsOf) -> list[str]:
    """Return the words that may be edited, each once."""
    return list(dict.fromkeys(cut.pieces[part][at] for part, at in cut.content_places))


def speaking(cut: WordsOf, said: Mapping[str, float], rng: random.Random) -> list[tuple[int, int]]:
    """Return the places of the words that speak for the class, those that do most first; of all where none does."""

    def speaks(place: tuple[int, int]) -> float:
        part, at = place
        return said.get(cut.pieces[part][at], 0.0)

    places = cut.content_places
    order = sorted(rng.sample(places, len(places)), key=speaks, reverse=True)
    # Where no fragment says anything, whichever words.
    return [place for place in order if speaks(place) > 0] or order


def letters_allowed(params: TemperatureAttackParams, cut: WordsOf) -> int:
    """Return how many letters of a text an attack may edit."""
    if params.edit_share is None:
        return CHARACTERS
    return min(CHARACTERS, int(params.edit_share * sum(len(cut.pieces[part][at]) for part, at in cut.content_places)))


def misspell(
    cut: WordsOf, places: Sequence[tuple[int, int]], letters: int, rng: random.Random, kind: int | None
) -> Iterator[tuple[int, int, str]]:
    """Misspell words in turn, those for which letters are left, and yield the place of each and what it was.

    Args:
        cut: The text, which is changed.
        places: Part and piece of each word.
        letters: That may be otherwise, at most.
        rng: Of the draws.
        kind: Of the edits.
    """
    for part, at in places:
        word = cut.pieces[part][at]
        written = misspelt(word, rng, kind)
        if (spent := OSA.distance(word, written)) <= letters:
            letters -= spent
            cut.pieces[part][at] = written
            yield part, at, word


def _foreseen(context: TextContext, example: TextExample, cut: WordsOf, rng: random.Random) -> float | None:
    """Return the sum of what pieces of an edited text speak for its class, each word in one of them, in no order.

    That of a bag of words is what it says of the text, and of any model it says something about that.
    """
    words = [word for part in cut.pieces for word in "".join(part).split()]
    if len(words) < 2:
        # Where no spaces part any.
        words = [piece for part in cut.pieces for piece in part if piece.strip()]
    if len(words) < 2:
        return None
    rng.shuffle(words)
    least = math.ceil(len(words) / FRAGMENTS)
    size = min(max(rng.choice((*SIZES, len(words) // 2)), least), len(words) // 2)
    nothing, leads = _leads_of(context, example, _cut(words, size), size, rng)
    known = [of for of in leads if of is not None]
    # What is said of any piece, whatever it is, is said once of the text.
    return None if nothing is None or len(known) < len(leads) else math.fsum([*known, (1 - len(leads)) * nothing])


def _cut(words: Sequence[str], size: int) -> list[Sequence[str]]:
    return [words[at : at + size] for at in range(0, len(words), size)]


def _leads_of(
    context: TextContext, example: TextExample, fragments: Sequence[Sequence[str]], size: int, rng: random.Random
) -> tuple[float | None, list[float | None]]:
    """Return by how much words of no meaning speak for a text's class, and fragments; None without an answer."""
    nothing = " ".join("".join(rng.choices("qxzvjk", k=5)) for _ in range(size))
    texts = [nothing, *map(" ".join, fragments)]
    # Of a pair both parts: what is said about one alone is of no use.
    asked: list[Text] = [text if isinstance(example.text, str) else (text, text) for text in texts]
    first, *others = [lead(given, example.label) for given in context.scoring().scores(asked)]
    return first, others


def _said(
    context: TextContext, example: TextExample, words: Sequence[str], rng: random.Random, size: int | None = None
) -> dict[str, float]:
    """Return by how much fragments with a word speak for the class more than what has no meaning does.

    Args:
        context: The shard's.
        example: The text.
        words: Its.
        rng: Of the draws.
        size: Words of a fragment; drawn where it is None.
    """
    fragments, most = list[Sequence[str]](), FRAGMENTS if size is None else len(words)
    size = size or rng.choice((*SIZES, max(1, len(words) // 2)))
    while words and len(fragments) < (most if size > 1 else 1):
        fragments += _cut(rng.sample(words, len(words)), size)
    fragments = fragments[:most]
    nothing, leads = _leads_of(context, example, fragments, size, rng)
    found = {word: list[float]() for word in words}
    answered = [(fragment, of) for fragment, of in zip(fragments, leads, strict=True) if of is not None]
    for word, of in ((word, of) for fragment, of in answered for word in fragment):
        found[word].append(of - (nothing or 0.0))
    return {word: fmean(seen) if seen else 0.0 for word, seen in found.items()}
