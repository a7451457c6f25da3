"""Models and tokenizers of a library, from a folder and nowhere else, weights as safetensors and nothing else."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError


class ModelUnusableError(ValueError):
    """A folder's model or tokenizer cannot be loaded, or is of another kind."""


def load_model(folder: Path, kind: str) -> tuple[Any, Any]:
    """Return a model in eval mode and its tokenizer.

    Args:
        folder: A Hugging Face folder.
        kind: Which of transformers' classes loads it (``AutoModelForMaskedLM``).

    Raises:
        ModelUnusableError: It cannot be loaded, or is of another kind: a head it lacks would hold random numbers.
    """
    import transformers

    try:
        model, report = getattr(transformers, kind).from_pretrained(
            folder, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(  # type: ignore[no-untyped-call]
            folder, local_files_only=True, use_fast=True
        )
    except (ValueError, TypeError, LookupError, OSError, RuntimeError, SafetensorError) as error:
        raise ModelUnusableError(f"{folder}: {type(error).__name__}: {error}") from error
    # The pooler is not used, and many encoders are saved without it.
    if absent := sorted(key for key in report["missing_keys"] if "pooler" not in key):
        raise ModelUnusableError(
            f"{folder} is no {kind.removeprefix('Auto')}: its weights lack {', '.join(absent[:3])}"
        )
    return model.eval(), tokenizer
