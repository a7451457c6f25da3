"""Exported programs: refused with a reason, or run, whatever they hold."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from app.models.inspection import inspect_model
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.store.settings import Settings
from tests.fuzz.conftest import Case
from tests.fuzz.exported_mutations import mutated
from tests.ingest.exported_programs import exported_manifest, files

LIMITS = Settings(max_activation_values=2**22)


def exported_programs(random: Random, folder: Path) -> bool:
    path = folder / "upload"
    path.write_bytes(mutated(random, files()))
    try:
        inspect_model(path, "model.pt2", exported_manifest(), LIMITS)
    except InspectionError as error:
        assert error.detail.encode()  # noqa: PT017
        return False
    return True


def test_programs_are_refused_with_a_reason_or_read(fuzz: Callable[[Case], None]) -> None:
    fuzz(exported_programs)
