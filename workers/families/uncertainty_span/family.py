"""The family as the runtime sees it: which stages, one shard of each, and the result."""

from collections.abc import Callable, Mapping

import pyarrow as pa
from torch import Tensor

from seatrial.contracts.estimates import Flag, Result
from seatrial.contracts.passes import SINGLE, Part
from seatrial.families.shared.robust_accuracy import FIRST as ROBUST_FIRST
from seatrial.families.shared.robust_accuracy import SECOND as ROBUST_SECOND
from seatrial.families.uncertainty_span.effort import CROSSING, DISPLACED, INTEGRATED, PICTURES, STAGES, TRANSFORMED
from seatrial.families.uncertainty_span.levelled import LEVELLED
from seatrial.families.uncertainty_span.limits import (
    CROSSING_EXAMPLES,
    DISPLACED_EXAMPLES,
    GROWTH_EXAMPLES,
    SURROGATE_EXAMPLES,
    integrated_examples,
    looked_examples,
    transformed_examples,
)
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.families.uncertainty_span.records import FURTHER
from seatrial.statistics.samples import Sample
from workers.attacks.levels import VALUES, told_radius
from workers.errors import PreflightError
from workers.families import robust_accuracy, robust_accuracy_first
from workers.families.contexts import Batch, Columns, ImageContext, Records, ResumableImageContext
from workers.families.protocol import DataInfo, Family, Shard, Stage, TargetInfo
from workers.families.uncertainty_span import estimates, evidence, flags
from workers.families.uncertainty_span.ascent import attack_by_ascent
from workers.families.uncertainty_span.crossing import look_at_crossings
from workers.families.uncertainty_span.displaced import attack_displaced, memorised_images
from workers.families.uncertainty_span.distilled import attack_distilled, fit_surrogate
from workers.families.uncertainty_span.figures import draw
from workers.families.uncertainty_span.further import SURROGATE
from workers.families.uncertainty_span.integrated import attack_integrated
from workers.families.uncertainty_span.levelled import attack_levelled, is_levelled
from workers.families.uncertainty_span.outliers import attack_outliers
from workers.families.uncertainty_span.part_estimates import doubt_parts, part_estimates, stages_of
from workers.families.uncertainty_span.parts import attack_part
from workers.families.uncertainty_span.pictured import attack_to_show, worst
from workers.families.uncertainty_span.prediction_sets import set_estimates, whole_sets
from workers.families.uncertainty_span.queried import QUERIES, attack_by_queries
from workers.families.uncertainty_span.records import first_of, to_records
from workers.families.uncertainty_span.repeated import attack_repeatedly
from workers.families.uncertainty_span.score import attack_by_score
from workers.families.uncertainty_span.smoothed import attack_smoothed
from workers.families.uncertainty_span.span import attack_spans, make_search
from workers.families.uncertainty_span.specific import attack_specific
from workers.families.uncertainty_span.tempered import attack_tempered
from workers.families.uncertainty_span.transfer import attack_transferred
from workers.families.uncertainty_span.transformed import attack_transformed
from workers.models import gives_gradients, passes_of

OUTLIERS = "outliers/dataset"


class UncertaintySpan:
    """Attack predictive entropy both ways, by all means the effort allows, and doubt the answer."""

    def preflight(self, target: TargetInfo, data: DataInfo, params: UncertaintySpanParams) -> None:
        """Refuse a target that has no entropy.

        Raises:
            PreflightError: Fewer than two classes; or parts are asked of a model with one pass.
        """
        if target.classes < 2:
            raise PreflightError(
                "too-few-classes",
                "The model has too few classes",
                f"entropy needs at least 2 classes, the model has {target.classes}",
                field="model",
            )
        if params.parts and passes_of(target.classifier) < 2:
            raise PreflightError(
                "one-pass",
                "The model has no parts of uncertainty",
                SINGLE,
                field="parts",
            )

    def next_stage(self, params: UncertaintySpanParams, done: Mapping[str, Records]) -> Stage | None:
        """Return ``attack`` first, then the same at twice the radius, then what parameters and records call for."""
        if "attack" not in done:
            return Stage("attack")
        if QUERIES in done["attack"].column_names:
            # Nothing further can be run without gradients.
            is_left = params.robust_accuracy is not None and ROBUST_SECOND not in done
            return Stage(ROBUST_SECOND) if is_left else None
        planned = [Stage("growth", limit=GROWTH_EXAMPLES)]
        if params.effort != "quick":
            # Of one piece: it learns from all of them.
            surrogate = Stage(SURROGATE, limit=SURROGATE_EXAMPLES, grain=SURROGATE_EXAMPLES, is_whole=True)
            planned.append(surrogate)
            planned += [Stage(name) for name in STAGES]
            planned.append(Stage(CROSSING, limit=CROSSING_EXAMPLES))
            samples = done["attack"].num_rows
            planned.append(Stage(TRANSFORMED, limit=transformed_examples(samples, params.steps)))
            planned.append(Stage(INTEGRATED, limit=integrated_examples(samples, params.steps)))
            planned.append(Stage(DISPLACED, limit=looked_examples(DISPLACED_EXAMPLES, samples, params.steps)))
            if is_levelled(done.get(SURROGATE)):
                planned.append(Stage(LEVELLED))
        if flags.is_saturated(Sample(done["attack"])):
            planned.append(Stage("tempered"))
        if params.transfer_model is not None:
            planned.append(Stage("transfer"))
        planned += [Stage(name) for name in (*params.attacks, *params.parts)]
        if params.outliers is not None:
            planned.append(Stage("outliers", source=OUTLIERS, limit=params.outliers.limit(done["attack"].num_rows)))
        if params.robust_accuracy is not None:
            planned += robust_accuracy_first.stages(params.robust_accuracy, done.get(ROBUST_FIRST))
        planned.append(Stage(PICTURES, is_closing=True))
        return next((stage for stage in planned if stage.name not in done), None)

    def run(self, params: UncertaintySpanParams, shard: Shard, context: ResumableImageContext) -> Records:
        """Attack one shard; batches are independent of each other, so any cut gives the same rows."""
        if params.robust_accuracy is not None and shard.stage == ROBUST_FIRST:
            return robust_accuracy_first.run_first(params.robust_accuracy, context)
        if params.robust_accuracy is not None and shard.stage == ROBUST_SECOND:
            return robust_accuracy.run(params.robust_accuracy, context)
        if shard.stage == SURROGATE:
            return fit_surrogate(params, context)
        tables = []
        spans = worst(params, context) if shard.stage == PICTURES else {}
        for batch in context.batches():
            if shard.stage == PICTURES:
                tables.append(attack_to_show(params, context, batch, spans))
                continue
            columns, non_finite = self._attack(params, shard.stage, context, batch)
            tables.append(to_records(batch, non_finite, columns))
        return pa.concat_tables(tables).combine_chunks()

    def reduce(
        self,
        params: UncertaintySpanParams,
        done: Mapping[str, Records],
        seed: int,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Result:
        """Turn records into estimates, series, flags and counts."""
        check_cancelled()
        samples = {
            name: Sample(records) for name, records in done.items() if name not in (*robust_accuracy.STAGES, PICTURES)
        }
        attack = samples["attack"]
        others: dict[str, Sample] = {name: samples[name] for name in FURTHER if name in samples}
        found = estimates.span_estimates(attack, seed) | estimates.arm_estimates(attack, params.bins, seed)
        found |= estimates.further_spans(attack, others) | set_estimates(params, attack, seed)
        specific: dict[str, Sample] = {name: samples[name] for name in params.attacks if name in samples}
        found |= estimates.attack_estimates(specific, params.bins, seed)
        parts = stages_of(params, samples)
        found |= part_estimates(attack, parts)
        series = estimates.make_series(attack, params.bins)
        if specific:
            series["attack_reliability"] = estimates.attack_diagrams(specific, params.bins)
        if "growth" in samples:
            found["span_growth"] = estimates.span_growth(attack, samples["growth"])
            series["span_by_epsilon"] = estimates.growth_points(params, attack, samples["growth"])
        if "outliers" in samples:
            found |= estimates.outlier_estimates(params, attack, samples["outliers"], seed)
        result = Result(estimates=found, series=series, counts=_count(samples, specific, parts))
        if attack.valid:
            result.flags = [*_doubt(params, samples, seed), *doubt_parts(parts, seed)]
            fitted = done.get(SURROGATE)
            result.flags += flags.few_steps(params)
            result.flags += told_radius(params.norm, params.epsilon, first_of(fitted, VALUES))
            result.flags += [*flags.unfollowed(fitted), *flags.inside(fitted)]
            result.flags += whole_sets(params, attack, seed)
        if params.robust_accuracy is not None:
            robust_accuracy.add_to(result, params.robust_accuracy, done)
        return result

    def figures(self, params: UncertaintySpanParams, result: Result) -> Mapping[str, str]:
        """Draw the result: SVG text by name."""
        return draw(params, result)

    def _attack(
        self, params: UncertaintySpanParams, stage: str, context: ImageContext, batch: Batch
    ) -> tuple[Columns, Tensor]:
        match stage:
            case "attack" if not gives_gradients(context.classifier):
                return attack_by_queries(params, context, batch)
            case "attack":
                return attack_spans(params, make_search(params, context), context, batch)
            case "growth":
                bare = params.model_copy(update={"conformal": None, "parts": []})
                return attack_spans(bare, make_search(params, context, 2 * params.epsilon), context, batch)
            case "tempered":
                return attack_tempered(params, context, batch)
            case "transfer":
                return attack_transferred(params, context, batch)
            case "ascent":
                return attack_by_ascent(params, context, batch)
            case "smoothed":
                return attack_smoothed(params, context, batch)
            case "score":
                return attack_by_score(params, context, batch)
            case "distilled":
                return attack_distilled(params, context, batch)
            case "repeated":
                return attack_repeatedly(params, context, batch)
            case "crossing":
                return look_at_crossings(params, context, batch)
            case "transformed":
                return attack_transformed(params, context, batch)
            case "integrated":
                return attack_integrated(params, context, batch)
            case "displaced":
                return attack_displaced(params, context, batch)
            case "levelled":
                return attack_levelled(params, context, batch)
            case "outliers":
                return attack_outliers(params, context, batch)
        for name in params.attacks:
            if name == stage:
                return attack_specific(name, params, context, batch)
        for part in params.parts:
            if part == stage:
                return attack_part(part, params, context, batch)
        raise ValueError(f"no such stage: {stage}")


def _doubt(params: UncertaintySpanParams, samples: Mapping[str, Sample], seed: int) -> list[Flag]:
    attack, further = samples["attack"], {name: samples[name] for name in FURTHER if name in samples}
    if attack.has(QUERIES):
        return flags.gradient_free(attack)
    compared = evidence.compare(attack, further, seed)
    found = evidence.masked_gradients(compared) or evidence.hidden_decisions(attack, further, seed)
    is_cleared = evidence.is_cleared(compared) and not found
    found += flags.quick_effort(params)
    if CROSSING in samples:
        found += evidence.abrupt_decisions(samples[CROSSING])
    if DISPLACED in samples:
        found += memorised_images(samples[DISPLACED], estimates.classes_of(attack), seed)
    if SURROGATE in samples:
        found += evidence.unfit_temperature(samples[SURROGATE])
    found += flags.zero_gradients(attack, is_cleared=is_cleared)
    found += flags.attack_not_improving(attack, is_cleared=is_cleared)
    if "growth" in samples:
        found += flags.span_not_growing(params, attack, samples["growth"], seed, is_cleared=is_cleared)
    if "tempered" in samples:
        others = {name: one for name, one in further.items() if name != "tempered"}
        found += flags.saturated_logits(attack, samples["tempered"], others, is_quick=params.effort == "quick")
    return found


def _count(
    samples: Mapping[str, Sample], specific: Mapping[str, Sample], parts: Mapping[Part, Sample]
) -> dict[str, int]:
    attack = samples["attack"]
    clean = attack["prediction_clean"]
    counts = {
        "n": attack.size,
        "errored": attack.size - attack.valid,
        "attacked": attack.valid,
        "clean_correct": int(estimates.hits(attack, "clean").sum()),
        "flipped": int((attack["prediction_under"] != clean).sum()),
        "flipped_over": int((attack["prediction_over"] != clean).sum()),
        "saturated": int(attack.floats("is_saturated").sum()),
    }
    for name in [name for name in (*FURTHER, "outliers", *specific, *parts) if name in samples]:
        counts[f"{name}_n"] = samples[name].size
        counts[f"{name}_errored"] = samples[name].size - samples[name].valid
    for sample in parts.values():
        if sample.valid:
            counts["passes"] = int(sample.floats("passes")[0])
    if "tempered" in samples:
        counts["tempered_crossed"] = int(samples["tempered"].floats("crossed").sum())
    return counts


FAMILY: Family[UncertaintySpanParams, ResumableImageContext] = UncertaintySpan()
