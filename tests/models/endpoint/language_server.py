"""A server that speaks OpenAI's protocol, with a tiny causal language model of random weights behind it."""

import re
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.scripted import Asked, answering

WORDS = [
    *(" negative", " positive", " Negative", " Positive", " very", " good", " bad", " the", " a", " film", "."),
    *(" not", " is", " was", " and", " so"),
]
PIECE = re.compile(r" ?\w+|\s|[^\w\s]")


class TinyLanguageModel(torch.nn.Module):
    """A causal transformer of one layer and random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(len(WORDS), 16), torch.nn.Embedding(512, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(16, len(WORDS))

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits (batch, tokens, words) of what comes after each of (batch, tokens)."""
        length = ids.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length)
        logits: Tensor = self.head(self.layer(self.words(ids) + self.places(torch.arange(length)), mask))
        return logits


@cache
def network() -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        model = TinyLanguageModel()
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.6)
    return model.eval().requires_grad_(False)


def numbers(text: str) -> list[int]:
    return [
        WORDS.index(one) if one in WORDS else zlib.crc32(one.encode(errors="surrogatepass")) % len(WORDS)
        for one in PIECE.findall(text)
    ]


def log_probabilities(prompt: str) -> Tensor:
    """Return (tokens, words) float64 at every token of the prompt, of what comes next."""
    with torch.no_grad():
        logits = network()(torch.tensor([numbers(prompt)]))[0].double()
    # As one that was told to answer with a label: the first four words are theirs.
    return (logits + 4.0 * (torch.arange(len(WORDS)) < 4)).log_softmax(1)


@dataclass
class LanguageServer:
    """How it answers: whether temperature scales what it lists, what it leaves out, whether it draws at 0, and whether
    a word has its blank, as none has at the beginning of a chat's answer."""

    scales: bool = False
    hides: tuple[str, ...] = ()
    is_random: bool = False
    has_logprobs: bool = True
    strips: bool = False
    draw: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def __call__(self, handler: Any, asked: Asked) -> None:
        said = asked.json
        if asked.path.endswith("chat/completions"):
            answering({"choices": self._chat(said)})(handler, asked)
        else:
            prompts = said["prompt"] if isinstance(said["prompt"], list) else [said["prompt"]]
            several = [one for prompt in prompts for one in self._complete(prompt, said)]
            answering({"choices": [{"index": at, **one} for at, one in enumerate(several)]})(handler, asked)

    def _next(self, prompt: str, said: Any) -> tuple[Tensor, list[int]]:
        plain, temperature = log_probabilities(prompt)[-1], said["temperature"]
        scaled = plain if temperature == 0 else (plain / temperature).log_softmax(0)
        if temperature == 0 and not self.is_random:
            drawn = [int(plain.argmax())] * said.get("n", 1)
        else:
            drawn = torch.multinomial(scaled.exp(), said.get("n", 1), replacement=True, generator=self.draw).tolist()
        return (scaled if self.scales else plain), drawn

    def _listed(self, values: Tensor, most: int) -> list[tuple[str, float]]:
        order = values.argsort(descending=True).tolist()
        listed = [(self._shown(at), float(values[at])) for at in order if WORDS[at] not in self.hides]
        return listed[:most]

    def _shown(self, at: int) -> str:
        return WORDS[at].strip() if self.strips else WORDS[at]

    def _chat(self, said: Any) -> list[Any]:
        values, drawn = self._next(said["messages"][-1]["content"], said)
        choices: list[Any] = []
        for one in drawn:
            choice: dict[str, Any] = {"message": {"role": "assistant", "content": self._shown(one)}}
            if said.get("logprobs") and self.has_logprobs:
                listed = [
                    {"token": word, "logprob": value} for word, value in self._listed(values, said["top_logprobs"])
                ]
                content = {"token": self._shown(one), "logprob": float(values[one]), "top_logprobs": listed}
                choice["logprobs"] = {"content": [content]}
            choices.append(choice)
        return choices

    def _complete(self, prompt: str, said: Any) -> list[Any]:
        values, drawn = self._next(prompt, said)
        if said.get("echo"):
            pieces, every = PIECE.findall(prompt), log_probabilities(prompt)
            offsets = [sum(map(len, pieces[:at])) for at in range(len(pieces))]
            chosen = [None, *(float(every[at, number]) for at, number in enumerate(numbers(prompt)[1:]))]
            return [{"text": prompt, "logprobs": {"text_offset": offsets, "token_logprobs": chosen, "tokens": pieces}}]
        choices: list[Any] = []
        for one in drawn:
            choice: dict[str, Any] = {"text": WORDS[one], "logprobs": None}
            if said.get("logprobs") and self.has_logprobs:
                choice["logprobs"] = {
                    "tokens": [WORDS[one]],
                    "token_logprobs": [float(values[one])],
                    "top_logprobs": [dict(self._listed(values, said["logprobs"]))],
                }
            choices.append(choice)
        return choices
