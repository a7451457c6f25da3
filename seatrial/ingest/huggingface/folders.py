"""Which files of a Hugging Face folder are read, and what each of them may hold."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from seatrial.ingest.huggingface import configuration, tokenizer_config
from seatrial.ingest.huggingface.documents import (
    MAX_DOCUMENT_BYTES,
    check_integer,
    check_list,
    parse_object,
    refuse_key,
)
from seatrial.ingest.huggingface.vocabularies import check_vocabulary, largest
from seatrial.ingest.inspection.errors import ContentError, MalformedFileError

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
PROCESSOR = "processor_config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
DOCUMENTS = (
    CONFIG,
    PREPROCESSOR,
    PROCESSOR,
    tokenizer_config.CONFIG,
    tokenizer_config.SPECIAL_TOKENS,
    tokenizer_config.ADDED_TOKENS,
    INDEX,
)
"""Small JSON files: what is loaded is written anew from the keys that are known."""

VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "bpe.codes",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "tokenizer.model",
)
"""Files a tokenizer is built from: checked, and loaded as they are."""

# Any one of these sets is a tokenizer.
TOKENIZERS: tuple[frozenset[str], ...] = (
    frozenset({"tokenizer.json"}),
    frozenset({"vocab.txt"}),
    frozenset({"vocab.json", "merges.txt"}),
    frozenset({"spiece.model"}),
    frozenset({"spm.model"}),
    frozenset({"sentencepiece.bpe.model"}),
    frozenset({"sentencepiece.model"}),
    frozenset({"tokenizer.model"}),
)
_SHARD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}\.safetensors")
_PREPROCESSING_FLAGS = ("do_center_crop", "do_normalize", "do_rescale", "do_resize")
_PREPROCESSING_NUMBERS = ("image_mean", "image_std", "rescale_factor", "size", "crop_size")


def folder_root(names: Iterable[str]) -> str:
    """Return the prefix of the folder that holds config.json: empty, or one folder and a slash.

    Raises:
        ContentError: There is none, or other files lie outside of it.
    """
    names = list(names)
    roots = sorted(name.removesuffix(CONFIG) for name in names if PurePosixPath(name).name == CONFIG)
    at_top = [root for root in roots if root.count("/") <= 1]
    if not at_top:
        raise ContentError(
            "The archive has no config.json at its top or in its only folder: send the whole Hugging Face folder"
        )
    root = at_top[0]
    outside = next((name for name in names if not name.startswith(root)), None)
    if outside is not None:
        raise ContentError(f"The archive holds config.json in {root!r} and {outside!r} outside of it: send one folder")
    return root


def read_known(name: str, size: int, stream: BinaryIO) -> bytes | None:
    """Return a document or vocabulary file whole, or None where a file of this name is not read.

    Args:
        name: Of the file, in the folder.
        size: Its bytes.
        stream: Positioned at its beginning.

    Raises:
        MalformedFileError: It is larger than any honest file of its name.
    """
    if name not in DOCUMENTS and name not in VOCABULARIES:
        return None
    most = MAX_DOCUMENT_BYTES if name in DOCUMENTS else largest(name)
    if size > most:
        raise MalformedFileError(f"{name} has {size:,} bytes; at most {most:,} are read")
    parts = []
    while size > 0 and (part := stream.read(min(size, 2**20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def check_known(name: str, data: bytes) -> dict[str, Any] | None:
    """Return what of a document is handed on to be loaded; None for a vocabulary file, which is loaded as it is.

    Raises:
        InspectionError: The file is damaged, asks for something outside of its folder, or is beyond the bounds.
    """
    if name in VOCABULARIES:
        check_vocabulary(name, data)
        return None
    return clean_document(name, parse_object(data, name))


def clean_document(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a JSON file is handed on to be loaded: keys that are known, with values of their types.

    Raises:
        RemoteCodeRefusedError: The document asks for code.
        ContentError: It asks for something outside of its folder, or is beyond the bounds.
    """
    if name == CONFIG:
        return configuration.clean_configuration(document)
    if name == tokenizer_config.CONFIG:
        return tokenizer_config.clean_tokenizer_config(document)
    if name == tokenizer_config.SPECIAL_TOKENS:
        return tokenizer_config.clean_special_tokens_map(document)
    if name == tokenizer_config.ADDED_TOKENS:
        return tokenizer_config.clean_added_tokens(document)
    if name == INDEX:
        return _clean_index(document)
    return _clean_preprocessing(name, document)


def is_weights(name: str) -> bool:
    """Return whether a file of the folder itself holds weights, by its name."""
    return bool(_SHARD.fullmatch(name))


def shard_names(index: Mapping[str, Any]) -> list[str]:
    """Return the files a cleaned index names."""
    return sorted(set(index["weight_map"].values()))


def _clean_index(document: Mapping[str, Any]) -> dict[str, Any]:
    mapping = document.get("weight_map")
    if not isinstance(mapping, dict) or not all(isinstance(shard, str) for shard in mapping.values()):
        raise ContentError(f"{INDEX}: weight_map must map tensor names to file names")
    odd = next((shard for shard in mapping.values() if not _SHARD.fullmatch(shard)), None)
    if odd is not None:
        raise ContentError(
            f"{INDEX}: weight_map names {odd[:100]!r}; shards are .safetensors files beside the index, named with "
            "letters, digits, dots, dashes and underscores"
        )
    # Its sizes are counted from the files.
    return {"metadata": {}, "weight_map": mapping}


def _clean_preprocessing(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if refuse_key(key, value, name, configuration.FORBIDDEN):
            continue
        if key in _PREPROCESSING_FLAGS:
            if value not in (None, True, False):
                raise ContentError(f"{name}: {key} must be true or false")
            kept[key] = value
        elif key in _PREPROCESSING_NUMBERS:
            _check_numbers(value, key, name)
            kept[key] = value
    return kept


def _check_numbers(value: Any, key: str, where: str) -> None:
    values = [value]
    if isinstance(value, list | dict):
        check_list(value, key, where, longest=4096)
        values = list(value.values() if isinstance(value, dict) else value)
    for number in values:
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise ContentError(f"{where}: {key} must be a number, or a list or an object of numbers")
        if isinstance(number, int):
            check_integer(number, key, where)
