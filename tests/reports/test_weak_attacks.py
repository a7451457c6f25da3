"""What a report says where the attacks that know a defence were weak, or could not be run."""

from datetime import timedelta

import pytest

from seatrial.store.tables.base import utc_now
from tests.reports import fabricated, fabricated_defences
from tests.reports.conftest import Reports
from tests.reports.fabricated_defences import TADV
from tests.reports.test_transductive_attack import flag, told


@pytest.mark.parametrize(
    ("attack", "words"),
    [("transfer_pgd", "transferred PGD"), ("transfer_autoattack", "transferred AutoAttack")],
    ids=["PGD", "AutoAttack"],
)
def test_where_an_attack_that_knows_nothing_is_the_strongest_nothing_is_shown(attack: str, words: str) -> None:
    answer = told({"dent": {**TADV, attack: 0.66}})
    assert answer.standing == "unproven"
    assert answer.headline.startswith(
        "Not shown: no attack that knows DENT did better than one that does not. DENT adds 8 points [6.8, 9.2] over "
        f"the static model under {words}, the strongest attack tried"
    )
    assert answer.headline.endswith("can do all that others can: raise steps and iterations.")
    doubted = flag("adaptive_weaker_than_transfer", "gmsa_min, which knows dent, leaves 70.0%.", "error")
    flagged = told({"dent": {**TADV, attack: 0.66}, "tadv": TADV}, flags=[doubted])
    assert flagged.headline.startswith("Not shown: no attack that knows DENT")
    assert "Yes, against the attacks tried: TADV" in " ".join(flagged.findings)


def test_harm_that_an_attack_which_knows_nothing_does_stays_harm() -> None:
    answer = told({"dent": {**TADV, "transfer_pgd": 0.4}})
    assert answer.standing == "not_real"
    assert "DENT takes 18 points [16.8, 19.2]" in answer.headline


def test_an_attack_that_knows_the_defence_and_does_as_well_is_no_weaker() -> None:
    tied = told({"tadv": {**dict.fromkeys(TADV, 0.685), "gmsa_min": 0.1 + 0.2 + 0.385}}, spread=0.012)
    assert tied.standing == "real"
    assert "under adaptive attack" in tied.headline
    alone = told({"dent": {"transfer_autoattack": 0.685, "gmsa_min": 0.685}})
    assert alone.standing == "real"


def test_a_defence_that_no_attack_asked_for_can_be_run_on_has_a_report(reports: Reports) -> None:
    named = "[defence=rmc,attack=defence_autoattack]"
    stored = fabricated_defences.finished(
        reports.database,
        reports.store,
        {"rmc": {"defence_autoattack": None}},
        asked={"attacks": ["defence_autoattack"]},
        static=None,
        counts={f"failed{named}": 0, f"repeats{named}": 0},
    )
    reports.own(stored)
    for form in ("application/json", "text/html", "text/markdown"):
        answered = reports.get(stored, form)
        assert answered.status_code == 200
        assert (
            "none of the requested attacks can be run on RMC. Ask for gmsa_avg and gmsa_min"
            in answered.text.replace("\\_", "_")
        )


@pytest.mark.slow
@pytest.mark.parametrize(("n", "is_trusted"), [(24, False), (1000, True)], ids=["a handful", "many"])
def test_no_flags_are_no_praise_of_numbers_that_show_nothing(reports: Reports, n: int, is_trusted: bool) -> None:
    stored = reports.own(fabricated_defences.finished(reports.database, reports.store, {"tadv": TADV}, n=n))
    page = reports.get(stored, "text/html").text
    assert ("On 24 examples that says little" in page) != is_trusted
    assert "No flags were raised; what the sample leaves open is in the intervals." in page


def test_the_time_of_a_check_says_that_it_holds_waiting(reports: Reports) -> None:
    stored = reports.own(fabricated_defences.finished(reports.database, reports.store, {"tadv": TADV}))
    start = utc_now()
    times = {"started_at": start, "finished_at": start + timedelta(seconds=89)}
    fabricated.change(reports.database, stored, check=times)
    page = reports.get(stored, "text/html").text
    assert "89.0 s from its first step to its end, including the time other audits took" in page
