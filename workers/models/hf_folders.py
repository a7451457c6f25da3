"""What loading any Hugging Face folder takes: local files only, safetensors only, no code of theirs."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seatrial.contracts.models import ModelManifest
from seatrial.ingest.inspection.safetensors_header import read_safetensors_header
from workers.errors import TargetError, log_fault
from workers.models.configurations import prepare_transformers
from workers.models.memory import is_out_of_memory

MAX_BUFFER_BYTES = 4 * 2**30
"""Tables a model computes when it is built; no file bounds them. GPT-2 of 1,024 positions has 50 MB of masks."""


def load_config(folder: Path, kind: str) -> Any:
    """Return the configuration of a folder that is to be ``kind`` (for the message).

    transformers follows what a folder says: one from an upload must come from :mod:`workers.models.unpacking`.

    Raises:
        TargetError: transformers does not understand it.
    """
    prepare_transformers()
    from transformers import AutoConfig

    with refusing(f"transformers cannot load the folder as {kind}", "the configuration (config.json)"):
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def describe(auto: Any, config: Any) -> nn.Module:
    """Return the model a configuration describes, on the device ``meta``: nothing is allocated.

    Args:
        auto: An Auto class of transformers.
        config: What :func:`load_config` returned.
    """
    from transformers.modeling_utils import no_init_weights

    with torch.device("meta"), no_init_weights():
        empty: nn.Module = auto.from_config(config, trust_remote_code=False)
    return empty


def load_weights(auto: Any, config: Any, folder: Path) -> nn.Module:
    """Return the model with the folder's weights, in float32.

    Raises:
        TargetError: Weights are missing, have another shape, or are not finite.
    """
    model, report = auto.from_pretrained(
        folder,
        config=config,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        dtype=torch.float32,
        output_loading_info=True,
    )
    # transformers fills missing tensors with random numbers and goes on.
    if report["missing_keys"] or report["mismatched_keys"]:
        missing = sorted(str(key) for key in (*report["missing_keys"], *report["mismatched_keys"]))
        raise TargetError(
            "state-dict-mismatch",
            "The folder's weights are incomplete",
            f"{len(missing)} tensors of the model are not in the weights: {', '.join(missing[:5])}"
            + (" (a classifier needs its head: fine-tune the base model first)" if len(missing) <= 4 else ""),
            field="/file",
        )
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise TargetError(
                "weights-not-finite",
                "Some weights are not finite",
                f"tensor {name} holds NaN or infinity: training has diverged, or the file is damaged",
                field="/file",
            )
    loaded: nn.Module = model
    return loaded


@contextmanager
def refusing(title: str, part: str, *, passing: type[Exception] = TargetError) -> Iterator[None]:
    """Turn whatever a library raises inside into a ``TargetError``, its text into a reference of the log.

    Args:
        title: Title of the problem.
        part: What the library was working on, for the person who sent it: "the tokenizer".
        passing: Errors that stay what they are, besides a ``TargetError``.

    Raises:
        TargetError: Something was raised.
    """
    try:
        yield
    except (TargetError, passing):
        raise
    except Exception as error:
        # transformers raises whatever a hostile or broken config leads it to: TypeError, ImportError, ...
        raise _unusable(error, title, part) from error
    except BaseException as error:
        # What a panic in Rust becomes is no Exception, and lies in no module it could be imported from.
        if type(error).__name__ != "PanicException":
            raise
        raise _unusable(error, title, part) from error


def _unusable(error: BaseException, title: str, part: str) -> TargetError:
    if isinstance(error, Exception) and is_out_of_memory(error):
        return TargetError(
            "out-of-memory",
            "The worker has too little memory for the model",
            f"{part} cannot be loaded within the memory of the worker ({log_fault(error)})",
            field="/file",
        )
    return TargetError(
        "huggingface-folder-unusable",
        title,
        f"{part} cannot be used: the library failed ({log_fault(error)}; the operator's log says more). A folder that "
        "`save_pretrained` of transformers 4 wrote for this task loads",
        field="/file",
    )


def check_size(empty: nn.Module, folder: Path, *, spare: int = 0) -> None:
    """Raise when the config describes more weights than the files hold, before transformers allocates them all.

    Args:
        empty: What :func:`describe` returned.
        folder: Where the weights are.
        spare: Weights that may be missing here, because :func:`load_weights` names them.

    Raises:
        TargetError: It does.
    """
    described = sum(parameter.numel() for parameter in empty.parameters())
    computed = sum(buffer.nbytes for buffer in empty.buffers())
    if computed > MAX_BUFFER_BYTES:
        raise TargetError(
            "model-too-large",
            "The model computes tables that are too large",
            f"masks and position tables of {computed:,} bytes follow from config.json (positions, image size); models "
            f"with at most {MAX_BUFFER_BYTES:,} are loaded",
            field="/file",
        )
    stored = 0
    for path in sorted(folder.rglob("*.safetensors")):
        with path.open("rb") as file:
            header = read_safetensors_header(file, path.stat().st_size, path.name)
        stored += sum(tensor.elements for tensor in header.values())
    if described > stored + spare:
        raise TargetError(
            "state-dict-mismatch",
            "The folder's weights are incomplete",
            f"config.json describes a model of {described:,} weights, the files hold {stored:,} numbers: "
            "the head may be missing, or config.json belongs to another model",
            field="/file",
        )


def class_names(config: Any, manifest: ModelManifest) -> list[str]:
    """Return the class names in the order of the logits: the manifest's, else the folder's.

    Raises:
        TargetError: Both give the same names in another order.
    """
    by_number: Mapping[int, str] = config.id2label
    in_folder = [str(by_number[number]) for number in sorted(by_number)]
    has_names = not all(name == f"LABEL_{number}" for number, name in enumerate(in_folder))
    if manifest.labels is None:
        return in_folder
    if has_names and manifest.labels != in_folder and sorted(manifest.labels) == sorted(in_folder):
        raise TargetError(
            "label-order-mismatch",
            "Manifest and folder order the labels differently",
            f"config.json says {', '.join(in_folder[:5])}, ...; the manifest says {', '.join(manifest.labels[:5])}, "
            "...: give them in the order of the logits, or leave labels out",
            field="/manifest/labels",
        )
    return manifest.labels


def read_json(path: Path) -> dict[str, Any]:
    """Return the object a file of the folder holds; an empty one where there is no such file.

    Raises:
        TargetError: The file is no JSON.
    """
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TargetError(
            "malformed-file",
            "A file of the folder is damaged",
            f"{path.name} is not valid JSON ({log_fault(error)})",
            field="/file",
        ) from error
    return document if isinstance(document, dict) else {}
