import json
import os
import unicodedata
from pathlib import Path

import pytest

from seatrial.contracts.noise import ATTACKERS, Noise
from seatrial.noise.lexicons import LexiconError, Lexicons, read_confusables, read_nlpaug, stopwords

SHIPPED = Lexicons(None)
NLPAUG = "esteem estime esstem\nluck lock luke luke Lock\nrose roze\nrose rows rose\n"


def installed(folder: Path) -> Lexicons:
    """Return lexicons of a folder with small tables in the formats of the packages'."""
    (folder / "typos-nlpaug").mkdir(parents=True)
    (folder / "typos-nlpaug" / "spelling_en.txt").write_text(NLPAUG, "utf-8")
    (folder / "confusables").mkdir()
    listed = {
        "a": [{"c": "\u0430", "n": "CYRILLIC SMALL LETTER A"}, {"c": "rn", "n": "TWO LETTERS"}],
        "o": [{"c": "\u03bf", "n": "GREEK SMALL LETTER OMICRON"}, {"c": "\u043e", "n": "CYRILLIC SMALL LETTER O"}],
        "\u03bf": [{"c": "o", "n": "LATIN SMALL LETTER O"}],
        "rn": [{"c": "m", "n": "LATIN SMALL LETTER M"}],
    }
    (folder / "confusables" / "confusables.json").write_text(json.dumps(listed), "utf-8")
    return Lexicons(folder)


def test_codespells_table_has_the_size_that_was_counted_in_its_dictionary() -> None:
    typos = SHIPPED.typos("codespell")
    assert (len(typos), sum(map(len, typos.values()))) == (17828, 71743)


@pytest.mark.parametrize(
    ("word", "misspelling"), [("the", "teh"), ("their", "thier"), ("receive", "recieve"), ("Afghanistan", "Afganistan")]
)
def test_well_known_misspellings_are_there(word: str, misspelling: str) -> None:
    found = {each.lower() for each in SHIPPED.typos("codespell")[word]}
    assert misspelling.lower() in found


def test_no_misspelling_of_codespells_is_the_word_or_is_listed_twice() -> None:
    for word, misspellings in SHIPPED.typos("codespell").items():
        assert len(set(misspellings)) == len(misspellings), word
        assert word not in misspellings
        assert not any(character.isspace() for character in "".join((word, *misspellings)))


@pytest.mark.parametrize(("source", "last"), [("dejavu", 0x58E), ("dejavu_bmp", 0xFFFF)])
def test_every_printable_ascii_character_but_the_underscore_has_twenty_look_alikes(source: str, last: int) -> None:
    glyphs = SHIPPED.glyphs(source)  # type: ignore[arg-type]
    assert set(glyphs) == set(map(chr, range(0x21, 0x7F))) - {"_"}
    for character, others in glyphs.items():
        alike, weights = zip(*others, strict=True)
        assert len(set(alike)) == 20
        assert character not in alike
        assert all(len(other) == 1 and 0x21 <= ord(other) <= last for other in alike)
        assert list(weights) == sorted(weights, reverse=True)
        assert 0 < weights[-1] <= weights[0] <= 1


def test_what_looks_the_same_is_nearest() -> None:
    glyphs = SHIPPED.glyphs("dejavu")
    # The Cyrillic and Greek letters DejaVu draws with the Latin one's outline.
    for character, twins in {"a": "\u0430", "o": "\u043e\u03bf", "A": "\u0410\u0391", "p": "\u0440"}.items():
        nearest = {other for other, weight in glyphs[character] if weight == pytest.approx(1)}
        assert set(twins) <= nearest, character


def test_look_alikes_are_letters_digits_marks_and_symbols() -> None:
    for source in ("dejavu", "dejavu_bmp"):
        for others in SHIPPED.glyphs(source).values():  # type: ignore[arg-type]
            assert {unicodedata.category(other)[0] for other, _ in others} <= set("LNPS")


def test_tables_are_read_once_and_cannot_be_changed(tmp_path: Path) -> None:
    lexicons = installed(tmp_path)
    for table in (
        lambda: lexicons.typos("codespell"),
        lambda: lexicons.typos("nlpaug"),
        lambda: lexicons.glyphs("dejavu"),
        lambda: lexicons.glyphs("confusables"),
    ):
        assert table() is table()
        with pytest.raises(TypeError):
            table()["word"] = ("another",)  # type: ignore[index]


def test_of_two_lines_of_nlpaugs_the_last_counts_and_repetitions_stay(tmp_path: Path) -> None:
    assert dict(installed(tmp_path).typos("nlpaug")) == {
        "esteem": ("estime", "esstem"),
        "luck": ("lock", "luke", "luke", "Lock"),
        "rose": ("rows", "rose"),
    }


def test_confusables_are_single_characters_in_both_directions(tmp_path: Path) -> None:
    glyphs = installed(tmp_path).glyphs("confusables")
    assert dict(glyphs) == {
        "a": (("\u0430", 1.0),),
        "\u0430": (("a", 1.0),),
        "o": (("\u03bf", 1.0), ("\u043e", 1.0)),
        "\u03bf": (("o", 1.0),),
        "\u043e": (("o", 1.0),),
    }


def test_a_table_installed_anew_is_read_anew(tmp_path: Path) -> None:
    lexicons = installed(tmp_path)
    assert "esteem" in lexicons.typos("nlpaug")
    file = tmp_path / "typos-nlpaug" / "spelling_en.txt"
    file.write_text("other ohter\n")
    os.utime(file, ns=(1, 1))
    assert dict(lexicons.typos("nlpaug")) == {"other": ("ohter",)}


@pytest.mark.parametrize("content", [b"", b"\n\n\n", b"\xff\xfe", b"one\ntwo\nthree\nfour five\n"], ids=range(4))
def test_a_file_that_is_no_table_of_misspellings_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "spelling_en.txt").write_bytes(content)
    with pytest.raises(LexiconError, match=r"spelling_en\.txt is no"):
        read_nlpaug(tmp_path / "spelling_en.txt")


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '{"a": [{"d": "b"}]}', '{"a": ["b"]}', "{}"], ids=range(6))
def test_a_file_that_is_no_list_of_confusables_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "confusables.json").write_text(content)
    with pytest.raises(LexiconError, match=r"confusables\.json is no list"):
        read_confusables(tmp_path / "confusables.json")


def test_nothing_is_lacking_for_what_is_shipped() -> None:
    for glyphs in ("dejavu", "dejavu_bmp"):
        assert SHIPPED.lacking(Noise(glyphs=glyphs), [*ATTACKERS, "combined"]) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("noise", "attackers", "expected"),
    [
        (Noise(typos="nlpaug"), ["natural_typo"], ("typos", "typos-nlpaug")),
        (Noise(typos="nlpaug"), ["visual", "truncate"], None),
        (Noise(glyphs="confusables"), ["visual"], ("glyphs", "confusables")),
        (Noise(glyphs="confusables"), ["natural_typo"], None),
        (Noise(glyphs="confusables"), ["combined"], ("glyphs", "confusables")),
        (Noise(glyphs="confusables"), ["truncate", "combined"], None),
        (Noise(typos="nlpaug", glyphs="confusables"), ATTACKERS, ("typos", "typos-nlpaug")),
    ],
    ids=["typos", "typos of others", "glyphs", "glyphs of others", "combined of all", "combined of one", "both"],
)
def test_what_is_not_installed_is_named_with_the_command(
    tmp_path: Path, noise: Noise, attackers: list[str], expected: tuple[str, str] | None
) -> None:
    for lexicons in (Lexicons(None), Lexicons(tmp_path / "none")):
        lacking = lexicons.lacking(noise, attackers)
        if expected is None:
            assert lacking is None
        else:
            assert lacking is not None
            assert (lacking.field, lacking.resource) == expected
            assert lacking.command == f"seatrial resources install {expected[1]}"
            assert "there is no" in lacking.why
    assert installed(tmp_path / "all").lacking(noise, attackers) is None


def test_a_damaged_table_is_lacking_too(tmp_path: Path) -> None:
    lexicons = installed(tmp_path)
    (tmp_path / "confusables" / "confusables.json").write_text("{")
    lacking = lexicons.lacking(Noise(glyphs="confusables"), ["visual"])
    assert lacking is not None
    assert "no list of confusables" in lacking.why


def test_a_table_that_is_not_installed_is_no_empty_table(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match=r"there is no .*spelling_en\.txt"):
        Lexicons(tmp_path).typos("nlpaug")


def test_stopwords_are_lower_case_and_end_before_words_of_content() -> None:
    assert len(stopwords()) == 198
    assert {"the", "through", "don't"} <= stopwords()
    assert not {"film", "terrible"} & stopwords()
    assert all(word == word.lower() for word in stopwords())
