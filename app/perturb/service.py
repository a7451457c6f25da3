"""Perturbs the texts of a request: bounded in what it costs, and never where requests are waited for."""

from collections.abc import Iterator

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from app.contracts.perturb import (
    MOST_CHARACTERS,
    MOST_COPIES,
    MOST_TEXT_CHARACTERS,
    MOST_TOKENS,
    PerturbationsRead,
    PerturbedRead,
    PerturbRequest,
    drawn_among,
)
from app.core.low_level.edits import levenshtein
from app.core.low_level.lexicons import Lexicons
from app.perturb.noising import LackingResourceError, Noising
from app.perturb.schemas import PerturbFormat
from app.web.problems import InvalidRequestError

# One thread of its own: in Python two take no less time than one, and the pool's are for those who wait for a database.
_turn: RunVar[CapacityLimiter] = RunVar("perturbing")


async def answer(body: PerturbRequest, lexicons: Lexicons, wanted: PerturbFormat) -> bytes:
    """Return the answer to a request, whose turn comes when those before it are done.

    Raises:
        InvalidRequestError: It asks for too much, or for what is not installed; it says which field does.
    """
    refuse_too_much(body)
    limiter = _turn.get(None)
    if limiter is None:
        _turn.set(limiter := CapacityLimiter(1))
    return await anyio.to_thread.run_sync(_render, body, lexicons, wanted, limiter=limiter)


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


def perturb(body: PerturbRequest, lexicons: Lexicons) -> Iterator[PerturbedRead]:
    """Yield the perturbed copies of each text.

    Raises:
        InvalidRequestError: An attacker lacks what it draws from; the detail has the command that installs it.
    """
    is_tagged = body.sentences is not None
    among = drawn_among(body.names, is_tagged=is_tagged)
    try:
        noising = Noising(body, body.names, among, lexicons, body.seed, is_tagged=is_tagged)
    except LackingResourceError as error:
        raise InvalidRequestError(str(error), pointer=f"/{error.lacking.field}") from error
    for index, example in enumerate(body.texts or body.sentences or (), body.first):
        before = _texts(body, example)
        characters = sum(map(len, before))
        for cell in body.cells():
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


def _render(body: PerturbRequest, lexicons: Lexicons, wanted: PerturbFormat) -> bytes:
    items = perturb(body, lexicons)
    if wanted == "jsonl":
        return "".join(item.model_dump_json() + "\n" for item in items).encode()
    return PerturbationsRead(items=list(items)).model_dump_json().encode()


def _texts(body: PerturbRequest, example: str | list[str]) -> list[str]:
    """Return the running text of an example, of each part of a pair: tokens of a sentence stand apart by a space."""
    if isinstance(example, str):
        return [example]
    return [" ".join(example)] if body.sentences is not None else example
