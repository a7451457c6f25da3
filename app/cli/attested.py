"""The files of a model at hand, as an attestation names them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.cli.exits import BadRequestError
from app.cli.uploads import read_object
from seatrial.attestation.subjects import (
    ENDPOINT_MANIFEST,
    RECALIBRATION,
    deciding_part,
    digest_file,
    is_document,
    manifest_digest,
    weights_name,
)
from seatrial.attestation.verifying import VerificationError
from seatrial.client.preparing import MANIFEST
from seatrial.contracts.endpoints import SERVED
from seatrial.contracts.models import ModelManifest

CONFIG = "config.json"
_WEIGHTS = (".safetensors", ".pt2", ".onnx")


def digest_model(path: Path) -> dict[str, str]:
    """Return the SHA-256 (hexadecimal) of the files of a model by the names an attestation has for them.

    Of a Hugging Face folder that is every file but documents; of any other model the one file of weights, whatever it
    is called, and whatever else lies beside it in its folder.

    Raises:
        BadRequestError: It is no model.
    """
    if path.is_file():
        manifest = _manifest(path) if path.suffix == ".json" else None
        if manifest is not None:
            return {ENDPOINT_MANIFEST: manifest_digest(manifest.model_dump(mode="json"))}
        return {weights_name(path.suffix): digest_file(path)}
    files = sorted(one for one in path.rglob("*") if one.is_file() or one.is_symlink())
    named = {one.relative_to(path).as_posix(): one for one in files}
    kept = {name: one for name, one in named.items() if name != MANIFEST and not is_document(name)}
    if CONFIG not in named:
        kept = _one_of_weights(path, kept)
    try:
        return {name: digest_file(one) for name, one in kept.items()}
    except OSError as error:
        raise BadRequestError(f"{error.filename} cannot be read: {error.strerror}") from error


def compare_manifest(path: Path, audited: dict[str, Any]) -> None:
    """Refuse a manifest beside the weights that makes another model of them than was audited.

    Where there is none, what loads the weights there must know what they are; but a version that is its map of logits
    has the weights of the version before, and only its manifest tells one from the other.

    Raises:
        VerificationError: It says something else, or is not there and would have to be.
    """
    folder = path if path.is_dir() else path.parent
    candidates = [path.with_name(f"{path.name}.{MANIFEST}"), folder / MANIFEST]
    found = next((one for one in candidates if one.is_file() and "architecture" in read_object(one)), None)
    manifest = None if found is None else _manifest(found, is_any_kind=True)
    # Both with the defaults of this version: what a later one adds is said by neither.
    there = deciding_part(_parsed(audited, "the audit").model_dump(mode="json"))
    here = {} if manifest is None else deciding_part(manifest.model_dump(mode="json"))
    if RECALIBRATION in there and RECALIBRATION not in here:
        raise VerificationError(
            "the audited version applies a map of logits (recalibration) that "
            + ("no manifest beside the model has" if found is None else f"{found} does not have")
            + ": the same weights without it are another version"
        )
    if manifest is None:
        return
    # What a folder of Hugging Face computes, its config says, which is signed.
    names = [RECALIBRATION] if (folder / CONFIG).is_file() else [*here]
    for name in names:
        if here.get(name) != there.get(name):
            raise VerificationError(f"{found} says another {name} than the manifest that was audited")


def _one_of_weights(folder: Path, files: dict[str, Path]) -> dict[str, Path]:
    weights = [name for name in files if name.endswith(_WEIGHTS)]
    if len(weights) != 1:
        raise BadRequestError(f"{folder} holds {len(weights)} files of weights ({', '.join(_WEIGHTS)}): give one model")
    return {weights_name(Path(name).suffix) if name in weights else name: path for name, path in files.items()}


def _manifest(path: Path, *, is_any_kind: bool = False) -> ModelManifest | None:
    manifest = _parsed({"name": "model", "version": "1", **read_object(path)}, str(path))
    return manifest if is_any_kind or manifest.architecture.kind in SERVED else None


def _parsed(document: Mapping[str, Any], where: str) -> ModelManifest:
    try:
        return ModelManifest.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadRequestError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
