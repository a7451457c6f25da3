"""A check whose packages are missing is refused before anything is spent, with the command that brings them."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from typing import Any

import pytest

from app.audits import compatibility
from app.audits.compatibility import MissingPackagesError, check_installed
from app.cli.exits import BadRequestError
from app.cli.gate_files import default_checks
from seatrial import installed
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.registry import families, params_contract

TEXTS = "text-classification"


def check(kind: str, **params: Any) -> FamilyParams:
    return params_contract(kind).model_validate({"kind": kind, **params})


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Packages that are not installed, to be filled."""
    absent: set[str] = set()

    def seen(name: str) -> str:
        if name in absent:
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(installed, "version", seen)
    installed.missing_packages.cache_clear()
    yield absent
    installed.missing_packages.cache_clear()


def test_what_is_installed_is_not_missing_and_what_is_not_is_named(without: set[str]) -> None:
    assert installed.missing_packages("text") == ()
    installed.missing_packages.cache_clear()
    without |= {"textattack", "greenlet", "httpx"}
    # What everybody needs is no matter of an extra, and the text attacks need what every worker does.
    assert installed.missing_packages("text") == ("greenlet", "textattack")
    without |= {"torch"}
    installed.missing_packages.cache_clear()
    assert installed.missing_packages("text") == ("greenlet", "textattack", "torch")
    assert installed.missing_packages("worker") == ("torch",)


def test_an_audit_is_refused_at_its_field_with_the_command(without: set[str]) -> None:
    check_installed(check("temperature_attack"), "/checks/0")
    installed.missing_packages.cache_clear()
    without |= {"textattack", "greenlet"}
    with pytest.raises(MissingPackagesError, match=r"greenlet and textattack.*pip install 'seatrial\[text\]'") as error:
        check_installed(check("temperature_attack"), "/checks/1")
    assert error.value.errors[0].pointer == "/checks/1/kind"
    check_installed(check("uncertainty_span"), "/checks/0")
    # An API without any worker's packages leaves it to its workers.
    without |= {"torch"}
    installed.missing_packages.cache_clear()
    check_installed(check("temperature_attack"), "/checks/0")


def test_a_defence_that_nobody_registered_is_refused_with_the_nearest(
    without: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = check("transductive_attack", defences=[{"name": "tent"}, {"name": "tentt"}])
    with pytest.raises(MissingPackagesError, match="Nothing is registered as 'tentt': did you mean 'tent'") as error:
        check_installed(asked, "/checks/0")
    assert error.value.errors[0].pointer == "/checks/0/defences/1/name"
    theirs = EntryPoint("tentt", "package:PLUGIN", "seatrial.defences")
    monkeypatch.setattr(compatibility, "entry_points", lambda group: [theirs] if group == theirs.group else [])
    check_installed(asked, "/checks/0")


def test_a_gate_s_own_default_is_what_it_can_run(without: set[str]) -> None:
    without |= {"textattack"}
    said: list[str] = []
    (check,) = default_checks(None, TEXTS, said.append, is_local=True)
    assert check.kind == "low_level_attack"  # type: ignore[attr-defined]
    assert "temperature_attack is left out" in said[0]
    assert "pip install 'seatrial[text]'" in said[0]
    (elsewhere,) = default_checks(None, TEXTS, said.append)
    assert elsewhere.kind == "temperature_attack"  # type: ignore[attr-defined]


def test_where_nothing_is_left_that_is_said(without: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    without |= {"textattack"}
    only = {"temperature_attack": families()["temperature_attack"]}
    monkeypatch.setattr("app.cli.gate_files.families", lambda: only)
    with pytest.raises(BadRequestError, match="no check audits models for text-classification by default"):
        default_checks(None, TEXTS, lambda line: None, is_local=True)
