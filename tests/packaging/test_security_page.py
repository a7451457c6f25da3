"""The limits on the security page are those of the code."""

import importlib
import re
from pathlib import Path

import pytest

from seatrial.store.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NUMBERS = {
    name: field.default
    for name, field in Settings.model_fields.items()
    if field.annotation in (int, float, int | None, float | None)
}
"""Every number an operator may set limits something, and a new one belongs on the page."""


def shown(pattern: str) -> dict[str, str]:
    return dict(re.findall(rf"^\| `{pattern}` \| `([^`]*)` \| ", PAGE, re.MULTILINE))


def test_every_number_that_can_be_set_is_on_the_page_with_its_default() -> None:
    wanted = {f"SEATRIAL_{name.upper()}": "" if value is None else str(value) for name, value in NUMBERS.items()}
    assert shown("(SEATRIAL_[A-Z0-9_]+)") == wanted


@pytest.mark.parametrize(("name", "value"), list(shown("((?:app|seatrial)[.][a-zA-Z0-9_.]+)").items()))
def test_every_fixed_limit_is_what_the_code_says(name: str, value: str) -> None:
    module, _, constant = name.rpartition(".")
    assert str(getattr(importlib.import_module(module), constant)) == value


def test_the_page_lists_fixed_limits() -> None:
    assert len(shown("((?:app|seatrial)[.][a-zA-Z0-9_.]+)")) >= 15


def test_what_the_page_links_to_is_there() -> None:
    for page in ("docs/security.md", "SECURITY.md"):
        for path in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / path).exists(), path


def test_the_readme_leads_there() -> None:
    assert "(docs/security.md)" in (ROOT / "README.md").read_text()
