"""Training on perturbed texts: noise of mixed kinds, and what an attack makes of every text."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from seatrial.contracts.noise import ATTACKERS, Noise
from seatrial.hardening.texts import LEVELS, DgAugParams, NoiseMixParams
from seatrial.noise.copies import noisy_copy
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from seatrial.store.seeds import derive_seed
from workers.data import Text
from workers.training.data import InMemory, Raw, TrainingData
from workers.training.methods.plain import CrossEntropy
from workers.training.models import TrainableTexts, evaluating, frozen
from workers.training.protocol import Preparation

CACHE_BYTES = 2**26
FILE = "attacked.jsonl"


@dataclass(frozen=True)
class Noisy:
    """Texts of which each has noise of one attacker at one level, both drawn uniformly by seed and position.

    Attributes:
        data: The clean texts.
        perturbers: One for each attacker.
        seed: Of the run.
    """

    data: TrainingData
    perturbers: tuple[Perturber, ...]
    seed: int

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels (n,), those of the clean texts."""
        return self.data.labels

    def read(self, positions: Sequence[int]) -> Raw:
        """Return texts with noise, the same whenever they are read."""
        texts = self.data.read(positions)
        return [self._noisy(text, at) for text, at in zip(texts, positions, strict=True)]

    def _noisy(self, text: Text, position: int) -> Text:
        draw = random.Random(derive_seed(self.seed, "training", "noise", position))  # noqa: S311 - not for secrets
        perturber, level = draw.choice(self.perturbers), draw.choice(LEVELS)
        parts = (text,) if isinstance(text, str) else text
        made = noisy_copy(perturber, parts, level, draw).parts
        return made[0] if isinstance(text, str) else made


class NoiseMix(CrossEntropy):
    """Cross-entropy of noisy texts, each once."""

    params: NoiseMixParams

    def prepare(self, data: TrainingData, preparation: Preparation) -> TrainingData:
        """Return the texts with noise."""
        params = self.params
        names = [name for name in ATTACKERS if (name == params.attacker) == (params.mix == "one_to_one")]
        noise = Noise(variant=params.variant)
        return Noisy(data, tuple(Perturber(name, noise, Lexicons(None)) for name in names), preparation.seed)


class DgAug(CrossEntropy):
    """Cross-entropy of the texts and of their adversarial versions, with the true labels."""

    params: DgAugParams
    model: TrainableTexts

    def prepare(self, data: TrainingData, preparation: Preparation) -> TrainingData:
        """Return both; what is attacked already is read from the preparation's folder.

        A text that the model has wrong is skipped by the attack and counts as one whose attack fails.
        """
        texts = list(data.read(range(len(data.labels))))
        found = self._attacked(texts, data, preparation)
        kept = [at for at in range(len(texts)) if self.params.unbroken == "add" or found[at][0] == "succeeded"]
        labels = data.labels
        return InMemory([*texts, *[found[at][1] for at in kept]], np.concatenate([labels, labels[kept]]))

    def _attacked(
        self, texts: Sequence[object], data: TrainingData, preparation: Preparation
    ) -> dict[int, tuple[str, Text]]:
        # TextAttack takes seconds to import, which other methods need not wait for.
        from workers.attacks.text.attacking import Job, Outcome, attack_all
        from workers.attacks.text.recipes import load_recipe
        from workers.attacks.text.scoring import ScoringService
        from workers.resources.library import Library

        file = None if preparation.folder is None else preparation.folder / FILE
        done = {} if file is None else _read(file)
        recipe = load_recipe("deepwordbug", preparation.library or Library.of())

        def keep(outcome: Outcome) -> None:
            done[outcome.example_id] = (outcome.status, outcome.text)
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps([outcome.example_id, outcome.status, outcome.text]) + "\n")

        jobs = [
            Job(
                at,
                text,  # type: ignore[arg-type]
                int(data.labels[at]),
                derive_seed(preparation.seed, "training", "attack", at),
                lambda logits: torch.softmax(logits, 1),
                recipe,
            )
            for at, text in enumerate(texts)
            if at not in done
        ]
        service = ScoringService(self.model.classifier, max_bytes=CACHE_BYTES)
        with evaluating(self.model), frozen(self.model):
            attack_all(
                jobs,
                service,
                query_budget=self.params.query_budget,
                check_cancelled=preparation.check_cancelled,
                on_done=keep,
            )
        return done


def _read(file: Path) -> dict[int, tuple[str, Text]]:
    """Return what was attacked before, by position; a last line that was not written to its end is left out."""
    found: dict[int, tuple[str, Text]] = {}
    if not file.exists():
        return found
    lines = file.read_text(encoding="utf-8")
    whole = lines[: lines.rfind("\n") + 1]
    if whole != lines:
        file.write_text(whole, encoding="utf-8")
    for line in whole.splitlines():
        at, status, text = json.loads(line)
        found[at] = (status, text if isinstance(text, str) else tuple(text))
    return found
