from pathlib import Path

import pytest

from seatrial.contracts.noise import ATTACKERS, Noise
from seatrial.noise.lexicons import Lexicons
from tests.resources.making import (
    write_encoder,
    write_library,
    write_masked_lm,
    write_nltk_tagger,
    write_text_vectors,
    write_textattack_vectors,
    write_ud_tagger,
    write_upos_model,
    write_wordnet,
)
from workers.resources.library import Absent, Finding, Found, Library
from workers.resources.requirements import RECIPES, RESOURCES, missing, variant


def found(finding: Finding) -> Found:
    assert isinstance(finding, Found), finding
    return finding


def absent(finding: Finding) -> str:
    assert isinstance(finding, Absent), finding
    return finding.why


def test_an_empty_library_has_what_is_shipped_and_says_where_it_looked_for_the_rest(tmp_path: Path) -> None:
    library = Library(tmp_path / "none")
    there = {name for name in RESOURCES if isinstance(library.find(name), Found)}
    assert there == {name for name, resource in RESOURCES.items() if resource.is_shipped}
    assert {"stopwords", "typos-codespell", "glyphs-dejavu"} <= there
    for name in set(RESOURCES) - there:
        assert str(library.folder) in absent(library.find(name))


def test_what_each_recipe_lacks_is_named_with_a_command(tmp_path: Path) -> None:
    library = Library(tmp_path)
    lacks = {name: [each.resource for each in missing(name, library)] for name in RECIPES}
    assert lacks == {
        "deepwordbug": [],
        "pwws": ["wordnet"],
        "textfooler": ["word-vectors", "tagger", "sentence-encoder"],
        "bae": ["masked-lm", "tagger", "sentence-encoder"],
        "textbugger": ["word-vectors", "sentence-encoder"],
        "pruthi": [],
        "input_reduction": [],
        "iga": ["word-vectors"],
    }
    assert all("seatrial resources install" in each.how_to_get_it for each in missing("bae", library))


def test_what_attackers_of_low_level_attack_need_is_said() -> None:
    assert RESOURCES["typos-nlpaug"].needed_by == ["natural_typo (typos: nlpaug)"]
    assert RESOURCES["confusables"].needed_by == ["visual (glyphs: confusables)"]
    assert RESOURCES["stopwords"].needed_by == [*RECIPES, "phonetic"]
    attackers = {each.partition(" ")[0] for resource in RESOURCES.values() for each in resource.attackers}
    assert attackers <= set(ATTACKERS)


@pytest.mark.parametrize("name", ["typos-nlpaug", "confusables"])
def test_the_library_and_the_attackers_look_in_the_same_place(tmp_path: Path, name: str) -> None:
    library = Library(write_library(tmp_path / "library"))
    noise = Noise(typos="nlpaug", glyphs="confusables")
    assert Lexicons(library.folder).lacking(noise, ATTACKERS) is None
    found(library.find(name)).files[0].unlink()
    lacking = Lexicons(library.folder).lacking(noise, ATTACKERS)
    assert lacking is not None
    assert (lacking.resource, lacking.command) == (name, RESOURCES[name].how_to_get_it)
    assert library.folder.name in absent(library.find(name))


def test_nothing_is_missing_in_a_full_library(tmp_path: Path) -> None:
    library = Library(write_library(tmp_path / "library"))
    assert not any(missing(name, library) for name in RECIPES)


def test_the_package_itself_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    [lack] = missing("deepwordbug", Library(tmp_path))
    assert (lack.resource, lack.how_to_get_it) == ("textattack", "pip install 'seatrial[text]'")


def test_wordnet_is_found_where_nltk_has_it_and_another_version_is_a_variant(tmp_path: Path) -> None:
    write_wordnet(tmp_path / "corpora" / "wordnet")
    assert found(Library(tmp_path).wordnet()).stands_for is None
    write_wordnet(tmp_path / "wordnet", version="3.1", with_exceptions=False)
    assert found(Library(tmp_path).wordnet()).stands_for == "wordnet=3.1 without exception lists"
    assert variant("pwws", Library(tmp_path)) == "wordnet=3.1 without exception lists"


def test_an_incomplete_wordnet_says_which_file_it_lacks(tmp_path: Path) -> None:
    (write_wordnet(tmp_path / "wordnet") / "index.adj").unlink()
    assert "index.adj" in absent(Library(tmp_path).wordnet())


def test_taggers_of_three_kinds(tmp_path: Path) -> None:
    write_nltk_tagger(tmp_path / "a" / "tagger")
    write_ud_tagger(tmp_path / "b" / "tagger")
    write_upos_model(tmp_path / "c" / "tagger")
    findings = [found(Library(tmp_path / name).tagger()) for name in "abc"]
    assert [(each.form, each.stands_for) for each in findings] == [
        ("nltk", None),
        ("ud-perceptron", "tagger=ud-perceptron"),
        ("model", "tagger=upos-bert-l1-h16"),
    ]


def test_textattacks_cache_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    write_textattack_vectors(tmp_path / "word_embeddings" / "paragramcf")
    vectors = found(Library(tmp_path).word_vectors())
    assert (vectors.form, vectors.stands_for) == ("textattack", None)


def test_other_vectors_are_a_variant_named_after_their_file(tmp_path: Path) -> None:
    write_text_vectors(tmp_path / "word-vectors" / "glove-6b.txt")
    assert found(Library(tmp_path).word_vectors()).stands_for == "vectors=glove-6b"
    write_text_vectors(tmp_path / "word-vectors" / "another.vec")
    assert "several" in absent(Library(tmp_path).word_vectors())


def test_an_encoders_own_vectors_stand_in_for_missing_ones(tmp_path: Path) -> None:
    write_encoder(tmp_path / "sentence-encoder")
    library = Library(tmp_path)
    assert found(library.word_vectors()).stands_for == "vectors=bert-l1-h16-wordpiece"
    assert variant("textbugger", library) == "encoder=bert-l1-h16, vectors=bert-l1-h16-wordpiece"
    write_textattack_vectors(tmp_path / "counter-fitted")
    assert variant("textbugger", library) == "encoder=bert-l1-h16"


def test_pickled_weights_do_not_count(tmp_path: Path) -> None:
    folder = write_masked_lm(tmp_path / "masked-lm")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "no *.safetensors" in absent(Library(tmp_path).masked_lm())


def test_a_damaged_config_is_said(tmp_path: Path) -> None:
    (write_masked_lm(tmp_path / "masked-lm") / "config.json").write_text("[")
    assert "config.json" in absent(Library(tmp_path).masked_lm())


def test_the_shape_of_bert_base_is_no_variant(tmp_path: Path) -> None:
    folder = write_masked_lm(tmp_path / "masked-lm")
    assert found(Library(tmp_path).masked_lm()).stands_for == "lm=bert-l1-h16"
    text = '{"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "vocab_size": 30522}'
    (folder / "config.json").write_text(text)
    assert found(Library(tmp_path).masked_lm()).stands_for is None
