"""What a recipe ran with is recorded beside what it did, and told."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from tests.attacks.text.test_label_only import Keywords
from tests.resources.making import (
    write_encoder,
    write_library,
    write_text_vectors,
    write_textattack_vectors,
    write_ud_tagger,
)
from tests.resources.test_formats import write_300_dimensions
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.recipes import Recipe, load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.families.temperature_attack.resources import resource_flags, resource_series, with_resources
from workers.resources.library import Library

ROWS = pa.table({"example_id": [0, 1]})


def recorded(library: Library, name: str = "textfooler") -> pa.Table:
    return with_resources(ROWS, load_recipe(name, library), library)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(write_library(tmp_path_factory.mktemp("resources") / "library"))


def test_digests_are_recorded_with_the_rows_and_told_in_the_result(library: Library, tmp_path: Path) -> None:
    vectors = write_text_vectors(tmp_path / "word-vectors" / "mine.txt")
    write_encoder(tmp_path / "sentence-encoder")
    write_ud_tagger(tmp_path / "tagger")
    table = recorded(Library(tmp_path))
    told = resource_series({"textfooler": table})["resources"]["textfooler"]
    assert told["word-vectors"] == hashlib.sha256(vectors.read_bytes()).hexdigest()
    assert set(told) == {"word-vectors", "tagger", "sentence-encoder"}
    # What needs nothing has a table as ever.
    plain = recorded(library, "deepwordbug")
    assert (plain.column_names, resource_series({"deepwordbug": plain})["resources"]) == (["example_id", "recipe"], {})


def test_what_stands_in_for_what_is_said_and_the_originals_are_not_doubted(library: Library, tmp_path: Path) -> None:
    write_encoder(tmp_path / "sentence-encoder")
    write_ud_tagger(tmp_path / "tagger")
    [flag] = resource_flags("textfooler", recorded(Library(tmp_path)))
    assert (flag.code, flag.severity) == ("recipe_variant", "info")
    assert "bert-l1-h16-wordpiece for counter-fitted word vectors" in flag.message
    assert "ud-perceptron for NLTK's averaged perceptron" in flag.message
    write_300_dimensions(tmp_path / "counter-fitted-vectors.txt")
    (tmp_path / "word-vectors").mkdir()
    (tmp_path / "counter-fitted-vectors.txt").rename(tmp_path / "word-vectors" / "counter-fitted-vectors.txt")
    [flag] = resource_flags("textfooler", recorded(Library(tmp_path)))
    assert "for counter-fitted" not in flag.message
    assert resource_flags("pwws", recorded(library, "pwws")) == []


def test_workers_with_files_of_another_content_are_found(library: Library, tmp_path: Path) -> None:
    first = recorded(library)
    other = Library(write_library(tmp_path / "library"))
    assert resource_flags("textfooler", pa.concat_tables([first, recorded(other)]))[0].code == "recipe_variant"
    config = other.folder / "sentence-encoder" / "config.json"
    config.write_text(config.read_text() + "\n")
    [flag] = resource_flags("textfooler", pa.concat_tables([first, recorded(other)]))
    assert (flag.code, flag.severity) == ("resources_differ", "error")
    assert "other content: sentence-encoder" in flag.message


def test_vectors_as_text_make_the_attack_that_textattacks_own_files_make(library: Library, tmp_path: Path) -> None:
    write_library(tmp_path / "cached")
    write_library(tmp_path / "text")
    write_textattack_vectors(tmp_path / "given", **{"cos_sim.p": {}, "mse_dist.p": {}})
    for place, source in (("cached", tmp_path / "given"), ("text", None)):
        folder = tmp_path / place / "counter-fitted"
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        if source is not None:
            source.rename(folder)
    (tmp_path / "text" / "word-vectors").mkdir()
    write_300_dimensions(tmp_path / "text" / "word-vectors" / "counter-fitted-vectors.txt")
    recipes = [load_recipe("textfooler", Library(tmp_path / place)) for place in ("cached", "text")]
    assert recipes[0].label == recipes[1].label

    def outcome(recipe: Recipe) -> Outcome:
        job = Job(0, "a wonderful film and a charming plot .", 1, 3, lambda logits: logits.double().softmax(1), recipe)
        return attack_all([job], ScoringService(Keywords("wonderful"), max_bytes=2**20))[0]

    first, second = map(outcome, recipes)
    assert first == second
    assert first.status == "succeeded"
