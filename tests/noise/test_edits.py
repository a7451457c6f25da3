import regex
from hypothesis import given
from hypothesis import strategies as st

from seatrial.noise.edits import levenshtein


def by_rows(before: str, after: str) -> int:
    """Wagner and Fischer's dynamic programme, of grapheme clusters."""
    before, after = regex.findall(r"\X", before), regex.findall(r"\X", after)
    row = list(range(len(after) + 1))
    for i, one in enumerate(before, 1):
        above, row = row, [i]
        for j, other in enumerate(after, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (one != other)))
    return row[-1]


@given(st.text(st.sampled_from("ab é🧑\u0301"), max_size=12), st.text(st.sampled_from("ab é🧑\u0301"), max_size=12))
def test_agrees_with_a_dynamic_programme(before: str, after: str) -> None:
    assert levenshtein(before, after) == by_rows(before, after)


def test_counts_characters_not_bytes() -> None:
    assert levenshtein("naïve 🧑", "naive 🧒") == 2


def test_counts_a_letter_with_its_accents_once() -> None:
    assert levenshtein("a\u0301e\u0301", "a\u0301") == 1
    assert levenshtein("का", "की") == 1
    assert levenshtein("a\r\nb\r\nc", "á\r\nb\r\nc") == 1
