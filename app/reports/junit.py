"""A judgement as JUnit XML, which CI systems show beside their tests.

A build that reads it is red exactly when the verdict is not ``passed``. JUnit knows no third state, so:

======================================  ==========================================================================
a rule that                             is
======================================  ==========================================================================
passed                                  a passed testcase
failed                                  ``<failure type="failed">``
is inconclusive                         ``<failure type="inconclusive">``; where the policy lets it pass (``undecided:
                                        pass``) a passed testcase with ``<system-out>`` that says so
errored                                 ``<error type="errored">``
was skipped though it is required       ``<error type="skipped">``
was skipped and may be                  ``<skipped>``
only warns                              never a failure: a passed testcase with ``<system-out>``
======================================  ==========================================================================

A verdict that none of them shows (nothing was tested) is an error of its own. The layout is the one Jenkins' xUnit
plugin describes (``junit-10.xsd``), which GitLab, GitHub actions and Azure read as well.
"""

import re
from collections import Counter
from xml.etree import ElementTree as ET

from seatrial.contracts.policies import RuleOutcome
from seatrial.reporting.looks import looks_in_words
from seatrial.reporting.outcomes import Judged, counted, is_silent, level, measured, policy_name
from seatrial.reporting.reuse import reused_in_words
from seatrial.reporting.schemas import ReportRead

# Characters XML 1.0 has no way to write (section 2.2).
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: ReportRead, judged: Judged) -> bytes:
    """Return the judgement as JUnit XML (UTF-8): a testcase for each rule and number, in the policy's order.

    Args:
        report: The audit.
        judged: What a policy makes of it.
    """
    judgement = judged.judgement
    name = f"seatrial.{judgement.policy.name}"
    cases = [_case(outcome, name) for outcome in judgement.rules]
    if is_silent(judgement):
        case = ET.Element("testcase", name="verdict", classname=name, time="0")
        _tell(case, "error", judgement.verdict, judgement.headline, judgement.headline)
        cases.append(case)
    _tell_apart(cases)
    counts = {"tests": str(len(cases))}
    for key, tag in (("failures", "failure"), ("errors", "error")):
        counts[key] = str(sum(case.find(tag) is not None for case in cases))
    seconds = f"{_seconds(report):.3f}"
    root = ET.Element("testsuites", {"name": "seatrial", "time": seconds, **counts})
    skipped = sum(case.find("skipped") is not None for case in cases)
    suite = ET.SubElement(root, "testsuite", {"name": name, "time": seconds, "skipped": str(skipped), **counts})
    if report.finished_at is not None:
        suite.set("timestamp", report.finished_at.strftime("%Y-%m-%dT%H:%M:%S"))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(report, judged).items():
        ET.SubElement(properties, "property", name=key, value=_legal(value))
    suite.extend(cases)
    ET.indent(root)
    text: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _case(outcome: RuleOutcome, classname: str) -> ET.Element:
    subject = outcome.metric if outcome.label == outcome.metric else f"{outcome.label} ({outcome.metric})"
    case = ET.Element("testcase", name=_legal(f"{subject}: {outcome.requirement}"), classname=classname, time="0")
    text = (
        f"{outcome.metric}: {measured(outcome)}\nrequired: {outcome.requirement}\n"
        f"outcome: {counted(outcome)}\n{outcome.reason}"
    )
    if level(outcome) == "error":
        tag = "error" if outcome.counts_as == "errored" else "failure"
        message = f"{measured(outcome)}; required: {outcome.requirement}. {outcome.reason}"
        _tell(case, tag, outcome.outcome, message, text)
    elif outcome.counts_as == "skipped":
        ET.SubElement(case, "skipped", message=_legal(outcome.reason))
    else:
        ET.SubElement(case, "system-out").text = _legal(f"{_why_green(outcome)}{text}")
    return case


def _why_green(outcome: RuleOutcome) -> str:
    """Return the line that tells why a rule that does not hold is no failure; nothing for one that holds."""
    if outcome.outcome == "passed":
        return ""
    if outcome.severity == "block":
        return "counts as passed by the policy (undecided: pass)\n"
    return "reported only: this rule does not block\n"


def _tell_apart(cases: list[ET.Element]) -> None:
    """Give testcases of one name a number: readers know a testcase by it, and keep one of each."""
    seen: Counter[str] = Counter()
    for case in cases:
        name = case.get("name", "")
        seen[name] += 1
        if seen[name] > 1:
            case.set("name", f"{name} ({seen[name]})")


def _tell(case: ET.Element, tag: str, kind: str, message: str, text: str) -> None:
    ET.SubElement(case, tag, type=kind, message=_legal(message)).text = _legal(text)


def _properties(report: ReportRead, judged: Judged) -> dict[str, str]:
    judgement = judged.judgement
    named = {
        "audit": report.audit,
        "url": report.url,
        "verdict": judgement.verdict,
        "headline": judgement.headline,
        "judgement": judgement.id,
        "policy": policy_name(judgement),
        "policy.digest": judgement.policy.digest,
        "baseline": judgement.baseline,
        "spec.digest": report.reproduction.spec_digest,
    }
    for position, check in enumerate(report.checks):
        if check.looks is not None:
            named[f"looks.{position}.{check.kind}"] = looks_in_words(check.looks)
        if check.reused is not None:
            named[f"reused.{position}.{check.kind}"] = reused_in_words(check.reused)
    for source in report.sources:
        named |= {source.role: source.name, f"{source.role}.digest": source.digest}
    return {key: value for key, value in named.items() if value is not None}


def _seconds(report: ReportRead) -> float:
    if report.started_at is None or report.finished_at is None:
        return 0.0
    return (report.finished_at - report.started_at).total_seconds()


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
