"""Everything an audit recorded, read once: who stayed right under which attack, and the gaps between arms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY, UNSCORED, TemperatureAttackParams
from seatrial.families.temperature_attack.records import UNCOUNTED
from seatrial.statistics.arrays import Floats, Mask
from seatrial.statistics.paired import Gap, gap_to_lowest
from workers.families.contexts import Records
from workers.families.temperature_attack.anew import Anew, read_anew
from workers.families.temperature_attack.arms import Arms, resolve_arms
from workers.families.temperature_attack.displaced import Displacement, read_displacement
from workers.families.temperature_attack.drawn_ways import MissingSample, WaySample, read_marks, read_missing, read_ways
from workers.families.temperature_attack.insisting import Insistence, read_insistence
from workers.families.temperature_attack.meaning_free import EditSample, read_edits
from workers.families.temperature_attack.pieced import Pieced, read_pieced
from workers.families.temperature_attack.primed import Priming, read_priming
from workers.families.temperature_attack.probe import ProbeSample
from workers.families.temperature_attack.quiet import AMID, QUIET, Quiet, read_amid, read_quiet
from workers.families.temperature_attack.records import (
    AttackSample,
    CleanSample,
    SearchSample,
    merge_clean,
    read_validation,
)
from workers.families.temperature_attack.sent_once import SentOnce, read_once
from workers.families.temperature_attack.transferred import TRANSFERRED, Transfer, read_transfer
from workers.families.temperature_attack.unasked import Unasked, read_unasked
from workers.families.temperature_attack.written import Written, read_written


@dataclass(frozen=True)
class Audit:
    """The records of a finished check.

    Attributes:
        params: What was asked.
        arms: What was attacked.
        validation: The examples arms were fitted on; None where none is fitted.
        search: The rounds of the temperature search; None where there was none.
        attacks: By recipe.
        probe: Answers along paths of edits; None where the records are from before there was this stage.
        closing: The same with other edits, after everything else.
        displacement: Attacks on texts beside words of no meaning; None where the records are from before there were.
        priming: What it does to an edited text that the unedited one was asked; None likewise.
        written: Decisions about texts with words edited at random; None likewise.
        pieced: Attacks on texts pieced together; None likewise, and where no class had enough.
        unasked: Attacks on texts that were not asked as they are; None likewise, and where the data had none.
        anew: Pieced texts and their edits in either order; None likewise.
        transfer: Shares of leads that edits take by what words say elsewhere; None where the stage was not run.
        once: Edited texts that were sent once; None likewise, and where no recipe changes classes.
        insistence: Texts much misspelt before they were attacked and after; None likewise.
        quiet: Edited texts asked after ordinary ones in a row; None likewise, and where the data had too few.
        first_quiet: The same of those asked before all else.
        amid: Shares of leads that misspelling takes from texts behind the attacks, by what of them was asked before.
        edits: By recipe, what edits without a meaning did to texts that withstood the search by labels; none likewise.
        ways: What ways to write words that were drawn did to texts that withstood all; None where no way promised to.
        marks: What signs at words that a decision hangs on turned when they were asked again; None where none was.
        missing: What unreadable words turn that those texts can do without; None where none was asked.
    """

    params: TemperatureAttackParams
    arms: Arms
    validation: CleanSample | None
    search: SearchSample | None
    attacks: dict[str, AttackSample]
    probe: ProbeSample | None = None
    closing: ProbeSample | None = None
    displacement: Displacement | None = None
    priming: Priming | None = None
    written: Written | None = None
    pieced: Pieced | None = None
    anew: Anew | None = None
    unasked: Unasked | None = None
    transfer: Transfer | None = None
    once: SentOnce | None = None
    insistence: Insistence | None = None
    quiet: Quiet | None = None
    first_quiet: Quiet | None = None
    amid: Mapping[str, Floats] = field(default_factory=dict)
    edits: Mapping[str, EditSample] = field(default_factory=dict)
    ways: WaySample | None = None
    marks: WaySample | None = None
    missing: MissingSample | None = None

    @cached_property
    def clean(self) -> CleanSample:
        """Examples whose clean text was answered.

        Also those that errored when attacked: right ones take more queries, so they err more often than wrong ones, and
        what is left is no fair sample of the clean texts.
        """
        return merge_clean([attack.answered for attack in self.attacks.values()])

    @cached_property
    def flipping(self) -> list[str]:
        """Recipes that try to change the prediction."""
        return [recipe for recipe in self.attacks if recipe != UNCOUNTED]

    @cached_property
    def counted(self) -> list[str]:
        """Recipes that are evidence: those of them that could attack."""
        return [recipe for recipe in self.flipping if not self.attacks[recipe].is_inert]

    @cached_property
    def common_ids(self) -> list[int]:
        """Examples that did not error under any counted recipe."""
        if not self.counted:
            return []
        first, *rest = [self.attacks[recipe].clean.example_ids.tolist() for recipe in self.counted]
        common = set(first).intersection(*rest)
        return [example for example in first if example in common]

    def robust(self, arm: str, recipe: str | None = None) -> Mask:
        """Return (n,) who stays right under a recipe, or under the worst counted recipe for each example.

        What an inert recipe flips is wrong in the worst case too, where it did not err.
        """
        if recipe is not None:
            return self.attacks[recipe].robust(arm)
        flipped: set[int] = set()
        for name in self.flipping:
            sample = self.attacks[name]
            flipped.update(sample.clean.example_ids[~sample.robust(arm)].tolist())
        return np.array([example not in flipped for example in self.common_ids], dtype=bool)

    def phases(self, arm: str) -> tuple[int, int, int, int] | None:
        """Return who withstood the first recipe, of how many, and who all others too, of how many of those.

        None where every recipe attacked every text, where but one is evidence, and where none of those that stand was
        attacked again: the texts that met all recipes are a random part of the sample as well.
        """
        first, *others = self.counted or [""]
        if self.params.survivors is None or first != self.params.recipes[0] or not others:
            return None
        sample = self.attacks[first]
        standing = set(sample.clean.example_ids[sample.robust(arm)].tolist())
        again = [
            robust for example, robust in zip(self.common_ids, self.robust(arm), strict=True) if example in standing
        ]
        if standing and not again:
            return None
        return len(standing), len(sample.clean), sum(again), len(again)

    def gap(self, recipe: str | None = None) -> Gap | None:
        """Return the illusion gap under a recipe, or under the worst one for each example; None where undefined."""
        if not self.counted or (recipe is not None and recipe not in self.counted):
            return None
        return gap_to_lowest(self.robust(AS_SERVED, recipe), [self.robust(arm, recipe) for arm in self.arms.others])

    def probabilities(self, arm: str, logits: Tensor) -> Tensor:
        """Return what an arm's attacker sees of the model (n, classes); as served where it sees no scores of it."""
        return self.arms[AS_SERVED if arm in UNSCORED else arm].scaling.probabilities(logits)

    def confidence(self, arm: str, logits: Tensor) -> Floats:
        """Return (n,) the largest probability an arm's attacker sees."""
        if not len(logits):
            return np.empty(0)
        largest: Floats = self.probabilities(arm, logits).max(dim=1).values.to(torch.float64).numpy()
        return largest

    def right(self, arm: str) -> Mask:
        """Return (n,) whether the class an arm gives the largest probability is the label, on the clean texts.

        A temperature keeps the unmodified model's prediction; Platt scaling may not.
        """
        if self.arms[arm].scaling.weights is None or not len(self.clean):
            return self.clean.right
        predictions = self.probabilities(arm, self.clean.logits).numpy().argmax(axis=1)
        right: Mask = predictions == self.clean.labels
        return right


def read_audit(params: TemperatureAttackParams, done: Mapping[str, Records]) -> Audit:
    """Return the records of all stages, read.

    Args:
        params: What was asked.
        done: Records by stage: ``validation``, ``search_1`` and so on, ``attack_<recipe>``.
    """
    rounds = search_rounds(done)
    validation = done.get("validation")
    arms = resolve_arms(params, validation, rounds)
    attacks: dict[str, AttackSample] = {recipe: AttackSample(done[f"attack_{recipe}"]) for recipe in params.recipes}
    counted = [attack for recipe, attack in attacks.items() if recipe != UNCOUNTED]
    if not counted or any(LABEL_ONLY not in attack.arms for attack in counted):
        # No recipe attacks, or some records are from before there was this arm.
        arms = Arms({name: arm for name, arm in arms.by_name.items() if name != LABEL_ONLY})
    return Audit(
        params=params,
        arms=arms,
        validation=None if validation is None else read_validation(validation),
        search=SearchSample(rounds) if rounds else None,
        attacks=attacks,
        probe=ProbeSample(done["probe"]) if "probe" in done else None,
        closing=ProbeSample(done["closing"]) if "closing" in done else None,
        displacement=read_displacement(done["closing"]) if "closing" in done else None,
        priming=read_priming(done["closing"]) if "closing" in done else None,
        pieced=read_pieced(done["closing"]) if "closing" in done else None,
        anew=read_anew(done["closing"]) if "closing" in done else None,
        unasked=read_unasked(done["unasked"]) if "unasked" in done else None,
        quiet=read_quiet(done.get(QUIET), done.get(AMID)),
        first_quiet=read_quiet(done.get(AMID), done.get(AMID)),
        amid=read_amid(done.get(AMID)),
        transfer=read_transfer(done.get(TRANSFERRED)),
        once=read_once(params, done),
        insistence=read_insistence(params, done, attacks),
        written=read_written(done["probe"]) if "probe" in done else None,
        edits={recipe: found for recipe in params.recipes if (found := read_edits(done[f"attack_{recipe}"]))},
        ways=read_ways(done),
        marks=read_marks(done),
        missing=read_missing(done),
    )


def search_rounds(done: Mapping[str, Records]) -> list[Records]:
    """Return the records of the finished rounds of the temperature search, in order."""
    rounds: list[Records] = []
    while (name := f"search_{len(rounds) + 1}") in done:
        rounds.append(done[name])
    return rounds
