"""Hardware is told by what its numbers follow from, and no row of a product by where it stands."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers import processors

CLOUD = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: 6
model\t\t: {model}
model name\t: Some Cloud Processor
flags\t\t: fpu sse2 {flags}

processor\t: 1
vendor_id\t: nobody
"""

PLACES = """
import os, torch
from seatrial.store.settings import Settings
from workers.runtime.device import prepare
prepare(Settings(torch_threads=1))
torch.manual_seed(0)
told = 0
for width, classes in ((32, 2), (64, 3), (128, 2), (312, 1)):
    layer = torch.nn.Linear(width, classes)
    for rows in (2, 8, 10, 14):
        for _ in range(4):
            one, others = torch.randn(1, width), torch.randn(rows - 1, width)
            with torch.inference_mode():
                out = [layer(torch.cat([others[:at], one, others[at:]]))[at] for at in range(rows)]
            told += any(not torch.equal(out[0], row) for row in out)
print(told, os.environ.get("MKL_CBWR"))
"""


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(processors, "CPUINFO", path)
    processors.told.cache_clear()
    yield path
    processors.told.cache_clear()


def told(path: Path, vendor: str = "GenuineIntel", model: int = 143, flags: str = "avx2 avx512f") -> str:
    path.write_text(CLOUD.format(vendor=vendor, model=model, flags=flags))
    processors.told.cache_clear()
    return processors.processor()


def test_generations_of_one_name_and_what_a_cloud_hides_are_told_apart(cpuinfo: Path) -> None:
    assert told(cpuinfo) == "Some Cloud Processor (family 6, model 143, avx512f)"
    names = {told(cpuinfo, model=model, flags=flags) for model in (143, 207) for flags in ("avx2", "avx2 amx_tile")}
    assert len(names) == 4


def test_where_nothing_is_told_the_architecture_is(cpuinfo: Path) -> None:
    assert processors.processor() == os.uname().machine
    cpuinfo.write_text("model name : of an ARM, without more\n")
    processors.told.cache_clear()
    assert processors.processor() == "of an ARM, without more"


@pytest.mark.parametrize(("vendor", "wanted"), [("GenuineIntel", "AUTO,STRICT"), ("AuthenticAMD", None)])
def test_strict_products_are_asked_of_intels_processors_alone(
    cpuinfo: Path, monkeypatch: pytest.MonkeyPatch, vendor: str, wanted: str | None
) -> None:
    # Set first, so that what is set here is taken back.
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    told(cpuinfo, vendor=vendor)
    processors.keep_places_apart()
    assert os.environ["MKL_CBWR"] == "COMPATIBLE"
    monkeypatch.delenv("MKL_CBWR")
    processors.keep_places_apart()
    assert os.environ.pop("MKL_CBWR", None) == wanted


@pytest.mark.skipif(not processors.is_intel(), reason="batches have one row on other makers' processors")
def test_no_row_is_told_by_its_place_in_a_process_that_is_prepared() -> None:
    variables = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    run = subprocess.run([sys.executable, "-c", PLACES], env=variables, capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == ["0", "AUTO,STRICT"], run.stderr
