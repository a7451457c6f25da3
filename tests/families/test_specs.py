"""What families declare, and how they are found."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from app.cli.doctor import brought_families
from seatrial.contracts import registry
from seatrial.contracts.estimates import split_name
from seatrial.contracts.family import FamilySpec, Formula, Metric, load
from seatrial.contracts.registry import GROUP, each_once, families, family
from seatrial.families.narratives import narrative_of
from seatrial.families.uncertainty_span.spec import SPEC as SPAN
from seatrial.reporting import metric_labels
from seatrial.reporting.metric_labels import label_of

SHIPPED = [point.name for point in registry.SHIPPED]

UNNAMED = replace(SPAN, kind="unnamed")
NO_FAMILY = "a string"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    points: list[EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: [point for point in points if group == GROUP])
    registry._found.cache_clear()
    yield points
    registry._found.cache_clear()


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def test_the_shipped_families_are_there_without_any_metadata(offered: list[EntryPoint]) -> None:
    assert list(families()) == SHIPPED
    assert registry.broken() == {}
    offered.extend(registry.SHIPPED)
    registry._found.cache_clear()
    assert list(families()) == SHIPPED
    assert registry.broken() == {}


def test_every_shipped_number_has_a_label_for_people() -> None:
    for kind in SHIPPED:
        for metric in family(kind).metrics:
            name = f"{kind}.{metric.name}"
            if metric.qualifiers:
                name += "[" + ",".join(f"{key}=*" for key in metric.qualifiers) + "]"
            assert metric.label, name
            told = label_of(name)
            assert told[0].isupper()
            assert not set("{}_") & set(told), told
    assert label_of("uncertainty_span.ece[arm=clean]") == "Calibration error (unattacked)"
    assert (
        label_of("low_level_attack.relative_score[attacker=*,level=0.2]") == "Score kept under any attacker, level 0.2"
    )


def test_a_family_without_labels_has_its_numbers_called_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    unlabelled = Metric(name="mean_doubt", qualifiers=("arm",), unit="1", better="lower", description="D.")
    monkeypatch.setattr(metric_labels, "described_metric", lambda name: unlabelled)
    label_of.cache_clear()
    assert label_of(f"{SPAN.kind}.ece[arm=over]") == "Ece (over-confidence attack)"
    label_of.cache_clear()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("missing", "no_such_module.spec:SPEC", "No module named"),
        ("absent", f"{__name__}:NOTHING", "has no attribute"),
        ("text", f"{__name__}:NO_FAMILY", "is a str, not a FamilySpec"),
        ("named", f"{__name__}:UNNAMED", "its kind is 'unnamed'"),
        ("unnamed", f"{__name__}:UNNAMED", "need a field `kind: Literal['unnamed']`"),
        (SHIPPED[0], f"{__name__}:UNNAMED", "cannot take the place"),
    ],
)
def test_a_family_that_is_none_is_left_out_and_told_by_its_name(
    name: str, value: str, why: str, offered: list[EntryPoint], caplog: pytest.LogCaptureFixture
) -> None:
    offered.append(point(name, value))
    with caplog.at_level(logging.ERROR):
        assert list(families()) == SHIPPED
    assert list(registry.broken()) == [name]
    assert why in registry.broken()[name]
    assert name in caplog.text
    assert family(SHIPPED[0]) is SPAN


def test_of_two_families_of_one_name_neither_is_taken(offered: list[EntryPoint]) -> None:
    offered.extend([point("twice", "one.spec:SPEC"), point("twice", "other.spec:SPEC")])
    assert list(families()) == SHIPPED
    assert registry.broken() == {"twice": "offered 2 times (one.spec:SPEC, other.spec:SPEC): uninstall all but one"}


@pytest.mark.parametrize("spec", families().values(), ids=families())
def test_what_a_spec_names_by_a_string_is_there(spec: FamilySpec) -> None:
    for metric in spec.metrics:
        if isinstance(metric.per_example, str):
            found = load(metric.per_example)
            assert isinstance(found, Formula) or callable(found), metric
    assert narrative_of(spec.kind) is load(spec.narrative)
    assert load(spec.worker).next_stage


VALUES = ("clean", "over", "as_served", "transfer", "optimized", "visual", "combined", "natural_typo")


@pytest.mark.parametrize("spec", families().values(), ids=families())
def test_what_is_another_name_of_a_number_is_left_out_where_that_is_there(spec: FamilySpec) -> None:
    for metric in spec.metrics:
        if metric.same_as:
            both = [f"{spec.kind}.{metric.name}", f"{spec.kind}.{metric.same_as}"]
            assert spec.find_metric(*split_name(metric.same_as)) is not None
            assert (each_once(both), each_once(both[:1])) == (both[1:], both[:1])


@pytest.mark.parametrize("spec", families().values(), ids=families())
def test_what_metrics_depend_on_are_parameters(spec: FamilySpec) -> None:
    for metric in spec.metrics:
        for value in VALUES:
            named = metric.depends(dict.fromkeys(metric.qualifiers, value)).names
            assert named <= set(spec.params.model_fields), (metric.name, named)


@pytest.mark.parametrize("spec", families().values(), ids=families())
def test_no_metric_and_no_flag_is_declared_twice(spec: FamilySpec) -> None:
    names = [(metric.name, frozenset(metric.qualifiers)) for metric in spec.metrics]
    assert len(set(names)) == len(names)
    codes = [flag.code for flag in spec.flags]
    assert len(set(codes)) == len(codes)


def test_doctor_tells_which_families_others_bring_and_which_are_broken(offered: list[EntryPoint]) -> None:
    assert list(brought_families()) == []
    offered.append(point("torn", "no_such_module.spec:SPEC"))
    registry._found.cache_clear()
    (finding,) = brought_families()
    assert (finding.subject, finding.verdict) == ("family torn", "optional")
    assert "No module named" in finding.found


@pytest.mark.parametrize("kind", SHIPPED)
def test_every_family_says_how_far_unlike_hardware_may_be_apart(kind: str) -> None:
    assert 0 < family(kind).unlike_hardware <= 1e-3
