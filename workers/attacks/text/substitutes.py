"""What is put in the place of parts TextAttack would download, or keeps slower or less separate than we need."""

import importlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from workers.attacks.text.watched_texts import within_edits
from workers.resources.encoding import SentenceEncoder, load_sentence_encoder
from workers.resources.hugging_face import ModelUnusableError, load_model
from workers.resources.library import Found
from workers.resources.tagging import Tagger, load_tagger
from workers.resources.vectors import WordVectors, load_word_vectors
from workers.resources.wordnet import load_wordnet

if TYPE_CHECKING:
    from textattack import Attack

REMEMBERED = 2**15
"""Words whose synonyms, and masked texts whose replacements are kept."""

_ABSENT = object()
_reading_wordnet = threading.Lock()


@contextmanager
def building(resources: dict[str, Found]) -> Iterator[None]:
    """Let TextAttack's recipes be built with what a library holds. One thread at a time.

    Args:
        resources: What the recipe needs, by name.
    """
    with ExitStack() as changes:
        swaps = "textattack.transformations.word_swaps."
        if "wordnet" in resources:
            wordnet = load_wordnet(resources["wordnet"].path)
            changes.enter_context(replaced(f"{swaps}word_swap_wordnet", "wordnet", wordnet))
        if "word-vectors" in resources:
            vectors = load_word_vectors(resources["word-vectors"])
            embeddings = importlib.import_module("textattack.shared.word_embeddings")
            embeddings.AbstractWordEmbedding.register(WordVectors)
            given = staticmethod(lambda: vectors)
            changes.enter_context(replaced(embeddings.WordEmbedding, "counterfitted_GLOVE_embedding", given))
        if "masked-lm" in resources:
            bae = importlib.import_module("textattack.attack_recipes.bae_garg_2019")
            model, tokenizer = load_model(resources["masked-lm"].path, "AutoModelForMaskedLM")
            if tokenizer.mask_token is None:
                raise ModelUnusableError(f"{resources['masked-lm'].path}: the tokenizer has no mask token")
            swap = partial(bae.WordSwapMaskedLM, masked_language_model=model, tokenizer=tokenizer)
            changes.enter_context(replaced(bae, "WordSwapMaskedLM", swap))
        changes.enter_context(replaced(f"{swaps}word_swap_homoglyph_swap", "open", _open_homoglyphs))
        yield


def substitute(attack: "Attack", resources: dict[str, Found]) -> None:
    """Put a library's tagger and encoder into a recipe that was built, and make its slow parts remember."""
    for place, constraint in enumerate(attack.constraints):
        kind = type(constraint).__name__
        if kind == "PartOfSpeech":
            attack.constraints[place] = _tagged_by(constraint, load_tagger(resources["tagger"]))
        elif kind == "UniversalSentenceEncoder":
            encoder = load_sentence_encoder(resources["sentence-encoder"].path)
            attack.constraints[place] = _encoded_by(constraint, encoder)
        elif kind == "LevenshteinEditDistance":
            overrides = {"_check_constraint": _check_edits}
            constraint.__class__ = type(kind, (type(constraint),), overrides)
    for transformation in getattr(attack.transformation, "transformations", [attack.transformation]):
        kind = type(transformation).__name__
        if kind == "WordSwapWordNet":
            _remember_synonyms(transformation, load_wordnet(resources["wordnet"].path))
        elif kind == "WordSwapMaskedLM":
            _remember_replacements(transformation)


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Give an attribute of a module (or its name) or class another value for a while."""
    owner = importlib.import_module(owner) if isinstance(owner, str) else owner
    before = vars(owner).get(name, _ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def _open_homoglyphs(path: str, *options: Any, **more: Any) -> Any:
    """Open TextAttack's list of homoglyphs, or nothing where its wheel lacks it.

    The list serves its differential evolution alone. TextBugger swaps characters by a table inside the code.
    """
    if not os.path.exists(path) and os.path.basename(path) == "intentional_homoglyphs.txt":
        return io.StringIO()
    return open(path, *options, **more)


def _check_edits(self: Any, transformed_text: Any, reference_text: Any) -> bool:
    return within_edits(reference_text.text, transformed_text.text, self.max_edit_distance)


def _tagged_by(constraint: Any, tagger: Tagger) -> Any:
    """Return a part-of-speech constraint that asks ``tagger``; nothing of an example stays in it."""

    def _get_pos(self: object, before: list[str], word: str, after: list[str]) -> str:
        words = (*before, word, *after)
        # TextAttack takes the first place the word is at, too.
        return tagger.tags(words)[words.index(word)]

    # Nothing is cleared when an example ends: the tagger remembers for all of them.
    overrides = {"_get_pos": _get_pos, "clear_cache": lambda self: None}
    constraint.__class__ = type("PartOfSpeech", (type(constraint),), overrides)
    return constraint


def _encoded_by(constraint: Any, encoder: SentenceEncoder) -> Any:
    """Return the constraint of the Universal Sentence Encoder, at its thresholds, with another encoder."""
    base = importlib.import_module("textattack.constraints.semantics.sentence_encoders").SentenceEncoder

    def encode(self: object, sentences: list[str]) -> Any:
        return encoder.encode(sentences)

    other: Any = object.__new__(type("LibrarySentenceEncoder", (base,), {"encode": encode}))
    other.__dict__ |= {name: value for name, value in vars(constraint).items() if name not in {"model", "_tfhub_url"}}
    return other


def _remember_synonyms(transformation: Any, wordnet: Any) -> None:
    """Look each word up once: a look-up reads WordNet's files, and attacks ask for the same words all the time."""
    look_up: Callable[[str], list[str]] = transformation._get_replacement_words
    module = type(transformation).__module__

    @lru_cache(REMEMBERED)
    def synonyms(word: str) -> tuple[str, ...]:
        # The reader has one place in each file, whoever reads.
        with _reading_wordnet, replaced(module, "wordnet", wordnet):
            return tuple(look_up(word))

    transformation._get_replacement_words = lambda word: list(synonyms(word))


def _remember_replacements(transformation: Any) -> None:
    """Ask the masked language model about each masked text once, padded to its own length.

    TextAttack pads to 512 pieces, which costs ten times as much for a film review and changes nothing but the last
    bits of the model's numbers.
    """
    ask: Callable[[Any, list[int]], list[list[str]]] = transformation._bae_replacement_words
    tokenizer, device = transformation._lm_tokenizer, transformation._language_model.device
    longest = int(getattr(transformation._language_model.config, "max_position_embeddings", 512))
    transformation.max_length = min(transformation.max_length, longest)
    remembered: OrderedDict[str, list[str]] = OrderedDict()

    def _encode_text(text: list[str]) -> Any:
        return tokenizer(text, max_length=transformation.max_length, truncation=True, return_tensors="pt").to(device)

    def _bae_replacement_words(current_text: Any, indices_to_modify: list[int]) -> list[list[str]]:
        answers = []
        for index in indices_to_modify:
            masked = current_text.replace_word_at_index(index, tokenizer.mask_token).text
            if masked not in remembered:
                [remembered[masked]] = ask(current_text, [index])
                if len(remembered) > REMEMBERED:
                    remembered.popitem(last=False)
            answers.append(remembered[masked])
        return answers

    transformation._encode_text = _encode_text
    transformation._bae_replacement_words = _bae_replacement_words
