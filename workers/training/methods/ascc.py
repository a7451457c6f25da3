"""ASCC (Dong et al. 2021): adversarial sparse convex combinations of words with their synonyms."""

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from seatrial.hardening.texts import AsccParams
from workers.errors import PreflightError
from workers.training.data import Batch, TrainingData
from workers.training.methods.adversarial import divergence
from workers.training.methods.plain import CrossEntropy
from workers.training.models import Encoded, Trainable, TrainableTexts, evaluating, frozen
from workers.training.protocol import Preparation, Step

INVALID = -999.0
"""Weight of a synonym that is not there, before softmax."""
RATE, DECAY = 1.0, 2e-5
"""Of Adam on the mixture's weights."""


class Neighbours(Protocol):
    """Word vectors that know which words are near."""

    def word2index(self, word: str) -> int:
        """Return a word's number; KeyError where it has none."""
        ...

    def index2word(self, index: int) -> str:
        """Return the word of a number."""
        ...

    def nearest_neighbours(self, index: int, topn: int) -> list[int]:
        """Return the nearest words' numbers, nearest first."""
        ...


class Ascc(CrossEntropy):
    """Cross-entropy of clean texts and ``beta`` times KL(clean || attacked), whose clean side has a gradient too.

    The attack mixes each token's embedding with those of its synonyms and minimises -KL(clean || attacked) +
    ``sparsity`` times the mean entropy of the mixtures, by Adam; dropout is as in training meanwhile.

    Raises:
        PreflightError: The model takes no embeddings.
    """

    params: AsccParams
    model: TrainableTexts
    table: Tensor
    """Of each token id: itself and its synonyms' ids (vocabulary, 1 + neighbours), -1 where there are fewer."""

    def __init__(self, params: AsccParams, model: Trainable) -> None:
        super().__init__(params, model)
        self.model.require_embeddings()

    def prepare(self, data: TrainingData, preparation: Preparation) -> TrainingData:
        """Read the synonyms of the model's vocabulary.

        Raises:
            PreflightError: No word vectors are at hand.
        """
        if preparation.vectors is None:
            raise PreflightError(
                "vectors-needed",
                "Synonyms need counter-fitted word vectors",
                "install them with `seatrial resources install`, or use another method",
                field="/method",
            )
        self.table = synonym_table(self.model, preparation.vectors, self.params.neighbours)
        return data

    def loss(self, batch: Batch, step: Step) -> Tensor:
        """Return the mean loss of a micro-batch (0-d)."""
        encoded = self.model.encode(batch.inputs)  # type: ignore[arg-type]
        weights = self.search(encoded, step)
        step.check_cancelled()
        clean = self.model.logits_of(encoded)
        attacked = self.model.logits_of(encoded, self.mixed(encoded, weights))
        return self.cross_entropy(clean, batch.labels) + self.params.beta * divergence(clean, attacked) / len(batch)

    def search(self, encoded: Encoded, step: Step) -> Tensor:
        """Return weights (n, tokens, 1 + neighbours, 1) of the mixtures, before softmax."""
        weights = torch.empty(*encoded.ids.shape, self.table.shape[1], 1)
        torch.nn.init.kaiming_normal_(weights, generator=step.generator)
        weights = weights.to(self.model.device).requires_grad_()
        optimizer = torch.optim.Adam([weights], lr=RATE, weight_decay=DECAY)
        with torch.no_grad():
            clean = self.model.logits_of(encoded)
        with frozen(self.model):
            for _ in range(self.params.steps):
                step.check_cancelled()
                optimizer.zero_grad()
                attacked = self.model.logits_of(encoded, self.mixed(encoded, weights))
                value = -divergence(clean, attacked) + self.params.sparsity * self.entropy(encoded, weights)
                (weights.grad,) = torch.autograd.grad(value, weights)
                optimizer.step()
        return weights.detach()

    def mixed(self, encoded: Encoded, weights: Tensor) -> Tensor:
        """Return the mixtures' embeddings (n, tokens, dimensions)."""
        synonyms: Tensor = self.model.words(self._ids(encoded).clamp_min(0))
        return (self._shares(encoded, weights).softmax(2) * synonyms).sum(2)

    def entropy(self, encoded: Encoded, weights: Tensor) -> Tensor:
        """Return the mean entropy (0-d, nats) of all mixtures."""
        shares = self._shares(encoded, weights)
        return -(shares.softmax(2) * F.log_softmax(shares, 2)).sum(2).mean()

    def attacked(self, batch: Batch, step: Step) -> Tensor:
        """Return logits of the worst mixtures."""
        encoded = self.model.encode(batch.inputs)  # type: ignore[arg-type]
        with evaluating(self.model):
            weights = self.search(encoded, step)
            with torch.no_grad():
                return self.model.logits_of(encoded, self.mixed(encoded, weights))

    def _ids(self, encoded: Encoded) -> Tensor:
        return self.table.to(encoded.ids.device)[encoded.ids]

    def _shares(self, encoded: Encoded, weights: Tensor) -> Tensor:
        return torch.where((self._ids(encoded) >= 0).unsqueeze(3), weights, INVALID)


def synonym_table(model: TrainableTexts, vectors: Neighbours, count: int) -> Tensor:
    """Return the ids (vocabulary, 1 + count) of each token and of its nearest words that are one token; -1 for none."""
    tokenizer: Any = model.classifier._tokenizer
    ids: dict[str, int] = tokenizer.get_vocab()
    table = torch.full((model.words.num_embeddings, 1 + count), -1, dtype=torch.int64)
    table[:, 0] = torch.arange(len(table))
    special = set(tokenizer.all_special_tokens)
    for token, number in ids.items():
        # Byte-level vocabularies write the space before a word as a letter, SentencePiece as a low line.
        word = token.lstrip("\u0120\u2581")
        if token in special or not word.isalpha():
            continue
        try:
            nearest = vectors.nearest_neighbours(vectors.word2index(word.lower()), count)
        except KeyError:
            continue
        mark = token[: len(token) - len(word)]
        found = [ids[mark + near] for near in map(vectors.index2word, nearest) if mark + near in ids]
        table[number, 1 : 1 + len(found)] = torch.as_tensor(found, dtype=torch.int64)
    return table
