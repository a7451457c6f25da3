"""Attestations made by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from seatrial.attestation.dsse import sign
from seatrial.attestation.keys import SigningKey, generate_key
from seatrial.attestation.statements import (
    AuditPredicate,
    MeasuredCheck,
    Named,
    PreregistrationPredicate,
    ReproductionPredicate,
    Statement,
    describe_measurement,
    document_digest,
    state_audit,
    state_preregistration,
    state_reproduction,
)
from seatrial.attestation.verifying import Verified, verify_attestation
from seatrial.contracts.estimates import Estimate, Result
from seatrial.contracts.policies import Judgement
from seatrial.contracts.states import RunState
from tests.reports.fabricated_judgements import CASES

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
FILES = {"model.safetensors": "ab" * 32}
DIGEST = "sha256:" + "cd" * 32
KEY = generate_key("ed25519")
POLICY = {"name": "release", "rules": [{"metric": "uncertainty_span.mus", "max": 0.5}]}


def judgement(case: str) -> Judgement:
    """Return a judgement by ``POLICY``."""
    found = CASES[case].judgement
    return found.model_copy(update={"policy": found.policy.model_copy(update={"digest": document_digest(POLICY)})})


def predicate(case: str = "passed", **changes: Any) -> AuditPredicate:
    """Return what an audit measured."""
    estimate = Estimate(value=0.41, low=0.38, high=0.44, n=400, method="gaffke")
    check = MeasuredCheck(
        position=0,
        kind="uncertainty_span",
        state=RunState.SUCCEEDED,
        params={"epsilon": 0.1},
        result=Result(estimates={"mus": estimate}, counts={"n": 400}),
        error=None,
    )
    named = Named(name="digits", version="1", digest=DIGEST, task="image-classification", manifest={})
    values: dict[str, Any] = {
        "audit": "aud_it",
        "spec_digest": DIGEST,
        "policy_digest": document_digest(POLICY),
        "seed": 0,
        "samples": 400,
        "created_at": NOW,
        "finished_at": NOW,
        "signed_at": NOW,
        "model": named,
        "dataset": named,
        "policy": POLICY,
        "judgement": judgement(case),
        "checks": [check],
        "other_seeds": 0,
        "preregistered_at": None,
        "versions": {"seatrial": "0.1.0"},
        "evidence": DIGEST,
    }
    return AuditPredicate(**{**values, **changes})


@dataclass
class Made:
    """An attestation, a line a statement, and who signs which."""

    predicate: AuditPredicate = field(default_factory=predicate)
    key: SigningKey = KEY
    files: dict[str, str] = field(default_factory=lambda: dict(FILES))

    @property
    def statements(self) -> list[Statement]:
        """The test result and the audit's own."""
        return list(state_audit(self.files, self.predicate))

    @property
    def lines(self) -> list[bytes]:
        """Both, signed."""
        return [signed(one, self.key) for one in self.statements]

    def reproduction(self, key: SigningKey, **changes: Any) -> bytes:
        """A third line: somebody ran it again."""
        measured = self.statements[1]
        values: dict[str, Any] = {
            "measurement": describe_measurement(measured),
            "evidence": self.predicate.evidence,
            "tolerance": 0.0,
            "numbers": 10,
            "records": 400,
            "versions": {},
            "signed_at": NOW,
        }
        return signed(state_reproduction(measured, ReproductionPredicate(**{**values, **changes})), key)

    def preregistration(self, **changes: Any) -> bytes:
        """A further line: what was signed at submission."""
        one = self.predicate
        values: dict[str, Any] = {
            "audit": one.audit,
            "spec_digest": one.spec_digest,
            "policy_digest": one.policy_digest,
            "seed": one.seed,
            "signed_at": one.created_at,
        }
        registered = PreregistrationPredicate(**{**values, **changes})
        return signed(state_preregistration(registered, model=DIGEST, dataset=DIGEST), self.key)


def signed(statement: Statement, key: SigningKey = KEY) -> bytes:
    """Return a statement as a line of a bundle."""
    return sign(statement.payload(), key).line()


def verified(lines: Sequence[bytes], *keys: SigningKey, now: datetime = NOW, **more: Any) -> Verified:
    """Return what the lines show about ``FILES`` to somebody who trusts the keys."""
    files = more.pop("files", FILES)
    trusted = [one.public for one in keys or (KEY,)]
    return verify_attestation(b"\n".join(lines) + b"\n", more.pop("trusted", trusted), files, now=now)
