"""One run of ``seatrial gate`` on a service: uploads, the audit, its verdict."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from app.cli.exits import OF_VERDICT, BadRequestError, CouldNotRunError, Exit
from app.cli.gate_files import default_checks_of, kinds_of, known_policy, unknown_policy
from app.cli.outputs import Outputs
from app.cli.progress import progress_display, say, say_all
from app.cli.showing import echo_line
from app.cli.uploads import Prepared, pointing_to_manifest
from app.cli.verdicts import PROMOTE, print_estimate, print_judgement
from app.policies.baselines import no_baseline
from seatrial.client import Client, ClientError, NotJudgedError, ProblemResponseError, WaitTimeoutError
from seatrial.client.deadlines import within
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.policies import Policy, parse_metric
from seatrial.contracts.states import ModelState
from seatrial.reporting.attacked import notes_of
from seatrial.reporting.reuse import reused_in_words
from seatrial.reporting.words import enumerate_words

CHECKED_S = 60
"""Seconds to wait for a model to be checked; after that it is audited all the same, without an estimate of its time."""
CANCELLED_S = 30.0
"""Seconds an audit that ran out of time is given to stop and be judged, so that its reports can be written."""


@dataclass(frozen=True)
class Ask:
    """What the options ask for.

    Attributes:
        model: Path or id; empty where there are predictions.
        data: Likewise.
        predictions: A table in place of both.
        predictions_of: Whose answers to read in it.
        policy: The policy, or what the service finds it by.
        checks: What to run; None where nothing says.
        options: Options of the audit: ``samples``, ``seed``, ``baseline``, ``stop``, ``reuse``.
        data_manifest: What is said about the data.
        model_version: Overrides that of the model's manifest.
        timeout_s: Seconds in total; None for no limit.
        deadline: When they are over, by the monotonic clock.
        cancels: Whether an audit that is no longer waited for is cancelled.
        estimates_only: Whether to stop before anything is spent.
        promote: How to have a baseline the next time, ``AUDIT`` standing for the audit.
        bootstraps: Whether an audit that passes becomes the baseline where there is none.
    """

    model: str
    data: str
    predictions: Path | None
    predictions_of: str | None
    policy: Policy | str
    checks: list[BaseModel] | None
    options: dict[str, Any]
    data_manifest: Path | None
    model_version: str | None
    timeout_s: float | None
    deadline: float | None
    cancels: bool
    estimates_only: bool
    promote: str
    bootstraps: bool

    def patience_s(self) -> float | None:
        """Return the seconds left."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)


def judged(
    ask: Ask,
    client: Client,
    prepared: tuple[Prepared | None, Prepared | None],
    outputs: Outputs,
    waiting: dict[str, float],
    *,
    is_local: bool = False,
) -> Exit:
    """Upload what is not there, audit it, and return what the verdict ends with; everything is printed on the way.

    Args:
        ask: What is asked for.
        client: Of the service that does it.
        prepared: Model and data to be uploaded; None for what the service has.
        outputs: Files to be written, whatever the verdict.
        waiting: Further arguments of ``Client.wait``.
        is_local: Whether it runs in this installation.

    Raises:
        BadRequestError: There is no such policy, no check for such a model, or no key to sign with.
        CouldNotRunError: The audit has ended without a verdict.
        DeadlineError: The time was over before the audit was submitted.
    """
    with within(ask.patience_s()):
        audit = _submitted(ask, client, prepared, outputs, is_local=is_local)
    if audit is None:
        return Exit.PASSED
    say(f"Auditing: {audit.id}")
    page = None if is_local else _page(client, audit.id)
    if page:
        say(f"In the console: {page}")
    try:
        ended = _followed(client, audit.id, timeout_s=ask.patience_s(), **waiting)
    except NotJudgedError as error:
        outputs.write(client, audit.id)
        raise CouldNotRunError(str(error)) from error
    except WaitTimeoutError:
        headline = f"Timed out after {ask.timeout_s:g} s (--timeout)."
        say(headline)
        _give_up(ask, client, audit.id, outputs)
        # Below a verdict that knows only of a cancelled audit.
        echo_line(headline)
        return Exit.TIMED_OUT
    except KeyboardInterrupt:
        if ask.cancels:
            _cancel(client, audit.id)
        raise
    # What is about to be done is no advice.
    promote = "" if ask.bootstraps and ended.verdict == "passed" else ask.promote.replace("AUDIT", audit.id)
    status = _told(ended, outputs.write(client, audit.id), promote, page)
    if ask.bootstraps and status == Exit.PASSED:
        _bootstrap(ask, client, ended)
    return status


def _submitted(
    ask: Ask,
    client: Client,
    prepared: tuple[Prepared | None, Prepared | None],
    outputs: Outputs,
    *,
    is_local: bool,
) -> AuditRead | None:
    """Return the audit, queued; None where only its cost is asked for."""
    if outputs.needs_key and not client.signing_keys().keys:
        # Better known before hours of work than after.
        raise BadRequestError("--attestation: no key signs there; sign with one of your own: --signing-key KEY.pem")
    _look_up_policy(ask, client)
    _look_up_baseline(ask, client, prepared[0])
    model_id, task = _upload_model(ask, client, prepared[0])
    data_id = _upload_data(ask, client, prepared[1])
    checks = ask.checks or default_checks_of(client, ask.policy, task, data_id, is_local=is_local)
    asked: dict[str, Any] = {"policy": ask.policy, **ask.options}
    estimate = client.estimate(model_id, data_id, checks, **asked)
    print_estimate(estimate, err=not ask.estimates_only)
    if ask.estimates_only and estimate.refused is not None:
        raise BadRequestError(f"It would be refused now: {estimate.refused}")
    return None if ask.estimates_only else client.submit(model_id, data_id, checks, **asked)


def _page(client: Client, audit_id: str) -> str | None:
    """Return where the console shows an audit, as reports say it; what cannot be told is no reason to end."""
    with suppress(ClientError, ValueError, LookupError, TypeError):
        url = json.loads(client.report(audit_id, "json"))["url"]
        return None if url is None else str(url)
    return None


def _bootstrap(ask: Ask, client: Client, audit: AuditRead) -> None:
    """Promote an audit that passed where nothing has been compared with.

    Never where a baseline is: each run could then be worse by what one may lose, and nobody would have decided it.
    """
    if audit.judgement is None or audit.judgement.baseline is not None:
        return
    name = str(ask.options.get("baseline") or known_policy(ask.policy, client).baseline)
    if name.startswith("aud_"):
        return
    promoted = client.promote(audit.id, name, note="by seatrial gate --promote-if-passed")
    say(f"{audit.id} is the baseline {promoted.name} of {promoted.model} now.")


def _upload_model(ask: Ask, client: Client, prepared: Prepared | None) -> tuple[str, str]:
    if prepared is None:
        model = client.model(ask.model)
    else:
        say(f"Sending model {prepared.manifest['name']} {prepared.manifest['version']}")
        patience_s = ask.patience_s()
        wait_s = CHECKED_S if patience_s is None else min(CHECKED_S, int(patience_s))
        if prepared.source is None:
            model = client.add_endpoint(prepared.manifest, wait_s=wait_s)
        else:
            model = client.add_model(prepared.source, prepared.manifest, wait_s=wait_s)
    if model.state == ModelState.CHECKING:
        say("No worker has checked the model yet; it is audited as soon as one has.")
    return model.id, model.task


def _upload_data(ask: Ask, client: Client, prepared: Prepared | None) -> str:
    if prepared is None or prepared.source is None:
        return ask.data
    say(f"Sending data {prepared.manifest['name']} {prepared.manifest['version']}")
    with pointing_to_manifest(ask.predictions or Path(ask.data), ask.data_manifest, prepared.task):
        return client.add_dataset(prepared.source, prepared.manifest).id


def _look_up_policy(ask: Ask, client: Client) -> None:
    """Refuse a name no policy has before a model is sent for it."""
    if isinstance(ask.policy, Policy):
        return
    try:
        client.policy(ask.policy)
    except ProblemResponseError as error:
        # 422: nothing can be called that.
        raise unknown_policy(ask.policy) if error.status in (404, 422) else error from error


def _look_up_baseline(ask: Ask, client: Client, prepared: Prepared | None) -> None:
    """Refuse a name no baseline of the model has, unless this run is to make it, and it can.

    Without it the rules that compare would be skipped, and a typo would pass what is worse than the baseline. Nor does
    a policy pass without one, and make one, whose rules require it.
    """
    name = ask.options.get("baseline")
    waiting: list[str] = []
    if ask.bootstraps:
        policy = known_policy(ask.policy, client)
        name = name or policy.baseline
        compared = [rule for rule in policy.rules if rule.max_regression is not None and rule.severity == "block"]
        checks = ask.checks or policy.checks
        required = [
            rule
            for rule in compared
            if rule.required is True
            or (rule.required == "if_run" and parse_metric(rule.metric).family in kinds_of(checks))
        ]
        waiting = [rule.label or rule.metric for rule in required]
    if name is None or name.startswith("aud_") or (ask.bootstraps and not waiting):
        return
    model = client.model(ask.model).name if prepared is None else str(prepared.manifest["name"])
    there = sorted({one.name for one in client.baselines(model=model)})
    if name in there:
        return
    if waiting:
        raise BadRequestError(
            f"--promote-if-passed: model {model} has no baseline {name!r} yet, and {enumerate_words(waiting)} must be "
            "compared with one, so that no first audit can pass and become it. Write `required: false` in "
            f"{'that rule' if len(waiting) == 1 else 'those rules'}, or promote an audit: `seatrial baselines promote "
            "AUDIT`"
        )
    raise BadRequestError(
        f"--baseline: {no_baseline(model, name, there)}. Promote one, `seatrial baselines promote AUDIT`, or make "
        "the first audit that passes it: --promote-if-passed"
    )


def _followed(client: Client, audit_id: str, **waiting: Any) -> AuditRead:
    with progress_display() as show:
        return client.wait(audit_id, progress=show, until_judged=True, **waiting)


def _give_up(ask: Ask, client: Client, audit_id: str, outputs: Outputs) -> None:
    """Cancel an audit that ran out of time, and write what is there to be written."""
    if not ask.cancels:
        say(f"It keeps running: seatrial audit status {audit_id}")
        return
    _cancel(client, audit_id)
    with suppress(ClientError):
        ended = client.wait(audit_id, timeout_s=CANCELLED_S, until_judged=True)
        if ended.judgement is not None:
            promote = ask.promote.replace("AUDIT", audit_id)
            print_judgement(ended.judgement, promote=promote, notes=notes_of(ended, ended.judgement))
    outputs.write(client, audit_id)


def _cancel(client: Client, audit_id: str) -> None:
    try:
        client.cancel(audit_id)
    except ClientError as error:
        say_all(f"{audit_id} could not be cancelled: {error}")
    else:
        say(f"{audit_id} is cancelled.")


def _told(audit: AuditRead, is_all_written: bool, promote: str = PROMOTE, page: str | None = None) -> Exit:
    for check in audit.checks:
        if check.reused is not None:
            say(f"{check.kind}: {reused_in_words(check.reused)}.")
        if check.error is not None:
            say(f"{check.kind}: {check.state}: {check.error.title}: {check.error.detail}")
    if audit.error is not None:
        say(f"{audit.error.title}: {audit.error.detail}")
    if audit.judgement is None:
        raise CouldNotRunError(f"audit {audit.id} has ended without a verdict")
    print_judgement(audit.judgement, promote=promote, notes=notes_of(audit, audit.judgement), page=page)
    status = OF_VERDICT[audit.judgement.verdict]
    # A build that asked for a file and got none must not be green.
    return status if is_all_written or status != Exit.PASSED else Exit.COULD_NOT_RUN
