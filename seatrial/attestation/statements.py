"""What is signed: in-toto statements about the files of a model.

An attestation of an audit is two statements about the same files. One is in-toto's `test-result`, which deployment
systems know; its configuration names the other by digest, so that neither can be swapped. The other, of a type of our
own, holds every number. A third may follow: that another installation ran the audit again and got the same numbers.

Sources: in-toto Attestation Framework 1.0 (statement.md, resource_descriptor.md), test-result predicate v0.1.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, ConfigDict, Field

from seatrial.contracts.audits import Reused
from seatrial.contracts.base import Read
from seatrial.contracts.estimates import Result
from seatrial.contracts.policies import Judgement
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
AUDIT = "urn:seatrial:attestation:audit:v1"
REPRODUCTION = "urn:seatrial:attestation:reproduction:v1"
PREREGISTRATION = "urn:seatrial:attestation:preregistration:v1"

ON_MEASUREMENT = "seatrial-audit-statement"
"""Name of the descriptor by which a test result and a reproduction name the audit's own statement."""

TestResult = Literal["PASSED", "WARNED", "FAILED"]
PredicateT = TypeVar("PredicateT", bound=Read)


class _Written(Read):
    """Read strictly: what a later version adds is not something this one has checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Descriptor(_Written):
    """A resource by name and digest (in-toto ResourceDescriptor)."""

    name: str = Field(description="What it is called.")
    digest: dict[str, str] = Field(description="By algorithm, hexadecimal.")


class Statement(_Written):
    """An in-toto statement."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    type: Literal["https://in-toto.io/Statement/v1"] = Field(
        default="https://in-toto.io/Statement/v1", alias="_type", description="Which version of statements it is."
    )
    subject: Annotated[list[Descriptor], Field(min_length=1, max_length=100_000)] = Field(
        description="Every file of the model, by its path; or the table of predictions."
    )
    predicate_type: str = Field(alias="predicateType", description="What is said of them.")
    predicate: dict[str, Any] = Field(description="The rest.")

    def payload(self) -> bytes:
        """Return the bytes that are signed."""
        return canonical(self.model_dump(by_alias=True))


class Unsigned(_Written):
    """The statements of an attestation that nobody has signed."""

    test_result: Statement = Field(description="in-toto's test result.")
    measured: Statement = Field(description="Everything it rests on.")


class TestResultPredicate(_Written):
    """in-toto's test result, v0.1.

    Attributes:
        result: ``PASSED``; ``WARNED``: passed, and a rule that only warns does not hold; ``FAILED``: anything else, an
            audit that is inconclusive or could not run too.
        configuration: The policy, the specification and the audit's own statement.
        passedTests: Rules that hold.
        warnedTests: Rules that only warn, and do not hold.
        failedTests: Blocking rules that do not hold, or that nobody knows about.
    """

    # Not a test of pytest's.
    __test__ = False

    result: TestResult
    configuration: list[Descriptor]
    passedTests: list[str] = Field(default_factory=list)
    warnedTests: list[str] = Field(default_factory=list)
    failedTests: list[str] = Field(default_factory=list)


class Named(_Written):
    """A model or a dataset.

    Attributes:
        name: Name.
        version: Version.
        digest: Of the upload, as ``GET /v1/models/{id}`` tells it.
        task: What it is for.
        manifest: What was said about it.
    """

    name: str
    version: str
    digest: str
    task: str
    manifest: dict[str, Any]


class MeasuredCheck(_Written):
    """One check: what was run and every number it gave.

    Attributes:
        reused: The earlier check whose records the numbers are of; absent where this audit measured them.
    """

    position: int
    kind: str
    state: RunState
    params: dict[str, Any]
    result: Result | None
    error: StoredProblem | None
    # Left out of what measured: statements of before, and versions that read them, know none.
    reused: Reused | None = Field(default=None, exclude_if=lambda reused: reused is None)


class AuditPredicate(_Written):
    """Everything an audit measured, and what it was judged by.

    Attributes:
        audit: Id of the audit where it was run.
        spec_digest: Of the request and of the bytes behind every id it names.
        policy_digest: Of the policy's document.
        seed: Seed.
        samples: Examples asked for.
        created_at: When it was submitted.
        finished_at: When it ended.
        signed_at: When this was signed, by the signer's clock.
        model: The model.
        dataset: The examples.
        policy: Its document.
        judgement: The verdict, rule by rule.
        checks: The numbers.
        other_seeds: How many audits of the same project asked the same of the same model and data with another seed,
            before this one was judged: who shops for a seed leaves that number.
        preregistered_at: When specification, policy and seed were signed, at submission; null: they were not.
        versions: Packages it was measured with.
        evidence: Digest of the records and results in the replay bundle.
        assurance: ``measured``; a further statement makes it ``reproduced``.
    """

    audit: str
    spec_digest: str
    policy_digest: str
    seed: int
    samples: int
    created_at: AwareDatetime
    finished_at: AwareDatetime | None
    signed_at: AwareDatetime
    model: Named
    dataset: Named
    policy: dict[str, Any]
    judgement: Judgement
    checks: list[MeasuredCheck]
    other_seeds: int
    preregistered_at: AwareDatetime | None
    versions: dict[str, str]
    evidence: str
    assurance: Literal["measured"] = "measured"


class ReproductionPredicate(_Written):
    """That another installation ran an audit again and compared every number and record.

    Attributes:
        measurement: The audit's own statement.
        evidence: Digest of the records and results that were compared with.
        tolerance: Largest difference that counted as the same.
        numbers: Numbers compared.
        records: Records compared.
        versions: Packages of the installation that ran it again.
        signed_at: When, by the signer's clock.
        assurance: ``reproduced``.
    """

    measurement: Descriptor
    evidence: str
    tolerance: float
    numbers: int
    records: int
    versions: dict[str, str]
    signed_at: AwareDatetime
    assurance: Literal["reproduced"] = "reproduced"


class PreregistrationPredicate(_Written):
    """What an audit was going to ask, signed when it was submitted.

    Attributes:
        audit: Id of the audit.
        spec_digest: Of the request and of the bytes behind every id it names.
        policy_digest: Of the policy's document; null: none was named.
        seed: Seed.
        signed_at: When it was submitted.
    """

    audit: str
    spec_digest: str
    policy_digest: str | None
    seed: int
    signed_at: AwareDatetime


def canonical(value: Any) -> bytes:
    """Return JSON in one spelling: keys in order, no white space, finite numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def document_digest(document: Mapping[str, Any]) -> str:
    """Return the digest of a policy's document, as ``PolicySource.digest`` has it."""
    return "sha256:" + hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_of(payload: bytes) -> dict[str, str]:
    """Return the digest of some bytes as a descriptor has it."""
    return {"sha256": hashlib.sha256(payload).hexdigest()}


def state_audit(files: Mapping[str, str], predicate: AuditPredicate) -> tuple[Statement, Statement]:
    """Return the two statements of an audit: the test result, and all it rests on.

    Args:
        files: SHA-256 (hexadecimal) of every file of the model, by path.
        predicate: What was measured.
    """
    document = predicate.model_dump(mode="json")
    measured = Statement(subject=subjects(files), predicate_type=AUDIT, predicate=document)
    return state_result(measured, predicate), measured


def state_result(measured: Statement, predicate: AuditPredicate) -> Statement:
    """Return the test result that follows from an audit's own statement."""
    result = result_of(predicate.judgement, _configuration(predicate, measured))
    return Statement(subject=measured.subject, predicate_type=TEST_RESULT, predicate=result.model_dump(mode="json"))


def state_reproduction(measured: Statement, predicate: ReproductionPredicate) -> Statement:
    """Return the statement that an audit was run again with the same outcome."""
    return Statement(subject=measured.subject, predicate_type=REPRODUCTION, predicate=predicate.model_dump(mode="json"))


def state_preregistration(predicate: PreregistrationPredicate, *, model: str, dataset: str) -> Statement:
    """Return the statement of what an audit was going to ask of the uploads with these digests (``sha256:<hex>``)."""
    named = {"model": model.removeprefix("sha256:"), "dataset": dataset.removeprefix("sha256:")}
    return Statement(
        subject=subjects(named), predicate_type=PREREGISTRATION, predicate=predicate.model_dump(mode="json")
    )


def subjects(files: Mapping[str, str]) -> list[Descriptor]:
    """Return files as the subject of a statement, in the order of their names."""
    return [Descriptor(name=name, digest={"sha256": digest}) for name, digest in sorted(files.items())]


def describe_measurement(measured: Statement) -> Descriptor:
    """Return how another statement names the audit's own."""
    return Descriptor(name=ON_MEASUREMENT, digest=digest_of(measured.payload()))


def result_of(judgement: Judgement, configuration: Sequence[Descriptor]) -> TestResultPredicate:
    """Return a verdict as in-toto's test result.

    Fail closed: only the verdict ``passed`` passes. A blocking rule about which nobody knows, because it is
    inconclusive or errored, is a failed test whose name says so.
    """
    passed, warned, failed = [], [], []
    for rule in judgement.rules:
        name = f"{rule.metric} {rule.requirement}"
        if rule.looks is not None:
            name += f", after {rule.looks.examples} of {rule.looks.sizes[-1]} examples"
        if rule.counts_as == "passed":
            passed.append(name)
        elif rule.counts_as == "skipped":
            # One that may be skipped and was: no test. One that must not be counts as errored.
            continue
        elif rule.severity == "warn":
            warned.append(f"{name}: {rule.counts_as}")
        else:
            failed.append(f"{name}: {rule.counts_as}")
    result: TestResult = "FAILED"
    if judgement.verdict == "passed" and not failed:
        result = "WARNED" if warned else "PASSED"
    return TestResultPredicate(
        result=result,
        configuration=list(configuration),
        passedTests=passed,
        warnedTests=warned,
        failedTests=failed,
    )


def _configuration(predicate: AuditPredicate, measured: Statement) -> list[Descriptor]:
    return [
        Descriptor(name="policy", digest={"sha256": predicate.policy_digest.removeprefix("sha256:")}),
        Descriptor(name="specification", digest={"sha256": predicate.spec_digest.removeprefix("sha256:")}),
        describe_measurement(measured),
    ]
