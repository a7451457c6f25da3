"""Noise for texts: words a second on one core, beside TextAttack's and nlpaug's nearest transformations.

    python -m benchmarks.low_level
    python -m benchmarks.low_level --data REVIEWS.jsonl --level 0.5

Every attacker perturbs the same texts at the same level, tokens and edits counted as in an audit; so do the peers'
nearest transformations, told to change the same share of words, one at a time in turn, best of several rounds. Asked of
ours: 50,000 words a second from rules, 5,000 from tables of sounds and shapes. Without --data the texts are made of the
words of this file's own package. Peers that are not installed are left out and named. Ends with status 1 when a target
is missed.
"""

import argparse
import importlib.util
import json
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from seatrial.contracts.noise import ATTACKERS, Noise
from seatrial.noise.edits import levenshtein
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from seatrial.store.settings import get_settings
from workers.attacks.text.textattack_environment import prepare, quiet

Perturb = Callable[[str], str]

BY_RULE = 50_000.0
BY_TABLE = 5_000.0
TARGETS = dict.fromkeys(ATTACKERS, BY_RULE) | {"phonetic": BY_TABLE, "visual": BY_TABLE}
PEER_TEXTS = 200
"""Texts the peers are given: some take milliseconds a text."""


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="JSON Lines with `text`")
    parser.add_argument("--level", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts = _texts(options.data)
    words = sum(len(text.split()) for text in texts)
    print(f"{len(texts):,} texts, {words:,} words between spaces, level {options.level:g}, best of {options.rounds}\n")
    lexicons = Lexicons(get_settings().resolved_resources)
    peers, absent = _peers(options.level)
    print(f"{'attacker':16}{'words/s':>12}{'asked':>10}   nearest transformation, words/s, ours over it")
    is_met = True
    for attacker in ATTACKERS:
        perturber = Perturber(attacker, Noise(), lexicons)
        rate = _rate(_ours(perturber, options.level), texts, options.rounds)
        is_met &= rate >= TARGETS[attacker]
        told = []
        for name, perturb in peers.get(attacker, []):
            other = _rate(perturb, texts[:PEER_TEXTS], 1)
            told.append(f"{name} {other:,.0f} ({rate / other:.0f}x)")
        print(f"{attacker:16}{rate:12,.0f}{TARGETS[attacker]:10,.0f}   {'; '.join(told) or '-'}", flush=True)
    for name in absent:
        print(f"left out, not installed: {name}")
    return 0 if is_met else 1


def _texts(path: Path | None) -> list[str]:
    if path is not None:
        with path.open(encoding="utf-8") as lines:
            return [json.loads(line)["text"] for line in islice(lines, 1000)]
    # Docstrings are English enough.
    prose = " ".join(path.read_text("utf-8") for path in sorted((Path(__file__).parents[1] / "app").rglob("*.py")))
    words = re.findall(r"[A-Za-z]+[,.]?", prose)
    return [" ".join(words[start : start + 20]) for start in range(0, 20_000, 20)]


def _ours(perturber: Perturber, level: float) -> Perturb:
    rng = random.Random(0)

    def perturb(text: str) -> str:
        made = perturber.perturb(text, level, rng)
        levenshtein(text, made.text)
        return made.text

    return perturb


def _rate(perturb: Perturb, texts: Sequence[str], rounds: int) -> float:
    """Return words a CPU second, the best of some rounds; the first texts once beforehand, for what loads late."""
    for text in texts[:3]:
        perturb(text)
    words, best = sum(len(text.split()) for text in texts), 0.0
    for _ in range(rounds):
        began = time.process_time()
        for text in texts:
            perturb(text)
        best = max(best, words / (time.process_time() - began))
    return best


def _peers(level: float) -> tuple[dict[str, list[tuple[str, Perturb]]], list[str]]:
    """Return the nearest transformations of each attacker by name, and which packages are not there."""
    found: dict[str, list[tuple[str, Perturb]]] = {}
    absent = []
    for package, make in {"textattack": _textattack, "nlpaug": _nlpaug}.items():
        if importlib.util.find_spec(package) is None:
            absent.append(package)
            continue
        for attacker, name, perturb in make(level):
            found.setdefault(attacker, []).append((f"{package} {name}", perturb))
    return found, absent


def _textattack(level: float) -> list[tuple[str, str, Perturb]]:
    prepare()
    with quiet():
        from textattack.augmentation import Augmenter
        from textattack.transformations import (
            WordSwapNeighboringCharacterSwap,
            WordSwapQWERTY,
            WordSwapRandomCharacterDeletion,
            WordSwapRandomCharacterInsertion,
        )

    # Its WordSwapHomoglyphSwap reads a file that its wheel does not hold.
    nearest: dict[str, Any] = {
        "inner_shuffle": WordSwapNeighboringCharacterSwap(),
        "intrude": WordSwapRandomCharacterInsertion(),
        "truncate": WordSwapRandomCharacterDeletion(),
        "keyboard_typo": WordSwapQWERTY(),
    }

    def perturb_with(augmenter: Any) -> Perturb:
        return lambda text: str(augmenter.augment(text)[0])

    return [
        (
            attacker,
            type(transformation).__name__,
            perturb_with(
                Augmenter(transformation=transformation, pct_words_to_swap=level, transformations_per_example=1)
            ),
        )
        for attacker, transformation in nearest.items()
    ]


def _nlpaug(level: float) -> list[tuple[str, str, Perturb]]:
    import nlpaug.augmenter.char as characters
    import nlpaug.augmenter.word as words

    of_words = {"aug_word_p": level, "aug_word_max": None, "aug_char_min": 1, "aug_char_max": 1}
    nearest: dict[str, Any] = {
        "inner_shuffle": characters.RandomCharAug(action="swap", **of_words),
        "intrude": characters.RandomCharAug(action="insert", **of_words),
        "truncate": characters.RandomCharAug(action="delete", **of_words),
        "keyboard_typo": characters.KeyboardAug(**of_words),
        "natural_typo": words.SpellingAug(aug_p=level, aug_max=None),
        "visual": characters.OcrAug(aug_word_p=level, aug_word_max=None),
    }

    def perturb_with(augmenter: Any) -> Perturb:
        return lambda text: str(augmenter.augment(text)[0])

    return [(attacker, type(made).__name__, perturb_with(made)) for attacker, made in nearest.items()]


if __name__ == "__main__":
    sys.exit(main())
