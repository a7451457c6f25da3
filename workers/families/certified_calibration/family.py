"""The family as the runtime sees it: which stages, one shard of each, and the result."""

from collections.abc import Callable, Mapping

import pyarrow as pa
import torch
from torch import Tensor

from seatrial.contracts.estimates import Result
from seatrial.contracts.passes import SINGLE
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.shared.robust_accuracy import FIRST as ROBUST_FIRST
from seatrial.families.shared.robust_accuracy import SECOND as ROBUST_SECOND
from seatrial.statistics.samples import Sample
from workers.certification.admm import AdmmOutcome
from workers.certification.bernoulli import largest_radius
from workers.errors import PreflightError
from workers.families import robust_accuracy, robust_accuracy_first
from workers.families.certified_calibration import flags
from workers.families.certified_calibration.attack import CertifiedAttack
from workers.families.certified_calibration.certify import Certifier
from workers.families.certified_calibration.class_estimates import attacked_span_estimates
from workers.families.certified_calibration.estimates import estimate_all
from workers.families.certified_calibration.figures import draw
from workers.families.certified_calibration.sample import classes_of, passes_known
from workers.families.certified_calibration.series import make_series
from workers.families.certified_calibration.span_attack import SpanAttack, directions
from workers.families.contexts import Batch, Columns, Records, ResumableImageContext, by_column
from workers.families.protocol import DataInfo, Family, Shard, Stage, TargetInfo
from workers.models import passes_of

CERTIFY = "certify"


class CertifiedCalibration:
    """Certify class and confidence under noise; bound calibration over everything the certificates allow."""

    def preflight(self, target: TargetInfo, data: DataInfo, params: CertifiedCalibrationParams) -> None:
        """Refuse a target with one class, and draws too few to certify anything.

        Raises:
            PreflightError: Fewer than two classes, parts asked of one pass, or no radius could be certified however
                sure the model were.
        """
        if target.classes < 2:
            raise PreflightError(
                "too-few-classes",
                "The model has too few classes",
                f"a certificate needs at least 2 classes, the model has {target.classes}",
                field="model",
            )
        if largest_radius(params.n, alpha=params.alpha, sigma=params.sigma) <= 0:
            raise PreflightError(
                "too-few-draws",
                "Too few draws to certify anything",
                f"with n = {params.n} draws and alpha = {params.alpha:g} not even a class predicted in every draw is "
                "shown to have a probability of 1/2: raise n",
                field="n",
            )
        if params.uncertainty is not None and params.uncertainty.parts and passes_of(target.classifier) < 2:
            raise PreflightError("one-pass", "The model has no parts of uncertainty", SINGLE, field="uncertainty/parts")

    def next_stage(self, params: CertifiedCalibrationParams, done: Mapping[str, Records]) -> Stage | None:
        """Return ``certify`` first, then each attack on what was certified, then those on the network alone."""
        # An example's certificate depends on nothing but itself, so a shard may end anywhere; one of a large network
        # is hours of work, which nobody wants to lose for the sake of whole batches.
        planned = [Stage(CERTIFY, grain=1), *[Stage(name) for name in params.ace_attacks]]
        planned += [Stage(name) for name in directions(params)]
        if params.robust_accuracy is not None:
            planned += robust_accuracy_first.stages(params.robust_accuracy, done.get(ROBUST_FIRST))
        return next((stage for stage in planned if stage.name not in done), None)

    def run(self, params: CertifiedCalibrationParams, shard: Shard, context: ResumableImageContext) -> Records:
        """Certify or attack one shard."""
        if params.robust_accuracy is not None and shard.stage == ROBUST_FIRST:
            return robust_accuracy_first.run_first(params.robust_accuracy, context)
        if params.robust_accuracy is not None and shard.stage == ROBUST_SECOND:
            return robust_accuracy.run(params.robust_accuracy, context)
        tables = []
        if shard.stage in directions(params):
            span_attack = SpanAttack(shard.stage, params, context)
            for batch in context.batches():
                columns, errored = span_attack.attack(batch)
                tables.append(_to_records(batch, errored, columns, ~errored))
        elif shard.stage == CERTIFY:
            certifier = Certifier(params, context)
            for batch in context.batches():
                columns, errored = certifier.certify(batch)
                tables.append(_to_records(batch, errored, columns, ~errored))
        else:
            attack = CertifiedAttack(shard.stage, params, context)
            for batch in context.batches():
                columns, errored, attacked = attack.attack(batch)
                tables.append(_to_records(batch, errored, columns, attacked & ~errored))
        return pa.concat_tables(tables).combine_chunks()

    def reduce(
        self,
        params: CertifiedCalibrationParams,
        done: Mapping[str, Records],
        seed: int,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Result:
        """Turn records into estimates, series, flags and counts."""
        certify = Sample(by_column(done, CERTIFY))
        attacks: dict[str, Sample] = {
            name: Sample(by_column(done, name)) for name in params.ace_attacks if name in done
        }
        admm: dict[float, AdmmOutcome] = {}
        estimates = estimate_all(params, certify, attacks, seed, check_cancelled=check_cancelled, admm=admm)
        spans: dict[str, Sample] = {name: Sample(by_column(done, name)) for name in directions(params) if name in done}
        estimates |= attacked_span_estimates(params, certify, spans)
        series = make_series(params, certify, attacks, admm)
        counts = {
            "n": certify.size,
            "errored": certify.size - certify.valid,
            "abstained": int(certify.floats("abstained").sum()),
            "correct": int((certify["candidate"] == certify["label"]).sum()),
            "draws": int(certify.floats("draws").sum()),
        }
        if params.uncertainty is not None and certify.valid:
            counts["classes"] = classes_of(certify)
            if params.uncertainty.parts:
                counts["passes"] = passes_known(certify)
        for name, sample in attacks.items():
            counts[f"{name}_attacked"] = int(sample.floats("attacked").sum())
            counts[f"{name}_errored"] = sample.size - sample.valid
        for name, sample in spans.items():
            counts[f"{name}_errored"] = sample.size - sample.valid
        result = Result(estimates=estimates, series=series, counts=counts)
        result.flags = flags.doubt(params, certify, attacks, estimates, spans) if certify.valid else []
        if params.robust_accuracy is not None:
            robust_accuracy.add_to(result, params.robust_accuracy, done)
        return result

    def figures(self, params: CertifiedCalibrationParams, result: Result) -> Mapping[str, str]:
        """Draw the result: SVG text by name."""
        return draw(params, result)


def _to_records(batch: Batch, errored: Tensor, columns: Columns, known: Tensor) -> pa.Table:
    """Return a batch's rows: flags are null where an example ``errored``, numbers also where they are not ``known``."""
    arrays = {
        "example_id": pa.array(batch.example_ids, pa.int64()),
        "label": pa.array(batch.labels.cpu().numpy(), pa.int64()),
        "errored": pa.array(errored.cpu().numpy(), pa.bool_()),
    }
    for name, values in columns.items():
        missing = (errored if values.dtype == torch.bool else ~known).cpu().numpy()
        found = values.cpu().numpy()
        if found.ndim == 1:
            arrays[name] = pa.array(found, mask=missing)
        else:
            listed = [None if gone else row for row, gone in zip(found, missing, strict=True)]
            arrays[name] = pa.array(listed, pa.list_(pa.from_numpy_dtype(found.dtype)))
    return pa.table(arrays)


FAMILY: Family[CertifiedCalibrationParams, ResumableImageContext] = CertifiedCalibration()
