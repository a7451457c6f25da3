"""What the files an operator gives must be before they are installed: read as data, nothing of them run."""

import json
from pathlib import Path

from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.inspection.safetensors_header import read_safetensors_header
from workers.resources.vectors import VectorsUnusableError, WordVectors, read_text_vectors

PREDICTING_HEADS = ("predictions", "lm_head", "vocab_projector")
"""In the names of the weights that tell words: BERT's, ALBERT's and ELECTRA's, RoBERTa's, DistilBERT's."""

MASK_TOKENS = ("[MASK]", "<mask>")


class FormatError(ValueError):
    """Files are not what the resource they are given for is made of; the message says what would be right."""


def check_word_vectors(path: Path) -> None:
    """Read a whole text file of vectors, ``word v1 v2 ...`` in each line, word2vec's first line or none.

    Raises:
        FormatError: A line is something else, a vector is zero or not finite, or there are none.
    """
    try:
        WordVectors(*read_text_vectors(path))
    except VectorsUnusableError as error:
        raise FormatError(f"{error}. A line is a word and its numbers, apart by single spaces") from error


def check_masked_lm(folder: Path) -> None:
    """Look through a Hugging Face folder for what a masked language model needs, without loading it.

    Raises:
        FormatError: The weights have no head that predicts words, or do not fit the vocabulary, or the tokenizer knows
            no mask.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with file.open("rb") as stream:
                entries = read_safetensors_header(stream, file.stat().st_size, file.name)
        except InspectionError as error:
            raise FormatError(f"{folder}: {error}") from error
        shapes |= {name: tuple(entry.shape) for name, entry in entries.items()}
    if not any(head in name for name in shapes for head in PREDICTING_HEADS):
        raise FormatError(
            f"{folder} is no masked language model: its weights have no head that predicts words (an encoder alone has "
            "none). bert-base-uncased has one"
        )
    config = json.loads((folder / "config.json").read_bytes())
    size = config.get("vocab_size")
    rows = {shape[0] for name, shape in shapes.items() if name.endswith("word_embeddings.weight")}
    if rows and rows != {size}:
        raise FormatError(f"{folder}: config.json says {size} words, the weights have {sorted(rows)}")
    known = [folder / name for name in ("tokenizer.json", "vocab.txt", "vocab.json", "special_tokens_map.json")]
    texts = [file.read_text("utf-8", errors="replace") for file in known if file.is_file()]
    if not any(token in text for text in texts for token in MASK_TOKENS):
        raise FormatError(f"{folder}: its tokenizer knows no mask ({' or '.join(MASK_TOKENS)})")
