"""What counts as the same when an audit has run again."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.exits import BadRequestError, Exit
from app.cli.replay import _compared, _tell
from app.cli.tolerances import Tolerances, read_tolerances
from app.reports.bundle_layout import BundleCheck, BundleIndex, BundleRecords, BundleResult
from app.reports.replays import Comparison, compare, compare_tables
from app.reports.repository import HARDWARE
from app.reports.unbundling import Bundle
from seatrial.contracts.estimates import Estimate
from seatrial.store.records import to_parquet
from tests.reports import fabricated

NAN = float("nan")
ROWS = {
    "example_id": [2, 0, 1],
    "entropy": [0.5, NAN, 1.5],
    "label": ["a", "b", None],
    "is_correct": [True, False, True],
    "logits": [[0.5, -1.0], [1.0, NAN], None],
}


PARAMS = {"effort": "quick"}


def bundle(
    folder: Path,
    result: dict[str, Any] | None,
    rows: dict[str, list[Any]] | None = None,
    *,
    params: dict[str, Any] | None = None,
) -> Bundle:
    """Return a bundle of one check."""
    folder.mkdir(parents=True)
    table = pa.table(ROWS if rows is None else rows)
    (folder / "attack.parquet").write_bytes(to_parquet(table))
    records = BundleRecords(stage="attack", source="dataset", examples=3, rows=table.num_rows, file="attack.parquet")
    kind = "uncertainty_span"
    check = BundleCheck(position=0, kind=kind, state="succeeded", params=params or PARAMS, records=[records])
    index = BundleIndex.model_construct(audit="aud_it", checks=[check], versions={})
    return Bundle(folder, index, {0: BundleResult(position=0, kind=kind, result=result, error=None)})


def compared(tmp_path: Path, result: dict[str, Any], rows: dict[str, list[Any]], tolerance: float = 0.0) -> Comparison:
    first = bundle(tmp_path / "first", fabricated.result())
    return compare(first, bundle(tmp_path / "second", result, rows), tolerance=tolerance)


def test_the_same_is_the_same_and_is_counted(tmp_path: Path) -> None:
    found = compared(tmp_path, fabricated.result(), ROWS)
    assert found.differences == []
    assert found.records == 3
    result = fabricated.result()
    assert found.numbers == 5 * len(result["estimates"]) + len(result["counts"]) + len(result["series"])


def test_an_interval_made_in_another_way_is_not_compared_and_counted(tmp_path: Path) -> None:
    before, now = (json.loads(json.dumps(fabricated.result())) for _ in range(2))
    before["estimates"]["mus"] |= {"low": 0.0, "method": "bootstrap"}
    found = compare(bundle(tmp_path / "a", before), bundle(tmp_path / "b", now))
    assert (found.differences, found.recast) == ([], 1)
    now["estimates"]["mus"]["value"] += 0.5
    (told,) = compare(bundle(tmp_path / "c", before), bundle(tmp_path / "d", now)).differences
    assert told.where == "0/uncertainty_span.mus value"
    # What has none any more is another number.
    now = json.loads(json.dumps(fabricated.result()))
    now["estimates"]["mus"] |= {"low": None, "high": None, "method": "none"}
    assert len(compare(bundle(tmp_path / "e", before), bundle(tmp_path / "f", now)).differences) == 3


def test_a_curve_and_a_flag_that_differ_are_told(tmp_path: Path) -> None:
    flag = {"code": "zero_gradients", "severity": "error", "message": "3 of 400 examples"}
    result = json.loads(json.dumps(fabricated.result(flags=[flag])))
    result["series"]["entropy_edges"][1] += 0.25
    curve, doubt = compared(tmp_path, result, ROWS).differences
    assert (curve.where, curve.by) == ("0/uncertainty_span.series entropy_edges", "0.25")
    assert (doubt.where, doubt.recorded, doubt.replayed) == (
        "0/uncertainty_span.flag zero_gradients",
        "missing",
        "error",
    )


def test_a_flag_that_an_older_version_could_not_raise_is_new(tmp_path: Path) -> None:
    flag = {"code": "quick_effort", "severity": "warning", "message": "nothing beside the paper's attacks was run"}
    again = bundle(tmp_path / "again", fabricated.result(flags=[flag]))
    older = bundle(tmp_path / "older", fabricated.result(), params={"epsilon": 0.1})
    found = compare(older, again)
    assert (found.differences, found.new) == ([], ["0/uncertainty_span.flag quick_effort"])
    # A doubt that it could raise, and did, has to be raised again.
    gone = compare(bundle(tmp_path / "doubted", fabricated.result(flags=[flag]), params={"epsilon": 0.1}), older)
    assert [one.where for one in gone.differences] == ["0/uncertainty_span.flag quick_effort"]


@pytest.mark.parametrize("part", ["value", "low", "high"])
def test_every_part_of_an_estimate_is_compared(tmp_path: Path, part: str) -> None:
    result = json.loads(json.dumps(fabricated.result()))
    result["estimates"]["mus"][part] += 1e-12
    (found,) = compared(tmp_path, result, ROWS).differences
    assert found.where == f"0/uncertainty_span.mus {part}"
    assert found.recorded != found.replayed


@pytest.mark.parametrize(
    "change",
    [
        lambda result: result["estimates"]["mus"].update(n=401),
        lambda result: result["estimates"]["mus"].update(method="exact"),
        lambda result: result["estimates"]["mus"].update(value=None),
        lambda result: result["counts"].update(errored=3),
        lambda result: result["counts"].pop("errored"),
    ],
    ids=["examples", "method", "undefined", "count", "no-count"],
)
def test_what_is_no_distance_is_a_difference_at_any_tolerance(tmp_path: Path, change) -> None:
    result = json.loads(json.dumps(fabricated.result()))
    change(result)
    assert len(compared(tmp_path, result, ROWS, tolerance=0.5).differences) == 1


def test_an_estimate_that_is_missing_differs_in_all_its_parts(tmp_path: Path) -> None:
    result = json.loads(json.dumps(fabricated.result()))
    del result["estimates"]["mus"]
    differences = compared(tmp_path, result, ROWS).differences
    assert [one.replayed for one in differences] == ["missing"] * 5


@pytest.mark.parametrize(
    ("column", "row", "value"),
    [
        ("example_id", 0, 7),
        ("entropy", 0, 0.75),
        ("entropy", 1, 0.0),
        ("label", 2, "c"),
        ("is_correct", 1, True),
        ("logits", 0, [0.5, -1.25]),
        ("logits", 0, [0.5]),
        ("logits", 2, [0.0, 0.0]),
    ],
)
def test_a_changed_cell_is_told_with_its_row(tmp_path: Path, column: str, row: int, value: Any) -> None:
    rows = {name: list(values) for name, values in ROWS.items()}
    rows[column][row] = value
    (found,) = compared(tmp_path, fabricated.result(), rows).differences
    assert found.where == f"0/uncertainty_span/attack.{column}: 1 of 3 differ, most in row {row}"


def test_a_family_s_own_tolerance_goes_before_that_of_all(tmp_path: Path) -> None:
    first = bundle(tmp_path / "first", fabricated.result(), ROWS)
    rows = ROWS | {"entropy": [1.0, NAN, 1.5]}
    second = bundle(tmp_path / "second", fabricated.result(), rows)
    (kind,) = {check.kind for check in first.index.checks}
    assert not compare(first, second, tolerance=0.0, by_family={kind: 0.6}).differences
    assert not compare(first, second, tolerance=0.6, by_family={"calibration": 0.0}).differences
    assert len(compare(first, second, tolerance=0.6, by_family={kind: 0.4}).differences) == 1


@pytest.mark.parametrize(("words", "told"), [(["x"], "FAMILY=NUMBER"), (["nan"], "FAMILY"), (["a=1"], "no family 'a'")])
def test_what_is_no_tolerance_says_what_is(words: list[str], told: str) -> None:
    with pytest.raises(BadRequestError, match=told):
        read_tolerances(words)


@pytest.mark.parametrize(("tolerance", "count"), [(0.3, 0), (0.25, 0), (0.2, 1)])
def test_numbers_within_the_tolerance_are_the_same(tmp_path: Path, tolerance: float, count: int) -> None:
    rows = {**ROWS, "entropy": [0.75, NAN, 1.5]}
    assert len(compared(tmp_path, fabricated.result(), rows, tolerance).differences) == count


def test_missing_rows_and_columns_are_told(tmp_path: Path) -> None:
    shorter = {name: values[:2] for name, values in ROWS.items()}
    (found,) = compared(tmp_path, fabricated.result(), shorter).differences
    assert (found.recorded, found.replayed) == ("3 records", "2")
    other = {name: values for name, values in ROWS.items() if name != "label"} | {"margin": [1.0, 2.0, 3.0]}
    unmeasured = compare(bundle(tmp_path / "a", None, ROWS), bundle(tmp_path / "b", None, other))
    assert unmeasured == Comparison()
    found = Comparison()
    compare_tables(found, "here", pa.table(ROWS), pa.table(other), 0.0)
    assert [(one.where, one.recorded, one.replayed) for one in found.differences] == [
        ("here.label", "there", "missing")
    ]
    assert found.new == ["here.margin"]


def later(result: dict[str, Any]) -> dict[str, Any]:
    """Return what a version that publishes more makes of the same audit."""
    changed = json.loads(json.dumps(result))
    changed["estimates"]["margin"] = {**changed["estimates"]["mus"], "value": 0.125}
    changed["counts"]["too_short"] = 4
    changed["series"]["margin_edges"] = [0.0, 1.0]
    return changed


def test_what_only_the_replay_has_is_new_and_no_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, later(fabricated.result()), {**ROWS, "margin": [1.0, 2.0, 3.0]})
    assert found.differences == []
    where = "0/uncertainty_span"
    assert found.new == [
        f"{where}.margin",
        f"{where}.counts too_short",
        f"{where}.series margin_edges",
        f"{where}/attack.margin",
    ]
    again = compared(tmp_path / "again", fabricated.result(), ROWS)
    assert (found.numbers, found.records) == (again.numbers, again.records)


def test_what_only_the_bundle_has_is_a_difference(tmp_path: Path) -> None:
    first = bundle(tmp_path / "first", later(fabricated.result()), {**ROWS, "margin": [1.0, 2.0, 3.0]})
    found = compare(first, bundle(tmp_path / "second", fabricated.result()))
    parts = [f"margin {part}" for part in Estimate.model_fields]
    lost = [f"0/uncertainty_span.{name}" for name in (*parts, "counts too_short", "series margin_edges")]
    assert [one.where for one in found.differences] == [*lost, "0/uncertainty_span/attack.margin"]
    assert found.new == []


def test_a_stage_that_only_the_replay_has_is_new(tmp_path: Path) -> None:
    first, second = (bundle(tmp_path / name, fabricated.result()) for name in ("first", "second"))
    (check,) = second.index.checks
    check.records.append(check.records[0].model_copy(update={"stage": "calibration"}))
    found = compare(first, second)
    assert (found.differences, found.new) == ([], ["0/uncertainty_span/calibration"])
    (lost,) = compare(second, first).differences
    assert (lost.where, lost.replayed) == ("0/uncertainty_span/calibration", "none")


def test_the_command_lists_what_is_new_and_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (
        bundle(tmp_path / "first", fabricated.result()),
        bundle(tmp_path / "second", later(fabricated.result())),
    )
    assert _tell(_compared(first, second, Tolerances()), Tolerances()) == Exit.PASSED
    summary, *new = capsys.readouterr().out.splitlines()
    assert summary.startswith("identical: ")
    assert new[0] == "new, not in the bundle: 0/uncertainty_span.margin"
    assert len(new) == 3
    assert _tell(_compared(second, first, Tolerances()), Tolerances()) == Exit.FAILED
    told = capsys.readouterr().out
    assert "different: 7 differences in" in told
    assert "new, not in the bundle" not in told


@given(st.lists(st.floats(), min_size=1, max_size=8), st.data())
def test_a_table_equals_itself_and_nothing_else(values: list[float], data: st.DataObject) -> None:
    at, other = data.draw(st.integers(0, len(values) - 1)), data.draw(st.floats())
    changed = [*values[:at], other, *values[at + 1 :]]
    is_same = other == values[at] or (math.isnan(other) and math.isnan(values[at]))
    for again, count in ((values, 0), (changed, 0 if is_same else 1)):
        found = Comparison()
        compare_tables(found, "", pa.table({"x": values}), pa.table({"x": again}), 0.0)
        assert len(found.differences) == count


def test_the_largest_distance_is_told_by_kind_where_hardware_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = json.loads(json.dumps(fabricated.result()))
    result["estimates"]["mus"]["value"] += 2.0**-20
    first = bundle(tmp_path / "first", fabricated.result())
    second = bundle(tmp_path / "second", result, {**ROWS, "entropy": [0.5, NAN, 1.5 + 2.0**-12]})
    for before, now, is_told in (("one", "one", False), ("one", "another", True)):
        first.index.versions, second.index.versions = {HARDWARE: before}, {HARDWARE: now}
        found = _compared(first, second, Tolerances(2.0**-10))
        assert (found.differences, found.largest) == ([], {"uncertainty_span": 2.0**-12})
        told = capsys.readouterr()
        assert (
            "uncertainty_span differs by at most 0.000244; 0.000976562 is allowed" in told.out + told.err
        ) == is_told


def test_what_measured_a_run_is_no_difference_in_what_it_measured(tmp_path: Path) -> None:
    flags = [{"code": code, "severity": "info", "message": "two"} for code in ("mixed_hardware", "mixed_code")]
    mixed = bundle(tmp_path / "mixed", fabricated.result(flags=flags))
    alone = bundle(tmp_path / "alone", fabricated.result())
    for first, second in ((mixed, alone), (alone, mixed)):
        found = compare(first, second)
        assert (found.differences, found.new) == ([], [])


@pytest.mark.parametrize(("tolerance", "count"), [(0.0, 1), (1e-9, 0)])
def test_images_are_the_same_or_not_compared(tolerance: float, count: int) -> None:
    images, others = (pa.table({"pixels": pa.array([b"\x00\x01", one], pa.large_binary())}) for one in (b"a", b"b"))
    found = Comparison()
    compare_tables(found, "", images, others, tolerance)
    assert len(found.differences) == count


@pytest.mark.parametrize(("tolerance", "count"), [(0.0, 1), (1e-9, 0)])
def test_digests_are_the_same_or_not_compared(tolerance: float, count: int) -> None:
    scores, others = (pa.table({"scores_digest[level=0.1]": pa.array([7, one], pa.int64())}) for one in (8, 2**62))
    found = Comparison()
    compare_tables(found, "", scores, others, tolerance)
    assert len(found.differences) == count
