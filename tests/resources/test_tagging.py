import json
from pathlib import Path

import pytest

from tests.resources.making import write_nltk_tagger, write_ud_tagger, write_upos_model
from workers.resources.library import Found, Library
from workers.resources.tagging import Tagger, TaggerUnusableError, load_tagger


def tagger(library: Path) -> Tagger:
    found = Library(library).tagger()
    assert isinstance(found, Found)
    return load_tagger(found)


def test_nltks_perceptron_answers_with_universal_tags(tmp_path: Path) -> None:
    write_nltk_tagger(tmp_path / "tagger")
    words = ("the", "film", "is", "graceful", "and", "unheard")
    assert tagger(tmp_path).tags(words) == ("DET", "NOUN", "VERB", "ADJ", "CONJ", "NOUN")


def test_it_tags_as_nltk_itself_does(tmp_path: Path) -> None:
    from nltk.tag.perceptron import PerceptronTagger

    folder = write_nltk_tagger(tmp_path / "tagger")
    parts = (
        json.loads((folder / f"averaged_perceptron_tagger_eng.{part}.json").read_text())
        for part in ("weights", "tagdict", "classes")
    )
    theirs = PerceptronTagger(load=False)
    theirs.decode_json_params(tuple(parts))
    words = ("a", "charming", "film", "is", "awful", "well-made", "1999")
    universal = {"DT": "DET", "JJ": "ADJ", "NN": "NOUN", "VBZ": "VERB"}
    assert tagger(tmp_path).tags(words) == tuple(universal[tag] for _, tag in theirs.tag(list(words)))


def test_the_other_perceptron_sees_endings_neighbours_and_capitals(tmp_path: Path) -> None:
    write_ud_tagger(tmp_path / "tagger")
    ours = tagger(tmp_path)
    # An ending; a known word; what follows a verb; the end of the sentence; a name, which is a noun here.
    assert ours.tags(("graceful", "is", "odd", "thing")) == ("ADJ", "VERB", "ADJ", "NOUN")
    assert ours.tags(("Paris", "is")) == ("NOUN", "VERB")
    assert ours.tags(()) == ()


def test_a_model_tags_each_word_by_its_first_piece(tmp_path: Path) -> None:
    write_upos_model(tmp_path / "tagger")
    ours = tagger(tmp_path)
    words = ("the", "documentary", "is", "graceful")
    tags = ours.tags(words)
    assert len(tags) == 4
    assert set(tags) <= {"ADJ", "NOUN", "VERB"}
    assert ours.tags(words) == tags
    # More words than the model has places for: the rest is unknown.
    assert ours.tags(("film",) * 200)[-1] == "X"


def test_tags_that_are_not_universal_are_refused(tmp_path: Path) -> None:
    write_upos_model(tmp_path / "a" / "tagger", labels=("JJ", "NN"))
    with pytest.raises(TaggerUnusableError, match=r"id2label has tags .*JJ"):
        tagger(tmp_path / "a")
    write_ud_tagger(tmp_path / "b" / "tagger", classes=("JJ|-",))
    with pytest.raises(TaggerUnusableError, match="JJ"):
        tagger(tmp_path / "b")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = write_ud_tagger(tmp_path / "tagger")
    (folder / "tagger.json.gz").write_bytes(b"not gzip")
    with pytest.raises(TaggerUnusableError, match=str(folder)):
        tagger(tmp_path)
