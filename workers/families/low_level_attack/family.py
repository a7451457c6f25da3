"""The family as the runtime sees it: which stages, one shard of each, and the result."""

from collections.abc import Callable, Mapping, Sequence

from seatrial.contracts.estimates import Result
from seatrial.contracts.models import SINGLE_LABEL_TEXTS, TAGGING
from seatrial.contracts.noise import COMBINED, NOT_OF_TOKENS
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.noise.lexicons import Lexicons
from workers.errors import PreflightError
from workers.families.contexts import Records, ResumableTextContext, TextContext
from workers.families.low_level_attack import estimates
from workers.families.low_level_attack.answers import Answer, read_answer
from workers.families.low_level_attack.audit import task_of
from workers.families.low_level_attack.figures import draw
from workers.families.low_level_attack.names import ATTACK, CLEAN
from workers.families.low_level_attack.noise import Attack
from workers.families.low_level_attack.records import clean_records
from workers.families.protocol import DataInfo, Family, Shard, Stage, TargetInfo
from workers.resources.library import Library

GRAIN = 8
"""Texts that stay together in a shard: few enough to share a stage among workers; batches are filled across levels."""


class LowLevelAttack:
    """Meet the model with every attacker at every level; compare with what it says without."""

    def preflight(self, target: TargetInfo, data: DataInfo, params: LowLevelAttackParams) -> None:
        """Refuse what cannot be attacked, and attackers whose resources are not there.

        Raises:
            PreflightError: Fewer than two classes; an attacker named that leaves no tag per token, on a tagger; or a
                resource is lacking, with the command that brings it.
        """
        if target.classes < 2:
            raise PreflightError(
                "too-few-classes",
                "The model has too few classes",
                f"noise can change nothing that is decided among {target.classes}",
                field="model",
            )
        for position, attacker in enumerate(params.attackers if params.attackers != "all" else ()):
            if target.task == TAGGING and attacker in NOT_OF_TOKENS:
                raise PreflightError(
                    "attacker-not-of-tokens",
                    f"{attacker} is not run on tagged tokens",
                    f"{attacker} joins words, which leaves no tag for each token; leave it out, or ask for `all`, "
                    "which does",
                    field=f"attackers/{position}",
                )
        _lexicons(params, params.runs(target.task))

    def next_stage(self, params: LowLevelAttackParams, done: Mapping[str, Records]) -> Stage | None:
        """Return the stage of the texts as they are, then one for each attacker."""
        if CLEAN not in done:
            return Stage(CLEAN, grain=GRAIN)
        # What is run depends on the task only where an attacker does; else no record is read for it.
        task = SINGLE_LABEL_TEXTS[0] if NOT_OF_TOKENS.isdisjoint(params.names) else task_of(done[CLEAN])
        planned = [Stage(f"{ATTACK}{attacker}", grain=GRAIN) for attacker in params.runs(task)]
        return next((stage for stage in planned if stage.name not in done), None)

    def run(self, params: LowLevelAttackParams, shard: Shard, context: ResumableTextContext) -> Records:
        """Run one shard; an example's row depends on that example alone, so any cut gives the same rows.

        Raises:
            PreflightError: This worker lacks a resource that the one of the preflight had.
        """
        if shard.stage == CLEAN:
            return _ask_clean(context)
        attacker = shard.stage.removeprefix(ATTACK)
        attackers = params.runs(context.task) if attacker == COMBINED else (attacker,)
        return Attack(params, attacker, context, _lexicons(params, attackers)).run()

    def reduce(
        self,
        params: LowLevelAttackParams,
        done: Mapping[str, Records],
        seed: int,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Result:
        """Turn records into estimates, series, flags and counts."""
        return estimates.reduce(params, done, seed, check_cancelled=check_cancelled)

    def figures(self, params: LowLevelAttackParams, result: Result) -> Mapping[str, str]:
        """Draw the result: SVG text by name."""
        return draw(params, result)


def _lexicons(params: LowLevelAttackParams, attackers: Sequence[str]) -> Lexicons:
    """Return the tables of this worker, unless one is not there that an attacker looks things up in."""
    lexicons = Lexicons(Library.of().folder)
    lacking = lexicons.lacking(params, attackers)
    if lacking is None:
        return lexicons
    raise PreflightError(
        "resource-missing",
        f"{lacking.resource} is not installed",
        f"{lacking.why}: {lacking.command}",
        field=lacking.field,
    )


def _ask_clean(context: TextContext) -> Records:
    """Return what the model says to the texts as they are."""
    examples, service, task = context.labelled(), context.scoring(), context.task
    size = max(1, service.classifier.preferred_texts)
    answers: list[Answer | str] = []
    for start in range(0, len(examples), size):
        context.check_cancelled()
        batch = examples[start : start + size]
        scores = service.scores([example.text for example in batch])
        answers += [
            read_answer(task, example.text, example.truths, given) for example, given in zip(batch, scores, strict=True)
        ]
        context.progress(len(answers))
    return clean_records(task, examples, answers)


FAMILY: Family[LowLevelAttackParams, ResumableTextContext] = LowLevelAttack()
