"""From a trained classifier back to a stored file: the container its upload had, with other weights in it."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from seatrial.contracts.models import ModelManifest
from seatrial.ingest.archives import walk_archive
from seatrial.ingest.exported.archive import read_exported
from seatrial.ingest.huggingface.folders import INDEX, SINGLE, folder_root, is_weights
from seatrial.store.settings import Settings
from workers.errors import TargetError
from workers.models.exported_module import ExportedModule
from workers.models.hf_image import PixelLogits

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Moment of every file of a zip that is written: the same weights are the same bytes."""


@dataclass(frozen=True)
class Written:
    """A model with new weights, as files.

    Attributes:
        file: In the container of the upload; tars become zips.
        weights: One safetensors file, which is the same bytes where that is the container.
    """

    file: bytes
    weights: bytes


def write_back(manifest: ModelManifest, path: Path, format: str, module: nn.Module, limits: Settings) -> Written:
    """Return a trained module as a file like the one it was loaded from.

    Args:
        manifest: As uploaded.
        path: The stored file.
        format: ``safetensors`` or ``archive``.
        module: What :mod:`workers.models.loading` made of it, trained.
        limits: What an archive may unpack to.

    Raises:
        TargetError: The container is none whose weights can be replaced.
    """
    kind = manifest.architecture.kind
    if format == "safetensors":
        weights = _safetensors(module)
        return Written(weights, weights)
    if format != "archive" or kind == "onnx":
        raise TargetError(
            "weights-not-writable",
            "New weights cannot be put into this file",
            f"architecture {kind}, a {format} file: send safetensors, a Hugging Face folder or an exported program",
            field="/model",
        )
    if isinstance(module, ExportedModule):
        return Written(_zip(_exported(path, module, limits)), _named(module))
    weights = _safetensors(module.model if isinstance(module, PixelLogits) else module)
    files = _files(path, limits)
    if kind != "huggingface":
        (target,) = (name for name in files if name.endswith(".safetensors"))
        return Written(_zip({**files, target: weights}), weights)
    root = folder_root(files)
    kept = {
        name: data for name, data in files.items() if not is_weights(name.removeprefix(root)) and name != root + INDEX
    }
    return Written(_zip({**kept, root + SINGLE: weights}), weights)


def _safetensors(module: nn.Module) -> bytes:
    # Copied: tied weights share memory, which safetensors refuses; read back, both copies are alike.
    return save({name: _copied(tensor) for name, tensor in module.state_dict().items()})


def _named(module: ExportedModule) -> bytes:
    """Return the weights of an exported program under the names they had before it was exported."""
    names = {f"value_{slot}": source.name for slot, source in module.program.sources.items()}
    return save({names[name]: _copied(tensor) for name, tensor in module.state_dict().items()})


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def _files(path: Path, limits: Settings) -> dict[str, bytes]:
    found = {}
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            parts = []
            while part := stream.read(2**20):
                parts.append(part)
            found[entry.name] = b"".join(parts)
    return found


def _exported(path: Path, module: ExportedModule, limits: Settings) -> Mapping[str, bytes]:
    """Return the files of an exported program with the module's parameters in the place of their raw values."""
    archive, files = read_exported(path, limits), _files(path, limits)
    raw = {one.entry: bytearray(files[one.entry]) for one in archive.tensors.values()}
    for slot, one in archive.tensors.items():
        if not module.program.sources[slot].is_parameter or not raw[one.entry]:
            continue
        values = torch.frombuffer(raw[one.entry], dtype=getattr(torch, one.type))
        # Through its strides: several parameters may be views of one file.
        view = torch.as_strided(values, one.sizes, one.strides, one.offset)
        view.copy_(module.get_parameter(f"value_{slot}").detach().cpu())
    return {name: bytes(raw.get(name, data)) for name, data in files.items()}


def _zip(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    return written.getvalue()
