"""How a model or a dataset comes in: a multipart upload or a JSON body; either way one file in staging.

A JSON body names a path the operator allows, or none where the manifest is all there is: then the file is the manifest.

A framework's form would spool the file to /tmp and have it copied and hashed again. Here the bytes are hashed on their
way into the folder they are renamed from, and memory holds a few megabytes of them, whatever their number.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool

from app.web.bodies import parse_json, read_json
from app.web.problems import (
    InvalidRequestError,
    MalformedBodyError,
    PayloadTooLargeError,
    ProblemError,
    UnsupportedMediaError,
)
from app.web.quotas import Quotas
from app.web.references import copy_reference
from app.web.services import Services
from seatrial.store.artifacts import digest_of
from seatrial.store.settings import Settings
from seatrial.store.staging import temporary_file

ManifestT = TypeVar("ManifestT", bound=BaseModel)

Compose = Callable[[dict[str, str]], str]

# Of all the headers of one part, names and values: a file name has 255 characters at most.
MAX_PART_HEADER_BYTES = 8192
# The largest form of ours has some thirty.
MAX_PARTS = 200
# One write and one hash per so many bytes: fewer hops to the thread pool, and still little memory.
_FLUSH_BYTES = 2**20


@dataclass(frozen=True)
class Upload(Generic[ManifestT]):
    """A file in staging, not yet inspected.

    Attributes:
        manifest: What its sender says of it.
        path: Where it is; gone when the request ends, unless it was stored.
        filename: What its sender calls it.
        digest: ``sha256:<hex>`` of the bytes.
        size_bytes: How many there are.
        is_manifest: Whether there was no file, and the bytes are the manifest as canonical JSON.
    """

    manifest: ManifestT
    path: Path
    filename: str
    digest: str
    size_bytes: int
    is_manifest: bool = False


@asynccontextmanager
async def receive(
    request: Request,
    services: Services,
    project_id: str,
    *,
    manifest: type[ManifestT],
    reference: type[BaseModel],
    max_bytes: int,
    compose: Compose | None = None,
) -> AsyncIterator[Upload[ManifestT]]:
    """Yield what the request brings; the file is removed at the end unless it was stored.

    Args:
        request: A multipart upload of ``manifest`` and ``file``, or a JSON body.
        services: Where staging is.
        project_id: Who uploads; it counts among the project's open uploads.
        manifest: Type of the manifest.
        reference: Type of the JSON body: a manifest and a path, or None for a manifest that needs no file.
        max_bytes: Largest file.
        compose: Makes the manifest, as JSON text, from the fields of a form that has some in its place; also called,
            for its caller to have them, with those that stood before what was refused.

    Raises:
        ProblemError: Nothing usable came.
    """
    media_type, options = parse_options_header(request.headers.get("content-type"))
    folder = await run_in_threadpool(services.store.staging)
    quotas = services.of(Quotas)
    if not quotas.is_known(project_id):
        await run_in_threadpool(quotas.read, project_id)
    with quotas.upload(project_id), temporary_file(folder) as path:
        if media_type == b"multipart/form-data":
            form = _Form(path, services.settings, max_bytes, has_fields=compose is not None)
            try:
                with path.open("wb") as file:
                    await form.read(request, options.get(b"boundary", b""), file)
            except ProblemError:
                # What was typed before the file is not lost with it.
                if compose is not None:
                    with suppress(ProblemError):
                        compose(form.texts())
                raise
            text = bytes(form.manifest) if compose is None else compose(form.texts())
            said = parse_json(text, manifest, root="/manifest")
            if compose is not None and not form.filename and not form.size:
                # A browser sends a part without a name or bytes where no file was chosen.
                path.write_bytes(canonical_json(said))
                digest = await run_in_threadpool(digest_of, path)
                yield Upload(said, path, "manifest.json", digest, path.stat().st_size, is_manifest=True)
                return
            yield Upload(said, path, form.filename, "sha256:" + form.sha.hexdigest(), form.size)
        elif media_type == b"application/json":
            named = await read_json(request, reference)
            where: str | None = named.path  # type: ignore[attr-defined]
            said = named.manifest  # type: ignore[attr-defined]
            if where is None:
                filename = "manifest.json"
                path.write_bytes(canonical_json(said))
            else:
                filename = await run_in_threadpool(copy_reference, where, path, services.settings, max_bytes=max_bytes)
            digest = await run_in_threadpool(digest_of, path)
            yield Upload(said, path, filename, digest, path.stat().st_size, is_manifest=where is None)
        else:
            shown = media_type.decode("latin-1") or "nothing"
            raise UnsupportedMediaError(
                f"Send multipart/form-data with the parts manifest and file, or application/json, not {shown}."
            )


def canonical_json(manifest: BaseModel) -> bytes:
    """Return a manifest as the JSON text that every equal manifest has."""
    return json.dumps(manifest.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()


class _Form:
    """The two parts of an upload, as the parser meets them; fields in place of the manifest where it has some."""

    def __init__(self, path: Path, settings: Settings, max_bytes: int, *, has_fields: bool = False) -> None:
        self.manifest = bytearray()
        self._fields: dict[str, bytearray] = {}
        self._has_fields = has_fields
        self._said = 0
        self.filename = ""
        self.size = 0
        self.sha = hashlib.sha256()
        self._max_manifest = settings.max_json_bytes
        self._max_bytes = max_bytes
        self._pending = bytearray()
        self._seen: set[str] = set()
        self._part = ""
        self._header = (bytearray(), bytearray())
        self._header_bytes = self._parts = 0
        self._disposition = b""
        self._is_complete = False

    async def read(self, request: Request, boundary: bytes, file: BinaryIO) -> None:
        """Read the whole body, the file's bytes into ``file``.

        Raises:
            MalformedBodyError: It is not multipart, or is cut short.
            InvalidRequestError: A part is missing, unknown or there twice.
            PayloadTooLargeError: A part is too large.
        """
        if not boundary:
            raise MalformedBodyError("The Content-Type of a multipart body must name its boundary.")
        try:
            parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": lambda data, start, end: self._on_header(0, data[start:end]),
                    "on_header_value": lambda data, start, end: self._on_header(1, data[start:end]),
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_end": self._on_end,
                },
            )
            async for chunk in request.stream():
                parser.write(chunk)
                if len(self._pending) >= _FLUSH_BYTES:
                    await self._flush(file)
        except FormParserError as error:
            raise MalformedBodyError(f"Not a multipart body: {error}") from error
        await self._flush(file)
        if not self._is_complete:
            raise MalformedBodyError("The multipart body is cut short: its closing boundary is missing.")
        for part in ("file",) if self._has_fields else ("manifest", "file"):
            if part not in self._seen:
                raise InvalidRequestError(f"The part {part} is missing.", pointer=f"/{part}")

    def texts(self) -> dict[str, str]:
        """Return the fields beside the file, lines ended as texts end them here."""
        return {name: said.decode("utf-8", "replace").replace("\r\n", "\n") for name, said in self._fields.items()}

    async def _flush(self, file: BinaryIO) -> None:
        if self._pending:
            chunk, self._pending = bytes(self._pending), bytearray()
            await asyncio.gather(run_in_threadpool(file.write, chunk), run_in_threadpool(self.sha.update, chunk))

    def _on_part_begin(self) -> None:
        self._disposition = b""
        self._header_bytes = 0
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidRequestError(f"The form has more than the {MAX_PARTS} parts read.", pointer="")

    def _on_header(self, which: int, data: bytes) -> None:
        self._header_bytes += len(data)
        if self._header_bytes > MAX_PART_HEADER_BYTES:
            raise MalformedBodyError(
                f"The headers of part {self._parts} have more than the {MAX_PART_HEADER_BYTES:,} bytes read."
            )
        self._header[which].extend(data)

    def _on_header_end(self) -> None:
        if self._header[0].lower() == b"content-disposition":
            self._disposition = bytes(self._header[1])
        self._header = (bytearray(), bytearray())

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        if self._part not in ("manifest", "file") and not self._has_fields:
            raise InvalidRequestError(f"There is no part {self._part[:100]!r}: send manifest and file.", pointer="")
        if self._part in self._seen:
            raise InvalidRequestError(f"The part {self._part} is there twice.", pointer=f"/{self._part}")
        self._seen.add(self._part)
        if self._part == "file":
            name = options.get(b"filename", b"").decode("utf-8", "replace")
            self.filename = re.sub(r"[\x00-\x1f\x7f]", "", re.split(r"[/\\]", name)[-1])[:255]
        elif self._has_fields:
            # An empty field has no data, and is a field nonetheless.
            self._fields[self._part] = bytearray()
            self._count_manifest(1 + len(self._part))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._part == "manifest":
            self.manifest += data[start:end]
            self._count_manifest(end - start)
            return
        if self._part != "file":
            self._fields[self._part] += data[start:end]
            self._count_manifest(end - start)
            return
        self.size += end - start
        if self.size > self._max_bytes:
            raise PayloadTooLargeError(
                f"The file has more than the {self._max_bytes:,} bytes accepted.", pointer="/file"
            )
        self._pending += data[start:end]

    def _count_manifest(self, added: int) -> None:
        self._said += added
        if self._said > self._max_manifest:
            raise PayloadTooLargeError(
                f"The manifest has more than {self._max_manifest:,} bytes (SEATRIAL_MAX_JSON_BYTES).",
                pointer="/manifest",
            )

    def _on_end(self) -> None:
        self._is_complete = True
