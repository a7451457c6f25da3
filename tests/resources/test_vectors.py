from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cosine, sqeuclidean

from tests.resources.making import vectors_of_groups, write_encoder, write_text_vectors
from workers.resources.encoding import SentenceEncoder
from workers.resources.hugging_face import ModelUnusableError
from workers.resources.library import Found, Library
from workers.resources.vectors import VectorsUnusableError, WordVectors, load_word_vectors, read_text_vectors


@pytest.mark.parametrize("with_header", [True, False])
def test_text_vectors_of_both_formats(tmp_path: Path, with_header: bool) -> None:
    words, matrix = vectors_of_groups()
    read_words, read = read_text_vectors(write_text_vectors(tmp_path / "v.txt", with_header=with_header))
    assert read_words == words
    assert np.array_equal(read, matrix)


def test_distances_are_those_of_unit_vectors() -> None:
    words, matrix = vectors_of_groups()
    vectors = WordVectors(words, 3 * matrix)
    assert vectors.get_cos_sim("film", "dull") == pytest.approx(1 - cosine(matrix[6], matrix[9]), abs=1e-6)
    assert vectors.get_mse_dist(6, 9) == pytest.approx(sqeuclidean(matrix[6], matrix[9]), abs=1e-6)
    assert vectors["film"] == pytest.approx(matrix[6], abs=1e-6)
    assert vectors["unheard"] is None


def test_neighbours_are_the_nearest_and_do_not_depend_on_how_many_were_asked_before() -> None:
    words, matrix = vectors_of_groups()
    vectors = WordVectors(words, matrix)
    brute = sorted(range(len(words)), key=lambda each: cosine(matrix[6], matrix[each]))[1:]
    assert vectors.nearest_neighbours("film", 2) == brute[:2]
    assert vectors.nearest_neighbours("film", 5) == brute[:5]
    assert len(vectors.nearest_neighbours("film", 1000)) == len(words) - 1
    with pytest.raises(KeyError):
        vectors.word2index("unheard")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("film 1 2\nmovie 1 x\n", "line 2: not a word and numbers"),
        ("film 1 2\nmovie 1\n", "line 2: 1 numbers where others have 2"),
        ("2 2\n", "holds no vectors"),
        ("film 1 nan\nmovie 1 2\n", "not finite"),
    ],
)
def test_damaged_text_vectors_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "word-vectors" / "v.txt"
    file.parent.mkdir()
    file.write_text(text)
    found = Library(tmp_path).word_vectors()
    assert isinstance(found, Found)
    with pytest.raises(VectorsUnusableError, match=message):
        load_word_vectors(found)


def test_an_encoders_whole_words_are_vectors(tmp_path: Path) -> None:
    write_encoder(tmp_path / "sentence-encoder")
    found = Library(tmp_path).word_vectors()
    assert isinstance(found, Found)
    vectors = load_word_vectors(found)
    assert vectors.word2index("film") >= 0
    for piece in ("##ful", "[MASK]", "a", "."):
        with pytest.raises(KeyError):
            vectors.word2index(piece)


def test_an_encoding_depends_on_its_text_alone(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    texts = ["a charming film .", "the long and tedious plot is awful , of course", "film"]
    together = SentenceEncoder(folder).encode(texts)
    alone = [SentenceEncoder(folder).encode([text])[0] for text in reversed(texts)]
    assert all(bool((one == row).all()) for one, row in zip(alone, reversed(together), strict=True))
    assert together.shape == (3, 16)


def test_an_encoding_is_the_mean_of_the_last_states(tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = write_encoder(tmp_path / "encoder")
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    states = model(**tokenizer("a charming film .", return_tensors="pt")).last_hidden_state[0]
    assert SentenceEncoder(folder).encode(["a charming film ."])[0].tolist() == pytest.approx(
        states.mean(0).tolist(), abs=1e-6
    )


def test_a_damaged_encoder_is_named(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    (folder / "model.safetensors").write_bytes(b"12345678")
    with pytest.raises(ModelUnusableError, match=str(folder)):
        SentenceEncoder(folder)
