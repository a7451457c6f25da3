"""What a language model is asked, and what its answers say of each class."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from seatrial.contracts.endpoints import PARTS, fill_string
from seatrial.contracts.estimates import Flag
from seatrial.contracts.generative import MOST_LISTED, ChatArchitecture, GenerativeArchitecture
from seatrial.statistics.exact import clopper_pearson
from workers.models.endpoint_messages import Example, parse
from workers.models.endpoint_scores import MisfitError

LABELS = "/manifest/architecture/labels"
READ = "/manifest/architecture/read"
TEMPLATE = "/manifest/architecture/template"
SAMPLES = "/manifest/architecture/samples"

ROUNDED = 1e-3
"""By how much probabilities that were rounded may add up to more than 1, and one exceed the least that is listed."""

UNLIKELY = 0.1
"""Probability of all labels together below which a model hardly answers with one of them."""

DOUBTFUL_SHARE = 0.05
"""Share of texts from which on labels that are not listed are an error, and unlikely ones a warning."""

NOTED_SHARE = 0.01
"""Share of texts from which on labels that are not listed are a warning: fewer move no rate by more than that."""

CLOSE = 0.02
"""Nats by which log probabilities of one prompt may differ from request to request: arithmetic in 16 bits."""

ALPHA = 0.05

_MEMBERS = {
    "model": "model",
    "messages": "template",
    "prompt": "template",
    "logprobs": "top_logprobs",
    "top_logprobs": "top_logprobs",
    "n": "samples",
    "max_tokens": "max_tokens",
    "echo": "read",
}
"""Member of the architecture by the parameter that a server says it refuses."""

_ABOUT_REQUEST = frozenset({400, 413, 415, 422})

Interval = tuple[float, float]


class GenerativeExchange:
    """Writes the requests to a language model and reads its answers; counts what their numbers leave open.

    Logits are the logarithms of the labels' probabilities, each the sum over its words, float64. They are asked for at
    temperature 1, where it does not matter whether a server scales them. A label that is not listed is somewhere
    between 0 and the least probability that is: its logit is that of the middle, as of a probability that was rounded,
    and a text whose class that could change has none.

    Args:
        architecture: As uploaded.
        task: Of texts or of pairs.
        labels: Class names in the order of the logits.

    Attributes:
        read: Texts answered.
        unlisted: Those of which a label was not listed.
        unlikely: Those of which all labels together have less than ``UNLIKELY``.
    """

    def __init__(self, architecture: GenerativeArchitecture, task: str, labels: Sequence[str]) -> None:
        self._said, self._task = architecture, task
        self._words = [architecture.labels[label] for label in labels]
        self.read = self.unlisted = self.unlikely = 0

    @property
    def lists_tokens(self) -> bool:
        """Whether the log probabilities of one token are read."""
        return self._said.read == "first_token"

    def body(self, texts: Sequence[Example], *, temperature: float = 1.0) -> bytes:
        """Return the request for one text.

        Raises:
            TypeError: The text is not one of the task.
        """
        (text,) = texts
        return json.dumps(self._request(self._prompt(text), temperature), allow_nan=False).encode()

    def answers(self, body: bytes, texts: Sequence[Example]) -> list[Tensor | MisfitError]:
        """Return the logits (classes,) float64 of the text that was sent, or why there are none.

        Raises:
            MisfitError: The answer is no JSON, or not what the protocol says.
        """
        (text,) = texts
        choices = _member(parse(body), "choices", list, "the answer")
        if not choices:
            raise MisfitError("choices is empty", choices, field=READ)
        if self._said.read == "votes":
            return [self._logits(self._votes(choices))]
        if self._said.read == "continuation":
            return [self._logits(self._continued(choices, self._prompt(text)))]
        listed = self._tokens(choices[0])
        return [self._logits(self._listed(listed), listed)]

    def blamed(self, status: int, body: bytes) -> str | None:
        """Return which member of the architecture a server's refusal is about; None where it does not say."""
        try:
            said = parse(body)
        except MisfitError:
            return None
        error = said.get("error") if isinstance(said, dict) else None
        told = error if isinstance(error, dict) else {}
        named = "model" if told.get("code") == "model_not_found" else told.get("param")
        member = _MEMBERS.get(named) if isinstance(named, str) else None
        # Not of the labels, nor of the address: what was sent as a whole.
        return member or ("" if status in _ABOUT_REQUEST else None)

    def distribution(self, body: bytes) -> dict[str, float]:
        """Return the log probabilities of the first token, as they are listed.

        Raises:
            MisfitError: There are none.
        """
        choices = _member(parse(body), "choices", list, "the answer")
        return self._tokens(choices[0] if choices else {})

    def written(self, body: bytes) -> str:
        """Return what was written.

        Raises:
            MisfitError: There is nothing.
        """
        choices = _member(parse(body), "choices", list, "the answer")
        return self._said_in(choices[0] if choices else {})

    def flags(self) -> list[Flag]:
        """Return doubts about the texts read so far."""
        found = []
        if self._said.read == "votes":
            found.append(
                Flag(
                    code="sampled_votes",
                    severity="warning",
                    message=f"Scores are the shares of {self._said.samples} sampled answers: the same text gets others "
                    "the next time, and a change of class may be chance. Ask for log probabilities where the server "
                    "has them.",
                )
            )
        if self.unlisted:
            share = self.unlisted / self.read
            more = ", or ask for more tokens (top_logprobs)" if self._said.top_logprobs < MOST_LISTED else ""
            found.append(
                Flag(
                    code="labels_not_listed",
                    severity="error" if share >= DOUBTFUL_SHARE else "warning" if share >= NOTED_SHARE else "info",
                    message=f"For {self.unlisted} of {self.read} texts ({share:.1%}) a label is not among the "
                    f"{self._said.top_logprobs} tokens listed: its probability lies between 0 and the smallest of "
                    f"theirs, and the midpoint is used. Add the words the model writes for it{more}.",
                )
            )
        if self.unlikely:
            found.append(
                Flag(
                    code="labels_unlikely",
                    severity="warning" if self.unlikely >= DOUBTFUL_SHARE * self.read else "info",
                    message=f"For {self.unlikely} of {self.read} texts all labels together have a probability below "
                    f"{UNLIKELY:g}: the model would answer something else, and scores are shares of what is left. "
                    "Change the template, or the words of the labels.",
                )
            )
        return found

    def forget(self) -> None:
        """Count from zero: another piece of work begins."""
        self.read = self.unlisted = self.unlikely = 0

    def _prompt(self, text: Example) -> str:
        parts = (text,) if isinstance(text, str) else text if isinstance(text, tuple) else ()
        if len(parts) != len(PARTS[self._task]):
            raise TypeError(f"a language model that does {self._task} was asked about inputs of another form")
        return str(fill_string(self._said.template, dict(zip(PARTS[self._task], parts, strict=True))))

    def _request(self, prompt: str, temperature: float) -> dict[str, Any]:
        said = self._said
        asked: dict[str, Any] = {"model": said.model, "temperature": temperature, "top_p": 1, "max_tokens": 1}
        if isinstance(said, ChatArchitecture):
            system = [] if said.system is None else [{"role": "system", "content": said.system}]
            asked["messages"] = [*system, {"role": "user", "content": prompt}]
            more: dict[str, Any] = {"logprobs": True, "top_logprobs": said.top_logprobs}
        else:
            asked["prompt"] = prompt
            more = {"logprobs": said.top_logprobs}
        if said.read == "votes":
            return asked | {"n": said.samples, "max_tokens": said.max_tokens}
        if said.read == "continuation":
            several = [prompt + word for words in self._words for word in words]
            return asked | {"prompt": several, "echo": True, "logprobs": 1}
        return asked | more

    def _tokens(self, choice: Any) -> dict[str, float]:
        """Return the listed tokens of a choice with their log probabilities."""
        logprobs = _member(choice, "logprobs", dict, "choices[0]", hint="; without them say read: votes")
        where = "choices[0].logprobs"
        if isinstance(self._said, ChatArchitecture):
            content = _member(logprobs, "content", list, where)
            first = content[0] if content else {}
            listed = _member(first, "top_logprobs", list, f"{where}.content[0]")
            pairs = [
                (_member(one, "token", str, "a top_logprob"), _logarithm(one.get("logprob"), where)) for one in listed
            ]
            written, own = first.get("token"), first.get("logprob")
        else:
            tops = _member(logprobs, "top_logprobs", list, where)
            listed = tops[0] if tops and isinstance(tops[0], dict) else {}
            pairs = [(token, _logarithm(value, where)) for token, value in listed.items()]
            tokens, values = logprobs.get("tokens") or [None], logprobs.get("token_logprobs") or [None]
            written, own = (one[0] if isinstance(one, list) else None for one in (tokens, values))
        if not pairs:
            raise MisfitError(f"{where} lists no tokens", logprobs, field=READ)
        # Tokens of one spelling are several: half a character each, or one with a blank that is not shown. With one
        # number it is one: listed as written, and as likely.
        found: dict[str, float] = {}
        for token, value in dict.fromkeys(pairs):
            found[token] = math.log(math.exp(found[token]) + math.exp(value)) if token in found else value
        if sum(map(math.exp, found.values())) > 1 + ROUNDED * len(found):
            raise MisfitError(f"the probabilities in {where} add up to more than 1", logprobs, field=READ)
        if isinstance(written, str) and own is not None and written not in found:
            value = _logarithm(own, where)
            if math.exp(value) > math.exp(min(found.values())) + ROUNDED:
                raise MisfitError(
                    f"{where} leaves out the token that was written, which is likelier than others it lists",
                    logprobs,
                    field=READ,
                )
        return found

    def _listed(self, tokens: Mapping[str, float]) -> list[Interval]:
        chances = {token: math.exp(value) for token, value in tokens.items()}
        least, rest = min(chances.values()), max(0.0, 1 - math.fsum(chances.values()))
        self.unlisted += any(chances.keys().isdisjoint(words) for words in self._words)
        intervals = []
        for words in self._words:
            low = math.fsum(chances.get(word, 0.0) for word in words)
            missing = sum(word not in chances for word in words)
            intervals.append((low, low + min(missing * least, rest)))
        return intervals

    def _continued(self, choices: Sequence[Any], prompt: str) -> list[Interval]:
        count = sum(map(len, self._words))
        if len(choices) != count:
            raise MisfitError(f"{count} prompts were sent, choices has {len(choices)}", len(choices), field=READ)
        by_index = {one.get("index", at) if isinstance(one, dict) else at: one for at, one in enumerate(choices)}
        numbers, values = iter(range(count)), []
        for words in self._words:
            chances = [math.exp(_echoed(by_index.get(next(numbers)), prompt, word)) for word in words]
            values.append(min(math.fsum(chances), 1.0))
        return [(value, value) for value in values]

    def _votes(self, choices: Sequence[Any]) -> list[Interval]:
        if len(choices) != self._said.samples:
            raise MisfitError(
                f"{self._said.samples} answers were asked for (n), choices has {len(choices)}: say in samples how many "
                "the server gives at once, at least 2, or read log probabilities",
                len(choices),
                field=SAMPLES,
            )
        counts = [0] * len(self._words)
        for choice in choices:
            if (label := self._label_of(self._said_in(choice))) is not None:
                counts[label] += 1
        if not any(counts):
            raise MisfitError(f"none of {len(choices)} sampled answers is one of the labels", choices[0], field=LABELS)
        # Of the interval of a share the middle: of none there is one, too.
        return [(sum(clopper_pearson(count, len(choices), alpha=ALPHA)) / 2,) * 2 for count in counts]

    def _said_in(self, choice: Any) -> str:
        if isinstance(self._said, ChatArchitecture):
            said: str = _member(_member(choice, "message", dict, "a choice"), "content", str, "choices[].message")
        else:
            said = _member(choice, "text", str, "a choice")
        return said

    def _label_of(self, said: str) -> int | None:
        # The longest first: one label may be the beginning of another.
        words = [(word.strip(), at) for at, several in enumerate(self._words) for word in several]
        words.sort(key=lambda one: -len(one[0]))
        return next((at for word, at in words if _begins(said.strip(), word)), None)

    def _logits(self, intervals: Sequence[Interval], listed: Mapping[str, float] | None = None) -> Tensor | MisfitError:
        self.read += 1
        best = max(range(len(intervals)), key=lambda at: intervals[at][0])
        certain = intervals[best][0]
        self.unlikely += math.fsum(low for low, _ in intervals) < UNLIKELY
        if certain <= 0 or any(high > certain for at, (_, high) in enumerate(intervals) if at != best):
            likeliest = sorted(listed or {}, key=lambda token: -(listed or {})[token])
            return MisfitError(self._undecided(likeliest, is_none=certain <= 0), likeliest, field=LABELS)
        middle = [(low + high) / 2 for low, high in intervals]
        return torch.tensor([math.log(max(one, math.ulp(0.0))) for one in middle], dtype=torch.float64)

    def _undecided(self, listed: Sequence[str], *, is_none: bool) -> str:
        words = [word for several in self._words for word in several]
        reason = (
            f"none of the labels' words ({', '.join(map(repr, words[:4]))}{', ...' if words[4:] else ''}) is among the "
            f"{len(listed)} tokens the server lists"
            if is_none
            else "a label whose words are not among the tokens listed may be likelier than those that are"
        )
        plain = {token.strip().casefold() for token in listed if token not in words}
        missing = [word for several in self._words if not set(several) & set(listed) for word in several]
        if near := [word for word in missing if word.strip().casefold() in plain]:
            reason += f"; {near[0]!r} is, with another blank or case: labels hold the words as the server lists them"
        return f"{reason}. It lists"


def temperature_flags(plain: Mapping[str, float], warmer: Mapping[str, float], temperature: float) -> list[Flag]:
    """Say whether a server's log probabilities are those before temperature or after it.

    Args:
        plain: Log probabilities of tokens at temperature 1.
        warmer: Of the same prompt at ``temperature``.
        temperature: Another than 1.
    """
    shared = [token for token in plain if token in warmer]
    raw = max((abs(plain[one] - warmer[one]) for one in shared), default=math.inf)
    # Scaled, all differ from a T-th of what they were by the same normalising constant.
    moved = [warmer[one] - plain[one] / temperature for one in shared]
    scaled = max(moved) - min(moved) if len(moved) > 1 else math.inf
    if raw <= CLOSE:
        told, severity = "before temperature: it lists the same at every one", "info"
    elif scaled <= CLOSE:
        told, severity = f"after temperature: at {temperature:g} it lists them scaled", "info"
    else:
        told, severity = (
            f"neither the same at temperature {temperature:g} nor scaled by it, and what they are of is not known",
            "warning",
        )
    asked = "" if severity == "warning" else ". They are asked for at 1, where both are the same"
    message = f"The server's log probabilities are {told}{asked}."
    return [Flag(code="logprobs_scale", severity=severity, message=message)]


def _begins(said: str, word: str) -> bool:
    return said.startswith(word) and not said[len(word) : len(word) + 1].isalnum()


def _member(holder: Any, name: str, kind: type[Any], where: str, hint: str = "") -> Any:
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        what = "is missing" if value is None else "is not what the protocol says"
        raise MisfitError(f"{name} of {where} {what}{hint}", holder, field=READ)
    return value


def _logarithm(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= ROUNDED:
        raise MisfitError(f"a log probability in {where} is no number of at most 0", value, field=READ)
    # -inf is no JSON; -9999 stands for it at some servers.
    return max(float(value), -1e4)


def _echoed(choice: Any, prompt: str, word: str) -> float:
    """Return the log probability of a word after a prompt, from an echo of both."""
    logprobs = _member(choice, "logprobs", dict, "a choice", hint="; without an echo say read: first_token or votes")
    where = "a choice's logprobs"
    offsets, values = _member(logprobs, "text_offset", list, where), _member(logprobs, "token_logprobs", list, where)
    if len(offsets) != len(values) or not all(isinstance(one, int) for one in offsets):
        raise MisfitError(f"text_offset and token_logprobs of {where} do not fit each other", logprobs, field=READ)
    begin, end = len(prompt), len(prompt) + len(word)
    if begin not in offsets:
        raise MisfitError(
            "no token of the echo begins where the prompt ends: end the template, and begin the labels' words, where a "
            "token does",
            offsets[-5:],
            field=TEMPLATE,
        )
    inside = [_logarithm(value, where) for at, value in zip(offsets, values, strict=True) if begin <= at < end]
    return math.fsum(inside)
