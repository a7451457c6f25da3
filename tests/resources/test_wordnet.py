from pathlib import Path

from tests.resources.making import write_wordnet
from workers.resources.wordnet import load_wordnet


def synonyms(reader: object, word: str) -> list[list[str]]:
    return [synset.lemma_names(lang="eng") for synset in reader.synsets(word, lang="eng")]  # type: ignore[attr-defined]


def test_nltk_reads_the_files_wherever_they_are(tmp_path: Path) -> None:
    folder = write_wordnet(tmp_path / "wordnet")
    # As in a volume a group may write to, which NLTK by itself refuses.
    for path in [folder, *folder.iterdir()]:
        path.chmod(path.stat().st_mode | 0o022)
    reader = load_wordnet(folder)
    assert reader.langs() == ["eng"]
    assert synonyms(reader, "films") == [["film", "movie", "picture", "motion_picture"]]
    assert synonyms(reader, "told") == [["tell", "narrate", "recount"]]
    assert synonyms(reader, "unheard") == []


def test_without_exception_lists_irregular_words_are_not_found(tmp_path: Path) -> None:
    reader = load_wordnet(write_wordnet(tmp_path / "wordnet", version="3.1", with_exceptions=False))
    assert synonyms(reader, "told") == []
    assert synonyms(reader, "tells") == [["tell", "narrate", "recount"]]
