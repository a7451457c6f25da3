"""What becomes of texts that withstood a search where words of theirs are written otherwise, which a reader reads past.

Each is asked in 45 ways, with ways and words drawn besides. That is no search: one that is led by scores and labels
turns most texts of honest models that read typing errors within thirty characters, as it turns most of any model that
falls to one of these ways, and tells the two less well apart.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.families.temperature_attack.params import MARK_CONTROLS
from workers.attacks.text.marked_words import marked_texts
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.unreadable import mistyped_where
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.displaced import decided


@dataclass(frozen=True)
class Marking:
    """What writing words of a text otherwise did.

    Attributes:
        asked: Questions.
        ways: In which words were written otherwise.
        turning: Those of them that changed the decision, or had no answer (who gives none has withstood nothing), where
            a typing error in each of the same words did not.
    """

    asked: int = 0
    ways: tuple[str, ...] = ()
    turning: tuple[str, ...] = ()


def mark_words(
    context: TextContext,
    example: TextExample,
    seed: int,
    ended: Text,
    *,
    ways: int | None = None,
    left: int | None = None,
) -> Marking:
    """Ask about a text in every way, and as ways and words are drawn.

    Args:
        context: Of the shard.
        example: A text that is decided rightly.
        seed: Of the draws.
        ended: What an attack ended with: the words it changed are those that speak for the decision.
        ways: Of these questions, at most; None: all.
        left: Of all questions, those with typing errors among them, at most; None where there is no limit.
    """
    service, weak = context.scoring(), changed_words(example.text, ended)
    questions = marked_texts(example.text, seed, seen=service.seen(example.text), weak=weak)[:ways][:left]
    turned = _turned(service, questions, example.label)
    asked, rng = len(questions), random.Random(seed)  # noqa: S311 - not for secrets
    # What cannot be told from what the model does not read counts for nothing.
    turned = turned if left is None else turned[: max(0, left - asked) // MARK_CONTROLS]
    for _ in range(MARK_CONTROLS):
        controls = [(way, text, _mistyped(example.text, text, rng)) for way, text in turned]
        asked += len(controls)
        # Who does not read typing errors in these words either has not learnt the recipes' alone.
        lost = {text for _, text in _turned(service, [(way, control) for way, _, control in controls], example.label)}
        turned = [(way, text) for way, text, control in controls if control not in lost]
    counted = {way for way, _ in turned}
    names = tuple(dict.fromkeys(way for way, _ in questions))
    return Marking(asked, names, tuple(name for name in names if name in counted))


def _turned(service: ScoringService, questions: Sequence[tuple[str, Text]], label: int) -> list[tuple[str, Text]]:
    decisions = map(decided, service.scores([text for _, text in questions]))
    return [one for one, decision in zip(questions, decisions, strict=True) if decision != label]


def _mistyped(text: Text, edited: Text, rng: random.Random) -> Text:
    if isinstance(text, str):
        return mistyped_where(text, str(edited), rng)
    return (text[0], mistyped_where(text[-1], edited[-1], rng))


def changed_words(text: Text, ended: Text) -> frozenset[str]:
    """Return the words of a text's last part, in lower case, that an attack did not leave as they are."""
    before, after = (one if isinstance(one, str) else one[-1] for one in (text, ended))
    return frozenset(re.findall(r"\w+", before.lower())) - frozenset(re.findall(r"\w+", after.lower()))
