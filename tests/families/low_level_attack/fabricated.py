"""Records of audits that never ran: made-up answers to texts nobody perturbed, judged as real ones are."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from seatrial.contracts.models import MULTI_LABEL, TAGGING
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from workers.families.contexts import LabelledText, Records
from workers.families.low_level_attack.answers import Answer, read_answer
from workers.families.low_level_attack.noise import Noisy, Row, judge
from workers.families.low_level_attack.records import attack_records, begin, clean_records
from workers.models import UnansweredError

SINGLE = "text-classification"
Scores = torch.Tensor | UnansweredError


def parameters(**changes: object) -> LowLevelAttackParams:
    return LowLevelAttackParams.model_validate({"kind": "low_level_attack"} | changes)


def audit(
    params: LowLevelAttackParams,
    task: str,
    examples: Sequence[LabelledText],
    clean: Sequence[Scores],
    attacked: Mapping[str, Mapping[float, Sequence[Sequence[Scores]]]],
    changed: float = 0.5,
) -> dict[str, Records]:
    """Return the records of every stage.

    Args:
        params: What was asked.
        task: What the model does.
        examples: The sample.
        clean: Scores of each text as it is.
        attacked: By attacker and level, for each example the scores of its draws.
        changed: Share of tokens said to have changed.
    """
    answers = [read_answer(task, one.text, one.truths, given) for one, given in zip(examples, clean, strict=True)]
    done = {"clean": clean_records(task, examples, answers)}
    for attacker in params.runs(task):
        rows = []
        for at, (example, answer) in enumerate(zip(examples, answers, strict=True)):
            row = Row(begin(task, example), None if isinstance(answer, Answer) else f"clean text: {answer}")
            for level in params.levels:
                for draw, given in enumerate(attacked[attacker][level][at] if isinstance(answer, Answer) else []):
                    times = 1 + int(10 * level) + params.runs(task).index(attacker)
                    noisy = Noisy(perturbed(example, times) if changed else example.text, changed)
                    found = judge(task, example, answer.predictions, noisy, given)
                    if isinstance(found, str):
                        row.error = row.error or found
                    else:
                        row.keep(found, level, draw, of=params.draws)
            rows.append(row.record)
        done[f"attack_{attacker}"] = attack_records(params, rows)
    return done


def perturbed(example: LabelledText, times: int) -> str | tuple[str, ...]:
    """So many more characters than there were, in the last token or part."""
    if isinstance(example.text, str):
        return example.text + "x" * times
    return (*example.text[:-1], example.text[-1] + "x" * times)


def singles(marks: str, classes: int = 2) -> list[LabelledText]:
    """As many texts as marks; all are of class 1."""
    return [LabelledText(100 + at, f"text number {at}", (1,)) for at in range(len(marks))]


def logits(marks: str, margin: float = 2.0) -> list[torch.Tensor]:
    """Logits of a model that is right at each + and wrong at each -, about texts of class 1; each a little other."""
    sides = [margin if mark == "+" else -margin for mark in marks]
    return [torch.tensor([0.0, side + 0.01 * at]) for at, side in enumerate(sides)]


def marked(
    params: LowLevelAttackParams, clean: str, changed: float = 0.5, margin: float = 2.0, **noise: Sequence[str]
) -> dict[str, Records]:
    """Return the records of single-label texts from strings of + and -.

    ``noise`` gives for each attacker a string for each level; "+-,--" is two draws.
    """
    attacked = {
        attacker: {
            level: [
                list(draws) for draws in zip(*[logits(marks, margin * 0.9) for marks in text.split(",")], strict=True)
            ]
            for level, text in zip(params.levels, levels, strict=True)
        }
        for attacker, levels in noise.items()
    }
    return audit(params, SINGLE, singles(clean), logits(clean, margin), attacked, changed)


def sampled(
    task: str,
    params: LowLevelAttackParams,
    n: int = 60,
    classes: int = 4,
    seed: int = 0,
    errored: frozenset[int] = frozenset(),
) -> dict[str, Records]:
    """Return the records of a model that knows something, and less the more noise there is; some examples err."""
    rng = np.random.default_rng(seed)
    examples, signal = [], []
    for at in range(n):
        if task == TAGGING:
            truths = rng.integers(0, classes, 3 + at % 7)
            text: str | tuple[str, ...] = tuple(f"w{number}" for number in range(len(truths)))
            signal.append(3.0 * np.eye(classes)[truths])
        elif task == MULTI_LABEL:
            truths = (rng.random(classes) < [0.5, 0.3, 0.2, 0.1][:classes]).astype(int)
            text = f"text {at}"
            signal.append(3.0 * (truths - 0.5))
        else:
            truths = rng.integers(0, classes, 1)
            text = f"text {at}" if task == SINGLE else (f"premise {at}", f"hypothesis {at}")
            signal.append(3.0 * np.eye(classes)[truths[0]])
        examples.append(LabelledText(200 + at, text, tuple(int(truth) for truth in truths)))

    def scores(strength: float) -> list[Scores]:
        found: list[Scores] = []
        for at, one in enumerate(signal):
            given = torch.from_numpy(strength * one + rng.normal(size=one.shape))
            if task == TAGGING and at % 10 == 0:
                # The last token has no tag where there is noise, and another none at all.
                given[-1] = torch.nan
            found.append(UnansweredError("too late") if at in errored else given)
        return found

    clean = scores(1.0)
    harm = {name: 0.3 + 0.1 * place for place, name in enumerate(params.runs(task))}
    attacked = {}
    for name in params.runs(task):
        levels = {level: [scores(1 - level * harm[name]) for _ in range(params.draws)] for level in params.levels}
        attacked[name] = {level: [list(own) for own in zip(*draws, strict=True)] for level, draws in levels.items()}
    return audit(params, task, examples, clean, attacked)
