"""Audits over a connection that is awaited: submitted, followed, read and judged."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import anyio
import httpx
from pydantic import BaseModel

from seatrial.attestation.statements import Unsigned
from seatrial.client import retries
from seatrial.client.async_session import AsyncSession, M
from seatrial.client.deadlines import within
from seatrial.client.errors import (
    DeadlineError,
    NotJudgedError,
    ProblemResponseError,
    ServiceUnreachableError,
    WaitTimeoutError,
)
from seatrial.client.requests import Request, Stored, as_json, id_of, path_part, without_none
from seatrial.client.responses import parse_event
from seatrial.client.results import (
    Audit,
    AuditJudgement,
    Cost,
    Figure,
    Figures,
    ListedAudit,
    ReportFormat,
    read_records,
)
from seatrial.client.sse import EventDecoder
from seatrial.client.waiting import shown
from seatrial.contracts.events import EventRead
from seatrial.contracts.policies import Policy, Verdict
from seatrial.contracts.signing_keys import PublishedKeys
from seatrial.contracts.states import TERMINAL, RunState

if TYPE_CHECKING:
    import pandas


class AsyncAudits(AsyncSession):
    """What :class:`~seatrial.client.AsyncClient` asks of audits."""

    async def _ask(self, request: Request, into: type[M]) -> M:
        answer = await super()._ask(request, into)
        return answer.read_by(self) if isinstance(answer, Audit) else answer

    async def submit(
        self,
        /,
        model: str | Stored,
        dataset: str | Stored,
        checks: Iterable[Mapping[str, Any] | BaseModel],
        *,
        seed: int = 0,
        samples: int | None = None,
        policy: str | Policy | Mapping[str, Any] | None = None,
        baseline: str | Stored | None = None,
        stop: Literal["decided"] | None = None,
        reuse: bool = False,
        batch_size: int = 64,
        shards: int | None = None,
        max_error_rate: float = 0.05,
        priority: int = 0,
        salt: str | None = None,
        idempotency_key: str | None = None,
        **further: Any,
    ) -> Audit:
        """Submit an audit and return it, queued.

        Args:
            model: The model, or its id.
            dataset: The dataset, or its id.
            checks: What to run: the ``kind`` of a family and its parameters each.
            seed: Everything random follows from it.
            samples: Examples drawn, stratified by label. By default 500, or what is left beside those set apart.
            policy: What it is judged by when it ends: an id, a name, ``name@version``, or a policy itself.
            baseline: Audit, or name of a baseline of the model, to compare it with; by default the policy's.
            stop: ``decided``: looks at the examples and stops once the policy's blocking rules are decided.
            reuse: Whether records of identical checks of the project are taken over instead of measured again.
            batch_size: Examples per forward pass.
            shards: Pieces each stage is cut into; by default sized to a minute each at most.
            max_error_rate: Share of errored examples above which a check fails.
            priority: The higher first among the audits of the project, -100 to 100.
            salt: Of an earlier audit of a model behind a URL, to run it again to the byte, which is doubted.
            idempotency_key: Submitting twice with it is submitting once. Without one, each call makes up its own, so
                that a lost response is asked for again and never becomes another audit.
            further: Fields that a newer service knows.

        Raises:
            ProblemResponseError: A field is refused, with its name and the reason.
        """
        fields = without_none(
            {"samples": samples, "policy": policy, "baseline": id_of(baseline), "stop": stop, "shards": shards}
        ) | as_json(further)
        fields |= {"seed": seed, "batch_size": batch_size, "max_error_rate": max_error_rate}
        # An older service knows none of them.
        fields |= {name: value for name, value in {"priority": priority, "reuse": reuse, "salt": salt}.items() if value}
        body = {"model": id_of(model), "dataset": id_of(dataset), "checks": as_json(checks), **fields}
        headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
        return await self._ask(Request("POST", "/v1/audits", json=body, headers=headers), Audit)

    async def estimate(
        self,
        /,
        model: str | Stored,
        dataset: str | Stored,
        checks: Iterable[Mapping[str, Any] | BaseModel],
        *,
        seed: int = 0,
        samples: int | None = None,
        policy: str | Policy | Mapping[str, Any] | None = None,
        baseline: str | Stored | None = None,
        stop: Literal["decided"] | None = None,
        reuse: bool = False,
        batch_size: int = 64,
        shards: int | None = None,
        max_error_rate: float = 0.05,
        priority: int = 0,
        salt: str | None = None,
        **further: Any,
    ) -> Cost:
        """Return what an audit would cost, before anything is spent; its arguments are those of :meth:`submit`."""
        fields = without_none(
            {"samples": samples, "policy": policy, "baseline": id_of(baseline), "stop": stop, "shards": shards}
        ) | as_json(further)
        fields |= {"seed": seed, "batch_size": batch_size, "max_error_rate": max_error_rate}
        fields |= {name: value for name, value in {"priority": priority, "reuse": reuse, "salt": salt}.items() if value}
        body = {"model": id_of(model), "dataset": id_of(dataset), "checks": as_json(checks), **fields}
        return await self._ask(Request("POST", "/v1/audits/estimate", json=body), Cost)

    def audits(
        self,
        *,
        state: RunState | str | None = None,
        model: str | Stored | None = None,
        verdict: Verdict | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ListedAudit]:
        """Yield the project's audits, newest first, filtered by state, model (or its id) and verdict.

        ``limit`` is how many a request fetches: all are yielded.
        """
        filters = {"state": state, "model": id_of(model), "verdict": verdict, "limit": limit}
        return self._pages("/v1/audits", ListedAudit, filters)

    async def audit(self, audit_id: str | Stored) -> Audit:
        """Return one audit."""
        return await self._ask(Request("GET", f"/v1/audits/{path_part(audit_id)}"), Audit)

    async def wait(
        self,
        audit_id: str | Stored,
        *,
        timeout_s: float | None = None,
        progress: Callable[[Audit], None] | bool | None = None,
        until_judged: bool | None = None,
        outage_s: float = retries.OUTAGE_S,
    ) -> Audit:
        """Return an audit once it has ended, however it ended, and been judged where it has a policy.

        Args:
            audit_id: Which audit, or its id.
            timeout_s: Seconds to wait; None for as long as it takes.
            progress: Called with the audit each time it is read; True or False: whether a bar shows how far it is. By
                default one does in a notebook and at a prompt.
            until_judged: Whether to wait for the verdict too; by default where the audit was submitted with a policy.
            outage_s: Seconds the service may be away meanwhile.

        Raises:
            WaitTimeoutError: It had not ended in time.
            NotJudgedError: It had ended, its verdict was waited for, and it was not judged within a minute.
            ServiceUnreachableError: The service was away for longer.
        """
        audit_id, show = id_of(audit_id), shown(progress)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s, seen_at, ended_at, state = retries.POLL_S[0], time.monotonic(), None, "unknown"
        while True:
            try:
                with within(None if deadline is None else deadline - time.monotonic()):
                    audit = await self.audit(audit_id)
            except DeadlineError as error:
                raise WaitTimeoutError(f"audit {audit_id} is still {state} after {timeout_s:g} s") from error
            except ServiceUnreachableError:
                if time.monotonic() - seen_at > outage_s:
                    raise
            else:
                seen_at, state = time.monotonic(), audit.state
                if show is not None:
                    show(audit)
                if audit.state in TERMINAL:
                    is_judging = audit.spec.get("policy") is not None if until_judged is None else until_judged
                    if not is_judging or audit.verdict is not None:
                        return audit
                    ended_at = ended_at or seen_at
                    pause_s = retries.POLL_S[0]
            if ended_at is not None and time.monotonic() - ended_at > retries.JUDGED_S:
                raise NotJudgedError(f"audit {audit_id} is {state} and not judged after {retries.JUDGED_S:g} s")
            if deadline is not None and time.monotonic() + pause_s > deadline:
                raise WaitTimeoutError(f"audit {audit_id} is still {state} after {timeout_s:g} s")
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 1.2, retries.POLL_S[1])

    async def events(self, audit_id: str | Stored, *, after: int = 0) -> AsyncIterator[EventRead]:
        """Yield what happens to an audit as it happens, until it has ended; a lost connection loses no event.

        Args:
            audit_id: Which audit, or its id.
            after: Sequence number to go on after; 0: from the beginning.

        Raises:
            ServiceUnreachableError: The service did not come back.
        """
        path = f"/v1/audits/{path_part(audit_id)}/events"
        failures, is_ending = 0, False
        while True:
            before, decoder = after, EventDecoder()
            request = Request("GET", path, headers={"Last-Event-ID": str(after)})
            try:
                async with aclosing(await self._send(request, is_streamed=True)) as response:
                    async for text in response.aiter_text():
                        for data in decoder.feed(text):
                            event = parse_event(data)
                            after, failures = event.seq, 0
                            yield event
            except httpx.RequestError as error:
                failures += 1
                if failures > self.retries:
                    raise ServiceUnreachableError(f"the events of {id_of(audit_id)} broke off: {error!r}") from error
                await anyio.sleep(retries.backoff_s(failures - 1))
                continue
            # A proxy may end a stream as cleanly as the service does: it is over when a stream opened after the audit's
            # end brings nothing new.
            if is_ending and after == before:
                return
            audit = await self.audit(audit_id)
            is_ending = audit.state in TERMINAL
            if not is_ending:
                await anyio.sleep(retries.backoff_s(failures))

    async def cancel(self, audit_id: str | Stored) -> Audit:
        """Ask an audit to stop and return it; cancelling twice is the same as once.

        Raises:
            ProblemResponseError: It has ended otherwise.
        """
        try:
            return await self._ask(Request("POST", f"/v1/audits/{path_part(audit_id)}/cancel"), Audit)
        except ProblemResponseError as error:
            # The first response may have been lost on its way, and the audit has ended since.
            if error.status != 409:
                raise
            audit = await self.audit(audit_id)
            if audit.state != RunState.CANCELLED:
                raise
            return audit

    async def retry(self, audit_id: str | Stored) -> Audit:
        """Run what failed of an audit again and return it.

        Raises:
            ProblemResponseError: It has not failed.
        """
        path = f"/v1/audits/{path_part(audit_id)}/retry"
        return await self._ask(Request("POST", path, is_repeatable=False), Audit)

    async def report(
        self,
        audit_id: str | Stored,
        format: ReportFormat = "html",
        *,
        policy: str | None = None,
        judgement: str | None = None,
    ) -> bytes:
        """Return the report of an audit.

        Args:
            audit_id: Which audit, or its id.
            format: Format of the report.
            policy: Name of a policy whose verdict it prints; by default that of the audit's own.
            judgement: Id of a judgement it prints, in place of a policy.
        """
        path = f"/v1/audits/{path_part(audit_id)}/report"
        asked = {"format": format, "policy": policy, "judgement": judgement}
        params = {name: value for name, value in asked.items() if value is not None}
        response = await self._send(Request("GET", path, params=params))
        return response.content

    async def records(
        self,
        audit_id: str | Stored,
        check_id: str,
        target: Path | str,
        *,
        format: Literal["parquet", "jsonl", "csv"] = "parquet",
        stage: str = "",
    ) -> Path:
        """Save the table of examples behind a check's numbers and return its path.

        Args:
            audit_id: Which audit, or its id.
            check_id: Which of its checks.
            target: File to write; it is there whole or not at all.
            format: Format of the file.
            stage: Which stage of the check; by default its attack.
        """
        path = f"/v1/audits/{path_part(audit_id)}/records/{path_part(check_id)}"
        params = {"format": format} | ({"stage": stage} if stage else {})
        return await self._save(Request("GET", path, params=params), target)

    async def records_frame(self, audit_id: str | Stored, check_id: str, stage: str = "") -> "pandas.DataFrame":
        """Return the table of examples behind a check's numbers; its arguments are those of :meth:`records`.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        with TemporaryDirectory() as folder:
            path = await self.records(audit_id, check_id, Path(folder) / "records.parquet", stage=stage)
            return read_records(path)

    async def figures(self, audit: Audit) -> Figures:
        """Return the figures of an audit's checks that have ended; a notebook shows them.

        Raises:
            ValueError: None has.
        """
        figures = Figures()
        if audit.state not in TERMINAL:
            # It was read a while ago.
            audit = await self.audit(audit)
        if audit.state not in TERMINAL and not any(check.figures for check in audit.checks):
            raise ValueError(
                f"audit {audit.id} is {audit.state}: a check's figures are drawn when it ends, and client.wait(audit) "
                "waits for that"
            )
        for check in audit.checks:
            for name in check.figures:
                path = f"/v1/audits/{path_part(audit.id)}/figures/{path_part(check.id)}/{path_part(name)}"
                response = await self._send(Request("GET", path))
                figures.append(Figure(check.kind, name, response.content))
        return figures

    async def bundle(self, audit_id: str | Stored, target: Path | str, *, inputs: bool = False) -> Path:
        """Save all it takes to run an audit again and compare, and return its path.

        Args:
            audit_id: Which audit, or its id.
            target: File to write; it is there whole or not at all.
            inputs: Whether the files of model and data go into it.
        """
        path = f"/v1/audits/{path_part(audit_id)}/bundle"
        return await self._save(Request("GET", path, params={"inputs": "true"} if inputs else {}), target)

    async def attestation(self, audit_id: str | Stored, *, judgement: str | None = None) -> bytes:
        """Return the signed verdict of an audit: an in-toto bundle, JSON Lines of DSSE envelopes.

        Args:
            audit_id: Which audit, or its id.
            judgement: Of this judgement; by default the verdict the audit has.

        Raises:
            ProblemResponseError: It has no verdict, or no key signs there.
        """
        path = f"/v1/audits/{path_part(audit_id)}/attestation"
        response = await self._send(Request("GET", path, params=without_none({"judgement": judgement})))
        return response.content

    async def statements(self, audit_id: str | Stored, *, judgement: str | None = None) -> Unsigned:
        """Return what an attestation of an audit states, unsigned; its arguments are those of :meth:`attestation`."""
        path = f"/v1/audits/{path_part(audit_id)}/statements"
        return await self._ask(Request("GET", path, params=without_none({"judgement": judgement})), Unsigned)

    async def signing_keys(self) -> PublishedKeys:
        """Return the public keys the service signs with, oldest first; none where it does not sign."""
        return await self._ask(Request("GET", "/.well-known/seatrial-keys.json"), PublishedKeys)

    async def judge(
        self, audit_id: str | Stored, policy: str | Policy | Mapping[str, Any], *, baseline: str | Stored | None = None
    ) -> AuditJudgement:
        """Judge an audit that has ended by a policy and return the verdict; nothing is run again.

        Args:
            audit_id: Which audit, or its id.
            policy: Id, name, ``name@version`` or the name of a shipped one; or a policy itself.
            baseline: Audit, or name of a baseline of the model, to compare it with; by default the policy's.
        """
        body = {"policy": as_json(policy), "baseline": id_of(baseline)}
        return await self._ask(Request("POST", f"/v1/audits/{path_part(audit_id)}/judge", json=body), AuditJudgement)

    def judgements(self, audit_id: str | Stored) -> AsyncIterator[AuditJudgement]:
        """Yield the verdicts on an audit, newest first."""
        return self._pages(f"/v1/audits/{path_part(audit_id)}/judgements", AuditJudgement, {})
