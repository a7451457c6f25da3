"""The files of an audited model, as an attestation names them."""

from app.models.inspection import EXPORTED, ONNX
from app.web.inspecting import zygote
from app.web.services import Services
from seatrial.attestation.subjects import ENDPOINT_MANIFEST, digest_archive, is_folder, manifest_digest, weights_name
from seatrial.contracts.endpoints import ENDPOINT
from seatrial.sandbox.calls import Call
from seatrial.store.tables import ModelRow

_ARCHIVE = "archive"
_SUFFIXES = {"safetensors": ".safetensors", ONNX: ".onnx"}


def subject_of(services: Services, model: ModelRow) -> dict[str, str]:
    """Return the SHA-256 (hexadecimal) of every file of a model, by name.

    Of a model behind an endpoint that is its manifest alone; of a table of predictions the table.

    Raises:
        ArtifactMissingError: Its bytes are gone.
        InspectionError: They can no longer be read.
    """
    if model.format == ENDPOINT:
        return {ENDPOINT_MANIFEST: manifest_digest(model.manifest)}
    architecture = model.manifest.get("architecture") or {}
    uploaded = model.digest.removeprefix("sha256:")
    if architecture.get("kind") == EXPORTED:
        return {weights_name(".pt2"): uploaded}
    if model.format != _ARCHIVE:
        return {weights_name(_SUFFIXES.get(model.format, f".{model.format}")): uploaded}
    # Archives are hostile however long they have been here: they are read in a child process.
    arguments = [services.store.local_path(model.digest), is_folder(architecture)]
    function = f"{digest_archive.__module__}:{digest_archive.__name__}"
    found: dict[str, str] = Call(zygote(), function, arguments, services.settings, size_bytes=model.size_bytes)()
    return found
