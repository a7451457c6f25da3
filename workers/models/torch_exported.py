"""Loading an exported program as a classifier of images."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from seatrial.contracts.models import ModelManifest
from seatrial.ingest.archives import walk_archive
from seatrial.ingest.exported.archive import ExportedArchive, StoredTensor, read_exported
from seatrial.ingest.exported.fitting import check_fit
from seatrial.ingest.exported.program import Program
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.inspection.streams import CHUNK_BYTES
from seatrial.store.settings import Settings
from workers.errors import TargetError
from workers.models.exported_module import ExportedModule, ProgramError, find_writes
from workers.models.image_classifier import ImageClassifier
from workers.models.torch_image import make_classifier
from workers.models.tracing import TRACED_IMAGES, ValueCount, check_values

PROGRAM = "/manifest/architecture"


def load_exported_image(
    manifest: ModelManifest, path: Path, device: torch.device, *, limits: Settings
) -> ImageClassifier:
    """Return the classifier an exported program and its manifest describe.

    The program is traced without computing before a byte is allocated for its tensors.

    Raises:
        TargetError: The archive holds no program that may be run, it does not take the manifest's input or does not
            give a logit for each of its labels, or it computes too much for one image.
    """
    try:
        archive = read_exported(path, limits)
        check_fit(archive.program, manifest)
    except InspectionError as error:
        raise TargetError(error.code, error.title, error.detail, field=error.field) from error
    shape, labels = cast(list[int], manifest.input_shape), cast(list[str], manifest.labels)
    values_per_image, writes_to_images = trace(archive, shape, len(labels), limits)
    module = ExportedModule(archive.program, _read_tensors(path, archive, limits))
    module.writes_to_images = writes_to_images
    return make_classifier(module, manifest, device, values_per_image)


def trace(archive: ExportedArchive, shape: list[int], classes: int, limits: Settings) -> tuple[int, bool]:
    """Run the program without computing, on tensors that have shapes and no values.

    Returns:
        The values computed for one image, of a program for a fixed batch for one batch; whether it writes to what it
        is given.
    """
    batch = archive.program.batch
    rows = TRACED_IMAGES if batch.highest is None or batch.highest >= TRACED_IMAGES else 1
    count = ValueCount()
    try:
        # On the meta device strides differ from the processor's here and there, and a `view` then fails. An operator
        # without a rule for shapes would be run on zeros, in memory nobody has counted: it is refused.
        with FakeTensorMode(allow_fallback_kernels=False):
            module = ExportedModule(
                archive.program,
                {
                    slot: torch.empty_strided(one.sizes, one.strides, dtype=getattr(torch, one.type))
                    for slot, one in archive.tensors.items()
                },
            )
            with torch.no_grad(), count:
                written = find_writes(module, torch.empty(rows, *shape))
                logits = module(torch.empty(rows, *shape))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise TargetError(
            "program-failed",
            "The exported program does not run",
            f"{error if isinstance(error, ProgramError) else 'its result'}, on {rows} images of shape {shape}: "
            f"{str(error.__cause__ or error)[:300]}",
            field=PROGRAM,
        ) from error
    if written:
        raise TargetError(
            "program-keeps-state",
            "The exported program changes its own weights",
            f"it writes to {', '.join(written)[:200]} in place, so that what it gives would depend on what it was "
            "asked before: call `model.eval()` before exporting it, and keep in-place operators off weights",
            field=PROGRAM,
        )
    # Traced twice, and a fixed batch is filled up whatever it is asked.
    per_image = count.values // 2 if batch.lowest > 1 else count.values // (2 * rows)
    check_values(per_image * TRACED_IMAGES, limits, field=PROGRAM)
    if tuple(logits.shape) != (rows, classes):
        raise TargetError(
            "class-count-mismatch",
            "Logits and labels differ in number",
            f"the program gives {tuple(logits.shape[1:])} values per image, the manifest names {classes} labels",
            field="/manifest/labels",
        )
    return per_image, module.writes_to_images


def _read_tensors(path: Path, archive: ExportedArchive, limits: Settings) -> dict[int, Tensor]:
    wanted = {one.entry for one in archive.tensors.values()}
    raw: dict[str, bytearray] = {}
    try:
        with walk_archive(path, limits) as walk:
            for entry, stream in walk:
                if entry.name in wanted:
                    values = raw[entry.name] = bytearray()
                    while chunk := stream.read(CHUNK_BYTES):
                        values += chunk
    except InspectionError as error:
        raise TargetError(error.code, error.title, error.detail, field=error.field) from error
    tensors = {slot: _tensor(one, raw[one.entry]) for slot, one in archive.tensors.items()}
    check_finite(archive.program, tensors)
    return tensors


def check_finite(program: Program, tensors: Mapping[int, Tensor]) -> None:
    """Refuse weights that are not finite.

    Raises:
        TargetError: With the name of the tensor.
    """
    for slot, tensor in tensors.items():
        source = program.sources[slot]
        # A constant may be infinite: what a causal mask is made of.
        if source.is_parameter and tensor.is_floating_point() and not bool(torch.isfinite(tensor.float()).all()):
            raise TargetError(
                "weights-not-finite",
                "Some weights are not finite",
                f"tensor {source.name} holds NaN or infinity: training has diverged, or the file is damaged",
                field="/file",
            )


def _tensor(stored: StoredTensor, raw: bytearray) -> Tensor:
    dtype: torch.dtype = getattr(torch, stored.type)
    if not raw:
        return torch.empty(stored.sizes, dtype=dtype)
    read = torch.frombuffer(raw, dtype=torch.uint8 if dtype == torch.bool else dtype)
    # A byte that is neither 0 nor 1 is no boolean, and operators may do anything with it. The others are copied to
    # memory that torch has aligned: matrix products of unaligned weights differ in their last bits.
    values = read != 0 if dtype == torch.bool else read.clone()
    return torch.as_strided(values, stored.sizes, stored.strides, stored.offset)
