"""TextAttack's attacks on many examples at once: one ``textattack.Attack`` each, in flight together.

On the same model, text and seed an outcome equals the one of ``random.seed(seed); np.random.seed(seed % 2**32);
attack.attack(text, label)``: same final text, same label, same number of queries. What differs is what it costs.
"""

import copy
import math
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor

from seatrial.contracts.datasets import PairParts
from workers.attacks.text.drivers import run_driven
from workers.attacks.text.in_flight import Coroutine, ScoringClient, TimeBudgetError, run_in_flight, seed_generators
from workers.attacks.text.places import edit_parts, leave_unseen
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.strength import Strength, measure_strength
from workers.attacks.text.watched_texts import UnattackableTextError, changed_share, watched
from workers.attacks.text.whole_characters import keep_characters_whole
from workers.data import Text
from workers.models import UnansweredError

if TYPE_CHECKING:
    from workers.attacks.text.recipes import Recipe

View: TypeAlias = Callable[[Tensor], Tensor]
"""From logits (n, classes) to the probabilities (n, classes) an attacker sees, in the precision they are seen in."""

Status = Literal["succeeded", "failed", "unfinished", "skipped", "maximized", "errored"]
"""How an attack ended. ``unfinished``: its query budget was spent first, so that it failed says little; ``skipped``:
wrong before it began; ``maximized``: the goal has no end (input reduction)."""

IN_FLIGHT = 256
"""Attacks open at once, at most: each holds its candidates, some megabytes for a paragraph. On a CPU far fewer are."""


class NonFiniteScoresError(Exception):
    """The model's scores of a text, or what a view made of them, are not all finite."""


@dataclass(frozen=True)
class Job:
    """One attack on one example.

    Attributes:
        example_id: Position of the example in its dataset.
        text: The text, or premise and hypothesis.
        label: Class number.
        seed: Seed of everything random in the attack.
        view: What the attacker sees of the model.
        recipe: How it attacks.
        common_random_numbers: Draw what the recipe writes into a word from ``seed``, the word and its place alone, not
            from where the search stands. Attacks through different views then try the same words, so that what they
            find differs by the view and not by luck, and the model has answered most of their texts before. Off, the
            outcome is plain TextAttack's.
        edit_share: Share of the text's characters that may be edited, in place of a recipe's limit where it has one;
            None for the recipe as published.
        measures_strength: Count, once it is over, what the attack could write.
        seen: Characters of each part that the model sees: words behind them are left alone. None where it sees all.
        pair_parts: Which parts of a pair are edited.
    """

    example_id: int
    text: Text
    label: int
    seed: int
    view: View
    recipe: "Recipe"
    common_random_numbers: bool = False
    edit_share: float | None = None
    measures_strength: bool = False
    seen: tuple[int, ...] | None = None
    pair_parts: PairParts = "published"


@dataclass(frozen=True)
class Outcome:
    """How one attack ended.

    Attributes:
        example_id: As in its job.
        status: See :data:`Status`.
        text: The adversarial text; where the attack failed, its last candidate; the original where it was skipped or
            errored.
        queries: Texts the attack asked for, the clean one included, as TextAttack counts them: before any cache.
        perturbed_share: Words changed, relative to the words of the original.
        error: Why it errored.
        strength: What the attack could write; None where that was not asked for, or took too long.
    """

    example_id: int
    status: Status
    text: Text
    queries: int
    perturbed_share: float
    error: str | None = None
    strength: Strength | None = None


def attack_all(
    jobs: Sequence[Job],
    service: ScoringService,
    *,
    query_budget: int | None = None,
    time_budget_s: float | None = None,
    in_flight: int = IN_FLIGHT,
    check_cancelled: Callable[[], None] = lambda: None,
    on_done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run all attacks and return their outcomes in the order of the jobs.

    An outcome depends on its job alone: not on the other jobs, their order, or how many are in flight. An attack that
    fails in any other way than by finding nothing is errored and disturbs no other.

    Args:
        jobs: May differ in view and recipe, and name an example more than once.
        service: Answers them.
        query_budget: Most queries of one attack; None: as many as it takes.
        time_budget_s: Most CPU seconds of an attack's own computing, without the model's; beyond it it is errored.
        in_flight: Attacks open at once, at most.
        check_cancelled: Called often; what it raises ends the run.
        on_done: Called with each outcome as it comes.

    Raises:
        BaseException: What ``check_cancelled``, ``on_done`` or the model raised.
    """
    coroutines = [Coroutine(job.seed, partial(_attack, job, query_budget=query_budget)) for job in jobs]

    def done(_: int, ending: Outcome | Exception) -> None:
        if isinstance(ending, Exception):
            raise ending
        on_done(ending)

    run = run_in_flight if service.drivers == 1 else partial(run_driven, drivers=service.drivers)
    endings = run(
        coroutines, service, limit=in_flight, time_budget_s=time_budget_s, check_cancelled=check_cancelled, on_done=done
    )
    return [ending for ending in endings if isinstance(ending, Outcome)]


def _attack(job: Job, client: ScoringClient, *, query_budget: int | None) -> Outcome:
    model = _AskedModel(job.view, client)
    try:
        original = watched(job.text, client.check)
        if not original.words:
            # Nothing to change. Two of the recipes would divide by the number of words, or draw one.
            is_right = int(model([job.text])[0].argmax()) == job.label
            return Outcome(job.example_id, "failed" if is_right else "skipped", job.text, model.queries, 0.0)
        attack = job.recipe.attack(model, query_budget=query_budget)
        if job.edit_share is not None:
            limit = math.ceil(job.edit_share * len(original.text))
            attack.constraints = [_limited(constraint, limit) for constraint in attack.constraints]
        keep_characters_whole(attack, original.text)
        edit_parts(attack, job.pair_parts)
        if job.seen is not None:
            leave_unseen(attack, original, job.seen)
        if job.common_random_numbers:
            attack.transformation = _reseeding(attack.transformation, job.seed)
        result = attack.attack(original, int(job.label))
    except Exception as error:
        return Outcome(job.example_id, "errored", job.text, model.queries, 0.0, _reason(error))
    status = _STATUSES[type(result).__name__]
    if status == "skipped":
        return Outcome(job.example_id, status, job.text, result.num_queries, 0.0)
    if status == "failed" and query_budget is not None and result.num_queries >= query_budget:
        status = "unfinished"
    final = result.perturbed_result.attacked_text
    share = changed_share(original.words, final.words)
    strength = None
    if job.measures_strength:
        # An attack that ended well within its time is none the worse for it.
        with suppress(TimeBudgetError):
            strength = measure_strength(attack, original, final, has_failed=status == "failed")
    return Outcome(job.example_id, status, final.tokenizer_input, result.num_queries, share, strength=strength)


_STATUSES: dict[str, Status] = {
    "SuccessfulAttackResult": "succeeded",
    "FailedAttackResult": "failed",
    "SkippedAttackResult": "skipped",
    "MaximizedAttackResult": "maximized",
}


class _AskedModel:
    """What an attack takes for the model: the scoring service through a view."""

    # TextAttack looks at the class of the model inside its wrappers; there is none here.
    model = None

    def __init__(self, view: View, client: ScoringClient) -> None:
        self.queries = 0
        self._view = view
        self._client = client

    def __call__(self, texts: list[Text]) -> Tensor:
        """Return probabilities (texts, classes)."""
        self.queries += len(texts)
        logits = torch.stack(self._client.scores(texts))
        if not logits.isfinite().all():
            raise NonFiniteScoresError("the model gave scores that are not finite")
        probabilities = self._view(logits)
        if not probabilities.isfinite().all():
            raise NonFiniteScoresError("the scores are not finite at this temperature")
        return probabilities


def _limited(constraint: Any, most: int) -> Any:
    """Return a constraint with another limit of characters edited, where it is one of them."""
    if not hasattr(constraint, "max_edit_distance"):
        return constraint
    limited = copy.copy(constraint)
    limited.max_edit_distance = most
    return limited


def _reseeding(transformation: Any, seed: int) -> Callable[..., Any]:
    """Return a transformation whose random choices for a word depend on seed, word and place alone."""

    def transform(current_text: Any, *, return_indices: bool = False, **options: Any) -> Any:
        if not return_indices:
            places = options.get("indices_to_modify")
            words = current_text.words
            chosen = range(len(words)) if places is None else sorted(map(int, places))
            state = repr((seed, [(place, words[place]) for place in chosen]))
            seed_generators(int.from_bytes(blake2b(state.encode(), digest_size=8).digest(), "big"))
        return transformation(current_text, return_indices=return_indices, **options)

    return transform


def _reason(error: Exception) -> str:
    if isinstance(error, UnansweredError | TimeBudgetError | NonFiniteScoresError | UnattackableTextError):
        return str(error)
    # Nobody sees the traceback of one example among thousands; where it came from is what one needs of it.
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {error}"
