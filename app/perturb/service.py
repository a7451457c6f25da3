"""Perturbs the texts of a request: bounded in what it costs, and never where requests are waited for."""

import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from starlette.requests import ClientDisconnect

from app.perturb.noising import LackingResourceError, Noising
from app.perturb.schemas import PerturbFormat
from app.perturb.turns import Turns
from app.web.problems import InvalidRequestError
from seatrial.contracts.perturb import (
    MOST_CHARACTERS,
    MOST_COPIES,
    MOST_TEXT_CHARACTERS,
    MOST_TOKENS,
    PerturbationsRead,
    PerturbedRead,
    PerturbRequest,
    drawn_among,
)
from seatrial.noise.edits import levenshtein
from seatrial.noise.graphemes import graphemes
from seatrial.noise.lexicons import Lexicons

WAITING = 8
"""Most requests of a project that wait for their turn."""
WALL_SHARE = 5.0
"""Seconds on the clock a second of computing may take: other threads of the process, other processes of the machine."""
LOOK_S = 0.1

# One thread of its own: in Python two take no less time than one, and the pool's are for those who wait for a database.
_turns: RunVar[tuple[Turns, CapacityLimiter]] = RunVar("perturbing")


class StoppedError(Exception):
    """Whoever asked has gone."""


async def _never() -> bool:
    return False


async def answer(
    body: PerturbRequest,
    lexicons: Lexicons,
    wanted: PerturbFormat,
    *,
    project_id: str = "",
    deadline_s: float = 2.0,
    is_disconnected: Callable[[], Awaitable[bool]] = _never,
) -> bytes:
    """Return the answer to a request, whose turn comes when its project's does.

    Args:
        body: What to perturb.
        lexicons: What attackers draw from.
        wanted: Format of the answer.
        project_id: Whose request it is.
        deadline_s: Seconds it may be computed.
        is_disconnected: Whether whoever asked has gone: then it is computed no further.

    Raises:
        InvalidRequestError: It asks for too much, or for what is not installed; it says which field does.
        TooManyRequestsError: Too many requests of the project wait already.
        ClientDisconnect: Nobody waits for the answer any more.
    """
    refuse_too_much(body)
    known = _turns.get(None)
    if known is None:
        _turns.set(known := (Turns(WAITING), CapacityLimiter(1)))
    turns, limiter = known
    effort = Effort(body, deadline_s)
    content, failure = b"", None
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while not await is_disconnected():
                await anyio.sleep(LOOK_S)
            effort.stop()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            async with turns.turn(project_id, retry_after_s=math.ceil(deadline_s)):
                content = await anyio.to_thread.run_sync(_render, body, lexicons, wanted, effort, limiter=limiter)
        # Raised from here it would come out as a group of one.
        except Exception as error:
            failure = error
        group.cancel_scope.cancel()
    if effort.is_stopped:
        raise ClientDisconnect
    if failure is not None:
        raise failure
    return content


class Effort:
    """What a request may cost, asked between one copy and the next.

    Args:
        body: What was asked for.
        deadline_s: Seconds of the computing thread's own time.
    """

    def __init__(self, body: PerturbRequest, deadline_s: float) -> None:
        self._body = body
        self._deadline_s = deadline_s
        self._stopped = threading.Event()
        self._began: tuple[float, float] | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether nobody waits any more."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Have the computation end at its next copy."""
        self._stopped.set()

    def check(self, made: int) -> None:
        """Return if the next copy may be made; the first call begins the time.

        Raises:
            StoppedError: Nobody waits for it.
            InvalidRequestError: The time is over.
        """
        if self._stopped.is_set():
            raise StoppedError
        now = time.thread_time(), time.monotonic()
        began = self._began = self._began or now
        # The thread's own time, so that a busy machine refuses nothing that is not too much; but not without an end.
        if max(now[0] - began[0], (now[1] - began[1]) / WALL_SHARE) > self._deadline_s:
            field = "sentences" if self._body.sentences is not None else "texts"
            total = len(self._body.texts or self._body.sentences or ()) * self._body.copies
            raise InvalidRequestError(
                f"{made:,} of {total:,} copies were made in the {self._deadline_s:g} s one request may take "
                "(SEATRIAL_PERTURB_DEADLINE_S): send fewer texts at a time, with `first` counted on, or fewer "
                "attackers, levels or draws; `seatrial perturb` takes any number.",
                pointer=f"/{field}",
            )


def refuse_too_much(body: PerturbRequest) -> None:
    """Refuse a request that would take seconds.

    Raises:
        InvalidRequestError: A text is too long, there are too many copies, or too many characters or tokens of them.
    """
    field = "sentences" if body.sentences is not None else "texts"
    examples = [_texts(body, example) for example in body.texts or body.sentences or ()]
    for position, texts in enumerate(examples):
        if (longest := max(map(len, texts))) > MOST_TEXT_CHARACTERS:
            raise InvalidRequestError(
                f"The text has {longest:,} characters; at most {MOST_TEXT_CHARACTERS:,} are perturbed here: "
                "`seatrial perturb` takes any.",
                pointer=f"/{field}/{position}",
            )
    for unit, once, most in (
        ("copies", len(examples), MOST_COPIES),
        ("characters", sum(len(text) for texts in examples for text in texts), MOST_CHARACTERS),
        ("tokens", sum(map(len, body.sentences or ())), MOST_TOKENS),
    ):
        if (made := once * body.copies) > most:
            raise InvalidRequestError(
                f"{len(examples):,} {field} by {len(body.names)} attackers at {len(body.levels)} levels in "
                f"{body.draws} draws make {made:,} {unit}; one request makes {most:,} at most: send fewer texts at a "
                "time, with `first` counted on, or fewer attackers, levels or draws.",
                pointer=f"/{field}",
            )


def perturb(
    body: PerturbRequest, lexicons: Lexicons, check: Callable[[int], None] = lambda made: None
) -> Iterator[PerturbedRead]:
    """Yield the perturbed copies of each text.

    Args:
        body: What to perturb, and how.
        lexicons: What attackers draw from.
        check: Called before each copy with the number of those made; may raise to end it.

    Raises:
        InvalidRequestError: An attacker lacks what it draws from; the detail has the command that installs it.
    """
    made, is_tagged = 0, body.sentences is not None
    among = drawn_among(body.names, is_tagged=is_tagged)
    try:
        noising = Noising(body, body.names, among, lexicons, body.seed, is_tagged=is_tagged)
    except LackingResourceError as error:
        raise InvalidRequestError(str(error), pointer=f"/{error.lacking.field}") from error
    for index, example in enumerate(body.texts or body.sentences or (), body.first):
        before = _texts(body, example)
        characters = sum(len(graphemes(text)) for text in before)
        for cell in body.cells():
            check(made)
            made += 1
            noisy = noising([example] if isinstance(example, str) else example, cell, index)
            perturbed = noisy.parts[0] if isinstance(example, str) else list(noisy.parts)
            edits = sum(map(levenshtein, before, _texts(body, perturbed)))
            yield PerturbedRead(
                index=index,
                **cell._asdict(),
                perturbed=perturbed,
                tokens=noisy.tokens,
                changed=noisy.changed,
                characters=characters,
                edits=edits,
                edits_per_character=edits / characters if characters else 0.0,
            )


def _render(body: PerturbRequest, lexicons: Lexicons, wanted: PerturbFormat, effort: Effort) -> bytes:
    items = perturb(body, lexicons, effort.check)
    if wanted == "jsonl":
        return "".join(item.model_dump_json() + "\n" for item in items).encode()
    return PerturbationsRead(items=list(items)).model_dump_json().encode()


def _texts(body: PerturbRequest, example: str | list[str]) -> list[str]:
    """Return the running text of an example, of each part of a pair: tokens of a sentence stand apart by a space."""
    if isinstance(example, str):
        return [example]
    return [" ".join(example)] if body.sentences is not None else example
