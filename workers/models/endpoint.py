"""A classifier of texts, images, or the tokens of sentences, behind somebody's HTTP endpoint."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import torch
from torch import Tensor

from seatrial.contracts.endpoints import THINGS, EndpointArchitecture, ServedArchitecture, parse_network
from seatrial.contracts.generative import GenerativeArchitecture
from seatrial.contracts.models import TAGGING, ModelManifest
from seatrial.net import (
    AddressRefusedError,
    Answer,
    AnswerUnusableError,
    NotConnectedError,
    Outbound,
    OutboundError,
    RequestRefusedError,
    TransientError,
)
from seatrial.net.addresses import Resolve, system_addresses
from seatrial.net.endpoint_rules import EndpointRuleError, check_endpoint, compiled_path, filled_headers
from seatrial.store.settings import Settings
from workers.errors import TargetError
from workers.models import UnansweredError
from workers.models.endpoint_messages import Example, TemplateExchange
from workers.models.endpoint_pace import BackOff, Pace, asked_pause_s
from workers.models.endpoint_scores import LABELS, LOG_ZERO, SCORES, MisfitError
from workers.models.generative import GenerativeExchange

__all__ = ["LOG_ZERO", "EndpointClassifier", "NoScoresError"]

QUOTED_CHARACTERS = 200
UNANSWERED = 5
"""Requests in a row that fail, with all their retries, before nothing more is asked: every text would be errored in the
end, and until then the endpoint would hold a worker that others wait for."""
UNANSWERED_S = 900.0
"""Seconds of asking in which no text got scores before nothing more is asked; three of the longest pauses an answer
may ask for."""
CHECK_SHARE = 0.9
"""Part of the time of a model's check that an endpoint has: what was too slow is told before the check is ended."""
REQUESTS_AT_ONCE = 4
"""Batches a caller should hand over at a time: enough that a last, short batch costs little."""
BUDGET_SPENT = "query-budget-spent"
_TITLE = "The endpoint cannot be used"
_ARCHITECTURE = "/manifest/architecture"
_AGAIN = frozenset({429, 502, 503, 504})
# Answers that one text among many may have caused: too long, not readable, more than the server takes at once.
_ONE_TEXT = frozenset({400, 413, 414, 422, 500})


class NoScoresError(UnansweredError):
    """A text has no scores.

    Attributes:
        code: Kebab-case name of the reason.
        field: JSON pointer to the part of the manifest to look at.
    """

    def __init__(self, code: str, detail: str, *, field: str, is_one_texts: bool = False) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.field = field
        self.is_one_texts = is_one_texts


class EndpointClassifier:
    """Asks an endpoint for the scores of texts or images, batch by batch, no faster than it may be asked.

    Logits are float64: as answered, or of probabilities their logarithms (``LOG_ZERO`` for exactly 0; of multi-label
    texts the log-odds, ``-LOG_ZERO`` for exactly 1). What fails for a batch is asked again in halves where a single
    text may be to blame, so one bad text costs itself only. Nothing is remembered: equal texts are sent as often as
    they are asked for.

    Args:
        manifest: Manifest of an endpoint; its task says what a text is: one, a pair, the tokens of a sentence, or an
            image, encoded.
        settings: Allowed networks and secrets.
        project: Name of the project whose model it is: secrets are for some projects only.
        spent: Texts sent for the same check by others.
        resolve: Looks names up.
        clock: Seconds that never go back.
        sleep: Waits so many seconds.

    Attributes:
        check_cancelled: Called between requests and at least once a second in every wait; may raise to give up.
        spent: Texts of the query budget that others have sent.
        sent: Texts sent for this piece of work, those sent again included.

    Raises:
        TargetError: The manifest is of no endpoint that may be asked, or names a secret that is not for it.
    """

    def __init__(
        self,
        manifest: ModelManifest,
        settings: Settings,
        project: str = "",
        *,
        spent: int = 0,
        resolve: Resolve = system_addresses,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not isinstance(manifest.architecture, ServedArchitecture):
            raise _refused(f"architecture {manifest.architecture.kind} is no endpoint", field=f"{_ARCHITECTURE}/kind")
        networks = [parse_network(network) for network in settings.endpoint_allowed_networks]
        try:
            check_endpoint(manifest.architecture, networks)
            headers, secrets = filled_headers(manifest.architecture, settings.endpoint_secrets, project)
        except EndpointRuleError as error:
            raise _refused(error.detail, field=error.field) from error
        self._endpoint = manifest.architecture
        self._task = manifest.task
        self._labels = list(manifest.labels or ())
        self.exchange: TemplateExchange | GenerativeExchange
        if isinstance(self._endpoint, GenerativeArchitecture):
            # A prompt a request, so that one that fails costs itself only.
            self._batch_size, self.exchange = 1, GenerativeExchange(self._endpoint, self._task, self._labels)
        elif isinstance(self._endpoint, EndpointArchitecture):
            path = compiled_path(self._endpoint.scores)
            self.exchange = TemplateExchange(self._endpoint, path, self._task, self._labels)
            self._batch_size = self._endpoint.batch_size
        self._headers = {"Content-Type": "application/json", **headers}
        # The longest first: one may be the beginning of another.
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._pace = Pace(manifest.architecture.requests_per_second, clock=clock, sleep=sleep)
        self._back_off = BackOff()
        self.check_cancelled: Callable[[], None] = lambda: None
        self.spent = spent
        self.sent = 0
        self._clock = clock
        self._check_s = settings.check_deadline_s * CHECK_SHARE
        self._check_ends: float | None = None
        self._began = clock()
        self._failed, self._failed_s = 0, 0.0
        self._gone: NoScoresError | None = None
        self._is_trial = False
        # A secret in plain text is for networks the operator trusts: the sender of the manifest chose the scheme.
        is_open = bool(self._secrets) and self._endpoint.url.lower().startswith("http:")
        self._outbound = Outbound(networks, allowed_only=is_open, resolve=resolve, check_cancelled=self._look)

    @property
    def classes(self) -> int:
        """Number of logits per text, or per token."""
        return len(self._labels)

    @property
    def labels(self) -> list[str]:
        """Class names in the order of the logits."""
        return list(self._labels)

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def preferred_texts(self) -> int:
        """Texts that are best asked for at once."""
        return self._batch_size * REQUESTS_AT_ONCE

    @property
    def parameters(self) -> int:
        """Number of weights: not known."""
        return 0

    def close(self) -> None:
        """Close the connection that is kept."""
        self._outbound.close()

    def begin_session(self) -> None:
        """Ask over a connection of its own from now on: without cookies, that is all a server knows a caller by."""
        self._outbound.renew()

    def work_for(self, check_cancelled: Callable[[], None], *, spent: int = 0) -> None:
        """Begin another piece of work: whom to ask whether to go on, and where its query budget stands."""
        self.check_cancelled, self.spent, self.sent = check_cancelled, spent, 0
        self.exchange.forget()
        if self._gone is not None:
            self._gone, self._is_trial = None, True

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Answer within the time a model's check has; the first request that fails ends it.

        Raises:
            TargetError: The time is over.
        """
        self._check_ends = self._clock() + self._check_s
        self._failed, self._failed_s, self._gone, self._is_trial = 0, 0.0, None, False
        try:
            yield
        finally:
            self._check_ends = None

    def _look(self) -> None:
        self.check_cancelled()
        if self._check_ends is not None and self._clock() > self._check_ends:
            things = THINGS.get(self._task, "text") + "s"
            raise TargetError(
                "endpoint-too-slow",
                "The endpoint is too slow",
                f"ten {things} have no answers after {self._check_s:g} s: it answers slowly, or is asked slowly "
                f"(timeout_s {self._endpoint.timeout_s:g}, retries {self._endpoint.retries}, requests_per_second "
                f"{self._endpoint.requests_per_second or 'null'}); the operator may allow more time "
                "(SEATRIAL_CHECK_DEADLINE_S)",
                field=f"{_ARCHITECTURE}/url",
            )

    def logits(self, texts: Sequence[Example]) -> list[Tensor | UnansweredError]:
        """Return logits (classes,) float64 for each text or image, in order, or why there are none.

        Of a sentence they are (tokens, tags), NaN where the endpoint gives a token no tag; one without tokens is not
        sent.

        Raises:
            TypeError: A text is not one of the endpoint's task.
        """
        sent = [text for text in texts if not self._is_empty(text)]
        size = self._batch_size
        answers = (answer for start in range(0, len(sent), size) for answer in self._ask(sent[start : start + size]))
        nothing = torch.empty(0, self.classes, dtype=torch.float64)
        return [nothing if self._is_empty(text) else next(answers) for text in texts]

    def check(self, texts: Sequence[Example]) -> list[Tensor]:
        """Return logits float64 for each text, in order.

        Raises:
            TargetError: One has none; the problem names the field of the manifest to look at.
        """
        answers = []
        for answer in self.logits(texts):
            if isinstance(answer, NoScoresError):
                raise TargetError(answer.code, _TITLE, answer.detail, field=answer.field)
            if isinstance(answer, Tensor):
                answers.append(answer)
        return answers

    def _is_empty(self, text: Example) -> bool:
        return self._task == TAGGING and not text

    def _ask(self, texts: Sequence[Example]) -> list[Tensor | UnansweredError]:
        if self._gone is not None:
            return [self._gone for _ in texts]
        affordable = self._affordable(len(texts))
        if affordable < len(texts):
            over = self._over_budget()
            asked = self._ask(texts[:affordable]) if affordable else []
            return [*asked, *(over for _ in texts[affordable:])]
        self._began = self._clock()
        try:
            read = self.exchange.answers(self._exchange(self.exchange.body(texts), len(texts)).body, texts)
            if any(isinstance(one, Tensor) for one in read):
                self._failed, self._failed_s, self._is_trial = 0, 0.0, False
            else:
                self._failed_s += self._clock() - self._began
            return [self._misfit(one) if isinstance(one, MisfitError) else one for one in read]
        except MisfitError as error:
            failure = self._misfit(error)
        except NoScoresError as error:
            failure = error
        self._count(failure)
        if len(texts) == 1 or not failure.is_one_texts:
            return [failure for _ in texts]
        half = len(texts) // 2
        return [*self._ask(texts[:half]), *self._ask(texts[half:])]

    def _count(self, failure: NoScoresError) -> None:
        """Count a request that failed, and ask no more where the next would fail too."""
        if failure.code == BUDGET_SPENT:
            return
        self._failed_s += self._clock() - self._began
        if not failure.is_one_texts:
            self._failed += 1
        most = 1 if self._check_ends is not None or self._is_trial else UNANSWERED
        if self._failed >= most or self._failed_s >= UNANSWERED_S:
            self._gone = NoScoresError(
                "endpoint-gone",
                f"not asked any more: requests have failed for {self._failed_s:,.0f} s, the last because: "
                f"{failure.detail}",
                field=failure.field,
            )

    def ask_once(self, body: bytes) -> bytes:
        """Return the answer to a request about one text that is none of a sample's.

        Raises:
            TargetError: There is none.
        """
        try:
            return self._exchange(body, 1).body
        except NoScoresError as error:
            raise TargetError(error.code, _TITLE, error.detail, field=error.field) from error

    def _exchange(self, body: bytes, count: int) -> Answer:
        """Send examples, again where that may help, and return an answer with a status of success."""
        failure = None
        for attempt in range(1 if self._is_trial else self._endpoint.retries + 1):
            if failure is not None and self._failed_s + self._clock() - self._began >= UNANSWERED_S:
                break
            self._pace.wait(self._look)
            if self._affordable(count) < count:
                break
            self.sent += count
            try:
                answer = self._outbound.post(
                    self._endpoint.url, body, self._headers, timeout_s=self._endpoint.timeout_s
                )
            except TransientError as error:
                if isinstance(error, NotConnectedError):
                    self.sent -= count
                failure = NoScoresError("endpoint-silent", str(error), field=f"{_ARCHITECTURE}/url")
                asked_s = 0.0
            except OutboundError as error:
                raise _not_asked(error) from error
            else:
                if 200 <= answer.status < 300:
                    self._pace.speed_up()
                    return answer
                failure = self._answered(answer)
                if answer.status not in _AGAIN:
                    raise failure
                if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                    self._pace.slow_down()
                asked_s = asked_pause_s(answer.headers.get("retry-after", ""))
            self._pace.hold(max(self._back_off.pause_s(attempt), asked_s))
        raise failure or self._over_budget()

    def _affordable(self, wanted: int) -> int:
        budget = self._endpoint.query_budget
        return wanted if budget is None else max(0, min(wanted, budget - self.spent - self.sent))

    def _over_budget(self) -> NoScoresError:
        return NoScoresError(
            BUDGET_SPENT,
            f"query budget of {self._endpoint.query_budget} is spent",
            field=f"{_ARCHITECTURE}/query_budget",
        )

    def _answered(self, answer: Answer) -> NoScoresError:
        status = answer.status
        if 300 <= status < 400:
            where = self._quoted(answer.headers.get("location", ""))
            detail = f"the endpoint redirects (HTTP {status}) to {where}: write the final address into url"
            return NoScoresError("endpoint-redirects", detail, field=f"{_ARCHITECTURE}/url")
        said = self._quoted(answer.body.decode("utf-8", "replace"))
        member = self.exchange.blamed(status, answer.body)
        if member is None:
            member = "headers" if status in (401, 403) else "url"
        return NoScoresError(
            "endpoint-refuses",
            f"the endpoint answers HTTP {status}: {said or 'nothing more'}",
            field=f"{_ARCHITECTURE}/{member}".rstrip("/"),
            is_one_texts=status in _ONE_TEXT,
        )

    def _misfit(self, error: MisfitError) -> NoScoresError:
        try:
            shown = error.found if isinstance(error.found, str) else json.dumps(error.found, ensure_ascii=False)
        # What was read at the limit of nesting is too deep to be written with a level around it.
        except RecursionError:
            shown = "nested too deeply to be shown"
        code = "endpoint-labels" if error.field == LABELS else "endpoint-answer"
        detail = f"{error.reason}: {self._quoted(shown)}"
        return NoScoresError(code, detail, field=error.field, is_one_texts=error.field == SCORES)

    def _quoted(self, text: str) -> str:
        # A server may repeat the headers it was sent. Hidden before it is cut: half a secret is one too.
        for secret in self._secrets:
            text = text.replace(secret, "[secret]").replace(json.dumps(secret)[1:-1], "[secret]")
        shown = "".join(character if character.isprintable() else " " for character in text)
        return shown if len(shown) <= QUOTED_CHARACTERS else shown[:QUOTED_CHARACTERS] + "..."


def _not_asked(error: OutboundError) -> NoScoresError:
    codes: dict[type[Any], tuple[str, str]] = {
        AddressRefusedError: ("endpoint-address-refused", "url"),
        RequestRefusedError: ("endpoint-request-refused", "headers"),
    }
    code, member = codes.get(type(error), ("endpoint-unusable", "url"))
    # An answer that is too large may be so because of many texts.
    is_one_texts = isinstance(error, AnswerUnusableError)
    return NoScoresError(code, str(error), field=f"{_ARCHITECTURE}/{member}", is_one_texts=is_one_texts)


def _refused(detail: str, *, field: str) -> TargetError:
    return TargetError("endpoint-unusable", _TITLE, detail, field=field)
