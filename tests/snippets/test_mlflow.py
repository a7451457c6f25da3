"""The MLflow hook: on a stand-in with MLflow's rules, and on MLflow itself where that is installed."""

import posixpath
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from app.integrations import mlflow as hook
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.estimates import metric_name
from seatrial.contracts.policies import Judgement
from seatrial.contracts.registry import families
from tests.servers import ROOT
from tests.snippets.fakes import mlflow as fake

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
# As they are known before the tests put a stand-in in their place.
IS_INSTALLED = find_spec("mlflow") is not None


def judgement(verdict: str = "failed") -> Judgement:
    policy = {"id": "pol_1", "name": "release", "version": 2, "digest": "sha256:00"}
    return Judgement.model_validate(
        {"audit": "aud_1", "verdict": verdict, "headline": "Said.", "rules": [], "policy": policy}
    )


def check(**estimates: tuple[float | None, float | None, float | None]) -> dict[str, Any]:
    results = {
        name: {"value": value, "low": low, "high": high, "n": 100, "method": "gaffke"}
        for name, (value, low, high) in estimates.items()
    }
    return {
        "id": "chk_1",
        "kind": "uncertainty_span",
        "params": {"kind": "uncertainty_span", "epsilon": 0.1, "attacks": ["ace"], "outliers": None, "norm": "l2"},
        "state": "succeeded",
        "progress": {"stage": None, "done": 1, "total": 1, "remaining_s": 0},
        "stages": [],
        "result": {"estimates": results, "counts": {"n": 100}},
    }


def audit(*checks: dict[str, Any], id: str = "aud_1", verdict: str | None = "failed") -> AuditRead:
    told = {"model": "mdl_1", "dataset": "dat_1", "seed": 7, "samples": 100, "kinds": ["uncertainty_span"]}
    return AuditRead.model_validate(
        {
            **told,
            "id": id,
            "state": "succeeded",
            "created_at": AT,
            "finished_at": AT,
            "checks": checks or [check(mus=(0.4, 0.3, 0.5))],
            "judgement": judgement(verdict) if verdict is not None else None,
            "spec": {"policy": None if verdict is None else {"name": "release"}},
            "spec_digest": "sha256:11",
        }
    )


class Service:
    """Answers as a client does that knows one audit."""

    def __init__(self, known: AuditRead) -> None:
        self.known = known

    def audit(self, audit_id: str) -> AuditRead:
        assert audit_id == self.known.id
        # Not judged yet.
        return self.known.model_copy(update={"judgement": None})

    def wait(self, audit_id: str, *, until_judged: bool) -> AuditRead:
        # An audit without a policy is never judged, and one with a policy always.
        assert until_judged is (self.known.judgement is not None)
        return self.known

    def report(self, audit_id: str, format: str) -> bytes:
        assert format != "junit" or self.known.judgement is not None
        return f"{format} of {audit_id}".encode()


def logged(known: AuditRead, run: Any = "run1") -> AuditRead:
    return hook.log_audit(Service(known), known.id, run)  # type: ignore[arg-type]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "store.json"))
    monkeypatch.setitem(sys.modules, "mlflow", fake)


@pytest.mark.usefixtures("store")
def test_numbers_are_logged_with_the_ends_of_their_intervals() -> None:
    logged(audit(check(**{"mus": (0.4, 0.3, 0.5), "s_ece[arm=over]": (0.1, -0.1, None), "mce[arm=over]": (None,) * 3})))
    assert fake.read()["metrics"] == {
        "uncertainty_span/mus": 0.4,
        "uncertainty_span/mus.low": 0.3,
        "uncertainty_span/mus.high": 0.5,
        "uncertainty_span/s_ece.arm-over": 0.1,
        "uncertainty_span/s_ece.arm-over.low": -0.1,
    }


@pytest.mark.usefixtures("store")
def test_two_checks_of_one_family_do_not_overwrite_each_other() -> None:
    logged(audit(check(mus=(0.4, 0.3, 0.5)), check(mus=(0.8, 0.7, 0.9))))
    held = fake.read()
    assert held["metrics"]["uncertainty_span/mus"] == 0.4
    assert held["metrics"]["uncertainty_span-2/mus"] == 0.8
    assert held["params"]["uncertainty_span-2/epsilon"] == "0.1"


@pytest.mark.usefixtures("store")
def test_parameters_say_what_was_asked() -> None:
    logged(audit())
    assert fake.read()["params"] == {
        "seatrial/audit": "aud_1",
        "seatrial/model": "mdl_1",
        "seatrial/dataset": "dat_1",
        "seatrial/seed": "7",
        "seatrial/samples": "100",
        "seatrial/spec_digest": "sha256:11",
        "uncertainty_span/epsilon": "0.1",
        "uncertainty_span/attacks": '["ace"]',
        "uncertainty_span/norm": "l2",
    }


@pytest.mark.usefixtures("store")
def test_reports_are_artifacts_and_the_verdict_is_a_tag() -> None:
    assert logged(audit()).judgement == judgement()
    held = fake.read()
    assert held["files"] == {
        "seatrial/report.html": "html of aud_1",
        "seatrial/report.json": "json of aud_1",
        "seatrial/junit.xml": "junit of aud_1",
    }
    assert held["tags"] == {
        "seatrial.verdict": "failed",
        "seatrial.headline": "Said.",
        "seatrial.policy": "release@2",
        "seatrial.audit": "aud_1",
    }


@pytest.mark.usefixtures("store")
def test_an_audit_without_a_policy_has_no_verdict_to_log() -> None:
    logged(audit(verdict=None))
    held = fake.read()
    assert set(held["files"]) == {"seatrial/report.html", "seatrial/report.json"}
    assert held["tags"] == {}
    assert "uncertainty_span/mus" in held["metrics"]


@pytest.mark.usefixtures("store")
def test_what_a_failed_check_did_not_measure_is_not_made_up() -> None:
    logged(audit({**check(), "state": "failed", "result": None}))
    held = fake.read()
    assert held["metrics"] == {}
    assert held["params"]["uncertainty_span/epsilon"] == "0.1"


@pytest.mark.usefixtures("store")
def test_the_same_again_leaves_what_is_there() -> None:
    logged(audit())
    before = fake.read()
    logged(audit())
    assert fake.read() == before


@pytest.mark.usefixtures("store")
def test_another_audit_is_refused_before_anything_of_it_is_written() -> None:
    logged(audit())
    before = fake.read()
    with pytest.raises(fake.MlflowException, match="seatrial/audit"):
        logged(audit(check(mus=(0.9, 0.9, 0.9)), id="aud_2"))
    assert fake.read() == before


@pytest.mark.usefixtures("store")
def test_a_run_is_given_by_its_id_or_itself_or_is_the_active_one(monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(info=SimpleNamespace(run_id="itself"))
    logged(audit(), run)
    with pytest.raises(ValueError, match="no active run"):
        logged(audit(), None)
    monkeypatch.setattr(fake, "_active", [SimpleNamespace(info=SimpleNamespace(run_id="active"))])
    logged(audit(), None)
    assert fake.read()["runs"] == ["active", "itself"]


@pytest.mark.usefixtures("store")
def test_a_later_verdict_takes_the_place_of_an_earlier_one() -> None:
    hook.tag_by_verdict("digits", 3, judgement("inconclusive"))
    hook.tag_by_verdict("digits", "3", judgement("passed"))
    assert fake.read()["versions"]["digits 3"]["seatrial.verdict"] == "passed"


def test_without_mlflow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ModuleNotFoundError, match="pip install mlflow-skinny"):
        hook.tag_by_verdict("digits", "3", judgement())


def published() -> Iterator[tuple[str, str, list[str]]]:
    for family, spec in families().items():
        for metric in spec.metrics:
            yield family, metric.name, metric.qualifiers


VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(),
    st.from_regex(r"[a-z]+( \(variant: [a-z=., -]+\))?", fullmatch=True),
    st.text(st.characters(blacklist_characters="[],=\n", blacklist_categories=["Cs"]), min_size=1).filter(
        lambda text: text.strip() == text
    ),
)
NAMES = st.sampled_from(sorted(published())).flatmap(
    lambda one: st.fixed_dictionaries(dict.fromkeys(one[2], VALUES)).map(
        lambda told: f"{one[0]}.{metric_name(one[1], **told)}"
    )
)


@given(NAMES)
@example("uncertainty_span.accuracy[attack=a/b]")
@example(f"uncertainty_span.accuracy[attack={'a' * 300}]")
def test_every_name_is_one_mlflow_takes_with_room_for_its_ends(name: str) -> None:
    key = f"{hook.metric_key(name)}.high"
    assert re.fullmatch(r"[A-Za-z0-9_./-]{1,250}", key)
    assert posixpath.normpath(key) == key
    # The file store keeps it as a file: none may lie inside another.
    assert key.count("/") == 1


@given(st.lists(NAMES, unique=True, min_size=2, max_size=20))
def test_no_two_numbers_have_one_name(names: list[str]) -> None:
    keys = [f"{hook.metric_key(name)}{end}" for name in names for end in ("", ".low", ".high")]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ([], 2, "nothing to do"),
        (["--model", "digits"], 2, "go together"),
        (["--run-id", "run1", "--version", "3"], 2, "go together"),
        (["--model", "digits", "--version", "4"], 4, "not found"),
        (["--model", "digits", "--version", "3"], 0, "digits 3 is tagged: seatrial.verdict = failed"),
        (["--run-id", "run1"], 0, "aud_1 is logged to run run1."),
    ],
    ids=["nothing", "no version", "no model", "unknown version", "tag only", "log only"],
)
@pytest.mark.usefixtures("store")
def test_the_command_ends_as_it_should(
    options: list[str], status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Service(audit())
    for name in ("audit", "wait", "report"):
        monkeypatch.setattr(f"seatrial.client.Client.{name}", staticmethod(getattr(known, name)))
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    done = CliRunner().invoke(hook.main, ["aud_1", *options])
    assert (done.exit_code, said in done.output) == (status, True), done.output


@pytest.mark.usefixtures("store")
def test_a_file_that_is_no_report_is_a_bad_request(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    done = CliRunner().invoke(hook.main, [str(tmp_path / "other.json"), "--run-id", "run1"])
    assert done.exit_code == 2
    assert "is not the JSON report of an audit" in done.output


@pytest.mark.slow
@pytest.mark.skipif(
    not IS_INSTALLED, reason="mlflow is not installed (pip install mlflow-skinny); the stand-in was used"
)
def test_mlflow_itself_takes_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # The store that needs no server; MLflow would rather have a database.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    name = "s_ece[arm=textfooler (variant: a, b)]"
    known = audit(check(**{"mus": (0.4, 0.3, 0.5), "mus[attack=transfer]": (0.5, 0.4, 0.6), name: (0.1, 0.0, 0.2)}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow  # type: ignore[import-not-found]

        mlflow.set_tracking_uri((tmp_path / "store").as_uri())
        mlflow.set_registry_uri((tmp_path / "store").as_uri())
        with mlflow.start_run() as run:
            logged(known, None)
            logged(known, run)
        with pytest.raises(mlflow.MlflowException, match="seatrial/audit"):
            logged(audit(id="aud_2"), run)
        client = mlflow.MlflowClient()
        data = client.get_run(run.info.run_id).data
        client.create_registered_model("digits")
        version = client.create_model_version("digits", str(tmp_path), run.info.run_id)
        hook.tag_by_verdict("digits", version.version, judgement("passed"))
        tagged = client.get_model_version("digits", version.version).tags
        files = {file.path for file in client.list_artifacts(run.info.run_id, hook.FOLDER)}
    assert data.metrics == hook.metrics_of(known)
    assert data.params == hook.params_of(known)
    assert data.tags.items() >= hook.tags_of(judgement()).items()
    assert files == {f"{hook.FOLDER}/{file}" for file in hook.FILES}
    assert tagged["seatrial.verdict"] == "passed"


@pytest.mark.drill
@pytest.mark.slow
def test_mlflow_is_not_imported_before_it_is_used() -> None:
    program = "import sys, app.integrations.mlflow; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0
