"""What an operator gives is looked through before it is installed, and nothing in it is run."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.resources.making import vectors_of_groups, write_encoder, write_masked_lm, write_text_vectors
from tests.resources.test_installing import leftovers, quietly
from workers.resources.installing import InstallError, install
from workers.resources.library import Absent, Found, Library


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "resources")


def write_300_dimensions(path: Path, **changes: str) -> Path:
    """Write the vectors as counter-fitted-vectors.txt has its own: no first line, 300 numbers."""
    words, matrix = vectors_of_groups()
    wide = np.hstack([matrix, np.zeros((len(words), 292), np.float32)])
    lines = {word: " ".join(f"{value:.6f}" for value in row) for word, row in zip(words, wide, strict=True)}
    path.write_text("".join(f"{word} {numbers}\n" for word, numbers in (lines | changes).items()))
    return path


def test_counter_fitted_vectors_as_their_authors_publish_them_are_no_variant(tmp_path: Path, library: Library) -> None:
    text = write_300_dimensions(tmp_path / "counter-fitted-vectors.txt")
    archive = tmp_path / "counter-fitted-vectors.txt.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(text, "counter-fitted-vectors.txt")
        file.writestr("__MACOSX/._counter-fitted-vectors.txt", b"\0attributes")
    installed = install("word-vectors", library, archive, quietly)
    assert (installed.form, installed.stands_for) == ("text", None)
    # Under the same name, something else; and the same under another name.
    assert install("word-vectors", library, write_text_vectors(text), quietly).stands_for is not None
    assert (
        install("word-vectors", library, write_300_dimensions(tmp_path / "my.txt"), quietly).stands_for == "vectors=my"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"film": "0.5 0.5"}, r"line 7: 2 numbers where others have 300.*a word and its numbers"),
        ({"film": "half " * 300}, "line 7: not a word and numbers"),
        ({"film": " ".join(["nan"] * 300)}, "not finite"),
    ],
)
def test_vectors_that_are_none_are_not_installed(
    tmp_path: Path, library: Library, changes: dict[str, str], message: str
) -> None:
    before = install("word-vectors", library, write_text_vectors(tmp_path / "sound.txt"), quietly)
    with pytest.raises(InstallError, match=message):
        install("word-vectors", library, write_300_dimensions(tmp_path / "vectors.txt", **changes), quietly)
    assert library.word_vectors() == before
    assert leftovers(library) == []


def _without_a_head(folder: Path) -> None:
    write_encoder(folder)


def _of_another_vocabulary(folder: Path) -> None:
    config = json.loads((write_masked_lm(folder) / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": config["vocab_size"] + 1}))


def _without_a_mask(folder: Path) -> None:
    write_masked_lm(folder)
    for file in folder.glob("*.json"):
        file.write_text(file.read_text().replace("[MASK]", "[GAP]"))
    for file in folder.glob("vocab.txt"):
        file.write_text(file.read_text().replace("[MASK]", "[GAP]"))


def _cut_short(folder: Path) -> None:
    weights = write_masked_lm(folder) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def _pickled(folder: Path) -> None:
    (write_masked_lm(folder) / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_without_a_head, "no head that predicts words"),
        (_of_another_vocabulary, r"config.json says \d+ words, the weights have"),
        (_without_a_mask, "knows no mask"),
        (_cut_short, "model.safetensors"),
        (_pickled, "pytorch_model.bin is a pickle, which is never read"),
    ],
)
def test_a_folder_that_is_no_masked_language_model_is_refused(
    tmp_path: Path, library: Library, write: Callable[[Path], None], message: str
) -> None:
    write(tmp_path / "given")
    with pytest.raises(InstallError, match=message):
        install("masked-lm", library, tmp_path / "given", quietly)
    assert isinstance(library.masked_lm(), Absent)
    assert leftovers(library) == []


def test_a_digest_is_of_the_content(tmp_path: Path, library: Library) -> None:
    def installed() -> Found:
        return install("masked-lm", library, tmp_path / "given", quietly)

    write_masked_lm(tmp_path / "given")
    first = installed().digest
    assert installed().digest == first
    config = tmp_path / "given" / "config.json"
    config.write_text(config.read_text().replace("\n", "\n\n", 1))
    assert installed().digest != first
