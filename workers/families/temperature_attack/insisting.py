"""Whether texts that withstand attacks do because they were attacked: much misspelt ones before an attack and after it.

An endpoint may begin to keep the class of a text when a search has begun on it, and of some texts alone; and what it
says about fragments may be noise, so that nobody can tell which edits would have turned it. But some of many edits at
random turn it before. Audited texts are asked about as much misspelt as an attack may write them, some times before
anything of them is attacked, and as often after the attack, with draws of their own: of a function those that withstand
are decided rightly as often before as after.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seatrial.families.temperature_attack.params import LABEL_ONLY, TemperatureAttackParams
from seatrial.families.temperature_attack.sent import MISSPELT
from seatrial.statistics.arrays import Ints
from seatrial.statistics.exact import signed_rank_p
from workers.attacks.text.word_edits import SEARCHED, WordsOf
from workers.data import Text
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.temperature_attack.displaced import decided
from workers.families.temperature_attack.fragments import OPENING, letters_allowed, misspell
from workers.families.temperature_attack.records import AttackSample

COLUMN = "misspelt_right"
"""How many of the much misspelt texts are decided rightly; null where one has no answer."""

SHARE = 0.3
"""Of the words that are misspelt, at least. Of film reviews that log-odds decide rightly eight times from that to all
of them turn .58, eight times all of them .44."""

NOISE = 3.0
"""Of the weights by which words are preferred, in their mean size. Who fits the same weights tells texts edited so from
those misspelt at random by .40 nat each (by 3.55 with noise of .5 and no word that speaks against the class, so that
four were enough); log-odds over film reviews change their class at .28 of them (.38; of words at random .23)."""


def much_misspelt(
    params: TemperatureAttackParams,
    context: TextContext,
    example: TextExample,
    when: str,
    times: int = MISSPELT,
    *,
    same_words: bool = False,
    share: float = SHARE,
    weights: Mapping[str, float] | None = None,
    kinds: Sequence[int | None] = (None, SEARCHED),
) -> list[Text]:
    """Return a text with words misspelt at random, up to as many as an attack may, some times.

    Args:
        params: Of the check.
        context: The shard's.
        example: It.
        when: Of the draws.
        times: How often.
        same_words: Whether the same words are misspelt each time, with other letters.
        share: Of the words that are misspelt, at least.
        weights: By how much words in lower case speak for its class, where it is known: those that do are preferred.
        kinds: Of the edits, one of them in a text.
    """
    rng = random.Random(context.salted_seed(f"misspelt {when}", example.example_id))  # noqa: S311 - not for secrets
    seen, found = context.scoring().seen(example.text), list[Text]()
    places, kind = list[tuple[int, int]](), None
    for number in range(times):
        cut = WordsOf.cut(example.text, seen)
        if not (same_words and number):
            places = _drawn_places(cut, round(rng.uniform(share, 1) * len(cut.content_places)), rng, weights)
            kind = rng.choice(kinds)
        for _ in misspell(cut, places, letters_allowed(params, cut), rng, kind):
            pass
        found.append(cut.joined)
    return found


def _drawn_places(
    cut: WordsOf, count: int, rng: random.Random, weights: Mapping[str, float] | None
) -> list[tuple[int, int]]:
    """Return places of words to misspell, rather of those that speak for the class where it is known what words say."""
    words = weights or {}
    said = {(part, at): words.get(cut.pieces[part][at].lower(), 0.0) for part, at in cut.content_places}
    if not any(said.values()):
        return rng.sample(cut.content_places, count)
    spread = NOISE * float(np.mean(np.abs([*said.values()])))
    # Each draw another: those that are compared are drawn alike.
    return sorted(said, key=lambda place: said[place] + rng.gauss(0.0, spread), reverse=True)[:count]


def count_right(
    params: TemperatureAttackParams, context: TextContext, examples: Sequence[TextExample], when: str
) -> list[dict[str, int | None]]:
    """Ask about texts much misspelt, each once before any is asked about again, and return a cell for each."""
    rounds = zip(*(much_misspelt(params, context, example, when) for example in examples), strict=True)
    answers = [list(map(decided, context.scoring().ask_anew(texts))) for texts in rounds]
    cells = []
    for example, given in zip(examples, zip(*answers, strict=True), strict=True):
        cells.append({COLUMN: None if None in given else sum(one == example.label for one in given)})
    return cells


@dataclass(frozen=True)
class Insistence:
    """Texts that withstood, much misspelt before and after they were attacked.

    Attributes:
        moved: (n,) how many more of each were decided rightly after than before.
    """

    moved: Ints

    @property
    def more(self) -> int:
        """Of how many texts more were after."""
        return int((self.moved > 0).sum())

    @property
    def less(self) -> int:
        """Of how many more were before."""
        return int((self.moved < 0).sum())

    @property
    def p(self) -> float:
        """One-sided p of so much more under answers that do not know when they are asked for."""
        return signed_rank_p(self.moved)


def read_insistence(
    params: TemperatureAttackParams, done: Mapping[str, Records], attacks: Mapping[str, AttackSample]
) -> Insistence | None:
    """Compare texts that withstand labels alone under the first recipe; None where none was asked about misspelt.

    Args:
        params: Of the check.
        done: Records by stage.
        attacks: What became of the texts, by recipe.
    """
    recipe = params.flipping[0] if params.flipping else ""
    prepared, attacked = done.get("prepared"), done.get(f"attack_{recipe}")
    if (
        prepared is None
        or attacked is None
        or COLUMN not in prepared.column_names
        or COLUMN not in attacked.column_names
    ):
        return None
    sample = attacks[recipe]
    if LABEL_ONLY not in sample.arms:
        return None
    standing = set(sample.clean.example_ids[sample.robust(LABEL_ONLY)].tolist()) | _opened(prepared, attacked)
    before, after = (
        dict(zip(*table.select(["example_id", COLUMN]).to_pydict().values(), strict=True))
        for table in (prepared, attacked)
    )
    pairs = [(before[example], after[example]) for example in standing & before.keys() & after.keys()]
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    return Insistence(np.array([after - first for first, after in known], dtype=np.int64))


def _opened(prepared: Records, attacked: Records) -> set[int]:
    """Return the texts that a search left standing, and one question before it had turned."""
    if OPENING not in prepared.column_names:
        return set()
    sent = {row["example_id"]: row[OPENING] for row in prepared.select(["example_id", OPENING]).to_pylist()}
    ends = attacked.select(["example_id", f"{LABEL_ONLY}.text", f"{LABEL_ONLY}.second_text"]).to_pylist()
    return {
        example
        for example, *parts in map(dict.values, ends)
        if example in sent and [part for part in parts if part is not None] == sent[example]
    }
