"""Hardenings over a connection that is awaited: submitted, priced, followed and read."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import anyio
from pydantic import BaseModel

from seatrial.client import retries
from seatrial.client.async_audits import AsyncAudits
from seatrial.client.errors import ProblemResponseError, ServiceUnreachableError, WaitTimeoutError
from seatrial.client.requests import Request, Stored, as_json, id_of, path_part, without_none
from seatrial.contracts.hardenings import HardeningEstimate, HardeningRead, HardeningSummary
from seatrial.contracts.states import TERMINAL, RunState


class AsyncHardenings(AsyncAudits):
    """What :class:`~seatrial.client.AsyncClient` asks of hardenings."""

    async def harden(
        self,
        /,
        model: str | Stored,
        dataset: str | Stored,
        method: str,
        audit: Mapping[str, Any] | BaseModel,
        *,
        params: Mapping[str, Any] | None = None,
        validation_dataset: str | Stored | None = None,
        seed: int = 0,
        version: str | None = None,
        max_accuracy_loss: float = 0.05,
        promote: str | None = None,
        idempotency_key: str | None = None,
        **further: Any,
    ) -> HardeningRead:
        """Submit a hardening and return it, queued.

        Args:
            model: The model, or its id.
            dataset: The dataset to train on, or its id.
            method: Training method, by its slug.
            audit: What both versions are audited by: ``dataset``, ``checks``, and ``samples``, ``policy``, ...
            params: Parameters of the method.
            validation_dataset: What every epoch is judged on; by default a tenth of ``dataset``.
            seed: Everything random follows from it.
            version: Of the model that is made.
            max_accuracy_loss: Largest loss of clean accuracy at which anything is promoted.
            promote: Name of the baseline the new version's audit becomes where it passes.
            idempotency_key: Submitting twice with it is submitting once; by default each call makes up its own.
            further: Fields that a newer service knows.

        Raises:
            ProblemResponseError: A field is refused, with its name and the reason.
        """
        body = _body(
            model, dataset, method, audit, params, validation_dataset, seed, version, max_accuracy_loss, promote
        )
        body |= as_json(further)
        headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
        return await self._ask(Request("POST", "/v1/hardenings", json=body, headers=headers), HardeningRead)

    async def estimate_hardening(
        self,
        /,
        model: str | Stored,
        dataset: str | Stored,
        method: str,
        audit: Mapping[str, Any] | BaseModel,
        *,
        params: Mapping[str, Any] | None = None,
        validation_dataset: str | Stored | None = None,
        seed: int = 0,
        version: str | None = None,
        max_accuracy_loss: float = 0.05,
        promote: str | None = None,
        **further: Any,
    ) -> HardeningEstimate:
        """Return what a hardening would cost; its arguments are those of :meth:`harden`."""
        body = _body(
            model, dataset, method, audit, params, validation_dataset, seed, version, max_accuracy_loss, promote
        )
        body |= as_json(further)
        return await self._ask(Request("POST", "/v1/hardenings/estimate", json=body), HardeningEstimate)

    def hardenings(
        self, *, state: RunState | str | None = None, model: str | Stored | None = None, limit: int | None = None
    ) -> AsyncIterator[HardeningSummary]:
        """Yield the project's hardenings, newest first; ``limit`` is how many a request fetches."""
        return self._pages("/v1/hardenings", HardeningSummary, {"state": state, "model": id_of(model), "limit": limit})

    async def hardening(self, hardening_id: str | Stored) -> HardeningRead:
        """Return one hardening."""
        return await self._ask(Request("GET", f"/v1/hardenings/{path_part(hardening_id)}"), HardeningRead)

    async def wait_hardening(
        self,
        hardening_id: str | Stored,
        *,
        timeout_s: float | None = None,
        progress: Callable[[HardeningRead], None] | None = None,
        outage_s: float = retries.OUTAGE_S,
    ) -> HardeningRead:
        """Return a hardening once it has ended, however it ended.

        Args:
            hardening_id: Which.
            timeout_s: Seconds to wait; None for as long as it takes.
            progress: Called with the hardening each time it is read.
            outage_s: Seconds the service may be away meanwhile.

        Raises:
            WaitTimeoutError: It had not ended in time.
            ServiceUnreachableError: The service was away for longer.
        """
        hardening_id = id_of(hardening_id)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s, seen_at, state = retries.POLL_S[0], time.monotonic(), "unknown"
        while True:
            try:
                made = await self.hardening(hardening_id)
            except ServiceUnreachableError:
                if time.monotonic() - seen_at > outage_s:
                    raise
            else:
                seen_at, state = time.monotonic(), str(made.state)
                if progress is not None:
                    progress(made)
                if made.state in TERMINAL:
                    return made
            if deadline is not None and time.monotonic() + pause_s > deadline:
                raise WaitTimeoutError(f"hardening {hardening_id} is still {state} after {timeout_s:g} s")
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 1.2, retries.POLL_S[1])

    async def hardening_report(
        self, hardening_id: str | Stored, format: Literal["html", "json", "markdown"] = "html"
    ) -> bytes:
        """Return the report of a hardening: both versions side by side, their paired differences, the verdict.

        Raises:
            ProblemResponseError: Its versions have not been compared (yet).
        """
        path = f"/v1/hardenings/{path_part(hardening_id)}/report"
        return (await self._send(Request("GET", path, params={"format": format}))).content

    async def cancel_hardening(self, hardening_id: str | Stored) -> HardeningRead:
        """Ask a hardening to stop and return it; cancelling twice is the same as once.

        Raises:
            ProblemResponseError: It has ended otherwise.
        """
        try:
            return await self._ask(Request("POST", f"/v1/hardenings/{path_part(hardening_id)}/cancel"), HardeningRead)
        except ProblemResponseError as error:
            # The first response may have been lost on its way, and the hardening has ended since.
            if error.status != 409:
                raise
            made = await self.hardening(hardening_id)
            if made.state != RunState.CANCELLED:
                raise
            return made

    async def retry_hardening(self, hardening_id: str | Stored) -> HardeningRead:
        """Retry what failed of a hardening and return it.

        Raises:
            ProblemResponseError: It has not failed.
        """
        path = f"/v1/hardenings/{path_part(hardening_id)}/retry"
        return await self._ask(Request("POST", path, is_repeatable=False), HardeningRead)

    async def weights(self, model_id: str | Stored, target: Path | str) -> Path:
        """Save a model's weights as one safetensors file and return its path.

        Raises:
            ProblemResponseError: The upload was another kind of file.
        """
        return await self._save(Request("GET", f"/v1/models/{path_part(model_id)}/weights"), target)


def _body(
    model: str | Stored,
    dataset: str | Stored,
    method: str,
    audit: Mapping[str, Any] | BaseModel,
    params: Mapping[str, Any] | None,
    validation_dataset: str | Stored | None,
    seed: int,
    version: str | None,
    max_accuracy_loss: float,
    promote: str | None,
) -> dict[str, Any]:
    named = {
        "model": id_of(model),
        "dataset": id_of(dataset),
        "method": method,
        "audit": as_json(audit),
        "params": params or {},
    }
    chosen = without_none({"validation_dataset": id_of(validation_dataset), "version": version, "promote": promote})
    return {**named, **chosen, "seed": seed, "max_accuracy_loss": max_accuracy_loss}
