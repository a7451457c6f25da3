"""What tokenizer.json and the other vocabulary files may hold.

The tokenizers library takes whatever parses: a chain of replacements that doubles a text sixty times, a padding to 10^9
tokens, a character map that writes a megabyte for each letter.
"""

import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.ingest.huggingface.configuration import MAX_VOCABULARY
from seatrial.ingest.huggingface.documents import MAX_INTEGER, check_integer, check_list, parse_object
from seatrial.ingest.huggingface.tokenizer_config import MAX_ADDED_TOKENS, MAX_TOKEN_CHARS
from seatrial.ingest.inspection.errors import ContentError

TOKENIZER = "tokenizer.json"
MAX_TOKENIZER_BYTES = 128 * 2**20
"""The largest in use (a million tokens of 100 languages, indented) have 60 MB."""
MAX_VOCABULARY_BYTES = 64 * 2**20
MAX_SENTENCEPIECE_BYTES = 32 * 2**20
"""A vocabulary of 900,000 pieces has 18 MB."""
MAX_STRUCTURE = 4 * 2**20
"""`{[:,`: a vocabulary of a million tokens with scores takes 3 million. The worst document of as many takes 550 MB."""
MAX_COMPONENTS = 64
MAX_PATTERN_CHARS = 4000
MAX_CONTENT_CHARS = 200
MAX_CHARSMAP_CHARS = 4 * 2**20
MAX_GROWTH = 64
"""Times a chain of components may lengthen a text: NFKC alone writes 18 letters for one."""
MAX_WORD_CHARS = 1000
"""A word of n letters costs WordPiece n^2 / 2 look-ups."""
MAX_PADDED_TOKENS = 2**20

_NORMALIZERS = frozenset({
    "BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend",
    "Replace", "Sequence", "Strip", "StripAccents",
})  # fmt: skip
_PRE_TOKENIZERS = frozenset({
    "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength", "Metaspace", "Punctuation",
    "Sequence", "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit",
})  # fmt: skip
_POST_PROCESSORS = frozenset({
    "BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing",
})  # fmt: skip
_DECODERS = frozenset({
    "BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Sequence", "Strip",
    "WordPiece",
})  # fmt: skip
SECTIONS = {
    "normalizer": (_NORMALIZERS, "normalizers"),
    "pre_tokenizer": (_PRE_TOKENIZERS, "pretokenizers"),
    "post_processor": (_POST_PROCESSORS, "processors"),
    "decoder": (_DECODERS, "decoders"),
}
"""Component types of each section, and the member of a Sequence that lists its parts."""
_MODELS = frozenset({"BPE", "WordPiece", "WordLevel", "Unigram"})
_KEYS = frozenset({"version", "truncation", "padding", "added_tokens", "model", *SECTIONS})


def largest(name: str) -> int:
    """Return the most bytes that are read of a vocabulary file."""
    if name == TOKENIZER:
        return MAX_TOKENIZER_BYTES
    return MAX_SENTENCEPIECE_BYTES if name.endswith(".model") else MAX_VOCABULARY_BYTES


def check_vocabulary(name: str, data: bytes) -> None:
    """Raise unless a vocabulary file is what its name says, within bounds.

    Args:
        name: ``tokenizer.json``, ``vocab.json``, or one of lines or of sentencepiece.
        data: All of it, at most :func:`largest` bytes.

    Raises:
        MalformedFileError: It is no valid JSON.
        ContentError: It is beyond the bounds, or says what the tokenizers library does not know.
    """
    if name == TOKENIZER:
        check_tokenizer(data)
    elif name == "vocab.json":
        document = parse_object(data, name, max_structure=MAX_STRUCTURE, encoding="latin-1")
        _check_tokens(document, name)
    # What tiktoken writes is named alike, and has lines that do not begin with a line feed.
    elif name.endswith(".model") and data[:1] == b"\n":
        _check_sentencepiece(name, data)
    else:
        lines = data.count(b"\n") + data.count(b"\r")
        if lines > MAX_VOCABULARY:
            raise ContentError(f"{name} has {lines:,} lines; at most {MAX_VOCABULARY:,} are read")


def check_tokenizer(data: bytes) -> None:
    """Raise unless a tokenizer.json holds known components within bounds.

    Raises:
        MalformedFileError: It is no valid JSON.
        ContentError: It is beyond the bounds, or says what the tokenizers library does not know.
    """
    # One emoji would make the text four bytes a character. What is compared here is ASCII, and lengths in bytes do.
    document = parse_object(data, TOKENIZER, max_structure=MAX_STRUCTURE, encoding="latin-1")
    unknown = next((key for key in document if key not in _KEYS), None)
    if unknown is not None:
        raise ContentError(f"{TOKENIZER}: {unknown[:100]!r} is no part of a tokenizer; remove the key")
    for section, (types, member) in SECTIONS.items():
        _check_section(document.get(section), section, types, member)
    _check_added(document.get("added_tokens") or [])
    _check_model(document.get("model"))
    _check_padding(document.get("padding"))
    _check_members(document.get("truncation"), "truncation")


def _check_section(section: Any, where: str, types: frozenset[str], member: str) -> None:
    if section is None:
        return
    growth, count, todo = 1, 0, [section]
    while todo:
        component = todo.pop()
        count += 1
        if count > MAX_COMPONENTS:
            raise ContentError(f"{TOKENIZER}: {where} has more than {MAX_COMPONENTS} components")
        kind = component.get("type") if isinstance(component, dict) else component
        if not isinstance(component, dict) or not isinstance(kind, str) or kind not in types:
            raise ContentError(
                f"{TOKENIZER}: {where} has a component of the unknown type {str(kind)[:60]!r}; known are "
                f"{', '.join(sorted(types))}"
            )
        parts = component.get(member) if kind == "Sequence" else None
        if parts is not None:
            if not isinstance(parts, list):
                raise ContentError(f"{TOKENIZER}: {where}.{member} must be a list of components")
            todo.extend(parts)
        _check_members({key: value for key, value in component.items() if key != member}, where)
        # Decoders turn tokens into text, which no audit does.
        if where != "decoder":
            growth *= _growth(component)
        if growth > MAX_GROWTH:
            raise ContentError(
                f"{TOKENIZER}: the components of {where} may lengthen a text more than {MAX_GROWTH} times"
            )


def _growth(component: Mapping[str, Any]) -> int:
    """Return how many letters a component may write for one."""
    kind = component["type"]
    if kind == "Replace":
        content = component.get("content")
        # Letters, not bytes: the document was read as if each byte were one.
        return max(1, len(_as_text(content))) if isinstance(content, str) else 1
    if kind == "ByteLevel":
        return 2
    if kind == "Precompiled":
        return _longest_mapping(component.get("precompiled_charsmap"))
    return 1


def _as_text(value: str) -> str:
    # Escapes (\\u2581) are read as they are, and lie beyond Latin-1.
    return value.encode("latin-1").decode("utf-8", "replace") if max(value, default="") < "\u0100" else value


def _longest_mapping(charsmap: Any) -> int:
    """Return the longest text, in letters, of a sentencepiece character map: a trie, then texts that end with a NUL."""
    if charsmap is None:
        return 1
    try:
        data = binascii.a2b_base64(charsmap, strict_mode=True) if isinstance(charsmap, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    return _longest_text(data, TOKENIZER)


def _longest_text(data: bytes, where: str) -> int:
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or 4 + size > len(data) or size % 4:
        raise ContentError(f"{where}: precompiled_charsmap is no character map of sentencepiece")
    texts = data[4 + size :].split(b"\0")
    return max(1, *(len(text.decode("utf-8", "replace")) for text in texts))


def _check_sentencepiece(name: str, data: bytes) -> None:
    """Raise unless a sentencepiece model has a bounded number of pieces, and a character map that is one."""
    pieces = 0
    for field, start, end in _fields(data, 0, len(data), name):
        # ModelProto: 1 is a piece, 3 and 5 the specifications of normalising and of the way back.
        pieces += field == 1
        if pieces > MAX_VOCABULARY:
            raise ContentError(f"{name} has more than {MAX_VOCABULARY:,} pieces")
        if field not in (3, 5):
            continue
        for inner, inner_start, inner_end in _fields(data, start, end, name):
            charsmap = data[inner_start:inner_end]
            if inner == 2 and charsmap and _longest_text(charsmap, name) > MAX_GROWTH:
                raise ContentError(f"{name}: its character map may lengthen a text more than {MAX_GROWTH} times")


def _fields(data: bytes, start: int, end: int, name: str) -> Iterator[tuple[int, int, int]]:
    """Give the fields of a protobuf message: number, and where its bytes begin and end (at once, for a number)."""
    while start < end:
        tag, start = _varint(data, start, end, name)
        kind, length = tag & 7, 0
        if kind == 0:
            _, start = _varint(data, start, end, name)
        elif kind == 2:
            length, start = _varint(data, start, end, name)
        elif kind in (1, 5):
            start += 8 if kind == 1 else 4
        if kind not in (0, 1, 2, 5) or start + length > end:
            raise ContentError(f"{name} is damaged: it is no sentencepiece model")
        yield tag >> 3, start, start + length
        start += length


def _varint(data: bytes, start: int, end: int, name: str) -> tuple[int, int]:
    value = 0
    for position in range(start, min(start + 10, end)):
        value |= (data[position] & 127) << 7 * (position - start)
        if data[position] < 128:
            return value, position + 1
    raise ContentError(f"{name} is damaged: it is no sentencepiece model")


def _check_members(value: Any, where: str) -> None:
    """Raise for a component whose strings, lists or numbers are beyond the bounds."""
    todo = [("", value)]
    while todo:
        key, value = todo.pop()
        if isinstance(value, dict):
            check_list(value, key or where, TOKENIZER, longest=1000)
            todo.extend(value.items())
        elif isinstance(value, list):
            check_list(value, key or where, TOKENIZER, longest=1000)
            todo.extend((key, inner) for inner in value)
        elif isinstance(value, str):
            longest = {
                "precompiled_charsmap": MAX_CHARSMAP_CHARS,
                "String": MAX_PATTERN_CHARS,
                "Regex": MAX_PATTERN_CHARS,
                "pattern": MAX_PATTERN_CHARS,
                "content": MAX_CONTENT_CHARS,
            }.get(key, MAX_TOKEN_CHARS)
            if len(value) > longest:
                raise ContentError(
                    f"{TOKENIZER}: {key} of {where} has {len(value):,} bytes; at most {longest:,} are read"
                )
        elif isinstance(value, int):
            check_integer(value, f"{key} of {where}", TOKENIZER)


def _check_added(tokens: Any) -> None:
    if not isinstance(tokens, list):
        raise ContentError(f"{TOKENIZER}: added_tokens must be a list")
    check_list(tokens, "added_tokens", TOKENIZER, longest=MAX_ADDED_TOKENS)
    for token in tokens:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise ContentError(f"{TOKENIZER}: added_tokens must hold objects with a content")
        if len(token["content"]) > MAX_TOKEN_CHARS:
            raise ContentError(
                f"{TOKENIZER}: an added token has {len(token['content']):,} bytes; at most {MAX_TOKEN_CHARS:,} are read"
            )
        _check_members({key: value for key, value in token.items() if key != "content"}, "added_tokens")


def _check_model(model: Any) -> None:
    # The first versions of the library wrote no type.
    kind = model.get("type", "BPE") if isinstance(model, dict) else model
    if not isinstance(model, dict) or not isinstance(kind, str) or kind not in _MODELS:
        raise ContentError(
            f"{TOKENIZER}: model has the unknown type {str(kind)[:60]!r}; known are {', '.join(sorted(_MODELS))}"
        )
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        _check_tokens(vocabulary, TOKENIZER)
    elif isinstance(vocabulary, list):
        check_list(vocabulary, "vocab", TOKENIZER, longest=MAX_VOCABULARY)
        if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in vocabulary):
            raise ContentError(f"{TOKENIZER}: a vocab that is a list must hold pairs of a token and its score")
    else:
        raise ContentError(f"{TOKENIZER}: model has no vocab")
    merges = model.get("merges")
    if merges is not None:
        if not isinstance(merges, list):
            raise ContentError(f"{TOKENIZER}: merges must be a list")
        check_list(merges, "merges", TOKENIZER, longest=MAX_VOCABULARY)
    _check_members({key: value for key, value in model.items() if key not in ("vocab", "merges")}, "model")
    longest = model.get("max_input_chars_per_word")
    if isinstance(longest, int):
        check_integer(longest, "max_input_chars_per_word", TOKENIZER, low=0, high=MAX_WORD_CHARS)


def _check_tokens(vocabulary: Mapping[str, Any], where: str) -> None:
    check_list(vocabulary, "the vocabulary", where, longest=MAX_VOCABULARY)
    if not all(type(number) is int and 0 <= number <= MAX_INTEGER for number in vocabulary.values()):
        raise ContentError(f"{where}: a vocabulary must map tokens to whole numbers of at most {MAX_INTEGER:,}")


def _check_padding(padding: Any) -> None:
    if padding is None:
        return
    if not isinstance(padding, dict):
        raise ContentError(f"{TOKENIZER}: padding must be an object")
    _check_members(padding, "padding")
    strategy = padding.get("strategy")
    lengths = [*(strategy.values() if isinstance(strategy, dict) else ()), padding.get("pad_to_multiple_of")]
    for length in lengths:
        if isinstance(length, int):
            check_integer(length, "padding", TOKENIZER, low=0, high=MAX_PADDED_TOKENS)
