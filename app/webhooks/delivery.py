"""Sending what is due, by every API process at once.

A delivery is claimed with a lease (compare-and-set), sent, and let go of with what came of it. A process that is killed
in between leaves a lease that runs out; whoever finds it then sends the message again. So a message arrives at least
once, and its id, which never changes, tells a receiver that it has it already.

Each message is sent by a thread of its own, so many in all, so many for one project and so many for one webhook; the
next one is of the project of which the fewest are being sent. So neither an address that swallows connections nor a
project with many of them holds up anybody else, and never the caller.
"""

import json
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from app.web.allowances import Allowance
from app.web.services import Services
from app.webhooks import repository
from app.webhooks.attempts import ANSWER_BYTES, GONE, Attempt, attempt, pause_s
from app.webhooks.chat import body_for
from app.webhooks.repository import Claim
from app.webhooks.signing import in_force
from seatrial.contracts.endpoints import parse_network
from seatrial.net import Outbound
from seatrial.net.addresses import Resolve, system_addresses
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from seatrial.store.tables.base import utc_now

log = logging.getLogger(__name__)

TIMEOUT_S = 15.0
# Longer than an attempt, and than the slowest resolver there is before it.
LEASE_S = 90.0
# Threads that wait for somebody's server: enough for eight projects that have nothing but slow ones.
AT_ONCE = 32
AT_ONCE_PER_PROJECT = 4
AT_ONCE_PER_WEBHOOK = 2
LOG_ENTRIES = 50


def deliver_due(services: Services, *, now: datetime | None = None) -> int:
    """Begin to send what is due and return how much of it, without waiting for an answer.

    Args:
        services: Whose deliverer sends.
        now: What is due by then; the present by default.
    """
    return services.of(Deliverer).begin(now)


class Deliverer:
    """Sends deliveries in threads of this process.

    Args:
        settings: Networks that may be connected to though they are private.
        database: Where the deliveries are.
        resolve: Looks names up; the machine's own resolver by default.
        timeout_s: Seconds an attempt may take in all, from the look-up of the name to the answer's last byte.
        lease_s: Seconds until a delivery whose process was killed is sent by another.
        at_once: Most messages being sent at one time.
        at_once_per_project: Most of them of one project.
        at_once_per_webhook: Most of them to one webhook.

    Attributes:
        pings: Pings a project may ask for.
        redeliveries: Redeliveries a project may ask for.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        resolve: Resolve = system_addresses,
        timeout_s: float = TIMEOUT_S,
        lease_s: float = LEASE_S,
        at_once: int = AT_ONCE,
        at_once_per_project: int = AT_ONCE_PER_PROJECT,
        at_once_per_webhook: int = AT_ONCE_PER_WEBHOOK,
    ) -> None:
        self.pings = Allowance(settings.webhook_pings_per_minute)
        self.redeliveries = Allowance(settings.webhook_pings_per_minute)
        self._console = settings.public_url.rstrip("/")
        self._networks = [parse_network(network) for network in settings.endpoint_allowed_networks]
        self._database = database
        self._resolve = resolve
        self._timeout_s, self._lease_s = timeout_s, lease_s
        self._at_once, self._at_once_per_webhook = at_once, at_once_per_webhook
        self._at_once_per_project = at_once_per_project
        self._worker = f"{socket.gethostname()}:{os.getpid()}"
        self._sending: Counter[str] = Counter()
        self._projects: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._turn = threading.Lock()

    def begin(self, now: datetime | None = None) -> int:
        """Claim what is due, as far as there are threads for it, and return how many deliveries that were."""
        begun = 0
        with self._turn:
            while (claim := self._claim(now or utc_now())) is not None:
                self._start(claim, (lambda: now) if now is not None else utc_now)
                begun += 1
        return begun

    def settle(self, timeout_s: float) -> bool:
        """Wait until nothing is being sent, so many seconds at most, and return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._sending.total(), timeout_s)

    def _claim(self, now: datetime) -> Claim | None:
        with self._changed:
            if self._sending.total() >= self._at_once:
                return None
            busy = [webhook for webhook, sending in self._sending.items() if sending >= self._at_once_per_webhook]
            projects = dict(self._projects)
        # Mostly there is nothing, and a look does not keep others from writing.
        full = [project for project, sending in projects.items() if sending >= self._at_once_per_project]
        with self._database.read() as session:
            if not repository.is_any_due(session, now, busy, full):
                return None
        with self._database.write() as session:
            # First of projects none of whose messages is being sent, then of those with one, and so on.
            for most in sorted({0, *projects.values()}):
                if most < self._at_once_per_project:
                    crowded = [project for project, sending in projects.items() if sending > most]
                    claim = repository.claim_due(
                        session, now, busy, crowded, lease_s=self._lease_s, worker=self._worker
                    )
                    if claim is not None:
                        return claim
        return None

    def _start(self, claim: Claim, clock: Callable[[], datetime]) -> None:
        with self._changed:
            self._sending[claim.webhook_id] += 1
            self._projects[claim.project_id] += 1
        # A daemon: a process that is to stop does not wait for somebody's server.
        threading.Thread(target=self._run, args=(claim, clock), name=f"send {claim.id}", daemon=True).start()

    def _run(self, claim: Claim, clock: Callable[[], datetime]) -> None:
        try:
            self._record(claim, self._attempt(claim, clock()), clock)
        except Exception as error:
            # The lease runs out and the message is sent again.
            log.warning("what came of message %s could not be stored: %s", claim.id, error)
        finally:
            with self._changed:
                self._sending[claim.webhook_id] -= 1
                self._projects[claim.project_id] -= 1
                # Keeps the webhooks of all times out of memory.
                self._sending += Counter()
                self._projects += Counter()
                self._changed.notify_all()

    def _attempt(self, claim: Claim, at: datetime) -> Attempt:
        if not claim.is_enabled:
            return Attempt(at, None, 0, "not sent: the webhook is disabled")
        message = body_for(claim.url, claim.payload, self._console)
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        keys = [one["secret"] for one in in_force(claim.secrets, at)]
        guarded = Outbound(self._networks, resolve=self._resolve, cut_at=ANSWER_BYTES)
        with guarded as outbound:
            return attempt(outbound, claim.url, keys, claim.id, body, at=at, timeout_s=self._timeout_s)

    def _record(self, claim: Claim, made: Attempt, clock: Callable[[], datetime]) -> None:
        now = clock()
        values: dict[str, Any] = {"log": [*claim.log, made.entry()][-LOG_ENTRIES:]}
        pause = None
        if made.error is not None and claim.is_enabled and made.status != GONE:
            pause = pause_s(claim.attempts, retry_after_s=made.retry_after_s)
        if pause is not None:
            values |= {"due_at": now + timedelta(seconds=pause)}
        else:
            values |= {"status": "failed" if made.error else "delivered", "finished_at": now}
        with self._database.write() as session:
            webhook = repository.hold_webhook(session, claim.webhook_id) if made.status == GONE else None
            if repository.let_go(session, claim, **values) and webhook is not None:
                webhook.is_enabled = False
                log.info("webhook %s is disabled: its receiver says that it is gone", webhook.id)
