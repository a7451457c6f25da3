"""What tokenizer_config.json, special_tokens_map.json and added_tokens.json may say.

transformers passes every key of the first to the tokenizer's constructor, and every key of the second to the same
place: ``vocab_file`` in either makes it read that file. So only keys of these lists are handed on.
"""

from collections.abc import Mapping
from typing import Any

from seatrial.ingest.huggingface.documents import MAX_INTEGER, check_integer, check_list, check_string, refuse_key
from seatrial.ingest.inspection.errors import ContentError

CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"

MAX_ADDED_TOKENS = 50_000
MAX_TOKEN_CHARS = 1000
MAX_EXTRA_IDS = 10_000
NO_LIMIT = 10**31
"""A tokenizer without a longest text writes 10^30."""

_FAMILIES = (
    "Albert", "Bart", "Barthez", "Bert", "BertGeneration", "Bertweet", "BigBird", "Blenderbot", "Bloom", "ByT5",
    "CLIP", "CTRL", "Camembert", "Canine", "CodeGen", "CodeLlama", "Cohere", "ConvBert", "DPRQuestionEncoder",
    "Deberta", "DebertaV2", "DistilBert", "Electra", "Esm", "FNet", "Funnel", "GPT2", "GPTNeoX", "GPTSw3",
    "Gemma", "Herbert", "LED", "LayoutLM", "Llama", "Longformer", "Lxmert", "MBart", "MBart50", "MPNet", "MT5",
    "MobileBert", "Mvp", "Nllb", "OpenAIGPT", "PLBart", "Pegasus", "Perceiver", "Phobert", "Qwen2", "Realm",
    "Reformer", "RemBert", "RetriBert", "RoFormer", "Roberta", "Siglip", "Splinter", "SqueezeBert", "T5",
    "Udop", "XGLM", "XLMRoberta", "XLNet",
)  # fmt: skip
TOKENIZER_CLASSES = frozenset(
    {f"{name}Tokenizer{kind}" for name in _FAMILIES for kind in ("", "Fast")}
    | {"PreTrainedTokenizerFast", "TokenizersBackend"}
)
"""Classes that read a vocabulary, merges, a sentencepiece model or tokenizer.json of the folder, and nothing else.

Not among them: those that call MeCab, Sudachi or Juman (their options name dictionaries), jieba, kytea or espeak, that
unpickle, or that read files of their own (Marian, Luke, RoCBert).
"""

FLAGS = frozenset({
    "add_bos_token", "add_eos_token", "add_prefix_space", "clean_text", "clean_up_tokenization_spaces",
    "do_basic_tokenize", "do_lower_case", "do_lowercase", "do_lowercase_and_remove_accent", "keep_accents",
    "legacy", "legacy_behaviour", "normalization", "remove_space", "spaces_between_special_tokens",
    "split_by_punct", "split_special_tokens", "strip_accents", "tokenize_chinese_chars", "trim_offsets",
})  # fmt: skip
NUMBERS = {"extra_ids": (0, MAX_EXTRA_IDS), "offset": (0, MAX_EXTRA_IDS)}
LIMITS = ("model_max_length", "max_len")
WORDS = frozenset({"errors", "language_codes", "padding_side", "src_lang", "tgt_lang", "truncation_side"})
PREFIXES = frozenset({"wordpieces_prefix"})
LISTS = frozenset({"model_input_names", "never_split"})
TOKENS = frozenset({
    "bos_token", "cls_token", "eos_token", "eot_token", "fill_token", "mask_token", "mask_token_sent",
    "middle_token", "pad_token", "prefix_token", "question_token", "sep_token", "suffix_token", "unk_token",
})  # fmt: skip
TOKEN_LISTS = frozenset({"additional_special_tokens"})
_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

LEFTOVERS = frozenset(
    {"special_tokens_map_file", "full_tokenizer_file", "name_or_path", "_name_or_path", "chat_template", "ckpt_path"}
)
"""Keys that honest exports hold with a path of another machine, and that transformers reads nothing by."""

FORBIDDEN = frozenset({
    "__slow_tokenizer", "fast_tokenizer_files", "gguf_file", "init_inputs", "jumanpp_kwargs", "mecab_kwargs",
    "mecab_option", "sentencepiece_model_ckpt", "sp_model_kwargs", "subword_tokenizer_type", "sudachi_kwargs",
    "tokenizer_object", "word_tokenizer_type",
})  # fmt: skip


def clean_tokenizer_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a tokenizer_config.json is handed on: the keys the classes above take, each of its type.

    Other keys are left out, as those classes would leave them; what asks for files, code or libraries is refused.

    Raises:
        RemoteCodeRefusedError: It asks for code.
        ContentError: It asks for something outside of the folder, or a value is of another type.
    """
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if key in LEFTOVERS or refuse_key(key, value, CONFIG, FORBIDDEN):
            continue
        if key == "tokenizer_class":
            check_tokenizer_class(value, CONFIG)
            # The name transformers 5 gives the same class.
            kept[key] = "PreTrainedTokenizerFast" if value == "TokenizersBackend" else value
        elif key == "added_tokens_decoder":
            kept[key] = _clean_decoder(value)
        elif key == "extra_special_tokens":
            kept.update(_clean_extra(value, document))
        elif key in TOKENS:
            kept[key] = _clean_token(value, key, CONFIG)
        elif key in TOKEN_LISTS:
            kept[key] = _clean_tokens(value, key, CONFIG)
        elif key in {*FLAGS, *NUMBERS, *LIMITS, *WORDS, *PREFIXES, *LISTS}:
            _check_value(key, value)
            kept[key] = value
    return kept


def clean_special_tokens_map(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the special tokens of a special_tokens_map.json.

    Raises:
        ContentError: A key asks for a file, or a value is no token.
    """
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if key in LEFTOVERS or refuse_key(key, value, SPECIAL_TOKENS, FORBIDDEN):
            continue
        if key in TOKENS:
            kept[key] = _clean_token(value, key, SPECIAL_TOKENS)
        elif key in TOKEN_LISTS:
            kept[key] = _clean_tokens(value, key, SPECIAL_TOKENS)
    return kept


def clean_added_tokens(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an added_tokens.json, which maps tokens to their numbers.

    Raises:
        ContentError: It does not.
    """
    check_list(document, "the object", ADDED_TOKENS, longest=MAX_ADDED_TOKENS)
    for token, number in document.items():
        if len(token) > MAX_TOKEN_CHARS or not isinstance(number, int) or isinstance(number, bool):
            raise ContentError(
                f"{ADDED_TOKENS} must map tokens of at most {MAX_TOKEN_CHARS:,} characters to their numbers: "
                f"{token[:60]!r} is no such token"
            )
        check_integer(number, repr(token[:60]), ADDED_TOKENS, low=0)
    return dict(document)


def check_tokenizer_class(name: Any, where: str) -> None:
    """Raise unless a class name is none, or one of a tokenizer that reads the folder's vocabulary alone."""
    if name is not None and (not isinstance(name, str) or name not in TOKENIZER_CLASSES):
        raise ContentError(
            f"{where}: tokenizer_class {str(name)[:100]!r} is not one of the tokenizers that are loaded (those that "
            "read nothing but a vocabulary, merges, a sentencepiece model or tokenizer.json); save tokenizer.json and "
            "name PreTrainedTokenizerFast"
        )


def _check_value(key: str, value: Any) -> None:
    if value is None:
        return
    if key in FLAGS:
        if value not in (True, False):
            raise _wrong_type(key, CONFIG, "true or false")
    elif key in NUMBERS:
        if not isinstance(value, int):
            raise _wrong_type(key, CONFIG, "a whole number")
        low, high = NUMBERS[key]
        check_integer(value, key, CONFIG, low=low, high=high)
    elif key in LIMITS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= NO_LIMIT:
            raise _wrong_type(key, CONFIG, "a number of tokens")
    elif key in LISTS:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise _wrong_type(key, CONFIG, "a list of words")
        check_list(value, key, CONFIG)
        for word in value:
            _check_token(word, key, CONFIG)
    elif not isinstance(value, str):
        raise _wrong_type(key, CONFIG, "a word")
    elif key in PREFIXES:
        _check_token(value, key, CONFIG)
    else:
        check_string(value, key, CONFIG)


def _clean_token(value: Any, key: str, where: str) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        _check_token(value, key, where)
        return value
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        raise _wrong_type(key, where, "a token, or an object with its content")
    _check_token(value["content"], key, where)
    flags = {flag: value[flag] for flag in _TOKEN_FLAGS if flag in value}
    if any(not isinstance(flag, bool) for flag in flags.values()):
        raise _wrong_type(key, where, "a token whose switches are true or false")
    marked = {"__type": "AddedToken"} if value.get("__type") == "AddedToken" else {}
    return {**marked, "content": value["content"], **flags}


def _clean_tokens(value: Any, key: str, where: str) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise _wrong_type(key, where, "a list of tokens")
    check_list(value, key, where, longest=MAX_ADDED_TOKENS)
    return [_clean_token(token, key, where) for token in value]


def _clean_decoder(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(number.isdecimal() and number.isascii() for number in value):
        raise _wrong_type("added_tokens_decoder", CONFIG, "an object of numbers and tokens")
    check_list(value, "added_tokens_decoder", CONFIG, longest=MAX_ADDED_TOKENS)
    kept = {}
    for number, token in value.items():
        if len(number) > 10 or int(number) > MAX_INTEGER or not isinstance(token, dict):
            raise _wrong_type("added_tokens_decoder", CONFIG, "an object of numbers and tokens")
        kept[number] = {name: part for name, part in _clean_token(token, number, CONFIG).items() if name != "__type"}
    return kept


def _clean_extra(value: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the further special tokens: named ones in transformers 4, a list of them in transformers 5."""
    if not value:
        return {}
    if isinstance(value, list):
        if document.get("additional_special_tokens"):
            return {}
        return {"additional_special_tokens": _clean_tokens(value, "extra_special_tokens", CONFIG)}
    if not isinstance(value, dict) or not all(
        name.isidentifier() and name.isascii() and name.endswith("_token") and len(name) <= 100 for name in value
    ):
        raise _wrong_type("extra_special_tokens", CONFIG, "an object of names that end in _token, and tokens")
    check_list(value, "extra_special_tokens", CONFIG, longest=1000)
    return {"extra_special_tokens": {name: _clean_token(token, name, CONFIG) for name, token in value.items()}}


def _check_token(value: str, key: str, where: str) -> None:
    if len(value) > MAX_TOKEN_CHARS:
        raise ContentError(
            f"{where}: {key} holds a token of {len(value):,} characters; at most {MAX_TOKEN_CHARS:,} are read"
        )


def _wrong_type(key: str, where: str, wanted: str) -> ContentError:
    return ContentError(f"{where}: {key} must be {wanted}")
