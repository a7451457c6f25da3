"""A report as Markdown (GitHub's and GitLab's), short enough for a comment on a pull request.

No link is in it but the one to the audit's page, and none can get in: names and messages are hostile input, and a
comment is shown to people who trust the bot that wrote it.
"""

import html
import re
from collections.abc import Iterable, Iterator

from seatrial.contracts.policies import Judgement, RuleOutcome
from seatrial.reporting.attacked import notes_in
from seatrial.reporting.looks import looks_in_words
from seatrial.reporting.numbers import format_interval, format_value
from seatrial.reporting.outcomes import (
    applied,
    counted,
    measured,
    not_measured,
    not_measured_in_words,
    policy_name,
    required,
)
from seatrial.reporting.reuse import reused_in_words
from seatrial.reporting.schemas import ReportCheck, ReportRead
from seatrial.reporting.tables import open_end

MAX_CHARACTERS = 60_000
"""GitHub refuses a comment of more than 65,536 characters; numbers beyond this are left to the full report."""
MAX_MESSAGE = 500
MAX_RULES = 100

_MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "❔", "errored": "⚠️", "skipped": "➖"}  # noqa: RUF001
# What makes markup anywhere, or a link of an address (GFM 6.9); and what makes a list or a heading of a line.
_ANYWHERE = re.compile(r"([\\`*_\[\]<>|~&#@!$]|:(?=\S)|(?<=www)\.)", re.IGNORECASE)
_AT_THE_BEGINNING = re.compile(r"^(\d*)([-+=.)])")
_CODE = re.compile(r"`([^`]+)`")
_SPACE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]+")


def render_markdown(report: ReportRead) -> str:
    """Return the report as Markdown: the verdict, its rules, flags, and all numbers in folded tables."""
    parts = [*_head(report), *_reused(report.checks), *_looks(report.checks), *_flags(report.checks)]
    tail = [*_controls(report), *_signature(report)]
    room = MAX_CHARACTERS - sum(len(part) + 2 for part in [*parts, *tail])
    for check in report.checks:
        table = _numbers(check, room)
        parts += table
        room -= sum(len(part) + 2 for part in table)
    return "\n\n".join([*parts, *tail]) + "\n"


def prose(text: str, *, most: int = MAX_MESSAGE) -> str:
    r"""Return a text of others as Markdown that shows exactly its words.

    Characters that could mean something are escaped (CommonMark 2.4), those that make links of addresses in GitHub's
    dialect among them. A zero-width space follows ``@`` and ``#``: mentions, addresses and numbers of issues are looked
    for in the page that is made, where escapes are gone.

    >>> prose("1. a|b <i> [x](y): https://z")
    '1\\. a\\|b \\<i\\> \\[x\\](y): https\\://z'
    >>> prose("ask @root\n# now").encode("ascii", "backslashreplace").decode()
    'ask \\@\\u200broot \\#\\u200b now'
    """
    shown = _SPACE.sub(" ", text).strip()
    if len(shown) > most:
        shown = shown[:most] + " ..."
    return _AT_THE_BEGINNING.sub(r"\1\\\2", _escaped(shown))


def _escaped(text: str) -> str:
    return re.sub(r"([@#])", "\\1\u200b", _ANYWHERE.sub(r"\\\1", text))


def sentence(text: str) -> str:
    r"""Return a sentence of Seatrial's own as Markdown, which names commands and fields in backquotes: those are code.

    What else it holds may be of others. Code means nothing to anybody but the reader, and the rest is escaped as
    :func:`prose` does; where backquotes are not in pairs, all of it.

    >>> sentence("`seatrial judge` it, <b>!"), sentence("a ` b")
    ('`seatrial judge` it, \\<b\\>\\!', 'a \\` b')
    """
    pieces = _CODE.split(_SPACE.sub(" ", text).strip())
    around, inside = pieces[::2], pieces[1::2]
    # A dollar beside code makes a formula in GitHub's dialect.
    is_plain = (
        len(text) > MAX_MESSAGE or any("`" in one or "$" in one for one in around) or not all(map(str.strip, inside))
    )
    if is_plain:
        return prose(text)
    told = [prose(one) if at == 0 else _escaped(one) for at, one in enumerate(around)]
    lead = " " if around[0].endswith(" ") and told[0] else ""
    return told[0] + lead + "".join(code(named) + after for named, after in zip(inside, told[1:], strict=True))


def code(text: str) -> str:
    """Return a name as code.

    >>> code("ece[arm=over]"), code("a`b")
    ('`ece[arm=over]`', '`` a`b ``')
    """
    shown = _SPACE.sub(" ", text).strip()[:MAX_MESSAGE] or "-"
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"`{shown}`"


def _cell(text: str) -> str:
    # A table is cut at its bars before anything else is looked at, also inside of code (GFM 4.10).
    return code(text).replace("|", "\\|")


def _head(report: ReportRead) -> Iterator[str]:
    judgement = report.judgement
    if judgement is None:
        yield "## Seatrial: no verdict"
        yield sentence(report.answer.headline)
    else:
        yield f"## Seatrial: {_MARKS[judgement.verdict]} {judgement.verdict}"
        yield f"**{sentence(judgement.headline)}**"
        beside = [judgement.policy.description, *notes_in(report)]
        if any(beside):
            yield "\n".join(prose(line) for line in beside if line)
    named = [f"{source.role} {code(source.name)}" for source in report.sources if source.role in ("model", "dataset")]
    yield ", ".join([*named, *_policy(judgement), f"audit {code(report.audit)}"])
    if report.url is not None:
        yield f"[Open the audit in the console]({report.url})"
    if not report.is_final:
        yield f"The audit is {report.state}: this is what is known so far."
    if report.error is not None:
        yield f"**{prose(report.error.title)}**: {sentence(report.error.detail)}"
    for check in report.checks:
        if check.error is not None:
            yield f"{code(check.kind)} {check.state}: **{prose(check.error.title)}** {sentence(check.error.detail)}"
    if judgement is not None:
        # What holds is left out first.
        rules, others = applied(judgement), not_measured(judgement)
        shown = sorted(rules, key=lambda outcome: outcome.outcome == "passed")[:MAX_RULES]
        if shown:
            yield _rules(outcome for outcome in rules if outcome in shown)
        if len(shown) < len(rules):
            yield f"{len(rules) - len(shown)} more rules are in the report."
        if others:
            yield sentence(not_measured_in_words(others))
        reasons = [
            f"- {code(outcome.metric) if outcome.label == outcome.metric else prose(outcome.label)}: "
            f"{sentence(outcome.reason)}"
            for outcome in shown
            if outcome.outcome != "passed"
        ]
        if reasons:
            yield "\n".join(reasons)


def _policy(judgement: Judgement | None) -> list[str]:
    if judgement is None:
        return []
    against = [f"baseline {code(judgement.baseline)}"] if judgement.baseline else []
    return [f"policy {code(policy_name(judgement))}", *against]


def _rules(outcomes: Iterable[RuleOutcome]) -> str:
    lines = ["| outcome | rule | required | measured |", "| --- | --- | --- | --- |"]
    for outcome in outcomes:
        name = _cell(outcome.metric)
        if outcome.label != outcome.metric:
            name = f"{prose(outcome.label)} {name}"
        reported_only = "" if outcome.severity == "block" else " (reported only)"
        lines.append(
            f"| {_MARKS[outcome.outcome]} {counted(outcome)}{reported_only} | {name} | {prose(required(outcome))} "
            f"| {measured(outcome)} |"
        )
    return "\n".join(lines)


def _flags(checks: Iterable[ReportCheck]) -> Iterator[str]:
    flags = [
        f"- {flag.severity}, {code(check.kind)} {code(flag.code)}: {sentence(flag.message)}"
        for check in checks
        for flag in check.flags
    ]
    if flags:
        yield "**Doubts about the numbers**"
        yield "\n".join(flags)


def _reused(checks: Iterable[ReportCheck]) -> Iterator[str]:
    """Yield for each check that was not measured whose records it shows."""
    for check in checks:
        if check.reused is not None:
            yield f"{code(check.kind)}: {sentence(reused_in_words(check.reused))}"


def _looks(checks: Iterable[ReportCheck]) -> Iterator[str]:
    """Yield for each check that stops when it is decided at how many examples it did."""
    for check in checks:
        if check.looks is not None:
            yield f"{code(check.kind)}: {sentence(looks_in_words(check.looks))}"


def _controls(report: ReportRead) -> Iterator[str]:
    """Yield, folded, which controls of published frameworks there is evidence for."""
    spoken_for = [one for one in report.controls if one.standing != "none"]
    if spoken_for:
        yield "<details><summary>Evidence for controls of AISVS, ATLAS and ISO/IEC 24029-2</summary>"
        yield "Numbers are evidence for what a control asks, not conformity with it."
        yield "\n".join(
            f"- {prose(one.id)} (asks: {prose(one.title)}): {one.standing}. {prose(one.missing)}".rstrip()
            for one in spoken_for
        )
        yield "</details>"


def _signature(report: ReportRead) -> Iterator[str]:
    """Yield who signed the verdict, and, folded, what that covers."""
    if report.judgement is None:
        return
    signature = report.signature
    if signature is None:
        yield "This verdict is not signed."
        return
    when = f"{signature.signed_at:%Y-%m-%d %H:%M} UTC"
    yield f"Signed {code(signature.result)} by the key {code(signature.key_id)} at {when}, {code(signature.digest)}."
    yield "<details><summary>What the signature covers, and what it does not</summary>"
    yield "\n".join(f"- {sentence(told)}" for told in signature.covers)
    yield "Not covered:"
    yield "\n".join(f"- {sentence(told)}" for told in signature.leaves_out)
    yield "</details>"


def _numbers(check: ReportCheck, room: int) -> list[str]:
    """Return a folded table of a check's numbers, as many as there is room for; in pieces between empty lines."""
    if not check.estimates:
        return []
    lines = ["| number | value | interval | n |", "| --- | ---: | --- | ---: |"]
    room -= 300
    for estimate in check.estimates:
        value = format_value(estimate).replace("<", "&lt;")
        interval = " ".join(part for part in (format_interval(estimate), open_end(estimate)) if part)
        line = f"| {_cell(estimate.name)} | {value} | {interval} | {estimate.n:,} |"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    kind = html.escape(check.kind)
    shown, there = len(lines) - 2, len(check.estimates)
    left = f"{shown} of the {there} numbers of {kind}; the report has all" if shown < there else ""
    summary = left or f"{there} numbers of {kind}"
    # The empty lines make what is between the tags Markdown again (GFM 4.6).
    return [f"<details><summary>{summary}</summary>", "\n".join(lines), "</details>"]
