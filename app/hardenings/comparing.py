"""Two versions of a model number by number, on the same examples, and whether clean accuracy holds."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.gates.stored import pair, read_measured
from app.policies import repository as policies
from app.policies.judged import judged_first
from app.web.services import Services
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.hardenings import PairedDifference
from seatrial.contracts.policies import Outcome
from seatrial.contracts.states import PREFLIGHT
from seatrial.judging.comparability import differences as parameters_that_differ
from seatrial.judging.evidence import decide, ends
from seatrial.judging.measured import Measured
from seatrial.judging.pairing import LEAST_SHARED, Pairing
from seatrial.judging.ranges import described
from seatrial.judging.regression import Refusal, compare, paired_difference

CLEAN_ACCURACY = "clean_accuracy"


@dataclass(frozen=True)
class Compared:
    """What two audits say of two versions.

    Attributes:
        differences: Numbers both have.
        not_compared: Others, and why.
        accuracy: Clean accuracy of both.
        accuracy_holds: Whether its loss is within what was asked, by the interval.
    """

    differences: list[PairedDifference]
    not_compared: dict[str, str]
    accuracy: PairedDifference | None
    accuracy_holds: Outcome


def compare_versions(
    services: Services, project_id: str, before: str, after: str, *, max_accuracy_loss: float
) -> Compared:
    """Compare the audits of two versions, which drew the same examples."""
    with services.database.read() as session:
        first, second = (policies.find_audit(session, project_id, each) for each in (before, after))
        was, now = read_measured(session, before), read_measured(session, after)
    if first is None or second is None:
        raise AssertionError("unreachable: the hardening holds both")
    pairing = pair(services, second, first)
    numbers, left = _numbers(was, now, pairing)
    by_name = {one.metric: one for one in numbers}
    found = [by_name[name] for name in judged_first(by_name)]
    accuracy = _accuracy(before, after, pairing)
    return Compared(found, left, accuracy, _holds(accuracy, max_accuracy_loss))


def _numbers(was: Measured, now: Measured, pairing: Pairing) -> tuple[list[PairedDifference], dict[str, str]]:
    found: list[PairedDifference] = []
    left: dict[str, str] = {}
    for check in now.checks:
        for name, estimate in () if check.result is None else check.result.estimates.items():
            metric = f"{check.kind}.{name}"
            try:
                better = described(metric).better
                parameters_that_differ(metric, check.params, check.params)
            except (ValueError, StopIteration):
                left[metric] = "this version does not know the metric"
                continue
            if better not in ("lower", "higher"):
                left[metric] = "neither way is better"
            elif estimate.value is None:
                left[metric] = "it is undefined of the new version"
            else:
                compared = compare(metric, estimate, check, now, was, pairing)
                if isinstance(compared, Refusal):
                    left[metric] = compared.reason
                    continue
                found.append(
                    PairedDifference(
                        metric=metric,
                        better=better,
                        before=compared.baseline,
                        after=estimate,
                        worse_by=compared.evidence.judged,
                        note=compared.evidence.why,
                    )
                )
    return found, left


def _accuracy(before: str, after: str, pairing: Pairing) -> PairedDifference | None:
    """Return clean accuracy on the preflight's examples, which every family's check begins with."""
    tables = [pairing.read(each, 0, PREFLIGHT) for each in (before, after)]
    if any(table is None for table in tables):
        return None
    was, now = (_correct(table) for table in tables)
    common = sorted(was.keys() & now.keys())
    if len(common) < max(2, LEAST_SHARED * min(len(was), len(now))):
        return None
    first, second = (np.array([one[each] for each in common], dtype=np.float64) for one in (was, now))
    evidence = paired_difference(first - second, (0.0, 1.0))
    return PairedDifference(
        metric=CLEAN_ACCURACY,
        better="higher",
        before=_proportion(first.mean(), len(common)),
        after=_proportion(second.mean(), len(common)),
        worse_by=evidence.judged,
        note=evidence.why,
    )


def _correct(table: Any) -> dict[int, bool]:
    columns = (table[name].to_pylist() for name in ("example_id", "label", "prediction", "errored"))
    return {
        example: label == prediction and not errored
        for example, label, prediction, errored in zip(*columns, strict=True)
    }


def _proportion(value: float, n: int) -> Estimate:
    # What decides is the interval of the difference; each version's own is in its audit.
    return Estimate(value=float(value), low=None, high=None, n=n, method="none")


def _holds(accuracy: PairedDifference | None, limit: float) -> Outcome:
    if accuracy is None:
        return "errored"
    interval = ends(accuracy.worse_by)
    return "inconclusive" if interval is None else decide(interval, limit, "max")
