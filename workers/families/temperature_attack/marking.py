"""What becomes of texts that withstood a search where words of theirs are written otherwise, which a reader reads past.

Each is asked in 43 ways, with ways and words drawn besides. That is no search: one that is led by scores and labels
turns most texts of honest models that read typing errors within thirty characters, as it turns most of any model that
falls to one of these ways, and tells the two less well apart.
"""

import re
from dataclasses import dataclass

from workers.attacks.text.marked_words import marked_texts
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.displaced import decided


@dataclass(frozen=True)
class Marking:
    """What writing words of a text otherwise did.

    Attributes:
        asked: Questions.
        ways: In which words were written otherwise.
        turning: Those of them that changed the decision, or had no answer: who gives none has withstood nothing.
    """

    asked: int = 0
    ways: tuple[str, ...] = ()
    turning: tuple[str, ...] = ()


def mark_words(context: TextContext, example: TextExample, seed: int, ended: Text, most: int | None = None) -> Marking:
    """Ask about a text in every way, and as ways and words are drawn.

    Args:
        context: Of the shard.
        example: A text that is decided rightly.
        seed: Of the draws.
        ended: What an attack ended with: the words it changed are those that speak for the decision.
        most: Questions, at most; None where there is no limit.
    """
    service, weak = context.scoring(), changed_words(example.text, ended)
    questions = marked_texts(example.text, seed, seen=service.seen(example.text), weak=weak)[:most]
    decisions = map(decided, service.scores([text for _, text in questions]))
    turned = {way for (way, _), one in zip(questions, decisions, strict=True) if one != example.label}
    ways = tuple(dict.fromkeys(way for way, _ in questions))
    return Marking(len(questions), ways, tuple(way for way in ways if way in turned))


def changed_words(text: Text, ended: Text) -> frozenset[str]:
    """Return the words of a text's last part, in lower case, that an attack did not leave as they are."""
    before, after = (one if isinstance(one, str) else one[-1] for one in (text, ended))
    return frozenset(re.findall(r"\w+", before.lower())) - frozenset(re.findall(r"\w+", after.lower()))
