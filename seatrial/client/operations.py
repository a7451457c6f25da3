"""Everything a client can ask of a service, each written once."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx
from pydantic import BaseModel, ValidationError

from seatrial.client.binding import listing, operation
from seatrial.client.errors import (
    NotJudgedError,
    ProblemResponseError,
    ServiceUnreachableError,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from seatrial.client.retries import answered, backoff_s
from seatrial.client.sending import path_part, plain, upload, waiting
from seatrial.client.sse import EventDecoder
from seatrial.client.steps import Item, Items, Pause, Read, Request, Source, Steps
from seatrial.contracts.audits import AuditEstimate, AuditRead, AuditSummary
from seatrial.contracts.datasets import DatasetRead, DatasetSummary
from seatrial.contracts.events import EventRead
from seatrial.contracts.models import ModelRead, ModelSummary
from seatrial.contracts.perturb import PerturbationsRead
from seatrial.contracts.policies import BaselineRead, Judgement, Policy, PolicyRead
from seatrial.contracts.states import TERMINAL, RunState

POLL_S = (0.2, 2.0)
"""Seconds between looks at an audit: the first, and the longest it grows to."""
OUTAGE_S = 120.0
"""How long a service may be away while an audit is waited for: a restart must not lose a pipeline its hours."""
JUDGED_S = 60.0
"""How long after its end an audit is given to be judged."""

M = TypeVar("M", bound=BaseModel)


class Operations:
    """What both clients offer; :class:`~seatrial.client.Client` says how to use it."""

    base_url: str
    retries: int

    @operation
    def add_model(self, file: Source, manifest: Mapping[str, Any], *, wait_s: int = 30) -> Steps[ModelRead]:
        """Upload weights (one .safetensors, or an archive of a folder) and return the model.

        Waits up to ``wait_s`` seconds for a worker to have loaded it; after that it is returned in state ``checking``.

        Raises:
            ProblemResponseError: The manifest, the file or the model itself is refused, with the reason.
        """
        return (yield from self._ask(upload("/v1/models", file, manifest, wait_s), ModelRead))

    @operation
    def add_endpoint(self, manifest: Mapping[str, Any], *, wait_s: int = 30) -> Steps[ModelRead]:
        """Store a model behind an HTTP endpoint and return it.

        Waits up to ``wait_s`` seconds for a worker to have asked it; after that it is returned in state ``checking``.

        Raises:
            ProblemResponseError: The manifest or what the endpoint answers is refused, with the reason.
        """
        # The same again is the same model, so a lost answer may be asked for again.
        body = {"manifest": dict(manifest)}
        return (yield from self._ask(Request("POST", "/v1/models", json=body, **waiting(wait_s)), ModelRead))

    @listing
    def models(self, /, **filters: Any) -> Items[ModelSummary]:
        """Yield the project's models, newest first; ``name``, ``task`` and ``state`` narrow them.

        Without class names and manifest: :meth:`model` has them.
        """
        return self._pages("/v1/models", ModelSummary, filters)

    @operation
    def model(self, model_id: str) -> Steps[ModelRead]:
        """Return one model."""
        return (yield from self._ask(Request("GET", f"/v1/models/{path_part(model_id)}"), ModelRead))

    @operation
    def add_dataset(self, file: Source, manifest: Mapping[str, Any]) -> Steps[DatasetRead]:
        """Upload examples and return the dataset.

        Raises:
            ProblemResponseError: The manifest or the file is refused, with the reason.
        """
        return (yield from self._ask(upload("/v1/datasets", file, manifest, 0), DatasetRead))

    @operation
    def cancel_check(self, model_id: str) -> Steps[ModelRead]:
        """End the check of a model and return it, rejected; cancelling twice is the same as once.

        Raises:
            ProblemResponseError: It has been checked already.
        """
        return (yield from self._ask(Request("POST", f"/v1/models/{path_part(model_id)}/cancel"), ModelRead))

    @listing
    def datasets(self, /, **filters: Any) -> Items[DatasetSummary]:
        """Yield the project's datasets, newest first; ``name`` and ``task`` narrow them.

        Without class names and manifest: :meth:`dataset` has them.
        """
        return self._pages("/v1/datasets", DatasetSummary, filters)

    @operation
    def dataset(self, dataset_id: str) -> Steps[DatasetRead]:
        """Return one dataset."""
        return (yield from self._ask(Request("GET", f"/v1/datasets/{path_part(dataset_id)}"), DatasetRead))

    @operation
    def submit(
        self,
        /,
        model: str,
        dataset: str,
        checks: Iterable[Mapping[str, Any] | BaseModel],
        *,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> Steps[AuditRead]:
        """Submit an audit and return it, queued.

        Args:
            model: Id of the model.
            dataset: Id of the dataset.
            checks: A family's ``kind`` and its parameters each.
            idempotency_key: Submitting twice with it is submitting once. One is made up for a call that gives none, so
                that a lost answer is asked for again and never another audit.
            options: ``seed``, ``samples``, ``policy``, ``baseline``, ``batch_size``, ... as in the API.
        """
        body = {"model": model, "dataset": dataset, "checks": plain(checks), **plain(options)}
        headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
        return (yield from self._ask(Request("POST", "/v1/audits", json=body, headers=headers), AuditRead))

    @operation
    def estimate(
        self, /, model: str, dataset: str, checks: Iterable[Mapping[str, Any] | BaseModel], **options: Any
    ) -> Steps[AuditEstimate]:
        """Return what an audit would cost, before anything is spent."""
        body = {"model": model, "dataset": dataset, "checks": plain(checks), **plain(options)}
        return (yield from self._ask(Request("POST", "/v1/audits/estimate", json=body), AuditEstimate))

    @listing
    def audits(self, /, **filters: Any) -> Items[AuditSummary]:
        """Yield the project's audits, newest first; ``state``, ``model`` and ``verdict`` narrow them."""
        return self._pages("/v1/audits", AuditSummary, filters)

    @operation
    def audit(self, audit_id: str) -> Steps[AuditRead]:
        """Return one audit."""
        return (yield from self._audit(audit_id))

    @operation
    def wait(
        self,
        audit_id: str,
        *,
        timeout_s: float | None = None,
        progress: Callable[[AuditRead], None] | None = None,
        until_judged: bool = False,
        outage_s: float = OUTAGE_S,
    ) -> Steps[AuditRead]:
        """Return an audit once it has ended, however it ended.

        Args:
            audit_id: Which audit.
            timeout_s: Patience in seconds; None for all of it.
            progress: Called with the audit each time it is read.
            until_judged: Whether to wait for the verdict too, of an audit submitted with a policy.
            outage_s: Seconds the service may be away meanwhile.

        Raises:
            WaitTimeoutError: It had not ended in time.
            NotJudgedError: It had ended, and was not judged within a minute.
            ServiceUnreachableError: The service was away for longer.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s, seen_at, ended_at, state = POLL_S[0], time.monotonic(), None, "unknown"
        while True:
            try:
                audit = yield from self._audit(audit_id)
            except ServiceUnreachableError:
                if time.monotonic() - seen_at > outage_s:
                    raise
            else:
                seen_at, state = time.monotonic(), audit.state
                if progress is not None:
                    progress(audit)
                if audit.state in TERMINAL:
                    if not until_judged or audit.verdict is not None:
                        return audit
                    ended_at = ended_at or seen_at
                    pause_s = POLL_S[0]
            if ended_at is not None and time.monotonic() - ended_at > JUDGED_S:
                raise NotJudgedError(f"audit {audit_id} is {state} and not judged after {JUDGED_S:g} s")
            if deadline is not None and time.monotonic() + pause_s > deadline:
                raise WaitTimeoutError(f"audit {audit_id} is still {state} after {timeout_s:g} s")
            yield Pause(pause_s)
            pause_s = min(pause_s * 1.2, POLL_S[1])

    @listing
    def events(self, audit_id: str, *, after: int = 0) -> Items[EventRead]:
        """Yield what happens to an audit as it happens, until it has ended; nothing is lost where a connection is.

        Args:
            audit_id: Which audit.
            after: Sequence number to go on after; 0: from the beginning.

        Raises:
            ServiceUnreachableError: The service did not come back.
        """
        failures, is_ending = 0, False
        while True:
            before = after
            try:
                yield from self._answered(
                    Request(
                        "GET",
                        f"/v1/audits/{path_part(audit_id)}/events",
                        headers={"Last-Event-ID": str(after)},
                        stream="lines",
                    )
                )
                decoder = EventDecoder()
                while (line := (yield Read())) is not None:
                    if (data := decoder.feed(line)) is None:
                        continue
                    event = _event(data)
                    after, failures = event.seq, 0
                    yield Item(event)
            except httpx.TransportError as error:
                failures += 1
                if failures > self.retries:
                    raise ServiceUnreachableError(f"the events of {audit_id} broke off: {error!r}") from error
                yield Pause(backoff_s(failures - 1))
                continue
            # A proxy may end a stream as cleanly as the service does: over is what says nothing new after the end.
            if is_ending and after == before:
                return
            is_ending = (yield from self._audit(audit_id)).state in TERMINAL
            if not is_ending:
                yield Pause(backoff_s(failures))

    @operation
    def cancel(self, audit_id: str) -> Steps[AuditRead]:
        """Ask an audit to stop and return it; cancelling twice is the same as once.

        Raises:
            ProblemResponseError: It has ended otherwise.
        """
        try:
            return (yield from self._ask(Request("POST", f"/v1/audits/{path_part(audit_id)}/cancel"), AuditRead))
        except ProblemResponseError as error:
            # The first answer may have been lost on its way, and the audit has ended since.
            if error.status == 409 and (audit := (yield from self._audit(audit_id))).state == RunState.CANCELLED:
                return audit
            raise

    @operation
    def retry(self, audit_id: str) -> Steps[AuditRead]:
        """Run what failed of an audit again and return it.

        Raises:
            ProblemResponseError: It has not failed.
        """
        path = f"/v1/audits/{path_part(audit_id)}/retry"
        return (yield from self._ask(Request("POST", path, is_repeatable=False), AuditRead))

    @operation
    def report(self, audit_id: str, format: str = "html") -> Steps[bytes]:
        """Return the report of an audit: ``html``, ``json``, ``markdown``, ``junit`` or ``sarif``."""
        request = Request("GET", f"/v1/audits/{path_part(audit_id)}/report", params={"format": format})
        return (yield from self._answered(request)).content

    @operation
    def records(
        self, audit_id: str, check_id: str, target: Path, *, format: str = "parquet", stage: str = ""
    ) -> Steps[Path]:
        """Save a check's table of examples to ``target`` and return the path."""
        params = {"format": format} | ({"stage": stage} if stage else {})
        path = f"/v1/audits/{path_part(audit_id)}/records/{path_part(check_id)}"
        return (yield from self._save(Request("GET", path, params=params, stream="bytes"), target))

    @operation
    def bundle(self, audit_id: str, target: Path, *, inputs: bool = False) -> Steps[Path]:
        """Save all it takes to run an audit again and compare, and return the path; model and data with ``inputs``."""
        path, params = f"/v1/audits/{path_part(audit_id)}/bundle", {"inputs": "true"} if inputs else {}
        return (yield from self._save(Request("GET", path, params=params, stream="bytes"), target))

    @operation
    def judge(
        self, audit_id: str, policy: str | Policy | Mapping[str, Any], *, baseline: str | None = None
    ) -> Steps[Judgement]:
        """Judge an audit that has ended by a policy, and return the verdict; costs no computing.

        Args:
            audit_id: Which audit.
            policy: Id, name, ``name@version`` or the name of a shipped one; or a policy itself.
            baseline: Audit, or name of a baseline of the model, to compare it with; by default the policy's.
        """
        body = {"policy": plain(policy), "baseline": baseline}
        return (yield from self._ask(Request("POST", f"/v1/audits/{path_part(audit_id)}/judge", json=body), Judgement))

    @listing
    def judgements(self, audit_id: str) -> Items[Judgement]:
        """Yield the verdicts on an audit, newest first."""
        return self._pages(f"/v1/audits/{path_part(audit_id)}/judgements", Judgement, {})

    @operation
    def add_policy(self, policy: Policy | Mapping[str, Any]) -> Steps[PolicyRead]:
        """Store a policy and return it; of a name there is already, as its next version."""
        return (yield from self._ask(Request("POST", "/v1/policies", json=plain(policy)), PolicyRead))

    @listing
    def policies(self, /, **filters: Any) -> Items[PolicyRead]:
        """Yield the project's policies, newest first."""
        return self._pages("/v1/policies", PolicyRead, filters)

    @operation
    def policy(self, reference: str) -> Steps[PolicyRead]:
        """Return a policy by its id, name, ``name@version``, or the name of a shipped one."""
        return (yield from self._ask(Request("GET", f"/v1/policies/{path_part(reference)}"), PolicyRead))

    @operation
    def promote(self, audit_id: str, name: str = "champion", *, note: str = "") -> Steps[BaselineRead]:
        """Make a succeeded audit the baseline ``name`` of its model, and return it."""
        body = {"audit": audit_id, "name": name, "note": note}
        return (yield from self._ask(Request("POST", "/v1/baselines", json=body), BaselineRead))

    @listing
    def baselines(self, /, **filters: Any) -> Items[BaselineRead]:
        """Yield baselines with their history, newest first; ``model`` and ``name`` narrow them."""
        return self._pages("/v1/baselines", BaselineRead, filters)

    @operation
    def perturb(
        self,
        /,
        texts: Iterable[str | Sequence[str]] | None = None,
        *,
        sentences: Iterable[Sequence[str]] | None = None,
        **options: Any,
    ) -> Steps[PerturbationsRead]:
        """Return texts with the noise of ``low_level_attack``, without a model; nothing is stored.

        Args:
            texts: Texts, or pairs of premise and hypothesis.
            sentences: Lists of tokens, in place of texts.
            options: ``attackers``, ``levels``, ``draws``, ``seed``, ``first``, ``variant``, ``phi``, ... as in the API.

        Raises:
            ProblemResponseError: They are too much for one request, or an attacker lacks what it draws from.
        """
        given = {"texts": texts, "sentences": sentences}
        body = {name: plain(value) for name, value in {**given, **options}.items() if value is not None}
        return (yield from self._ask(Request("POST", "/v1/perturb", json=body), PerturbationsRead))

    def _answered(self, request: Request) -> Steps[httpx.Response]:
        return answered(request, self.retries, self.base_url)

    def _ask(self, request: Request, into: type[M]) -> Steps[M]:
        answer = yield from self._answered(request)
        try:
            return into.model_validate_json(answer.content)
        except ValidationError as error:
            raise _unexpected(request, answer, error) from error

    def _audit(self, audit_id: str) -> Steps[AuditRead]:
        return self._ask(Request("GET", f"/v1/audits/{path_part(audit_id)}"), AuditRead)

    def _pages(self, path: str, into: type[M], filters: Mapping[str, Any]) -> Items[M]:
        params = {name: value for name, value in filters.items() if value is not None}
        while True:
            request = Request("GET", path, params=dict(params))
            answer = yield from self._answered(request)
            try:
                page = answer.json()
                items, following = [into.model_validate(item) for item in page["items"]], page["next"]
            except (ValueError, RecursionError, LookupError, TypeError) as error:
                raise _unexpected(request, answer, error) from error
            for item in items:
                yield Item(item)
            if following is None:
                return
            if not isinstance(following, str) or following == params.get("cursor") or not items:
                raise UnexpectedAnswerError(f"GET {path}: the pages of this list do not end")
            params["cursor"] = following

    def _save(self, request: Request, target: Path) -> Steps[Path]:
        """Write an answer to a file that is there whole or not at all."""
        part = target.with_name(f"{target.name}.part")
        for attempt in range(self.retries + 1):
            yield from self._answered(request)
            try:
                with part.open("wb") as file:
                    while (piece := (yield Read())) is not None:
                        file.write(piece)
                part.replace(target)
                return target
            except httpx.TransportError as error:
                if attempt == self.retries:
                    raise ServiceUnreachableError(f"GET {request.path} broke off: {error!r}") from error
            finally:
                part.unlink(missing_ok=True)
            yield Pause(backoff_s(attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")


def _unexpected(request: Request, answer: httpx.Response, error: Exception) -> UnexpectedAnswerError:
    media_type = answer.headers.get("content-type", "no Content-Type")[:100]
    why = (
        f"{error.error_count()} fields are wrong or missing" if isinstance(error, ValidationError) else "it is no JSON"
    )
    return UnexpectedAnswerError(
        f"{request.method} {request.path}: status {answer.status_code} with {media_type} is no answer of Seatrial "
        f"({why}): is the address right, and does a proxy stand in between?"
    )


def _event(data: str) -> EventRead:
    try:
        return EventRead.model_validate_json(data)
    except ValidationError as error:
        raise UnexpectedAnswerError("the stream holds an event that is none of Seatrial's") from error
