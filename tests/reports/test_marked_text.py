"""Texts of unknown origin on the page: inert, and nothing in them hidden."""

from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reports.marked_text import PairedSides, one_line, side_by_side, visible


class _Reader(HTMLParser):
    """Collects what a browser would make of a fragment: elements, and text without numbered characters."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(str(dict(attrs).get("class")))

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "unseen" not in self.open:
            self.text += data


def read(markup: str) -> _Reader:
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return reader


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</bdi></td></table>", "\"'&amp;{{7*7}}"]
)
def test_markup_is_text(text: str) -> None:
    for markup in (visible(text), *side_by_side(text, text + " x"), *side_by_side("x", text), one_line(text)):
        assert set(read(markup).tags) <= {"bdi", "del", "ins", "span"}
    assert read(visible(text)).text == text


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_makes_an_element_or_steers_the_page(before: str, after: str) -> None:
    for markup in side_by_side(before, after):
        assert set(read(markup).tags) <= {"bdi", "del", "ins", "span"}
        assert all(character.isprintable() or character.isspace() for character in unescape(markup))


@pytest.mark.parametrize(
    "number", [0, 0x0D, 0x1B, 0x200B, 0x200D, 0x202E, 0x2066, 0x2028, 0xFEFF, 0x3164, 0xE0041, 0xD800]
)
def test_what_cannot_be_seen_is_written_as_its_number(number: int) -> None:
    markup = visible(f"a{chr(number)}b")
    assert f">U+{number:04X}<" in markup
    assert chr(number) not in markup


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "naïve שלום 日本語\u00a0हिन्दी 🙂\n\tnew line"
    assert visible(text) == text


def test_a_letter_that_looks_like_another_says_which_it_is() -> None:
    left, right = side_by_side("a paypal page", "a p\u0430ypal page")
    assert ">U+0430<" in right
    assert "U+" not in left
    russian = side_by_side("слово", "слава")
    assert "U+" not in "".join(russian)


def test_a_space_put_into_a_word_is_seen() -> None:
    assert "<ins>\u2423</ins>" in side_by_side("a wonderful day", "a wonder ful day")[1]


def test_changes_are_elements_not_colours() -> None:
    left, right = side_by_side("a good film", "a fine film")
    assert left == "<bdi>a <del>good</del> film</bdi>"
    assert right == "<bdi>a <ins>fine</ins> film</bdi>"


def test_parts_are_compared_with_parts() -> None:
    left, right = PairedSides()(["a b", "c"], ["a b"])
    assert left == ["<bdi>a b</bdi>", "<bdi><del>c</del></bdi>"]
    assert right == ["<bdi>a b</bdi>"]


def test_a_page_compares_so_many_characters_and_tells_of_the_rest_where_it_changed() -> None:
    sides = PairedSides(most=40)
    left, right = sides(["a good old film"], ["a fine old movie"])
    assert left == ["<bdi>a <del>good</del> old <del>film</del></bdi>"]
    assert right == ["<bdi>a <ins>fine</ins> old <ins>movie</ins></bdi>"]
    left, right = sides(["a good old film"], ["a fine old movie"])
    assert left == ["<bdi>a <del>good old film</del></bdi>"]
    assert right == ["<bdi>a <ins>fine old movie</ins></bdi>"]
    assert sides(["same"], ["same"]) == (["<bdi>same</bdi>"], ["<bdi>same</bdi>"])


def test_many_letters_of_another_script_are_numbered_below_the_text() -> None:
    before = "the lazy dog looks on as foxes pass"
    few = side_by_side(before, before.replace("z", "\u0437"))[1]
    assert few.count('class="unseen"') == 1
    assert "scripts" not in few
    many = side_by_side(before, before.replace("o", "\u043e").replace("a", "\u0430"))[1]
    text, below = many.split('</bdi><span class="scripts">')
    assert "U+" not in text
    assert (text.count("\u043e"), text.count("\u0430")) == (5, 3)
    assert "8 letters of other scripts: " in below
    assert 0 < below.index("U+043E") < below.index("U+0430")
    assert "among them" in side_by_side("x" * 30, "".join(chr(0x430 + n) for n in range(30)))[1]


def test_what_is_left_out_is_said() -> None:
    left, right = side_by_side("word " * 500 + "end", "word " * 500 + "ond")
    assert "words left out" in left
    assert "words left out" in right
    assert "characters left out" in side_by_side("x" * 5_000, "y")[0]
