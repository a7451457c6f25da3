"""The endpoint gives text i the noise that the family gives example i."""

import json
from typing import Any

import pytest
import torch

from app.perturb.service import perturb
from seatrial.contracts.perturb import PerturbRequest
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.noise.lexicons import Lexicons
from seatrial.store.seeds import derive_seed
from tests.families.in_memory import TextContext, TextModel, run_text_check
from workers.data import Text
from workers.families.contexts import LabelledText
from workers.families.low_level_attack.family import FAMILY
from workers.families.low_level_attack.names import column

SEED = 7
ATTACKERS = ["visual", "full_shuffle", "natural_typo"]
TEXTS = ["The vandalism of a gripping film.", "Not for me, thanks!", "Wonderful acting, dreadful sound."]
NOISE: dict[str, Any] = {"variant": "paper", "phi": 0.4, "levels": [0.5, 1.0]}


def audited(task: str, texts: list[Text]) -> dict[tuple[int, str, float], Any]:
    """Return what an audit attacks: by example, attacker and level."""

    def answer(text: Text) -> torch.Tensor:
        return torch.zeros(len(text), 2) if task == "token-classification" else torch.tensor([0.0, 1.0])

    params = LowLevelAttackParams(kind="low_level_attack", attackers=ATTACKERS, combined=True, **NOISE)
    truths = [(0,) * len(text) if task == "token-classification" else (n % 2,) for n, text in enumerate(texts)]
    sample = [LabelledText(n, text, truth) for n, (text, truth) in enumerate(zip(texts, truths, strict=True))]
    _, done = run_text_check(FAMILY, params, TextModel(answer, ["no", "yes"]), sample, task=task)
    return {
        (row["example_id"], stage.removeprefix("attack_"), level): _as_sent(row, level)
        for stage, table in done.items()
        if stage != "clean"
        for row in table.to_pylist()
        for level in params.levels
    }


def _as_sent(row: dict[str, Any], level: float) -> Any:
    text, second, tokens = (row[column(name, level)] for name in ("text", "second_text", "tokens"))
    return tokens or ([text, second] if second is not None else text)


@pytest.mark.parametrize(
    ("task", "texts"),
    [
        ("text-classification", TEXTS),
        ("text-pair-classification", [(one, other) for one, other in zip(TEXTS, TEXTS[::-1], strict=True)]),
        ("token-classification", [tuple(text.split()) for text in TEXTS]),
    ],
    ids=["texts", "pairs", "sentences"],
)
def test_it_is_that_of_an_audit_of_the_seed(task: str, texts: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # As the runtime's context has it.
    monkeypatch.setattr(
        TextContext,
        "seed",
        lambda _, purpose, example_id: derive_seed(SEED, "low_level_attack", purpose, example_id),
    )
    expected = audited(task, texts)
    field = "sentences" if task == "token-classification" else "texts"
    asked = {field: texts, "attackers": [*ATTACKERS, "combined"], "seed": SEED, **NOISE}
    body = PerturbRequest.model_validate_json(json.dumps(asked))
    found = {(one.index, one.attacker, one.level): one.perturbed for one in perturb(body, Lexicons(None))}
    assert found == expected
    assert len(found) == len(texts) * 4 * 2
