"""What loading any Hugging Face folder takes: local files only, safetensors only, no code of theirs."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from app.contracts.targets import ModelManifest
from app.core.inspection.safetensors_header import read_safetensors_header
from workers.errors import TargetError


def load_config(folder: Path, kind: str) -> Any:
    """Return the configuration of a folder that is to be ``kind`` (for the message).

    Raises:
        TargetError: transformers does not understand it.
    """
    # Read when huggingface_hub is first imported: a folder that lacks a file must fail here, not reach for the network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    with refusing(f"transformers cannot load the folder as {kind}"):
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
def refusing(title: str) -> Iterator[None]:
    """Turn whatever transformers raises inside into a ``TargetError`` of this title."""
    try:
        yield
    except TargetError:
        raise
    except Exception as error:
        # transformers raises whatever a hostile or broken config leads it to: TypeError, ImportError, ...
        raise TargetError(
            "huggingface-folder-unusable", title, f"{type(error).__name__}: {str(error)[:500]}", field="/file"
        ) from error


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
            "malformed-file", "A file of the folder is damaged", f"{path.name}: {error}", field="/file"
        ) from error
    return document if isinstance(document, dict) else {}
