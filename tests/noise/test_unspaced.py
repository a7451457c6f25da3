"""Scripts without spaces: where their texts are cut, and that no other text is cut otherwise."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.contracts.noise import Noise
from seatrial.noise.edits import levenshtein
from seatrial.noise.graphemes import graphemes
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from seatrial.noise.tokens import _TOKEN, between_tokens, tokens
from seatrial.noise.unspaced import is_unspaced, pieces

CHINESE = "这部电影非常好看、演员的表演也很精彩、故事让人感动、我们都很喜欢。"
JAPANESE = "この映画はとても面白かったです。「俳優」の演技もスーパーです。"
THAI = "หนังเรื่องนี้สนุกมากและนักแสดงก็เล่นดี"
UNSPACED = st.text(st.sampled_from("映画这。、はがーカ・กเนี้ำៗខ្មမာaé1\u0301\u200d,'-"), max_size=30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("这部电影、很好看。", ["这部", "电影", "、", "很好", "看", "。"]),
        ("ラーメンを食べました。", ["ラーメン", "を", "食", "べまし", "た", "。"]),
        ("ｶﾞｲﾄﾞ", ["ｶﾞｲﾄﾞ"]),
        ("「時々」か", ["「", "時々", "」", "か"]),
        ("แม่ไปตลาด", ["แม่", "ไปตล", "าด"]),
        ("ក្មេង", ["ក្មេង"]),
        ("I saw 电影, e-mail看了 3.5次.", ["I", "saw", "电影", ",", "e-mail", "看了", "3.5", "次", "."]),
    ],
)
def test_where_texts_are_cut(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "A film, isn't it?",
        "영화를 봤어요, 정말 좋았어요.",
        "Фильм хороший.",
        "فيلم جيد جدا",
        "फ़िल्म अच्छी है।",
        "Đây là phim hay 🎬",
    ],
)
def test_texts_with_spaces_are_cut_as_before(text: str) -> None:
    assert not is_unspaced(text)
    assert between_tokens(text) == _TOKEN.split(text)


@given(UNSPACED)
def test_parts_are_the_text_and_no_cluster_is_torn(text: str) -> None:
    parts = between_tokens(text)
    assert "".join(parts) == text
    assert all(parts[1::2])
    assert not any(map(str.strip, parts[0::2]))
    for token in _TOKEN.split(text)[1::2]:
        assert [cluster for piece in pieces(token) for cluster in graphemes(piece)] == list(graphemes(token))
    assert "".join(pieces(text, keeps_han=True)) == text


@pytest.mark.parametrize("text", [CHINESE, JAPANESE, THAI])
def test_noise_changes_as_many_characters_as_the_level_says(text: str) -> None:
    perturber = Perturber("intrude", Noise(phi=0.01), Lexicons(None))
    words = [token for token in tokens(text) if len(graphemes(token)) > 1]
    for level in (0.2, 0.5):
        found = perturber.perturb(text, level, random.Random(0))
        assert found.changed == min(-(-found.tokens * level // 1), len(words))
        # A symbol in each: not all through the sentence.
        assert found.changed <= levenshtein(text, found.text) <= 1.5 * found.changed


@pytest.mark.parametrize("part", ["映", "。", "は", "ก", "เ", "映a", "ー", "カ", "้", "映\u0301"])
def test_long_texts_take_no_time(part: str) -> None:
    # Looking ahead over the rest from every place would take minutes.
    assert "".join(between_tokens(part * 30_000)) == part * 30_000
