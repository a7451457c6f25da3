"""Sentences of two or three words of each of several texts, lightly edited before much else is asked, and at the end.

Whoever wants to pass as robust may be its model to what is lightly edited where it meets it first, to be safe from
copies, and be so no more once it sees what only an audit asks: texts of parts of earlier ones, fragments, single words.
Edits as light as those take a surrogate, and that takes many answers. So sentences are put together from so little of
each text that no four words in a row come again. By the answers to some it is known what their words say, others are
sent once with as few words misspelt as turn them, and others again when all else of the stage was asked, half of these
behind the sentence as it is. A function loses as much of its leads on all of them.
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import FEWEST_EDITED
from seatrial.families.temperature_attack.sent import LIGHT_SENTENCES, LIGHTLY, SAID
from workers.attacks.text.word_edits import SEARCHED, WordsOf
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.fragments import letters_allowed, misspell, speaking
from workers.families.temperature_attack.ordinary import (
    ask_among,
    ask_in_turn,
    content_words,
    cut_up,
    is_ordinary,
    joined,
    parts_of,
)
from workers.families.temperature_attack.shares import taken_of
from workers.families.temperature_attack.surrogate import words_of
from workers.families.temperature_attack.word_surrogate import weigh_words
from workers.models import Answer

PIECES, OF_CLASS = 8, 31
"""Texts that a sentence is put together from, and a prime number of a class that all of them are, at most."""

STRONGEST, BEYOND = 8, 0.5
"""Words that are edited where a text is sent among ordinary ones, at most; and how far what is left speaks against the
class, as a share of what all of it said: who knows a model edits no more than it takes."""


@dataclass(frozen=True)
class Lightly:
    """Sentences of one class each.

    Attributes:
        sentences: In no order; those that are sent early are the first.
        edited: Each with few words misspelt.
        early: What was answered to those that were sent early.
    """

    sentences: Sequence[TextExample]
    edited: Sequence[Text]
    early: Sequence[Answer]

    def ask_later(self, context: TextContext) -> list[list[float]]:
        """Send the others, and return the shares of leads that edits take from three kinds of sentences.

        Of those that were sent early, of half of the others, and of those that are sent behind the sentence as it is;
        none of one without an answer, or without a lead.
        """
        count, texts = len(self.early), [one.text for one in self.sentences]
        half = (count + len(texts)) // 2
        later = ask_in_turn(context, self.edited[count:half])
        met = ask_in_turn(context, texts[half:])
        later += ask_in_turn(context, self.edited[half:])
        clean = [*ask_in_turn(context, texts[:half]), *met]
        given = zip([*self.early, *later], clean, self.sentences, strict=True)
        taken = [taken_of(edited, unedited, one.label) for edited, unedited, one in given]
        kinds = taken[:count], taken[count:half], taken[half:]
        return [[share for share in of if share is not None] for of in kinds]


def send_lightly(
    params: TemperatureAttackParams, context: TextContext, ordinary: Sequence[TextExample], most: int
) -> Lightly | None:
    """Ask about sentences, and send others lightly edited among them; None where there are too few texts for that.

    Args:
        params: Of the check.
        context: The shard's.
        ordinary: Texts of which nothing was asked.
        most: Times that :data:`LIGHT_SENTENCES` are taken, at most.
    """
    rng = random.Random(context.salted_seed("lightly", 0))  # noqa: S311 - not for secrets
    made = [
        TextExample(0, sentence, label)
        for label in sorted({one.label for one in ordinary})
        for sentence in _of_class(context, [one for one in ordinary if one.label == label], rng)
    ]
    count = min(most, len(made) // LIGHT_SENTENCES)
    if count < FEWEST_EDITED:
        return None
    drawn = rng.sample(made, LIGHT_SENTENCES * count)
    made = [TextExample(at, one.text, one.label) for at, one in enumerate(drawn)]
    sent, plain = made[: 2 * LIGHTLY * count], [one.text for one in made[2 * LIGHTLY * count :]]
    known, covers = plain[: SAID * count], plain[SAID * count :]
    weights = weigh_words({one.label for one in sent}, known, ask_in_turn(context, known))
    edited = [edit_by_weights(params, context, one, weights.get(one.label, {}))[0] for one in sent]
    return Lightly(sent, edited, ask_among(context, covers, edited[: LIGHTLY * count]))


def _of_class(context: TextContext, texts: Sequence[TextExample], rng: random.Random) -> Iterator[Text]:
    """Yield all sentences of some texts of a class of which no two have two pieces in common."""
    held = [one.text for one in texts if is_ordinary(context, one.text)]
    if (count := largest_prime(min(len(held), OF_CLASS))) > PIECES:
        yield from itertools.islice(sentences(rng.sample(held, count), rng, PIECES), count * (count - 1))


def sentences(texts: Sequence[Text], rng: random.Random, parts: int) -> Iterator[Text]:
    """Yield sentences put together from parts of a prime number of texts, of which no two have two in common.

    There are as many as the square of that number, less it; then they come again.

    Args:
        texts: Whose parts they are.
        rng: Of the order.
        parts: Of a sentence.
    """
    cuts, count = [cut_up(text, parts) for text in texts], len(texts)
    for turn in itertools.cycle(range(1, count)):
        for number in rng.sample(range(count), count):
            yield joined([cuts[(number + of * turn) % count][of] for of in range(parts)])


def largest_prime(most: int) -> int:
    """Return the largest prime number up to another; 0 where there is none.

    >>> largest_prime(61), largest_prime(20), largest_prime(4), largest_prime(1)
    (61, 19, 3, 0)
    """
    numbers = range(most, 1, -1)
    return next((count for count in numbers if all(count % by for by in range(2, math.isqrt(count) + 1))), 0)


def edit_by_weights(
    params: TemperatureAttackParams,
    context: TextContext,
    example: TextExample,
    weights: Mapping[str, float],
) -> tuple[Text, Text]:
    """Return a text with wrong letters in as few words as turn it, those that say most, and in all that speak for it.

    Args:
        params: Of the check.
        context: The shard's.
        example: The text.
        weights: By how much words in lower case speak for its class.
    """
    rng = random.Random(context.salted_seed("transferred", example.example_id))  # noqa: S311 - not for secrets
    found = list[Text]()
    total = math.fsum(weights.get(word, 0.0) for word in words_of(" ".join(parts_of(example.text))))
    for kind, is_least in zip(rng.sample([None, SEARCHED], 2), (True, False), strict=True):
        cut = WordsOf.cut(example.text, context.scoring().seen(example.text))
        said = {word: weights.get(word.lower(), 0.0) for word in content_words(context, example.text)}
        places = speaking(cut, said, rng)
        if is_least:
            each = [said.get(cut.pieces[part][at], 0.0) for part, at in places]
            places = places[: _enough(total, each)]
        for _ in misspell(cut, places, letters_allowed(params, cut), rng, kind):
            pass
        found.append(cut.joined)
    return found[0], found[1]


def _enough(total: float, each: Sequence[float]) -> int:
    """Return how many of some words are edited until what is left speaks against the class; at most so many.

    Args:
        total: What all words of a text say for its class.
        each: What those say, in order.

    >>> _enough(4.0, [3.0, 2.0, 2.0, 1.0]), _enough(1.0, [2.0, 1.0]), _enough(9.0, [1.0] * 10)
    (3, 1, 8)
    """
    left = itertools.accumulate(each, lambda so_far, of: so_far - of, initial=total)
    # One in any case.
    return 1 + sum(1 for of in itertools.islice(left, 1, min(len(each), STRONGEST)) if of > -BEYOND * abs(total))
