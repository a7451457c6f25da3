"""Which files an attestation is about, by what they are called in it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from seatrial.attestation.statements import canonical
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.archives import walk_archive
from seatrial.ingest.huggingface.folders import folder_root
from seatrial.store.settings import Settings

ENDPOINT_MANIFEST = "manifest.json"
"""Of a model behind a URL nothing but the manifest can be signed."""

_CHUNK_BYTES = 2**20
_DOCUMENTS = frozenset({".md", ".rst", ".pdf", ".png", ".jpg", ".jpeg", ".svg"})
_DOCUMENT_STEMS = ("LICENSE", "LICENCE", "NOTICE", "README")
# What a manifest says of a model that decides what it computes.
RECALIBRATION = "recalibration"
_DECIDING = ("task", "architecture", "input", "features", "labels")


def is_folder(architecture: Mapping[str, Any]) -> bool:
    """Return whether a model of this architecture is a folder of files, not one file."""
    return architecture.get("kind") == "huggingface"


def weights_name(suffix: str) -> str:
    """Return what the one file of a model is called, whatever it is called on a disk.

    >>> weights_name(".safetensors")
    'model.safetensors'
    """
    return f"model{suffix}"


def deciding_part(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a manifest says that decides what the model computes: not its name, version or accuracy."""
    deciding = {name: manifest.get(name) for name in _DECIDING}
    # Of the same weights it makes another version. Left out where there is none: digests of before say nothing of it.
    if manifest.get(RECALIBRATION) is not None:
        deciding[RECALIBRATION] = manifest[RECALIBRATION]
    return deciding


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hexadecimal) of the deciding part of a manifest.

    Raises:
        ValidationError: It is no manifest of a model.
    """
    # Without defaults: those a later version adds change nothing.
    said = ModelManifest.model_validate(manifest).model_dump(mode="json", exclude_defaults=True)
    return hashlib.sha256(canonical(deciding_part(said))).hexdigest()


def is_document(name: str) -> bool:
    """Return whether a file is only for people to read, and so may lie beside a model without having been audited.

    >>> is_document("README.md"), is_document("vocab.txt"), is_document("modeling.py")
    (True, False, False)
    """
    path = PurePosixPath(name)
    return path.suffix.lower() in _DOCUMENTS or path.stem.upper() in _DOCUMENT_STEMS or path.name.startswith(".git")


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_archive(path: Path, is_whole_folder: bool, limits: Settings) -> dict[str, str]:
    """Return the SHA-256 of the files of a stored archive by their path in the model's folder.

    Args:
        path: The archive; nothing it declares is trusted.
        is_whole_folder: Whether it is a Hugging Face folder; else its one safetensors file is the model.
        limits: Sizes and counts the operator allows.

    Raises:
        InspectionError: It can no longer be read as it could when it was uploaded.
    """
    digests = {}
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            digest = hashlib.sha256()
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
            digests[entry.name] = digest.hexdigest()
    if is_whole_folder:
        root = folder_root(digests)
        return {name.removeprefix(root): digest for name, digest in digests.items()}
    return {weights_name(".safetensors"): one for name, one in digests.items() if name.endswith(".safetensors")}
