"""A small synchronous client of a Seatrial service.

Errors::

    ClientError
    +-- ProblemResponseError   the service answered with a problem; ``.problem`` holds it
    +-- ServiceUnreachableError  no answer, also not when asked again
    +-- WaitTimeoutError       the audit goes on, the caller's patience ended
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import httpx
from pydantic import TypeAdapter

from app.contracts.audits import AuditEstimate, AuditRead, AuditSummary
from app.contracts.datasets import DatasetRead
from app.contracts.states import TERMINAL, RunState
from app.contracts.targets import ModelRead

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
POLL_S = (0.2, 2.0)
"""Seconds between looks at an audit: the first, and the longest it grows to."""

_MODELS = TypeAdapter(list[ModelRead])
_DATASETS = TypeAdapter(list[DatasetRead])
_AUDITS = TypeAdapter(list[AuditSummary])


class ClientError(Exception):
    """Base of everything the client raises."""


class ProblemResponseError(ClientError):
    """The service refused; ``problem`` is its answer (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        lines = [f"{problem.get('title', 'Error')}: {problem.get('detail', '')}".removesuffix(": ")]
        lines += [f"  {error.get('pointer', '')}: {error.get('detail', '')}" for error in problem.get("errors", [])]
        super().__init__("\n".join(lines))

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return int(self.problem.get("status", 0))


class ServiceUnreachableError(ClientError):
    """No answer from the service."""


class WaitTimeoutError(ClientError):
    """The audit had not ended in time; it goes on."""


class Client:
    """Speaks to one service as one project.

    Reads and idempotent writes are tried again, with growing pauses, when the connection fails or the service answers
    429, 502, 503 or 504; an upload is sent once, since its file may not be there to read twice.

    Args:
        base_url: Where the service listens, without ``/v1``.
        api_key: Sent as a bearer token; None on a service that needs none.
        timeout_s: Seconds without a byte before a request fails.
        retries: Times a request is tried again.
        transport: For tests.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(
            base_url=base_url.rstrip("/"), headers=headers, timeout=timeout_s, transport=transport
        )
        self._retries = retries

    def __enter__(self) -> Self:
        """Return the client; its connections are closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def add_model(self, path: Path, manifest: Mapping[str, Any], *, wait_s: int = 30) -> ModelRead:
        """Upload weights (one .safetensors, or an archive of a folder) and return the model.

        Waits up to ``wait_s`` seconds for a worker to have loaded it; after that it is returned in state ``checking``.

        Raises:
            ProblemResponseError: The manifest, the file or the model itself is refused, with the reason.
        """
        return ModelRead.model_validate(self._upload("/v1/models", path, manifest, wait_s))

    def add_endpoint(self, manifest: Mapping[str, Any], *, wait_s: int = 30) -> ModelRead:
        """Store a model behind an HTTP endpoint and return it.

        Waits up to ``wait_s`` seconds for a worker to have asked it; after that it is returned in state ``checking``.

        Raises:
            ProblemResponseError: The manifest or what the endpoint answers is refused, with the reason.
        """
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        # The same again is the same model, so a lost answer may be asked for again.
        answer = self._send(
            "POST",
            "/v1/models",
            repeat=True,
            json={"manifest": dict(manifest)},
            headers=headers,
            timeout=self._patient(wait_s),
        )
        return ModelRead.model_validate(answer.json())

    def models(self, **filters: Any) -> Iterator[ModelRead]:
        """Yield the project's models, newest first."""
        return self._pages("/v1/models", _MODELS, filters)

    def model(self, model_id: str) -> ModelRead:
        """Return one model."""
        return ModelRead.model_validate(self._get(f"/v1/models/{model_id}").json())

    def add_dataset(self, path: Path, manifest: Mapping[str, Any]) -> DatasetRead:
        """Upload examples and return the dataset.

        Raises:
            ProblemResponseError: The manifest or the file is refused, with the reason.
        """
        return DatasetRead.model_validate(self._upload("/v1/datasets", path, manifest, 0))

    def datasets(self, **filters: Any) -> Iterator[DatasetRead]:
        """Yield the project's datasets, newest first."""
        return self._pages("/v1/datasets", _DATASETS, filters)

    def dataset(self, dataset_id: str) -> DatasetRead:
        """Return one dataset."""
        return DatasetRead.model_validate(self._get(f"/v1/datasets/{dataset_id}").json())

    def submit(
        self,
        model: str,
        dataset: str,
        checks: Iterable[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> AuditRead:
        """Submit an audit and return it, queued.

        Args:
            model: Id of the model.
            dataset: Id of the dataset.
            checks: A family's ``kind`` and its parameters each.
            idempotency_key: Makes submitting twice the same as once, and so lets a lost answer be asked for again.
            options: ``seed``, ``samples``, ``batch_size``, ... as in the API.
        """
        body = {"model": model, "dataset": dataset, "checks": _plain(checks), **options}
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        answer = self._send("POST", "/v1/audits", repeat=idempotency_key is not None, json=body, headers=headers)
        return AuditRead.model_validate(answer.json())

    def estimate(self, model: str, dataset: str, checks: Iterable[Mapping[str, Any]], **options: Any) -> AuditEstimate:
        """Return what an audit would cost, before anything is spent."""
        body = {"model": model, "dataset": dataset, "checks": _plain(checks), **options}
        return AuditEstimate.model_validate(self._send("POST", "/v1/audits/estimate", repeat=True, json=body).json())

    def audits(self, **filters: Any) -> Iterator[AuditSummary]:
        """Yield the project's audits, newest first; ``state`` and ``model`` narrow them."""
        return self._pages("/v1/audits", _AUDITS, filters)

    def audit(self, audit_id: str) -> AuditRead:
        """Return one audit."""
        return AuditRead.model_validate(self._get(f"/v1/audits/{audit_id}").json())

    def wait(
        self,
        audit_id: str,
        *,
        timeout_s: float | None = None,
        progress: Callable[[AuditRead], None] | None = None,
    ) -> AuditRead:
        """Return an audit once it has ended, however it ended.

        Args:
            audit_id: Which audit.
            timeout_s: Patience in seconds; None for all of it.
            progress: Called with the audit each time it is read.

        Raises:
            WaitTimeoutError: It had not ended in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s = POLL_S[0]
        while True:
            audit = self.audit(audit_id)
            if progress is not None:
                progress(audit)
            if audit.state in TERMINAL:
                return audit
            if deadline is not None and time.monotonic() + pause_s > deadline:
                raise WaitTimeoutError(f"audit {audit_id} is still {audit.state} after {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.2, POLL_S[1])

    def cancel(self, audit_id: str) -> AuditRead:
        """Ask an audit to stop and return it; cancelling twice is the same as once.

        Raises:
            ProblemResponseError: It has ended otherwise.
        """
        try:
            return AuditRead.model_validate(self._send("POST", f"/v1/audits/{audit_id}/cancel", repeat=True).json())
        except ProblemResponseError as error:
            # The first answer may have been lost on its way, and the audit has ended since.
            if error.status == 409 and (audit := self.audit(audit_id)).state == RunState.CANCELLED:
                return audit
            raise

    def report(self, audit_id: str, format: str = "html") -> bytes:
        """Return the report of an audit in one of the formats the service offers."""
        return self._get(f"/v1/audits/{audit_id}/report", params={"format": format}).content

    def records(self, audit_id: str, check_id: str, target: Path, *, format: str = "parquet", stage: str = "") -> Path:
        """Save a check's table of examples to ``target`` and return the path."""
        params = {"format": format} | ({"stage": stage} if stage else {})
        with self._http.stream("GET", f"/v1/audits/{audit_id}/records/{check_id}", params=params) as answer:
            if answer.is_error:
                answer.read()
                raise _problem_of(answer)
            with target.open("wb") as file:
                for chunk in answer.iter_bytes():
                    file.write(chunk)
        return target

    def _upload(self, path: str, file: Path, manifest: Mapping[str, Any], wait_s: int) -> Any:
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        with ExitStack() as stack:
            # An open file: httpx reads it in pieces, so a checkpoint of any size costs no memory here.
            opened: IO[bytes] = stack.enter_context(file.open("rb"))
            parts = {"manifest": (None, json.dumps(dict(manifest)), "application/json"), "file": (file.name, opened)}
            timeout = self._patient(wait_s)
            answer = self._send("POST", path, repeat=False, files=parts, headers=headers, timeout=timeout)
        return answer.json()

    def _patient(self, wait_s: int) -> httpx.Timeout:
        return httpx.Timeout(self._http.timeout.connect, read=max(60.0, wait_s + 30.0))

    def _get(self, path: str, **options: Any) -> httpx.Response:
        return self._send("GET", path, repeat=True, **options)

    def _pages(self, path: str, items: TypeAdapter[list[Any]], filters: Mapping[str, Any]) -> Iterator[Any]:
        params = {name: value for name, value in filters.items() if value is not None}
        while True:
            page = self._get(path, params=params).json()
            yield from items.validate_python(page["items"])
            if page["next"] is None:
                return
            params["cursor"] = page["next"]

    def _send(self, method: str, path: str, *, repeat: bool, **options: Any) -> httpx.Response:
        for attempt in range(self._retries + 1):
            is_last = attempt == self._retries or not repeat
            try:
                answer = self._http.request(method, path, **options)
            except httpx.ConnectError as error:
                # Nothing was sent, so even a request that must not be repeated may try to connect again.
                if attempt == self._retries:
                    raise ServiceUnreachableError(f"no service at {self._http.base_url}: {error}") from error
            except httpx.TransportError as error:
                if is_last:
                    raise ServiceUnreachableError(f"{method} {path}: {error or type(error).__name__}") from error
            else:
                if not answer.is_error:
                    return answer
                if is_last or answer.status_code not in RETRIED_STATUSES:
                    raise _problem_of(answer)
                time.sleep(_asked_pause_s(answer))
            time.sleep(min(0.1 * 2**attempt, 5.0))
        raise AssertionError("unreachable: the last attempt returns or raises")


def _plain(checks: Any) -> Any:
    """Return checks as JSON has them; what is no list of objects goes as it is, for the service to name the field."""
    if isinstance(checks, (Mapping, str)) or not isinstance(checks, Iterable):
        return checks
    return [dict(check) if isinstance(check, Mapping) else check for check in checks]


def _problem_of(answer: httpx.Response) -> ProblemResponseError:
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "title" not in problem:
        problem = {"title": f"HTTP {answer.status_code}", "detail": answer.text[:500], "status": answer.status_code}
    return ProblemResponseError(problem)


def _asked_pause_s(answer: httpx.Response) -> float:
    asked = answer.headers.get("Retry-After", "")
    return min(float(asked), 30.0) if asked.isdigit() else 0.0
