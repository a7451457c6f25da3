"""A family of another distribution: audited, judged, reported, estimated and shown, without a file of ours changed."""

import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import pytest

from tests import assets
from tests.client.test_serve import Serving
from tests.servers import eventually

pytestmark = pytest.mark.slow

SPEC = '''
from typing import Literal

from pydantic import Field

from seatrial.contracts.costs import Passes
from seatrial.contracts.family import (
    SIGNED_SHARE, FamilyParams, FamilySpec, FlagSpec, Metric, Misfit, Needs, equals, only, value,
)


class Params(FamilyParams):
    """Look at how far probabilities lean from a half."""

    kind: Literal["toy_lean"] = Field(description="This family.")
    centre: float = Field(default=0.5, description="What probabilities are held against.")
    quiet: bool = Field(default=False, description="Whether nothing is doubted.")

    def passes(self, samples, sizes, *, mean_words=None):
        return Passes(forward=7 * samples, backward=0)


def misfits(params, situation):
    if situation.samples > 250:
        yield Misfit(f"A toy looks at 250 examples at most, not {situation.samples}.", "centre")


SPEC = FamilySpec(
    kind="toy_lean",
    params=Params,
    tasks=("image-classification",),
    metrics=(
        Metric(
            name="lean",
            unit="1",
            better="higher",
            description="Mean of the centre less the probability of the label.",
            range=SIGNED_SHARE,
            per_example=value("look", "lean"),
        ),
        Metric(
            name="accuracy",
            unit="1",
            better="higher",
            description="Accuracy without an attack.",
            per_example=equals("look", "prediction"),
            depends_on=only(),
        ),
    ),
    flags=(
        FlagSpec(
            code="toy_doubt",
            severities=("info",),
            speaks_of=("lean",),
            meaning="A toy always doubts.",
            remedy="Ask it to be quiet.",
        ),
    ),
    worker="toy_measures:FAMILY",
    narrative="toy_narrative",
    needs=Needs(gradients=True),
    misfits=misfits,
    glossary={"leaning": "Standing apart from the centre."},
    audit_examples={"Does it lean?": {"checks": [{"kind": "toy_lean"}]}},
)
'''

NARRATIVE = """
from seatrial.reporting.schemas import Answer


def title(kind):
    return "A toy that leans"


def subject():
    return "balance"


def question(params):
    return f"How far do probabilities lean from {params['centre']}?"


def answer(result, params, classes):
    return Answer(standing="partly", headline=f"It leans by {result.estimates['lean'].value:.2f}.", findings=[])


def scale(result, classes):
    return None


def describe_figure(name):
    return "A line that leans."


def terms(params):
    return ["leaning", "a term nobody explains"]
"""

MEASURES = """
import pyarrow as pa

from seatrial.contracts.estimates import Flag, Result
from seatrial.statistics.estimating import mean
from seatrial.statistics.samples import Sample
from toy_spec import SPEC
from workers.families.stages import Stage


class Toy:
    def preflight(self, target, data, params):
        pass

    def next_stage(self, params, done):
        return None if "look" in done else Stage("look")

    def run(self, params, shard, context):
        rows = {"example_id": [], "label": [], "errored": [], "prediction": [], "lean": []}
        for batch in context.batches():
            chances = context.classifier.logits(batch.images).softmax(1)
            rows["example_id"] += batch.example_ids
            rows["label"] += batch.labels.tolist()
            rows["errored"] += [False] * len(batch.example_ids)
            rows["prediction"] += chances.argmax(1).tolist()
            rows["lean"] += (params.centre - chances.gather(1, batch.labels[:, None])[:, 0].double()).tolist()
        return pa.table(rows)

    def reduce(self, params, done, seed, *, check_cancelled=lambda: None):
        sample = Sample(done["look"])
        formulas = {metric.name: metric.per_example for metric in SPEC.metrics}
        doubt = Flag(code="toy_doubt", severity="info", message="It may lean the other way.")
        return Result(
            estimates={
                # The accuracy is declared: workers publish it.
                "lean": mean(formulas["lean"].on(sample), (-1.0, 1.0)),
            },
            flags=[] if params.quiet else [doubt],
            counts={"n": sample.size, "errored": sample.size - sample.valid},
        )

    def figures(self, params, result):
        return {"line": '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0L1 1"/></svg>'}


FAMILY = Toy()
"""


def install(folder: Path, name: str, points: str, **modules: str) -> None:
    """Lay a distribution down as an installer does: modules, and a folder that says what it offers."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[seatrial.families]\n{points}\n")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(dedent(text).lstrip())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, Serving]]:
    """A service with the toy beside it, and a second family that cannot be loaded."""
    folder = tmp_path_factory.mktemp("site-packages")
    install(folder, "toy", "toy_lean = toy_spec:SPEC", toy_spec=SPEC, toy_narrative=NARRATIVE, toy_measures=MEASURES)
    install(folder, "torn", "torn = torn_spec:SPEC", torn_spec="raise OSError('torn in two')")
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    running = Serving(tmp_path_factory.mktemp("home"), PYTHONPATH=path)
    try:
        eventually(running.is_ready, what="the service", timeout_s=90)
        with httpx.Client(base_url=running.url, timeout=60, headers={"Origin": running.url}) as client:
            yield client, running
    finally:
        running.close()


@pytest.fixture(scope="module")
def client(service: tuple[httpx.Client, Serving]) -> httpx.Client:
    return service[0]


@pytest.fixture(scope="module")
def uploaded(client: httpx.Client) -> dict[str, str]:
    waiting = {"Prefer": "wait=60"}
    model = client.post(
        "/v1/models", **assets.multipart(assets.model_manifest(), "m.safetensors", assets.weights()), headers=waiting
    )
    data = client.post("/v1/datasets", **assets.multipart(assets.dataset_manifest(), "d.npz", assets.npz()))
    return {"model": model.json()["id"], "dataset": data.json()["id"]}


POLICY: dict[str, Any] = {
    "name": "toys",
    "rules": [
        {"metric": "toy_lean.lean", "max": -0.2},
        {"metric": "toy_lean.lean", "min": -0.95},
        {"metric": "toy_lean.accuracy", "min": 0.5},
    ],
}


@pytest.fixture(scope="module")
def audit(client: httpx.Client, uploaded: dict[str, str]) -> dict[str, Any]:
    """An audit by the toy that has ended and was judged."""
    return audited(client, uploaded, {"kind": "toy_lean"})


def audited(client: httpx.Client, uploaded: dict[str, str], *checks: dict[str, Any]) -> dict[str, Any]:
    body = {**uploaded, "samples": 120, "checks": list(checks), "policy": POLICY}
    submitted = client.post("/v1/audits", json=body)
    assert submitted.status_code == 202, submitted.text
    address = submitted.headers["location"]

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(address).json()
        return found if found["state"] in ("succeeded", "failed") and found["verdict"] else None

    found = eventually(ended, timeout_s=120, every_s=0.2, what="the audit's end")
    assert isinstance(found, dict)
    return found


def test_it_is_audited_and_its_records_are_kept(client: httpx.Client, audit: dict[str, Any]) -> None:
    assert audit["state"] == "succeeded", audit
    (check,) = audit["checks"]
    assert (check["kind"], check["figures"]) == ("toy_lean", ["line"])
    assert check["result"]["counts"] == {"n": 120, "errored": 0}
    accuracy = check["result"]["estimates"]["accuracy"]
    assert (accuracy["n"], accuracy["method"]) == (120, "clopper-pearson")
    rows = client.get(f"/v1/audits/{audit['id']}/records/toy_lean", params={"format": "jsonl"}).text.splitlines()
    assert len(rows) == 120


def test_a_signed_metric_is_judged_below_zero(audit: dict[str, Any]) -> None:
    assert audit["verdict"] == "passed", audit["judgement"]
    outcome, _, _ = audit["judgement"]["rules"]
    stored = audit["checks"][0]["result"]["estimates"]["lean"]
    assert stored["high"] < -0.2
    assert outcome["judged"]["value"] == stored["value"]
    # Judged by what is shown, which leaves room for examples not seen, within -1 and 1: not cut off at 0.
    assert (outcome["judged"]["low"], outcome["judged"]["high"]) == (stored["low"], stored["high"])
    assert stored["method"] == "gaffke"
    assert -1 <= stored["low"] < stored["value"]


def test_two_audits_are_compared_example_by_example_where_they_mean_the_same(
    client: httpx.Client, uploaded: dict[str, str], audit: dict[str, Any]
) -> None:
    other = audited(client, uploaded, {"kind": "toy_lean", "centre": 0.4, "quiet": True})
    assert client.post("/v1/baselines", json={"audit": audit["id"]}).status_code == 201
    rules = [{"metric": f"toy_lean.{name}", "max_regression": 0.2} for name in ("accuracy", "lean")]
    judged = client.post(f"/v1/audits/{other['id']}/judge", json={"policy": {"name": "apart", "rules": rules}})
    accuracy, lean = judged.json()["rules"]
    assert (accuracy["outcome"], accuracy["judged"]["value"]) == ("passed", 0)
    assert "compared example by example on the 120 " in accuracy["reason"]
    # Of accuracy the centre is no part; of the lean it is.
    assert lean["outcome"] == "errored"
    assert "centre is 0.4 here and 0.5 in the baseline" in lean["reason"]


def test_it_is_reported_in_every_form(client: httpx.Client, audit: dict[str, Any]) -> None:
    address = f"/v1/audits/{audit['id']}/report"
    found = client.get(address, params={"format": "json"}).json()
    (check,) = found["checks"]
    assert (check["title"], check["question"]) == ("A toy that leans", "How far do probabilities lean from 0.5?")
    assert found["question"].startswith("Is the balance of ")
    (lean,) = [one for one in check["estimates"] if one["name"] == "toy_lean.lean"]
    assert lean["description"] == "Mean of the centre less the probability of the label."
    terms = {entry["term"]: entry["meaning"] for entry in found["glossary"]}
    assert terms["toy_doubt"] == "A toy always doubts. What to do: Ask it to be quiet."
    assert terms["leaning"] == "Standing apart from the centre."
    assert "a term nobody explains" not in terms
    page = client.get(address, params={"format": "html"})
    for told in ("A toy that leans", "It leans by -0.", "toy_doubt", "A line that leans."):
        assert told in page.text
    assert "| `toy_lean.lean` | -0." in client.get(address, params={"format": "markdown"}).text


def test_its_cost_is_estimated_and_what_does_not_fit_is_refused(client: httpx.Client, uploaded: dict[str, str]) -> None:
    body = {**uploaded, "samples": 100, "checks": [{"kind": "toy_lean"}]}
    found = client.post("/v1/audits/estimate", json=body)
    assert (found.status_code, found.json()["forward_passes"]) == (200, 700)
    refused = client.post("/v1/audits/estimate", json={**body, "samples": 300}).json()
    assert [(one["pointer"], one["detail"]) for one in refused["errors"]] == [
        ("/checks/0/centre", "A toy looks at 250 examples at most, not 300.")
    ]
    wrong = client.post("/v1/audits/estimate", json={**body, "checks": [{"kind": "toy_lean", "centr": 1}]}).json()
    assert [one["pointer"] for one in wrong["errors"]] == ["/checks/0/centr"]


def test_the_console_has_a_form_for_it_and_shows_what_it_found(
    client: httpx.Client, uploaded: dict[str, str], audit: dict[str, Any]
) -> None:
    form = client.get("/submit", params=uploaded)
    assert form.status_code == 200
    for told in ("A toy that leans", "How far do probabilities lean from 0.5?", "params-toy_lean", "held against"):
        assert told in form.text
    fields = {**uploaded, "samples": "50", "checks": "toy_lean", "params-toy_lean": '{"centre": 0.25}'}
    cost = client.post("/submit", data=fields, headers={"sec-fetch-site": "same-origin"})
    assert "350" in cost.text
    page = client.get(f"/audits/{audit['id']}")
    assert "toy_lean" in page.text
    assert client.get(f"/audits/{audit['id']}/report").status_code == 200


def test_the_documentation_of_the_wire_has_its_parameters(client: httpx.Client) -> None:
    found = client.get("/openapi.json").json()
    assert "Params" in found["components"]["schemas"]
    examples = found["paths"]["/v1/audits"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    assert "Does it lean?" in [one["summary"] for one in examples.values()]


def test_a_family_that_cannot_be_loaded_is_told_by_name_and_harms_nobody(
    service: tuple[httpx.Client, Serving], uploaded: dict[str, str]
) -> None:
    client, running = service
    assert "the family torn of another distribution is left out" in running.errors()
    assert "torn in two" in running.errors()
    refused = client.post("/v1/audits", json={**uploaded, "checks": [{"kind": "torn"}]})
    assert refused.status_code == 422
