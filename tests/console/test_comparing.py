"""Two audits side by side, and a number over versions: what means the same has an interval, the rest is said loudly."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.console.chart import HEIGHT, LEFT, RIGHT, TOP, WIDTH, draw, round_ticks
from app.console.comparing import Compared, side_by_side
from app.console.service import progress_of
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.metric_ranges import Reach
from seatrial.judging.regression import mover
from seatrial.store.tables import AuditRow, CheckRow
from tests.console.conftest import Console, elements, words
from tests.uploads import upload_both


def compared(console: Console, first: str, second: str) -> dict[str, Compared]:
    with console.services.database.read() as session:
        project = session.get_one(AuditRow, first).project_id
        audits = [progress_of(session, project, one).audit for one in (first, second)]
    found = side_by_side(console.services, project, audits[0], audits[1])
    return {one.metric: one for rows in found.tables.values() for one in rows}


def change_params(console: Console, audit: str, **changed: Any) -> None:
    with console.services.database.write() as session:
        row = session.query(CheckRow).filter_by(audit_id=audit).one()
        row.params = {**row.params, **changed}


def estimates_of(console: Console, audit: str) -> dict[str, Any]:
    with console.services.database.read() as session:
        return session.query(CheckRow).filter_by(audit_id=audit).one().result["estimates"]  # type: ignore[index]


def change_estimates(console: Console, audit: str, **changed: Any) -> None:
    with console.services.database.write() as session:
        row = session.query(CheckRow).filter_by(audit_id=audit).one()
        assert row.result is not None
        kept = {**row.result["estimates"], **changed}
        row.result = {**row.result, "estimates": {name: one for name, one in kept.items() if one is not None}}


@pytest.fixture
def pair(console: Console) -> tuple[str, str]:
    first = console.finished(over=0.05, under=1.9)
    return first, console.finished(model={"version": "4"}, dataset_of=first, over=0.1, under=1.2)


def test_a_number_of_two_names_is_shown_once(console: Console, pair: tuple[str, str]) -> None:
    for audit in pair:
        change_estimates(console, audit, nud=estimates_of(console, audit)["nud[arm=under]"])
    found = compared(console, *pair)
    assert "uncertainty_span.nud[arm=under]" in found
    assert "uncertainty_span.nud" not in found
    # By its other name alone it is shown by that.
    change_estimates(console, pair[0], **{"nud[arm=under]": None})
    assert "uncertainty_span.nud" in compared(console, *pair)


def test_numbers_that_shipped_policies_judge_come_first_and_say_which_is_better(
    console: Console, pair: tuple[str, str]
) -> None:
    low = {"value": 0.7, "low": 0.65, "high": 0.75, "n": 400, "method": "clopper-pearson"}
    spans = [estimates_of(console, audit)["mus"] for audit in pair]
    for audit, span in zip(pair, spans, strict=True):
        change_estimates(console, audit, mus_worst=span)
    change_estimates(console, pair[1], clean_accuracy=low)
    page = console.get(f"/compare?a={pair[0]}&b={pair[1]}")
    told = words(page)
    assert "B is worse in Accuracy without an attack (uncertainty_span.clean_accuracy); B is better in " in told
    assert "B is better in Uncertainty an attacker can shift (uncertainty_span.mus_worst)" in told
    first = next(iter(compared(console, *pair)))
    assert first in ("uncertainty_span.mus_worst", "uncertainty_span.clean_accuracy")


def test_a_difference_is_the_second_less_the_first_whichever_way_is_better(
    console: Console, pair: tuple[str, str]
) -> None:
    change_estimates(
        console,
        pair[1],
        clean_accuracy={"value": 0.7, "low": 0.65, "high": 0.75, "n": 400, "method": "clopper-pearson"},
    )
    found = compared(console, *pair)
    span, accuracy = found["uncertainty_span.mus"], found["uncertainty_span.clean_accuracy"]
    assert span.difference is not None
    assert span.difference.value == pytest.approx(1.1 - 1.85)
    assert span.trend == "better"
    assert accuracy.difference is not None
    assert accuracy.difference.value == pytest.approx(0.7 - 0.9825)
    assert accuracy.trend == "worse"
    for one in (span.difference, accuracy.difference):
        assert one.low is not None
        assert one.high is not None
        assert one.value is not None
        assert one.low < one.value < one.high


def test_the_interval_is_the_gate_s(console: Console, pair: tuple[str, str]) -> None:
    name = "accuracy[attack=ace]"
    first, second = (
        Estimate(value=value, low=value - 0.02, high=value + 0.02, n=400, method="clopper-pearson")
        for value in (0.9, 0.8)
    )
    for audit, one in zip(pair, (first, second), strict=True):
        change_estimates(console, audit, **{name: one.model_dump()})
    found = compared(console, *pair)[f"uncertainty_span.{name}"].difference
    assert found is not None
    expected = mover(second, first)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_swapping_the_audits_turns_every_difference_round(console: Console, pair: tuple[str, str]) -> None:
    there, back = compared(console, *pair), compared(console, pair[1], pair[0])
    assert there.keys() == back.keys()
    turned = {"better": "worse", "worse": "better"}
    for metric, one in there.items():
        other = back[metric]
        assert one.difference is not None
        assert other.difference is not None
        assert one.difference.value == pytest.approx(-(other.difference.value or 0.0))
        assert other.trend == turned.get(str(one.trend), one.trend)


def test_an_audit_does_not_differ_from_itself(console: Console, pair: tuple[str, str]) -> None:
    assert {one.trend for one in compared(console, pair[0], pair[0]).values()} <= {"undecided", "unchanged"}


def test_numbers_under_other_parameters_are_not_compared_and_said_loudly(
    console: Console, pair: tuple[str, str]
) -> None:
    change_params(console, pair[1], epsilon=0.1)
    span = compared(console, *pair)["uncertainty_span.mus"]
    assert (span.difference, span.trend) == (None, None)
    assert "epsilon" in span.why
    told = words(console.get(f"/compare?a={pair[0]}&b={pair[1]}"))
    assert "The two audits ran with different settings" in told
    assert "epsilon is 0.0313725 in A, 0.1 in B" in told
    assert "not compared" in told
    # Once for all numbers it is true of; clean ones mean the same, and are compared.
    assert told.count("cannot be compared: epsilon is 0.0313725 in A and 0.1 in B.") == 1
    assert "baseline" not in told
    span = [one for metric, one in compared(console, *pair).items() if metric.startswith("uncertainty_span.")]
    apart = [one for one in span if one.difference is None]
    assert (
        f"None of the {len(span) - len(apart)} numbers that were compared differs significantly; "
        f"{len(apart)} of {len(span)} were not compared."
    ) in told
    assert compared(console, *pair)["uncertainty_span.clean_accuracy"].difference is not None


def test_another_dataset_or_seed_is_said_loudly(console: Console, pair: tuple[str, str]) -> None:
    with console.services.database.write() as session:
        row = session.get_one(AuditRow, pair[1])
        row.seed, row.samples = 9, 50
    told = words(console.get(f"/compare?a={pair[0]}&b={pair[1]}"))
    assert "The seed differs: 0 in A, 9 in B." in told
    assert "The number of examples differs: 100 in A, 50 in B." in told


def test_the_same_questions_are_said_to_be_the_same(console: Console, pair: tuple[str, str]) -> None:
    page = console.get(f"/compare?a={pair[0]}&b={pair[1]}")
    assert page.status_code == 200
    assert "Both ran with the same dataset" in words(page)


def test_what_only_one_measured_is_listed_apart(console: Console, pair: tuple[str, str]) -> None:
    change_estimates(console, pair[1], msus=None)
    told = words(console.get(f"/compare?a={pair[0]}&b={pair[1]}"))
    assert "Measured by A alone (1)" in told
    assert "Measured by B alone" not in told


def test_a_number_without_a_value_is_not_compared(console: Console, pair: tuple[str, str]) -> None:
    nothing = {"value": None, "low": None, "high": None, "n": 0, "method": "none"}
    change_estimates(console, pair[0], msus=nothing)
    found = compared(console, *pair)["uncertainty_span.msus"]
    assert (found.difference, found.why) == (None, "not defined on this sample")


def test_a_metric_of_another_version_of_this_service_is_shown_and_not_compared(
    console: Console, pair: tuple[str, str]
) -> None:
    for audit in pair:
        change_estimates(console, audit, gone=estimates_of(console, audit)["mus"])
    found = compared(console, *pair)["uncertainty_span.gone"]
    assert (found.difference, found.trend) == (None, None)
    assert console.get(f"/compare?a={pair[0]}&b={pair[1]}").status_code == 200


def test_choosing_is_asked_for_and_what_is_not_there_is_told(console: Console, pair: tuple[str, str]) -> None:
    page = console.get("/compare")
    offered = [one.get("value") for one in elements(page, "option")]
    assert offered == ["", pair[1], pair[0]] * 2
    assert console.get(f"/compare?b={pair[1]}").status_code == 200
    for address in (f"/compare?a=aud_x&b={pair[1]}", "/compare?a=%3Cb%3E&b=", "/compare?a=%00&b="):
        assert console.get(address).status_code == 404


def test_audits_to_choose_from_differ_where_a_narrow_page_still_shows_it(
    console: Console, pair: tuple[str, str]
) -> None:
    assert ", 100 examples, " in console.get("/compare").text
    options = re.findall(r'<option value="(aud_[^"]+)"[^>]*>(.{10})', console.get("/compare").text)
    assert [(audit, told[:9]) for audit, told in options] == [(one, f"…{one[-8:]}") for one in pair[::-1]] * 2


def test_a_history_shows_every_version_with_its_interval(console: Console, pair: tuple[str, str]) -> None:
    page = console.get("/models/cifar-resnet20/history?metric=uncertainty_span.mus")
    told = words(page)
    assert told.index("1.1000 [1.0700, 1.1300]") < told.index("1.8500 [1.8200, 1.8800]")
    assert len(elements(page, "circle")) == 2
    assert len([one for one in elements(page, "line") if one["class"] == "whisker"]) == 2
    (picture,) = elements(page, "svg")
    assert picture["role"] == "img"


def test_a_history_keeps_what_was_asked_otherwise_off_the_line(console: Console, pair: tuple[str, str]) -> None:
    change_params(console, pair[0], epsilon=0.1)
    page = console.get("/models/cifar-resnet20/history?metric=uncertainty_span.mus")
    assert [one["class"] for one in elements(page, "circle")] == ["dot other", "dot"]
    assert "epsilon is 0.1" in words(page)
    (line,) = elements(page, "polyline")
    assert len(str(line["points"]).split()) == 1


def test_the_newest_audit_of_a_version_stands_in_the_chart(console: Console, pair: tuple[str, str]) -> None:
    with console.services.database.write() as session:
        rows = {one: session.get_one(AuditRow, one) for one in pair}
        rows[pair[0]].model_id = rows[pair[1]].model_id
    page = console.get("/models/cifar-resnet20/history?metric=uncertainty_span.mus")
    assert len(elements(page, "circle")) == 1
    assert words(page).count("aud_…") == 2


def test_versions_stand_in_the_order_they_were_uploaded(console: Console, pair: tuple[str, str]) -> None:
    again = console.finished(model={"version": "gone"}, dataset_of=pair[0])
    with console.services.database.write() as session:
        session.get_one(AuditRow, again).model_id = session.get_one(AuditRow, pair[0]).model_id
    page = console.get("/models/cifar-resnet20/history?metric=uncertainty_span.mus")
    assert re.findall(r'text-anchor="middle">(\w+)<', page.text) == ["3", "4"]


def test_a_history_of_nothing_says_so(console: Console) -> None:
    page = console.get("/models/nobody/history")
    assert page.status_code == 404
    assert "There is no model nobody in this project." in words(page)
    upload_both(console.client)
    assert "No model of this name has been measured" in words(console.get("/models/parity/history"))


def test_a_number_in_doubt_is_not_called_worse(console: Console, pair: tuple[str, str]) -> None:
    flag = {"code": "zero_gradients", "severity": "error", "message": "12 gradients were zero."}
    doubted = console.finished(model={"version": "5"}, dataset_of=pair[0], over=0.05, under=1.2, flags=[flag])
    change_estimates(
        console,
        pair[0],
        **{
            "ece[arm=clean]": {
                **estimates_of(console, doubted)["ece[arm=clean]"],
                "value": 0.3,
                "low": 0.29,
                "high": 0.31,
            }
        },
    )
    told = words(console.get(f"/compare?a={doubted}&b={pair[0]}"))
    before, _, after = told.partition("Not decided, since the flags above cast doubt on A's number:")
    assert "A is in doubterror: zero gradients (uncertainty_span). 12 gradients were zero." in before
    assert "B is worse in" not in before
    assert "as measured, B is worse in Calibration error (unattacked) (uncertainty_span.ece[arm=clean])" in after
    assert "worse, in doubt" in after
    assert "in doubt" not in words(console.get(f"/compare?a={pair[0]}&b={pair[1]}"))


def test_which_of_two_is_the_later_one_is_said(console: Console, pair: tuple[str, str]) -> None:
    first, second = pair
    assert "A is the later audit" not in words(console.get(f"/compare?a={first}&b={second}"))
    page = console.get(f"/compare?a={second}&b={first}")
    assert "A is the later audit of the two." in words(page)
    assert f"/compare?a={first}&b={second}" in [one.get("href") for one in elements(page, "a")]


def test_a_baseline_is_shown_in_the_history(console: Console, pair: tuple[str, str]) -> None:
    console.post(f"/audits/{pair[0]}/promote", name="champion", sure="yes")
    told = words(console.get("/models/cifar-resnet20/history"))
    assert f"aud_…{pair[0][-8:]} baseline champion" in told


def test_a_metric_that_is_not_there_falls_back_to_one_that_is(console: Console, pair: tuple[str, str]) -> None:
    page = console.get("/models/cifar-resnet20/history?metric=<script>")
    shown = "Calibration error (unattacked), newest first"
    assert words(page).count(shown) == 1
    assert f"{shown} uncertainty_span.ece[arm=clean]" in words(page)


VALUES = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=30))
@example([(0.0, 0.0, 5e-324)])
@example([(2.3e-308, 0.0, 0.0), (2.4e-308, 0.0, 0.0)])
def test_every_mark_stands_inside_the_chart_and_in_order(points: list[tuple[float, float, float]]) -> None:
    drawn = [
        ("v", Estimate(value=value, low=value - below, high=value + above, n=1, method="gaffke"), True)
        for value, below, above in points
    ]
    chart = draw(drawn)
    assert chart is not None
    assert [mark.x for mark in chart.marks] == sorted({mark.x for mark in chart.marks})
    for mark, (value, below, above) in zip(chart.marks, points, strict=True):
        assert LEFT <= mark.x <= WIDTH - RIGHT
        assert mark.low is not None
        assert mark.high is not None
        assert TOP - 1e-6 <= mark.high <= mark.y + 1e-6
        assert mark.y - 1e-6 <= mark.low <= HEIGHT
        # Heights are a straight line of values: the axis says the same as the mark.
        (low_y, low), (high_y, high) = chart.ticks[0], chart.ticks[-1]
        assert low + (high - low) * (mark.y - low_y) / (high_y - low_y) == pytest.approx(value, abs=1e-6 * (high - low))
        assert below >= 0 <= above


@settings(deadline=None)
@given(VALUES, st.floats(1e-6, 1e6))
def test_ticks_are_few_even_and_around_the_values(low: float, width: float) -> None:
    ticks = round_ticks(low, low + width)
    gaps = [after - before for before, after in pairwise(ticks)]
    assert 2 <= len(ticks) <= 8
    assert max(gaps) - min(gaps) <= 1e-6 * max(abs(ticks[0]), abs(ticks[-1]), gaps[0])
    slack = 1e-8 * max(abs(low), width)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= low + width - slack


def test_an_end_that_is_the_metric_s_own_is_drawn_open(console: Console, pair: tuple[str, str]) -> None:
    told = Estimate(value=0.4, low=0.2, high=1.0, n=50, method="resampled")
    chart = draw([("1", told, True)], Reach(0.0, 1.0))
    assert chart is not None
    assert [(mark.is_open_low, mark.is_open_high) for mark in chart.marks] == [(False, True)]
    change_estimates(console, pair[0], clean_accuracy=told.model_dump())
    page = console.get("/models/cifar-resnet20/history?metric=uncertainty_span.clean_accuracy")
    assert len([one for one in elements(page, "line") if one["class"] == "whisker open"]) == 1
    assert "dashed where too few examples bound them" in words(page)


def test_nothing_measured_is_no_chart() -> None:
    nothing = Estimate(value=None, low=None, high=None, n=0, method="none")
    assert draw([]) is None
    assert draw([("1", nothing, True)]) is None


def test_a_long_history_labels_some_versions_only() -> None:
    one = Estimate(value=0.5, low=None, high=None, n=9, method="none")
    chart = draw([(str(n), one, True) for n in range(100)])
    assert chart is not None
    assert len([mark for mark in chart.marks if mark.label]) <= 12
