"""Word vectors: TextAttack's counter-fitted ones as they are, and others behind the same methods."""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.resources.library import Found
from workers.resources.pickles import read_plain_pickle


class VectorsUnusableError(ValueError):
    """A file of word vectors is damaged, or its parts do not fit each other."""


class WordVectors:
    """Vectors of unit length behind the methods of TextAttack's ``AbstractWordEmbedding``.

    Neighbours are the nearest by cosine, which for unit vectors are the nearest by distance.

    Args:
        words: All different.
        matrix: (words, dimensions); scaled to unit length.

    >>> vectors = WordVectors(["fine", "good", "table"], np.array([[1.0, 1.0], [1.0, 0.9], [-1.0, 0.2]]))
    >>> [vectors.index2word(each) for each in vectors.nearest_neighbours(vectors.word2index("fine"), 1)]
    ['good']
    """

    def __init__(self, words: Sequence[str], matrix: NDArray[Any]) -> None:
        if matrix.ndim != 2 or len(matrix) != len(words) or not len(words):
            raise VectorsUnusableError(f"{len(words)} words and vectors of shape {matrix.shape} do not fit")
        lengths = np.linalg.norm(matrix.astype(np.float32), axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise VectorsUnusableError("a vector is zero or not finite")
        self._unit = matrix.astype(np.float32) / lengths
        self._words = list(words)
        self._index = {word: number for number, word in enumerate(self._words)}
        self._neighbours: dict[tuple[int, int], list[int]] = {}

    def __getitem__(self, index: str | int) -> NDArray[Any] | None:
        number = self._index.get(index) if isinstance(index, str) else int(index)
        return None if number is None or number >= len(self._words) else self._unit[number]

    def __repr__(self) -> str:
        return f"WordVectors({len(self._words)} words, {self._unit.shape[1]} dimensions)"

    def word2index(self, word: str) -> int:
        """Return a word's number; KeyError where it has none."""
        return self._index[word]

    def index2word(self, index: int) -> str:
        """Return the word of a number."""
        return self._words[int(index)]

    def get_cos_sim(self, a: str | int, b: str | int) -> float:
        """Return the cosine similarity of two words."""
        return float(self._vector(a) @ self._vector(b))

    def get_mse_dist(self, a: str | int, b: str | int) -> float:
        """Return the squared distance of two words, which TextAttack calls so."""
        return float(((self._vector(a) - self._vector(b)) ** 2).sum())

    def nearest_neighbours(self, index: str | int, topn: int) -> list[int]:
        """Return the ``topn`` words nearest to a word, without itself, nearest first."""
        number = self._number(index)
        if (number, topn) not in self._neighbours:
            similarity = self._unit @ self._unit[number]
            similarity[number] = -np.inf
            # Stable, so that equally near words come in the order of the file on every machine.
            nearest = np.argsort(-similarity, kind="stable")[: min(topn, len(self._words) - 1)]
            self._neighbours[number, topn] = [int(each) for each in nearest]
        return self._neighbours[number, topn]

    def _number(self, index: str | int) -> int:
        return self._index[index] if isinstance(index, str) else int(index)

    def _vector(self, index: str | int) -> NDArray[Any]:
        vector: NDArray[Any] = self._unit[self._number(index)]
        return vector


@lru_cache(maxsize=1)
def load_word_vectors(resource: Found) -> Any:
    """Return word vectors for TextAttack's embedding parts; the last ones asked for are kept.

    TextAttack has to be prepared: its own vectors are returned in its own class.

    Raises:
        VectorsUnusableError: A file is damaged, or parts do not fit each other.
        PickleRefusedError: One of TextAttack's pickles holds more than words and numbers.
    """
    if resource.form == "textattack":
        return _counter_fitted(resource.path)
    if resource.form == "text":
        return WordVectors(*read_text_vectors(resource.path))
    from workers.resources.encoding import load_sentence_encoder

    words, matrix = load_sentence_encoder(resource.path).word_pieces()
    return WordVectors(words, matrix.numpy())


def _counter_fitted(folder: Path) -> Any:
    from textattack.shared import WordEmbedding

    try:
        matrix = np.load(folder / "paragram.npy", allow_pickle=False)
        neighbours = np.load(folder / "nn.npy", allow_pickle=False)
    except ValueError as error:
        raise VectorsUnusableError(f"{folder}: paragram.npy or nn.npy is no plain array ({error})") from error
    numbers = read_plain_pickle(folder / "wordlist.pickle")
    # The file as written holds the dictionary inside an array of objects, or bare.
    numbers = numbers.item() if isinstance(numbers, np.ndarray) and numbers.shape == () else numbers
    if not isinstance(numbers, dict) or matrix.ndim != 2 or neighbours.ndim != 2 or len(neighbours) != len(matrix):
        raise VectorsUnusableError(f"{folder}: paragram.npy, nn.npy and wordlist.pickle do not fit each other")
    if not all(isinstance(word, str) and 0 <= int(number) < len(matrix) for word, number in numbers.items()):
        raise VectorsUnusableError(f"{folder / 'wordlist.pickle'}: a word has no row in paragram.npy")
    if neighbours.size and not 0 <= int(neighbours.min()) <= int(neighbours.max()) < len(matrix):
        raise VectorsUnusableError(f"{folder / 'nn.npy'}: a neighbour has no row in paragram.npy")
    embedding = WordEmbedding(matrix, numbers, {number: word for word, number in numbers.items()}, neighbours)
    for attribute, name in (("_mse_dist_mat", "mse_dist.p"), ("_cos_sim_mat", "cos_sim.p")):
        pairs = read_plain_pickle(folder / name)
        if not isinstance(pairs, dict):
            raise VectorsUnusableError(f"{folder / name} is no dictionary")
        # TextAttack writes into it what it did not find.
        setattr(embedding, attribute, defaultdict(dict, pairs))
    return embedding


def read_text_vectors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return the words and vectors (words, dimensions) of a text file, word2vec's format or GloVe's.

    Raises:
        VectorsUnusableError: A line is not a word and as many numbers as the others have.
    """
    vectors: dict[str, NDArray[np.float32]] = {}
    dimensions: int | None = None
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            word, *values = line.rstrip().split(" ")
            if number == 1 and len(values) == 1:
                continue
            try:
                vector = np.array(values, dtype=np.float32)
            except ValueError:
                raise VectorsUnusableError(f"{path}, line {number}: not a word and numbers") from None
            if not len(vector) or (dimensions is not None and len(vector) != dimensions):
                raise VectorsUnusableError(
                    f"{path}, line {number}: {len(vector)} numbers where others have {dimensions}"
                )
            dimensions = len(vector)
            if vector.any():
                vectors.setdefault(word, vector)
    if not vectors:
        raise VectorsUnusableError(f"{path} holds no vectors")
    return list(vectors), np.stack(list(vectors.values()))
