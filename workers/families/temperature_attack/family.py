"""The family as the runtime sees it: which stages, one shard of each, and the result."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from seatrial.contracts.estimates import Result
from seatrial.families.temperature_attack.params import (
    AS_SERVED,
    LABEL_ONLY,
    UNSCORED,
    TemperatureAttackParams,
)
from seatrial.families.temperature_attack.records import UNCOUNTED
from seatrial.families.temperature_attack.sent import PROBED
from workers.attacks.text.attacking import Job, Outcome, View, attack_all
from workers.attacks.text.label_only import decisions, searching_labels
from workers.attacks.text.recipes import Recipe, load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.errors import PreflightError
from workers.families.contexts import Records, RunContext, TextContext, TextExample
from workers.families.protocol import HELD_OUT, DataInfo, Family, Shard, Stage, TargetInfo
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.anew import with_anew
from workers.families.temperature_attack.arms import Arms, fitted_temperature, resolve_arms, view_at
from workers.families.temperature_attack.audit import search_rounds
from workers.families.temperature_attack.displaced import closing_columns, decided, displaced, displaced_with, own_part
from workers.families.temperature_attack.drawn_ways import CONFIRMED, DRAWN, ask_ways, ways_stage
from workers.families.temperature_attack.figures import draw
from workers.families.temperature_attack.importances import IMPORTANCE, importance_correlations
from workers.families.temperature_attack.large_steps import step_far
from workers.families.temperature_attack.meaning_free import edit_survivors, with_edits
from workers.families.temperature_attack.opening import with_openings
from workers.families.temperature_attack.ordinary import ids_of
from workers.families.temperature_attack.pieced import Search, with_pieced
from workers.families.temperature_attack.primed import with_primed
from workers.families.temperature_attack.probe import GRAIN, OPENING, run_probe
from workers.families.temperature_attack.quiet import QUIETLY, amid_stage, ask_among_ordinary, quiet_stage
from workers.families.temperature_attack.quiet_first import FIRST
from workers.families.temperature_attack.records import SearchSample, attack_records, search_records, validation_records
from workers.families.temperature_attack.resources import resource_flags, resource_series, with_resources
from workers.families.temperature_attack.search import next_round
from workers.families.temperature_attack.sent_once import ONCE, SENDING, Later, edit_texts, once_stage
from workers.families.temperature_attack.transferred import TRANSFERRED, ask_transferred, stage_before_probe
from workers.families.temperature_attack.two_phases import Fallen, fallen_before, reach_of
from workers.families.temperature_attack.unasked import attack_unasked, further_texts, validated_texts
from workers.families.temperature_attack.written import with_written
from workers.models import Answer
from workers.resources.library import Library
from workers.resources.requirements import missing

PROBE, VALIDATION, SEARCH, ATTACK, CLOSING = OPENING, "validation", "search_", "attack_", "closing"
UNASKED_TEXTS = "unasked"

SEARCH_RECIPE = "deepwordbug"
"""What the adversarial temperature is searched with: it needs no resources and few queries (section 4.2)."""


class TemperatureAttack:
    """Attack the model as served and through what an attacker could do about its temperature; compare."""

    def preflight(self, target: TargetInfo, data: DataInfo, params: TemperatureAttackParams) -> None:
        """Refuse what cannot be attacked, and recipes whose resources are not there.

        Raises:
            PreflightError: Fewer than two classes, or a recipe lacks a resource; the command that brings it is named.
        """
        if target.classes < 2:
            raise PreflightError(
                "too-few-classes",
                "The model has too few classes",
                f"an attack changes the class, the model has {target.classes}",
                field="model",
            )
        library = Library.of()
        for position, recipe in enumerate(params.recipes):
            lacking = missing(recipe, library)
            if lacking:
                raise PreflightError(
                    "resource-missing",
                    f"Recipe {recipe} lacks {', '.join(one.resource for one in lacking)}",
                    "; ".join(f"{one.why}: {one.how_to_get_it}" for one in lacking),
                    field=f"recipes/{position}",
                )

    def next_stage(self, params: TemperatureAttackParams, done: Mapping[str, Records]) -> Stage | None:
        """Return the probe, the validation stage, the rounds of the search, a stage per recipe, and the probe again.

        The probe comes first, but for ordinary texts that nothing else asks about: what remembers must not have been
        asked before. And last: what answers as it should may do so until it has been asked enough.
        """
        if PROBE not in done:
            early = stage_before_probe(done, further_texts(params)) if params.flipping else None
            return early or Stage(PROBE, limit=PROBED, grain=GRAIN, is_whole=True)
        if once := once_stage(params, done):
            return once
        source = HELD_OUT if params.validation_dataset is None else "validation_dataset"
        if params.is_fitted and VALIDATION not in done:
            return Stage(VALIDATION, source, params.validation_samples, GRAIN)
        if "optimized" in params.arms:
            rounds = search_rounds(done)
            if _next_temperatures(params, done[VALIDATION], rounds):
                return Stage(f"{SEARCH}{len(rounds) + 1}", source, params.validation_samples, GRAIN)
        planned = [
            Stage(f"{ATTACK}{recipe}", limit=reach_of(params, recipe, done), grain=GRAIN) for recipe in params.recipes
        ]
        if all(stage.name in done for stage in planned) and (ways := ways_stage(params, done)):
            return ways
        if FIRST in done:
            planned.append(amid_stage(further_texts(params)))
        planned.append(Stage(CLOSING, limit=PROBED, grain=GRAIN, is_closing=True))
        if params.flipping:
            planned.append(Stage(UNASKED_TEXTS, HELD_OUT, further_texts(params, done), GRAIN, is_closing=True))
            planned.append(quiet_stage(done, further_texts(params), further_texts(params, done)))
        return next((stage for stage in planned if stage.name not in done), None)

    def run(self, params: TemperatureAttackParams, shard: Shard, context: TextContext) -> Records:
        """Run one shard; an example's row depends on that example alone, so any cut gives the same rows."""
        examples = context.texts()
        if shard.stage in (PROBE, CLOSING):
            probed = run_probe(context, examples, shard.stage)
            if shard.stage == PROBE:
                return with_written(context, probed, examples)
            return _close(params, context, examples, probed)
        if shard.stage == UNASKED_TEXTS:
            first = max(0, (validated := validated_texts(params)) - shard.start)
            asked = ids_of(context, *[VALIDATION] * bool(validated))
            return attack_unasked(context, examples, first, asked, _searching(params, context))
        if shard.stage in QUIETLY:
            others = ONCE, UNASKED_TEXTS, *[VALIDATION] * bool(validated_texts(params))
            return ask_among_ordinary(params, shard.stage, context, examples, further_texts(params), others)
        if shard.stage == TRANSFERRED:
            return ask_transferred(params, context, examples)
        if shard.stage in SENDING:
            return edit_texts(params, shard.stage, context, examples)
        if shard.stage in (DRAWN, CONFIRMED):
            return ask_ways(params, shard.stage, context, examples)
        if shard.stage == VALIDATION:
            return validation_records(examples, _scores(context, context.scoring(), examples))
        if shard.stage.startswith(SEARCH):
            return _search(params, int(shard.stage.removeprefix(SEARCH)), context, examples)
        return _attack(params, shard.stage.removeprefix(ATTACK), context, examples)

    def reduce(
        self,
        params: TemperatureAttackParams,
        done: Mapping[str, Records],
        seed: int,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Result:
        """Turn records into estimates, series, flags and counts."""
        check_cancelled()
        result = estimates.reduce(params, done, seed)
        tables = {recipe: done[f"{ATTACK}{recipe}"] for recipe in params.recipes}
        result.series |= resource_series(tables)
        result.flags += [flag for recipe, table in tables.items() for flag in resource_flags(recipe, table)]
        return result

    def figures(self, params: TemperatureAttackParams, result: Result) -> Mapping[str, str]:
        """Draw the result: SVG text by name."""
        return draw(params, result)


def _next_temperatures(params: TemperatureAttackParams, validation: Records, rounds: Sequence[Records]) -> list[float]:
    fitted = fitted_temperature(params, validation)
    evaluated = SearchSample(rounds).evaluated
    return next_round(evaluated, fitted, params.temperature_evaluations, params.temperature_search)


def _search(
    params: TemperatureAttackParams, number: int, context: TextContext, examples: Sequence[TextExample]
) -> Records:
    """Attack validation examples at every temperature of a round (section 4.2)."""
    rounds = [context.records(f"{SEARCH}{before}") for before in range(1, number)]
    temperatures = _next_temperatures(params, context.records(VALIDATION), rounds)
    recipe, service = load_recipe(SEARCH_RECIPE, Library.of()), context.scoring()
    views = [view_at(params, temperature).probabilities for temperature in temperatures]
    # The same luck at every temperature: what differs between two is the temperature's doing.
    jobs = [
        replace(
            _job(params, example, context.seed(SEARCH, example.example_id), view, recipe, seen),
            common_random_numbers=True,
        )
        for example, seen in zip(examples, [service.seen(example.text) for example in examples], strict=True)
        for view in views
    ]
    progress = _progress(context, dict.fromkeys([example.example_id for example in examples], len(views)))
    outcomes = _run(params, context, jobs, service, progress)
    after = _scores(context, service, outcomes)
    before = _scores(context, service, examples)
    robust: list[list[bool] | None] = []
    queries: list[list[int] | None] = []
    for row, (example, clean) in enumerate(zip(examples, before, strict=True)):
        here = slice(row * len(views), (row + 1) * len(views))
        ended, scores = outcomes[here], [clean, *after[here]]
        if any(outcome.status == "errored" for outcome in ended) or None in map(decided, scores):
            robust.append(None)
            queries.append(None)
            continue
        is_right = [decided(given) == example.label for given in scores]
        robust.append([is_right[0] and still for still in is_right[1:]])
        queries.append([outcome.queries for outcome in ended])
    return search_records(examples, temperatures, robust, queries)


def _attack(
    params: TemperatureAttackParams, name: str, context: TextContext, examples: Sequence[TextExample]
) -> Records:
    """Run one recipe against every arm, and let the unmodified model judge what came of it (section 4.3)."""
    arms = _arms(params, context)
    recipe, service = load_recipe(name, Library.of()), context.scoring()
    clean = _scores(context, service, examples)
    others = [arm for arm in arms.others if arm != LABEL_ONLY or name != UNCOUNTED]
    outcomes: dict[str, list[Outcome]] = {arm: [] for arm in (AS_SERVED, *others)}
    fallen = fallen_before(params, name, context, examples)
    done = _progress(
        context, {one.example_id: sum((arm, one.example_id) not in fallen for arm in outcomes) for one in examples}
    )

    later = Later(params, context, examples, name)
    # Of the model under audit in every arm: what it does not see cannot change what it says.
    extents = [service.seen(example.text) for example in examples]

    def view(arm: str) -> View:
        return arms[arm].scaling.probabilities

    def attack(of: Sequence[str], attacked: ScoringService) -> None:
        # One seed for all arms, so that what differs between two is what they see.
        jobs = [
            replace(
                _job(params, example, context.seed(name, example.example_id), view(arm), recipe, seen),
                measures_strength=arm == AS_SERVED and name != UNCOUNTED,
            )
            for example, seen in zip(examples, extents, strict=True)
            for arm in of
            if (arm, example.example_id) not in fallen
        ]
        ended = iter(_run(params, context, jobs, attacked, later.during(done, by_labels=False)))
        for example in examples:
            for arm in of:
                outcomes[arm].append(fallen.get((arm, example.example_id)) or next(ended))

    attack([arm for arm in outcomes if arm not in UNSCORED], service)
    if "transfer" in outcomes:
        attack(["transfer"], context.scoring("source_model"))
    edited = None
    if LABEL_ONLY in outcomes:
        told = later.during(done, by_labels=True)
        ended = _search_labels(params, context, examples, extents, recipe, told, fallen)
        ended, edited = edit_survivors(params, context, examples, clean, ended, outcomes[AS_SERVED])
        outcomes[LABEL_ONLY] = step_far(params, context, examples, clean, ended, name)
    adversarial = {arm: _scores(context, service, ended) for arm, ended in outcomes.items()}
    if LABEL_ONLY in outcomes:
        both = with_openings(params, context, examples, clean, outcomes[LABEL_ONLY], adversarial[LABEL_ONLY], name)
        outcomes[LABEL_ONLY], adversarial[LABEL_ONLY] = both
    importance = None
    if name in IMPORTANCE and "calibrated" in params.arms:
        importance = importance_correlations(arms, IMPORTANCE[name], service, context, examples)
    records = later.beside(attack_records(examples, clean, outcomes, adversarial, importance))
    if edited is not None:
        records = with_edits(records, edited)
    return with_resources(records, recipe, Library.of())


def _close(
    params: TemperatureAttackParams, context: TextContext, examples: Sequence[TextExample], probed: Records
) -> Records:
    """Attack texts beside words of no meaning, and ask once more what attacks ended with."""
    if not params.flipping:
        return probed
    texts = [displaced(example.text, context.salted_seed("displaced", example.example_id)) for example in examples]
    others = [replace(example, text=text) for example, text in zip(examples, texts, strict=True)]
    service = context.scoring()
    extents = [own_part(example.text, service.seen(text)) for example, text in zip(examples, texts, strict=True)]
    recipe = load_recipe(displaced_with(params.flipping), Library.of())
    outcomes = _search_labels(params, context, others, extents, recipe, lambda outcome: None)
    attacked = [context.records(f"{ATTACK}{name}") for name in params.flipping]
    records = with_primed(context, closing_columns(context, probed, examples, attacked, outcomes, texts), examples)
    # What attacks on pieced texts make known of them comes after what asks about such texts for the first time.
    return with_pieced(context, with_anew(context, records, examples), examples, _searching(params, context))


def _searching(params: TemperatureAttackParams, context: TextContext) -> Search:
    """Return the search by labels on other texts than those an audit is about."""
    recipe, service = load_recipe(displaced_with(params.flipping), Library.of()), context.scoring()

    def search(of: Sequence[TextExample]) -> list[Outcome]:
        extents = [service.seen(example.text) for example in of]
        return _search_labels(params, context, of, extents, recipe, lambda outcome: None)

    return search


def _search_labels(
    params: TemperatureAttackParams,
    context: TextContext,
    examples: Sequence[TextExample],
    extents: Sequence[tuple[int, ...] | None],
    recipe: Recipe,
    on_done: Callable[[Outcome], None],
    fallen: Fallen | None = None,
) -> list[Outcome]:
    """Attack with labels alone, under the recipe's constraints, what has not fallen before."""
    searching = searching_labels(recipe)
    purpose, before = f"{recipe.name} {LABEL_ONLY}", fallen or {}
    jobs = [
        _job(params, example, context.salted_seed(purpose, example.example_id), decisions, searching, seen)
        for example, seen in zip(examples, extents, strict=True)
        if (LABEL_ONLY, example.example_id) not in before
    ]
    outcomes = _run(params, context, jobs, context.scoring(), on_done, query_budget=params.most_label_queries)
    # It has no end of its own: that it spent its queries is no sign that it was cut short.
    found = iter(replace(ended, status="failed") if ended.status == "unfinished" else ended for ended in outcomes)
    return [before.get((LABEL_ONLY, example.example_id)) or next(found) for example in examples]


def _job(
    params: TemperatureAttackParams,
    example: TextExample,
    seed: int,
    view: View,
    recipe: Recipe,
    seen: tuple[int, ...] | None,
) -> Job:
    return Job(
        example.example_id,
        example.text,
        example.label,
        seed,
        view,
        recipe,
        edit_share=params.edit_share,
        seen=seen,
        pair_parts=params.pair_parts,
    )


def _run(
    params: TemperatureAttackParams,
    context: TextContext,
    jobs: Sequence[Job],
    service: ScoringService,
    on_done: Callable[[Outcome], None],
    query_budget: int | None = None,
) -> list[Outcome]:
    return attack_all(
        jobs,
        service,
        query_budget=query_budget or params.query_budget,
        time_budget_s=params.time_budget_s,
        check_cancelled=context.check_cancelled,
        on_done=on_done,
    )


def _scores(
    context: TextContext, service: ScoringService, of: Sequence[TextExample] | Sequence[Outcome]
) -> list[Answer]:
    """Return the scores of each one's text, with a look for cancellation between the model's batches."""
    answers: list[Answer] = []
    size = max(1, service.classifier.preferred_texts)
    for start in range(0, len(of), size):
        context.check_cancelled()
        answers += service.scores([one.text for one in of[start : start + size]])
    return answers


def _arms(params: TemperatureAttackParams, context: RunContext) -> Arms:
    validation = context.records(VALIDATION) if params.is_fitted else None
    searches: list[Records] = []
    while "optimized" in params.arms:
        try:
            searches.append(context.records(f"{SEARCH}{len(searches) + 1}"))
        except KeyError:
            break
    return resolve_arms(params, validation, searches)


def _progress(context: RunContext, attacks: Mapping[int, int]) -> Callable[[Outcome], None]:
    """Return a listener that tells how many examples have ended all their attacks, of which there are so many each."""
    left = Counter(attacks)

    def on_done(outcome: Outcome) -> None:
        left[outcome.example_id] -= 1
        if not left[outcome.example_id]:
            context.progress(sum(count == 0 for count in left.values()))

    return on_done


FAMILY: Family[TemperatureAttackParams, TextContext] = TemperatureAttack()
