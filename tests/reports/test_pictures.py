"""Attacked images are drawn as recorded, the worst first, in reports and in the console."""

import base64
import io
import re

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from seatrial.reporting.pictures import STAGE, pictures_of, png
from seatrial.store.records import to_parquet
from seatrial.store.tables import CheckRow, ShardRow
from tests.reports.fabricated import HOSTILE, change


def table(examples: int = 3, shape: tuple[int, int, int] = (3, 2, 4), seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    rows = []
    for example in range(examples):
        row = {"example_id": example, "label": 1, "errored": False, "span": float(example), "step_over": 0.002}
        row |= {f"prediction_{arm}": at for at, arm in enumerate(("clean", "over", "under"))}
        row |= {f"{name}_{arm}": 0.5 for name in ("entropy", "confidence") for arm in ("clean", "over", "under")}
        row |= dict(zip(("channels", "height", "width"), shape, strict=True))
        row |= {"pixels": draw.integers(0, 256, shape, dtype=np.uint8).tobytes(), "step_under": 0.002}
        row |= {"change_over": draw.integers(-127, 128, shape, dtype=np.int8).tobytes(), "change_under": bytes(24)}
        rows.append(row)
    rows.append({**rows[0], "example_id": 99, "pixels": None})
    return pa.Table.from_pylist(rows)


def decoded(url: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))), dtype=np.int64)


@pytest.mark.parametrize("shape", [(1, 5, 3), (3, 1, 1), (3, 7, 2)])
def test_a_png_holds_the_pixels(shape: tuple[int, int, int]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    found = np.asarray(Image.open(io.BytesIO(png(pixels.tobytes(), *shape))))
    assert np.array_equal(found.reshape(shape[1], shape[2], -1), pixels.transpose(1, 2, 0))
    with pytest.raises(ValueError, match="not an image"):
        png(pixels.tobytes()[1:], *shape)


def test_pictures_are_what_was_recorded_and_the_worst_come_first() -> None:
    records = table()
    pictures = pictures_of(records, ["a", "b", "c"], 3)
    assert [one.example for one in pictures] == [2, 1, 0]
    row, worst = records.to_pylist()[2], pictures[0]
    before = decoded(worst.image)
    change = np.frombuffer(row["change_over"], dtype=np.int8).astype(float).reshape(3, 2, 4).transpose(1, 2, 0)
    over, under = worst.attacked
    assert np.abs(decoded(over.image) - np.clip(before + 255 * 0.002 * change, 0, 255)).max() <= 0.5 + 1e-9
    assert np.array_equal(decoded(over.difference) - 128, change)
    assert over.gain == pytest.approx(1 / (255 * 0.002))
    assert (under.difference, np.array_equal(decoded(under.image), before)) == ("", True)
    assert (worst.label, worst.prediction, over.prediction, under.prediction) == ("b", "a", "b", "c")
    assert (worst.is_correct, over.is_changed, worst.share) == (False, True, pytest.approx(2 / np.log(3)))


def keep(reports, audit_id: str, digests: list[str]) -> None:
    with reports.database.write() as session:
        check = session.query(CheckRow).filter_by(audit_id=audit_id).one()
        for at, digest in enumerate(digests):
            place = {"ordinal": at, "start": 4 * at, "stop": 4 * at + 4}
            told = {"state": "succeeded", "records_digest": digest, "id": f"shd_{at}_{audit_id[-20:]}"}
            session.add(ShardRow(check_id=check.id, stage=STAGE, **place, **told))


def test_the_report_shows_the_worst_of_all_shards_and_names_are_text(reports) -> None:
    audit_id = reports.finished()
    labels = {"architecture": {"kind": "resnet_cifar", "depth": 20}, "labels": [HOSTILE, "second", "third"]}
    change(reports.database, audit_id, model={"manifest": labels})
    assert "Worst examples" not in reports.get(audit_id, format="html").text
    parts = [reports.store.put_bytes(to_parquet(table(seed=seed))) for seed in range(2)]
    keep(reports, audit_id, parts)
    page = reports.get(audit_id, format="html").text
    assert re.findall(r"Example (\d+), of class", page) == ["2", "2", "1", "1"]
    assert "<script>alert" not in page
    for url in re.findall(r'src="(data:image/png[^"]+)"', page):
        decoded(url)
    # A console without keys shows the same.
    console = reports.client.get(f"/audits/{audit_id}/examples").text
    assert re.findall(r"Example (\d+), of class", console) == ["2", "2", "1", "1", "0", "0"]
    assert "<script>alert" not in console
    assert f"/audits/{audit_id}/examples" in reports.client.get(f"/audits/{audit_id}").text


def test_records_that_are_gone_leave_the_report_without_pictures(reports) -> None:
    audit_id = reports.finished()
    keep(reports, audit_id, ["sha256:" + "0" * 64])
    answer = reports.get(audit_id, format="html")
    assert answer.status_code == 200
    assert "Worst examples" not in answer.text
