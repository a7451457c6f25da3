"""Policies can ask about every number that is certified of all classes."""

from seatrial.contracts.estimates import split_name
from seatrial.families.certified_calibration.uncertainty import METRICS
from seatrial.judging.verdict import judge
from tests.families.certified_calibration.audits import DATA, NETWORK, network, parameters
from tests.families.certified_calibration.audits import audit as run
from tests.families.uncertainty_span.audits import ensemble
from tests.gates.audits import SOURCE, audit, check, policy

KIND = "certified_calibration"
BETTER = {metric.name: metric.better for metric in METRICS}


def test_a_rule_on_each_is_passed_by_its_interval_and_failed_beyond_it() -> None:
    asked = {"attack": True, "coverage": 0.6, "parts": ["aleatoric", "epistemic"]}
    params = parameters(n=300, radii=[0.0, 0.1], attack_steps=2, attack_draws=2, uncertainty=asked)
    images, labels = DATA
    result, _ = run(params, ensemble(NETWORK.logits, network(1).logits), (images[:12], labels[:12]))
    told = {
        name: one
        for name, one in result.estimates.items()
        if split_name(name)[0] in BETTER and one.low is not None and one.high is not None
    }
    assert {split_name(name)[0] for name in told} == set(BETTER)
    parts = [name for name in told if "smoothed_epistemic" in name or "smoothed_aleatoric" in name]
    # Without an attack; at two radii, the span and its ends; what is attacked at one.
    assert len(parts) == 2 * (1 + 2 * 3 + 1)
    measured = audit(check(told, kind=KIND, params=params.model_dump(mode="json"), counts=result.counts))
    checked = 0
    for name, one in told.items():
        is_lower = BETTER[split_name(name)[0]] != "higher"
        passing, failing = (one.high, one.low - 1e-6) if is_lower else (one.low, one.high + 1e-6)
        for bound, expected in ((passing, "passed"), (failing, "failed")):
            if not 0 < bound < 1:
                # A bound that always or never holds is refused as a rule of its own.
                continue
            rule = {"metric": f"{KIND}.{name}", "max" if is_lower else "min": bound}
            (found,) = judge(policy(rule), SOURCE, measured, baseline=None, paired=None).rules
            # Means are widened to what one example more could do.
            assert found.outcome in (expected, "inconclusive"), (name, rule, found.reason)
            checked += found.outcome == expected
    assert checked > 60
