"""Checks a model before it is stored, without running or loading any of it, and without asking an endpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from app.models.folders import FolderContents, check_huggingface_folder, refuse_unwanted_file
from seatrial.contracts.architectures import OnnxArchitecture, PredictionsArchitecture
from seatrial.contracts.endpoints import ENDPOINT, SECRET_HEADERS, ServedArchitecture, parse_network
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.archives import ArchiveEntry, drain, walk_archive
from seatrial.ingest.conversion import CONVERT, is_torch_archive
from seatrial.ingest.exported.archive import is_exported, read_exported
from seatrial.ingest.exported.fitting import check_fit
from seatrial.ingest.inspection.errors import (
    InspectionError,
    MalformedFileError,
    ManifestMismatchError,
    PickleRefusedError,
    UnsafeArchiveError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.ingest.inspection.magic import ARCHIVES, Kind, looks_like, refuse_impostor, sniff
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.inspection.safetensors_header import read_safetensors_header
from seatrial.ingest.members import files_of
from seatrial.ingest.onnx.file import open_onnx
from seatrial.ingest.predictions.answers import read_answers
from seatrial.ingest.predictions.tables import table_layout
from seatrial.net.endpoint_rules import EndpointRuleError, check_endpoint, filled_headers
from seatrial.store.settings import Settings

EXPORTED, ONNX = "exported", "onnx"
WANTED_ONNX = "one `.onnx` file that holds all its tensors"
WANTED = (
    "safetensors weights, an exported program (.pt2), an .onnx file, "
    "or a .zip, .tar or .tar.gz of a Hugging Face folder"
)

OF_CREDENTIALS = {"cookie", *map(str.lower, SECRET_HEADERS)}
"""Headers, in lower case, that hold who asks."""


def inspect_model(path: Path, filename: str, manifest: ModelManifest, limits: Settings) -> str:
    """Return the format of an uploaded model after checking all but the weights.

    It is ``safetensors`` or ``archive``, or ``csv``, ``jsonl`` or ``parquet`` of a table of predictions.

    The file is judged by its bytes; its name only appears in messages. Memory stays bounded, whatever its size.

    Args:
        path: The upload on disk.
        filename: What its sender called it.
        manifest: What its sender said of it.
        limits: Sizes and counts the operator allows.

    Raises:
        InspectionError: With the reason, the field to blame and what would be right.
    """
    size = path.stat().st_size
    where = repr(filename[:200])
    if size > limits.max_model_bytes:
        raise UploadTooLargeError(
            f"{where} has {size:,} bytes; models of at most {limits.max_model_bytes:,} are accepted"
        )
    if isinstance(manifest.architecture, PredictionsArchitecture):
        layout = table_layout(path, where)
        read_answers(path, layout, manifest, limits)
        return layout
    if isinstance(manifest.architecture, OnnxArchitecture):
        _inspect_onnx(path, where, manifest, manifest.architecture)
        return ONNX
    with path.open("rb") as file:
        kind = sniff(file.read(HEAD_BYTES), size)
        refuse_impostor(kind, where, _wanted(kind, WANTED))
        if kind is Kind.SAFETENSORS:
            file.seek(0)
            read_safetensors_header(file, size, where)
    if kind is Kind.SAFETENSORS:
        if manifest.architecture.kind == "huggingface":
            raise ManifestMismatchError(
                f"{where} is one safetensors file; architecture huggingface needs an archive of the whole folder: "
                "config.json, weights and preprocessor or tokenizer",
                field="/manifest/architecture",
            )
        if manifest.architecture.kind == EXPORTED:
            raise ManifestMismatchError(
                f"{where} is one safetensors file; architecture exported needs what `torch.export.save` writes",
                field="/manifest/architecture",
            )
        return "safetensors"
    if kind is Kind.UNKNOWN and filename.endswith(".safetensors"):
        raise MalformedFileError(
            f"{where}: the safetensors header is damaged: no length of 8 bytes and JSON object stand at its beginning"
        )
    if kind is Kind.UNKNOWN and filename.endswith(".onnx"):
        raise ManifestMismatchError(
            f'{where} is an ONNX file: its architecture is {{"kind": "onnx"}}', field="/manifest/architecture"
        )
    if kind not in ARCHIVES:
        raise UnsupportedFormatError(f"{where} is not a model: {looks_like(kind)}; send {WANTED}")
    is_program = manifest.architecture.kind == EXPORTED
    with _torch_files_told_apart(path, where, limits, is_program=is_program):
        if is_program:
            check_fit(read_exported(path, limits).program, manifest)
        else:
            _inspect_archive(path, manifest, limits)
    return "archive"


def _inspect_onnx(path: Path, where: str, manifest: ModelManifest, architecture: OnnxArchitecture) -> None:
    with path.open("rb") as file:
        kind = sniff(file.read(HEAD_BYTES), path.stat().st_size)
    if kind not in (Kind.UNKNOWN, Kind.TEXT):
        refuse_impostor(kind, where, _wanted(kind, WANTED_ONNX))
        raise ManifestMismatchError(
            f"{where} is not an ONNX file: {looks_like(kind)}; send {WANTED_ONNX}", field="/manifest/architecture"
        )
    with open_onnx(path, architecture) as read:
        check_fit(read.program, manifest, "the ONNX graph")


def inspect_endpoint(manifest: ModelManifest, limits: Settings, project: str) -> str:
    """Return the format of an endpoint, ``endpoint``, after checking what can be told without asking it.

    Names are looked up by the worker that asks, each time it connects: what they stand for now says nothing of later.

    Raises:
        EndpointRuleError: The URL's host is a private address, a secret that is known here is not for it, or a part of
            the manifest could never be used.
        ManifestMismatchError: The manifest is of a model with weights.
    """
    endpoint = manifest.architecture
    if not isinstance(endpoint, ServedArchitecture):
        raise ManifestMismatchError(f"architecture {endpoint.kind} needs a file with weights", field="/file")
    check_endpoint(endpoint, [parse_network(network) for network in limits.endpoint_allowed_networks])
    filled_headers(endpoint, limits.endpoint_secrets, project, are_all_known=False)
    _refuse_literal_secrets(endpoint)
    return ENDPOINT


_AS_NAMED = "Bearer {{secret:NAME}}"


def _refuse_literal_secrets(endpoint: ServedArchitecture) -> None:
    """Refuse credentials written out in a manifest, which is shown to whoever reads the model, signed and handed on.

    Raises:
        EndpointRuleError: A header of credentials names no secret of the operator's.
    """
    for name, value in endpoint.headers.items():
        if name.lower() in OF_CREDENTIALS and "{{secret:" not in value:
            raise EndpointRuleError(
                f"headers/{name}",
                f"header {name} must name a secret of the operator's (SEATRIAL_ENDPOINT_SECRETS), as in "
                f"`{_AS_NAMED}`: whoever reads the model, a bundle or an attestation reads what stands here",
            )


@contextmanager
def _torch_files_told_apart(path: Path, where: str, limits: Settings, *, is_program: bool) -> Iterator[None]:
    """Say of a refused archive what torch wrote it for, where that is what is wrong."""
    try:
        yield
    except InspectionError as error:
        with walk_archive(path, limits) as walk:
            names = [entry.name for entry, _ in walk]
        if is_torch_archive(names):
            raise PickleRefusedError(
                f"{where} is what `torch.save` or TorchScript writes, a pickle in a zip file, which is never loaded: "
                f"send {WANTED}. {CONVERT}"
            ) from error
        if is_exported(names) and not is_program:
            raise ManifestMismatchError(
                'The archive is an exported program: its architecture is {"kind": "exported"}',
                field="/manifest/architecture",
            ) from error
        raise


def _wanted(kind: Kind, wanted: str) -> str:
    return f"{wanted}. {CONVERT}" if kind is Kind.PICKLE else wanted


def _inspect_archive(path: Path, manifest: ModelManifest, limits: Settings) -> None:
    contents = FolderContents()
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            head = stream.read(min(HEAD_BYTES, entry.size))
            kind = sniff(head, entry.size)
            _refuse_entry(entry, kind)
            contents.add(entry, kind, head, stream)
            drain(stream)
    if manifest.architecture.kind == "huggingface":
        check_huggingface_folder(contents, manifest)
    else:
        weights = contents.weights
        members = len(getattr(manifest.architecture, "members", ()))
        if len(weights) not in (1, members or 1):
            raise ManifestMismatchError(
                f"The archive holds {len(weights)} safetensors files; architecture {manifest.architecture.kind} takes "
                f"{files_of(members)}. For a Hugging Face folder the architecture kind is huggingface",
                field="/manifest/architecture",
            )


def _refuse_entry(entry: ArchiveEntry, kind: Kind) -> None:
    where = f"The archive entry {entry.name!r}"
    is_note = kind is Kind.HTML and PurePosixPath(entry.name).suffix.lower() in (".md", ".html", ".txt")
    if kind is not Kind.EMPTY and not is_note:
        refuse_impostor(kind, where, _wanted(kind, "safetensors weights"))
    if kind in ARCHIVES or kind in (Kind.GZIP, Kind.BZIP2, Kind.XZ, Kind.ZSTD, Kind.SEVEN_ZIP, Kind.RAR):
        hint = f" (`torch.save` writes such zip files: they hold a pickle; {CONVERT})" if kind is Kind.ZIP else ""
        raise UnsafeArchiveError(f"{where} is itself compressed or an archive{hint}: send its contents as they are")
    refuse_unwanted_file(entry.name, kind)
