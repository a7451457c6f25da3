"""Endpoints of texts as language models: what they answer is written as a chat's log probabilities and read again."""

import json
import math
from collections.abc import Sequence

import torch

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sided, sigmoid
from seatrial.contracts.estimates import Flag
from seatrial.contracts.generative import ChatArchitecture
from workers.models import Answer, UnansweredError
from workers.models.endpoint_scores import MisfitError
from workers.models.generative import GenerativeExchange

BEFORE, AFTER = "Is this review negative or positive?\n\n", "\nAnswer:"
WORDS = {"negative": ["negative"], "positive": ["positive"]}
OTHERS = 30
"""Tokens that are no label's, the likeliest of which are listed too."""
LABELLED = 0.95
"""Probability of both labels together."""


class Chat:
    """A language model whose labels are as likely as an endpoint says.

    Args:
        endpoint: What is behind it; of several texts in a request it knows nothing, a prompt is one.
        hides: Whether it lists the likelier label alone.
        digits: To which log probabilities are rounded; None: as they are.
    """

    def __init__(self, endpoint: Endpoint, *, hides: bool = False, digits: int | None = None) -> None:
        self.name, self.fake = endpoint.name, endpoint.fake
        self.classes, self.labels, self.device = 2, list(WORDS), torch.device("cpu")
        self.preferred_texts = 4
        self._endpoint, self._hides, self._digits = endpoint, hides, digits
        said = ChatArchitecture(
            kind="chat",
            url="https://llm.example.com/v1/chat/completions",
            model="m",
            template=f"{BEFORE}{{{{text}}}}{AFTER}",
            labels=WORDS,
        )
        self._exchange = GenerativeExchange(said, "text-classification", self.labels)

    def begin_session(self) -> None:
        """Be asked by another caller."""
        self._endpoint.begin_session()

    def flags(self) -> list[Flag]:
        """Return the doubts about what was read, which a preflight would raise."""
        return self._exchange.flags()

    def logits(self, texts: Sequence[str]) -> list[Answer]:
        """Return what it says to each text, in order, or why it says nothing."""
        answers: list[Answer] = []
        for text in texts:
            (found,) = self._exchange.answers(self._answer(self._exchange.body([text])), [text])
            answers.append(UnansweredError(found.reason) if isinstance(found, MisfitError) else found)
        return answers

    def _answer(self, body: bytes) -> bytes:
        asked = json.loads(body)
        text = asked["messages"][0]["content"].removeprefix(BEFORE).removesuffix(AFTER)
        (logits,) = self._endpoint.logits([text])
        chances = {word: LABELLED * float(chance) for word, chance in zip(WORDS, logits.softmax(0), strict=True)}
        if self._hides:
            chances.pop(min(chances, key=lambda word: chances[word]))
        # The likelier the sooner, as of words that people use.
        shares = [1 / rank for rank in range(2, OTHERS + 2)]
        chances |= {f"word{at}": (1 - LABELLED) * share / math.fsum(shares) for at, share in enumerate(shares)}
        listed = sorted((one for one in chances.items() if one[1] > 0), key=lambda one: -one[1])
        told = [{"token": token, "logprob": self._written(chance)} for token, chance in listed[: asked["top_logprobs"]]]
        content = [{**told[0], "top_logprobs": told}]
        return json.dumps({"choices": [{"logprobs": {"content": content}}]}).encode()

    def _written(self, chance: float) -> float:
        value = math.log(chance)
        return value if self._digits is None else round(value, self._digits)


def as_chats(endpoints: Sequence[Endpoint], odds: LogOdds) -> list[Chat]:
    """Return endpoints as language models, and some that only language models can be.

    What most texts of a request say is left out: a prompt is one text.
    """
    chats = [Chat(one) for one in endpoints if type(one) is Endpoint]
    plain = Endpoint("the likelier label is listed alone", lambda text: probability(sigmoid(odds(text))), fake=True)
    constant = Endpoint("the same, with one confidence", lambda text: sided(odds(text), 0.9), fake=True)
    rounded = Endpoint("log probabilities, four digits", lambda text: probability(sigmoid(odds(text))), fake=False)
    return [*chats, Chat(plain, hides=True), Chat(constant, hides=True), Chat(rounded, digits=4)]
