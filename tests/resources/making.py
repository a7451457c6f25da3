"""Language resources small enough to make in a test, in the formats of the real ones."""

import gzip
import json
import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, BertForTokenClassification, BertModel

from tests.texts import NEGATIVE, NOUNS, POSITIVE, review_tokenizer, save, vocabulary

SYNSETS: dict[str, list[list[str]]] = {
    "noun": [["film", "movie", "picture", "motion_picture"], ["plot", "story"], ["cast"], ["actor", "player"]],
    "verb": [["make", "create"], ["tell", "narrate", "recount"]],
    "adj": [
        ["wonderful", "fantastic", "marvelous"],
        ["awful", "dreadful", "terrible", "tolerable"],
        ["dull", "boring", "slow"],
        ["funny", "curious"],
        ["charming", "magic"],
    ],
    "adv": [["often", "frequently"]],
}
"""Synonyms, in WordNet's sense, of words of the reviews; some are no opinion to a model that counts words."""

EXCEPTIONS = {"noun": ["men man"], "verb": ["made make", "told tell"], "adj": [], "adv": []}

GROUPS = [
    ["wonderful", "fantastic", "superb"],
    ["awful", "terrible", "poor"],
    ["film", "movie", "picture"],
    ["dull", "boring", "slow"],
    ["charming", "lovely", "neat"],
    ["clever", "smart", "sly"],
]
"""Words with vectors near each other."""


def write_wordnet(folder: Path, *, version: str = "3.0", with_exceptions: bool = True) -> Path:
    """Write ``SYNSETS`` as WordNet's database files, as wndb(5WN) says."""
    folder.mkdir(parents=True)
    letters = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
    for part, synsets in SYNSETS.items():
        header = f"  1 This software and database is WordNet.  \n  2 WordNet {version} Copyright by Princeton.  \n"
        data, places = header, defaultdict(list)
        for words in synsets:
            place = f"{len(data.encode()):08d}"
            listed = " ".join(f"{word} 0" for word in words)
            # One verb frame: verbs have frames where the others have nothing.
            frames = " 01 + 02 00" if part == "verb" else ""
            data += f"{place} 03 {letters[part]} {len(words):02x} {listed} 000{frames} | what it means  \n"
            for word in words:
                places[word].append(place)
        index = "".join(
            f"{word} {letters[part]} {len(at)} 0 {len(at)} 0 {' '.join(at)}  \n" for word, at in sorted(places.items())
        )
        (folder / f"data.{part}").write_text(data)
        (folder / f"index.{part}").write_text(header + index)
        if with_exceptions:
            (folder / f"{part}.exc").write_text("".join(f"{line}\n" for line in EXCEPTIONS[part]))
    return folder


def vectors_of_groups() -> tuple[list[str], np.ndarray]:
    """Return the words of ``GROUPS`` and vectors (words, 8): alike within a group, apart between them."""
    draw = np.random.default_rng(0)
    words = [word for group in GROUPS for word in group]
    centres = np.eye(8)[: len(GROUPS)]
    matrix = np.concatenate(
        [centre + 0.05 * draw.standard_normal((len(group), 8)) for centre, group in zip(centres, GROUPS, strict=True)]
    )
    return words, (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def write_text_vectors(path: Path, *, with_header: bool = True) -> Path:
    """Write the vectors in word2vec's text format, or GloVe's without the header."""
    words, matrix = vectors_of_groups()
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, matrix, strict=True)]
    path.write_text((f"{len(words)} 8\n" if with_header else "") + "".join(lines))
    return path


def write_textattack_vectors(folder: Path, **instead: object) -> Path:
    """Write the vectors as TextAttack's cache folder has them; ``instead`` replaces what a file holds."""
    words, matrix = vectors_of_groups()
    folder.mkdir(parents=True)
    similarity = matrix @ matrix.T
    np.save(folder / "paragram.npy", matrix)
    np.save(folder / "nn.npy", np.argsort(-similarity, axis=1, kind="stable"))
    # One pair is in the files, with a number the vectors do not give: what is written there counts.
    contents: dict[str, object] = {
        "wordlist.pickle": {word: number for number, word in enumerate(words)},
        "cos_sim.p": {0: {1: 0.75}},
        "mse_dist.p": {0: {1: np.float32(0.5)}},
    }
    for name, content in (contents | instead).items():
        (folder / name).write_bytes(pickle.dumps(content))
    return folder


def write_nltk_tagger(folder: Path) -> Path:
    """Write an averaged perceptron as NLTK does: words it knows, and an adjective's ending."""
    known = dict.fromkeys(NOUNS, "NN") | {"is": "VBZ", "and": "CC", "the": "DT", "a": "DT", "it": "PRP"}
    adjectives = {f"i word {word}": {"JJ": 1.0} for word in [*POSITIVE, *NEGATIVE, *chain(*GROUPS)]}
    weights = {"bias": {"NN": 0.1}, "i suffix ful": {"JJ": 1.0}, **adjectives}
    contents = {"weights": weights, "tagdict": known, "classes": ["CC", "DT", "JJ", "NN", "PRP", "VBZ"]}
    folder.mkdir(parents=True)
    for part, content in contents.items():
        (folder / f"averaged_perceptron_tagger_eng.{part}.json").write_text(json.dumps(content))
    return folder


def write_ud_tagger(folder: Path, classes: Sequence[str] = ("ADJ|-", "NOUN|-", "PROPN|-", "VERB|Fin")) -> Path:
    """Write an averaged perceptron as the Python package has it."""
    weights = {
        "bias": {"NOUN|-": 0.1},
        "suf3 ful": {"ADJ|-": 1.0},
        "shape X": {"PROPN|-": 0.5},
        "t-1 VERB|Fin": {"ADJ|-": 0.3},
        "w+1 </s>": {"NOUN|-": 0.6},
    }
    model = {"weights": weights, "tagdict": {"is": "VERB|Fin"}, "classes": list(classes), "vocabulary": []}
    folder.mkdir(parents=True)
    (folder / "tagger.json.gz").write_bytes(gzip.compress(json.dumps(model).encode()))
    return folder


def write_upos_model(folder: Path, labels: Sequence[str] = ("ADJ", "NOUN", "VERB", "PROPN")) -> Path:
    """Write an untrained token classifier with these tags."""
    return _write(folder, BertForTokenClassification, id2label=dict(enumerate(labels)))


def write_encoder(folder: Path) -> Path:
    """Write an untrained encoder."""
    return _write(folder, BertModel)


def write_masked_lm(folder: Path) -> Path:
    """Write an untrained masked language model."""
    return _write(folder, BertForMaskedLM)


def write_typos(folder: Path) -> Path:
    """Write misspellings as nlpaug has them."""
    folder.mkdir(parents=True)
    (folder / "spelling_en.txt").write_text("wonderful wonderfull wunderful\nfilm flim\n")
    return folder


def write_confusables(folder: Path) -> Path:
    """Write look-alikes as confusable-homoglyphs has them."""
    folder.mkdir(parents=True)
    (folder / "confusables.json").write_text(json.dumps({"a": [{"c": "\u0430", "n": "CYRILLIC SMALL LETTER A"}]}))
    return folder


def write_library(folder: Path) -> Path:
    """Write one of each."""
    write_wordnet(folder / "wordnet")
    write_nltk_tagger(folder / "tagger")
    write_textattack_vectors(folder / "counter-fitted")
    write_encoder(folder / "sentence-encoder")
    write_masked_lm(folder / "masked-lm")
    write_typos(folder / "typos-nlpaug")
    write_confusables(folder / "confusables")
    return folder


def _write(folder: Path, model: type, **more: Mapping[int, str]) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(vocabulary()),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=64,
            **more,
        )
        return save(folder, model(config), review_tokenizer())
