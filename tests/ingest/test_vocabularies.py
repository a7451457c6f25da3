"""Vocabularies and tokenizers of a Hugging Face folder: every bound on them is refused by name."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.ingest.huggingface import vocabularies
from seatrial.ingest.huggingface.folders import read_known
from seatrial.ingest.huggingface.tokenizer_config import MAX_ADDED_TOKENS, MAX_TOKEN_CHARS
from seatrial.ingest.huggingface.vocabularies import (
    MAX_COMPONENTS,
    MAX_CONTENT_CHARS,
    MAX_GROWTH,
    MAX_PADDED_TOKENS,
    MAX_PATTERN_CHARS,
    MAX_TOKENIZER_BYTES,
    MAX_VOCABULARY_BYTES,
    MAX_WORD_CHARS,
    check_tokenizer,
    check_vocabulary,
)
from seatrial.ingest.inspection.errors import ContentError, MalformedFileError
from tests.ingest.text_folders import WORDPIECE, refuse_folder


@pytest.mark.parametrize(
    ("name", "size"), [("vocab.txt", MAX_VOCABULARY_BYTES), ("tokenizer.json", MAX_TOKENIZER_BYTES)]
)
def test_no_byte_is_read_of_a_vocabulary_that_is_too_large(name: str, size: int) -> None:
    stream = io.BytesIO(b"the beginning")
    with pytest.raises(MalformedFileError, match="at most"):
        read_known(name, size + 1, stream)
    assert stream.tell() == 0
    assert read_known(name, size, stream) == b"the beginning"


def test_lines_and_structure_of_vocabularies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabularies, "MAX_VOCABULARY", 3)
    check_vocabulary("vocab.txt", b"a\nb\nc\n")
    with pytest.raises(ContentError, match="4 lines"):
        check_vocabulary("vocab.txt", b"a\nb\r\nc\n")
    with pytest.raises(ContentError, match="vocabulary has 4"):
        check_vocabulary("vocab.json", b'{"a":1,"b":2,"c":3,"d":4}')
    monkeypatch.setattr(vocabularies, "MAX_STRUCTURE", 10)
    with pytest.raises(MalformedFileError, match="brackets"):
        check_tokenizer(json.dumps(WORDPIECE).encode())


def _charsmap(text: bytes) -> str:
    return base64.b64encode((4).to_bytes(4, "little") + bytes(4) + text + b"\0").decode()


def _replace(content: str, pattern: Any = None) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern or {"String": "a"}, "content": content}


def _sequence(*parts: Any) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(parts)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vocab_file": "/etc/passwd"}, "vocab_file"),
        ({"normalizer": _sequence(*[_replace("aa")] * 7)}, "lengthen"),
        ({"normalizer": _sequence(_replace("a" * (MAX_GROWTH + 1)))}, "lengthen"),
        ({"normalizer": _sequence(*[{"type": "ByteLevel"}] * 7)}, "lengthen"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": _charsmap(b"x" * 65)}}, "lengthen"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "precompiled_charsmap"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "no base64"}}, "precompiled_charsmap"),
        ({"normalizer": _replace("x" * (MAX_CONTENT_CHARS + 1))}, "content"),
        ({"normalizer": _replace("", {"Regex": "(" * (MAX_PATTERN_CHARS + 1)})}, "Regex"),
        ({"normalizer": _sequence(*[{"type": "NFC"}] * MAX_COMPONENTS)}, "components"),
        ({"normalizer": _sequence(_sequence(*[{"type": "NFC"}] * MAX_COMPONENTS))}, "components"),
        ({"normalizer": {"type": "Shell"}}, "Shell"),
        ({"normalizer": {"type": "Sequence", "normalizers": {}}}, "list"),
        ({"normalizer": ["NFC"]}, "unknown type"),
        ({"normalizer": {"type": {}}}, "unknown type"),
        ({"model": {"type": ["BPE"]}}, "unknown type"),
        ({"pre_tokenizer": {"type": "NFC"}}, "pre_tokenizer"),
        ({"pre_tokenizer": {"type": "FixedLength", "length": 2**63}}, "length"),
        ({"post_processor": {"type": "NFC"}}, "post_processor"),
        ({"post_processor": {"type": "TemplateProcessing", "single": [{}] * 1001}}, "single"),
        ({"decoder": {"type": "NFC"}}, "decoder"),
        ({"padding": {"strategy": {"Fixed": MAX_PADDED_TOKENS + 1}}}, "padding"),
        ({"padding": {"strategy": "BatchLongest", "pad_to_multiple_of": 10**9}}, "padding"),
        ({"truncation": {"max_length": 2**63}}, "max_length"),
        ({"added_tokens": [{"id": 0, "content": "a"}] * (MAX_ADDED_TOKENS + 1)}, "added_tokens"),
        ({"added_tokens": [{"id": 0, "content": "a" * (MAX_TOKEN_CHARS + 1)}]}, "added token"),
        ({"added_tokens": [{"id": 0}]}, "added_tokens"),
        ({"model": None}, "model"),
        ({"model": {"type": "Neural", "vocab": {}}}, "Neural"),
        ({"model": {"type": "WordPiece"}}, "vocab"),
        ({"model": {"type": "WordPiece", "vocab": {"a": "b"}}}, "vocabulary"),
        ({"model": {"type": "Unigram", "vocab": [["a"]]}}, "pairs"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": {}}}, "merges"),
        ({"model": {"type": "WordPiece", "vocab": {}, "max_input_chars_per_word": MAX_WORD_CHARS + 1}}, "per_word"),
        ({"model": {"type": "BPE", "vocab": {}, "continuing_subword_prefix": "x" * 2000}}, "continuing"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_tokenizers_beyond_the_bounds_are_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    error = refuse_folder(tmp_path, **{"tokenizer.json": {**WORDPIECE, **changes}})
    assert isinstance(error, ContentError)
    assert "tokenizer.json" in str(error)
    assert says in str(error)


def _field(number: int, content: bytes) -> bytes:
    length = len(content)
    return bytes([number << 3 | 2, length & 127 | 128, length >> 7]) + content


def test_sentencepiece_models_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = _field(1, _field(1, b"film") + b"\x15" + bytes(4) + b"\x18\x01")
    charsmap = (4).to_bytes(4, "little") + bytes(4)
    check_vocabulary("spiece.model", piece * 3 + _field(3, _field(1, b"nmt_nfkc") + _field(2, charsmap + b"ab\0")))
    for damaged in (piece[:-1], b"\n" + b"\xff" * 20, piece + b"\x0f", piece + _field(3, _field(2, b"map"))):
        with pytest.raises(ContentError, match="spiece"):
            check_vocabulary("spiece.model", damaged)
    with pytest.raises(ContentError, match="lengthen"):
        check_vocabulary("spiece.model", piece + _field(3, _field(2, charsmap + b"x" * 65 + b"\0")))
    monkeypatch.setattr(vocabularies, "MAX_VOCABULARY", 2)
    with pytest.raises(ContentError, match="pieces"):
        check_vocabulary("spiece.model", piece * 3)
    # A vocabulary of tiktoken.
    check_vocabulary("tokenizer.model", b"IQ== 0\nIg== 1\n")


def test_honest_components_are_within_the_bounds() -> None:
    # sentencepiece: NFKC writes 18 letters for one; Llama, ALBERT and CLIP replace; GPT-2 writes bytes as letters.
    check_tokenizer(
        json.dumps(
            {
                **WORDPIECE,
                "normalizer": _sequence(
                    {"type": "Precompiled", "precompiled_charsmap": _charsmap("\u0635".encode() * 18)},
                    {"type": "Prepend", "prepend": "\u2581"},
                    _replace("\u2581", {"String": " "}),
                    _replace(" ", {"Regex": " {2,}"}),
                    _replace('"', {"String": "``"}),
                ),
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
                "model": {"vocab": {"\u4f60\u597d": 0}, "merges": [["a", "b"], "c d"], "dropout": None},
            },
            ensure_ascii=False,
        ).encode()
    )
    check_vocabulary("merges.txt", b"#version: 0.2\na b\n")
    check_vocabulary("vocab.json", '{"\u4f60": 0}'.encode())
