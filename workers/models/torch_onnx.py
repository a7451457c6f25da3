"""Loading an ONNX graph as a classifier of images or rows."""

from math import prod
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from seatrial.contracts.architectures import OnnxArchitecture
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.exported.archive import ExportedArchive, StoredTensor
from seatrial.ingest.exported.fitting import check_fit
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.onnx.file import OnnxProgram, open_onnx
from seatrial.ingest.onnx.model import Tensor as Stored
from seatrial.store.settings import Settings
from workers.errors import TargetError
from workers.models.exported_module import ExportedModule
from workers.models.image_classifier import ImageClassifier
from workers.models.torch_exported import check_finite, trace
from workers.models.torch_image import make_classifier


def load_onnx(manifest: ModelManifest, path: Path, device: torch.device, *, limits: Settings) -> ImageClassifier:
    """Return the classifier an ONNX file and its manifest describe; its gradients are those of torch's operators.

    The graph is traced without computing before a byte is allocated for its tensors.

    Raises:
        TargetError: The file holds no graph that may be run, or it does not fit the manifest.
    """
    try:
        with open_onnx(path, cast(OnnxArchitecture, manifest.architecture)) as read:
            check_fit(read.program, manifest, "the ONNX graph")
            shape, labels = cast(list[int], manifest.input_shape), cast(list[str], manifest.labels)
            values, writes = trace(_archive(read), shape, len(labels), limits)
            tensors = {slot: _tensor(one) for slot, one in read.tensors.items()}
            check_finite(read.program, tensors)
            module = ExportedModule(read.program, tensors)
    except InspectionError as error:
        raise TargetError(error.code, error.title, error.detail, field=error.field) from error
    module.writes_to_images = writes
    return make_classifier(module, manifest, device, values)


def _archive(read: OnnxProgram) -> ExportedArchive:
    stored = {}
    for slot, one in read.tensors.items():
        strides = tuple(prod(one.sizes[at + 1 :]) for at in range(len(one.sizes)))
        stored[slot] = StoredTensor("", one.type, one.sizes, strides, 0, len(one.raw))
    return ExportedArchive(read.program, stored)


def _tensor(stored: Stored) -> Tensor:
    dtype: torch.dtype = getattr(torch, stored.type)
    if not len(stored.raw):
        return torch.empty(stored.sizes, dtype=dtype)
    raw = bytearray(stored.raw)
    read = torch.frombuffer(raw, dtype=torch.uint8 if dtype == torch.bool else dtype)
    # Copied to memory that torch has aligned, and a byte that is no boolean made one.
    return (read != 0 if dtype == torch.bool else read.clone()).reshape(stored.sizes)
