"""The block beside what a family asks: with uncertainty_span, with certificates, and its flags on static models."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seatrial.contracts.registry import metrics_of
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from tests.defences import builders
from tests.families.certified_calibration import audits as certificates
from tests.families.in_memory import Context, run_check
from tests.families.uncertainty_span import audits as spans
from workers.attacks.autoattack.ensemble import AutoAttack
from workers.families import robust_accuracy
from workers.families.protocol import Shard
from workers.families.transductive_attack import static as transductive_static
from workers.families.transductive_attack.autoattack_flags import autoattack_doubted
from workers.families.transductive_attack.family import FAMILY as DEFENCES
from workers.families.uncertainty_span.family import FAMILY as SPAN

BLOCK = {"epsilon": 0.05, "steps": 6, "queries": 30}


def span_check(**more: Any) -> Any:
    return spans.audit(spans.parameters(steps=2, robust_accuracy=BLOCK), spans.NETWORK, spans.DATA, **more)


def certified_check(**more: Any) -> Any:
    params = certificates.parameters(n=200, n0=20, radii=[0.0, 0.25], robust_accuracy={"steps": 6, "queries": 30})
    return certificates.audit(params, certificates.NETWORK, certificates.DATA, **more)


@pytest.mark.parametrize(
    ("kind", "check"), [("uncertainty_span", span_check), ("certified_calibration", certified_check)]
)
def test_a_check_has_the_block_s_numbers_beside_its_own(kind: str, check: Any) -> None:
    result, done = check()
    assert [stage for stage in done if stage != "pictures"][-1] == "robust_accuracy"
    named = {name.partition("[")[0] for name in result.estimates}
    assert "robust_accuracy" in named
    assert named - {"robust_accuracy"}
    assert named <= {metric.name for metric in metrics_of(kind)}
    kept = result.estimates["robust_accuracy"]
    assert 0 < kept.value < result.counts["robust_accuracy_correct"] / kept.n
    assert result.counts["robust_accuracy_held"] == kept.value * kept.n
    assert sum(count for name, count in result.counts.items() if name.startswith("broken[attack=")) > 0
    assert [flag.code for flag in result.flags if flag.message.startswith("AutoAttack: ")] == ["losses_replaced"]


@pytest.mark.slow
@pytest.mark.parametrize("check", [span_check, certified_check], ids=["span", "certified"])
def test_the_block_is_the_same_however_a_check_is_cut(check: Any) -> None:
    whole, done = check(batch_size=8)
    cut, pieces = check(batch_size=8, shards=3)
    assert done["robust_accuracy"].equals(pieces["robust_accuracy"])
    assert whole == cut


@pytest.mark.slow
@pytest.mark.parametrize(("audits", "kept"), [(spans, "attack"), (certificates, "certify")], ids=["span", "certified"])
def test_what_a_check_found_without_the_block_it_finds_with_it(audits: Any, kept: str) -> None:
    small = {"steps": 2} if audits is spans else {"n": 200, "n0": 20, "radii": [0.0, 0.25]}
    without, done = audits.audit(audits.parameters(**small), audits.NETWORK, audits.DATA)
    result, more = audits.audit(audits.parameters(**small, robust_accuracy=BLOCK), audits.NETWORK, audits.DATA)
    assert set(more) - set(done) == {"robust_accuracy"}
    assert more[kept].equals(done[kept])
    assert {name: result.estimates[name] for name in without.estimates} == without.estimates
    assert {name: result.counts[name] for name in without.counts} == without.counts
    assert result.flags[: len(without.flags)] == without.flags


def test_where_all_examples_error_there_is_a_number_and_no_flag() -> None:
    def broken(images: Tensor) -> Tensor:
        return spans.NETWORK.logits(images) * torch.nan

    params = spans.parameters(steps=1, robust_accuracy=BLOCK)
    result, _ = spans.audit(params, spans.Model(broken, 4), spans.DATA)
    assert result.estimates["robust_accuracy"].value == 0
    assert result.counts["robust_accuracy_errored"] == 40
    assert result.flags == []


def test_a_stage_that_nobody_asked_for_is_not_run() -> None:
    context = Context(spans.NETWORK, spans.DATA, Shard("robust_accuracy", 0, 8), 8)
    with pytest.raises(ValueError, match="no such stage"):
        SPAN.run(spans.parameters(), context.shard, context)


POINTS, LABELS = builders.points(8), builders.labels(1200, 8)


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer steps: signs of a weak attack show at its start."""
    monkeypatch.setattr(
        transductive_static, "make_autoattack", lambda params: AutoAttack("linf", 0.15, steps=8, queries=30)
    )


class AdaptsToItsInput(nn.Module):
    """A model that takes a gradient step of its own before it answers."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images: Tensor) -> Tensor:
        with torch.enable_grad():
            moved = images.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self.module(moved).logsumexp(1).sum(), moved)
        answer: Tensor = self.module(images - 0.01 * gradient)
        return answer


class Quantises(nn.Module):
    """A model without gradients."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.module((images * 64).round() / 64)
        return answer


def static(module: nn.Module, **changes: Any) -> dict[str, str]:
    """Return the messages about AutoAttack on a static model, by code."""
    given = {
        "kind": "transductive_attack",
        "defences": [{"name": "identity"}],
        "attacks": ["transfer_autoattack"],
        "epsilon": 0.15,
        "autoattack_queries": 30,
    }
    params = TransductiveAttackParams.model_validate(given | changes)
    context = Context(builders.classifier(module), (POINTS, LABELS), Shard("static", 0, 8), 8)
    (batch,) = context.batches()
    records = transductive_static.attack_static(params, context, batch)
    broken = records["broken_by"].to_pylist()
    if "transfer_autoattack" in params.attacks:
        for row, attack in zip(records.to_pylist(), broken, strict=True):
            assert row["robust_autoattack"] == (row["correct"] and attack is None and not row["errored"])
    return {flag.code: flag.message for flag in autoattack_doubted(params, {"static": records})}


@pytest.mark.usefixtures("_short")
def test_a_sound_static_model_is_not_doubted() -> None:
    assert static(builders.base().module) == {}


@pytest.mark.usefixtures("_short")
def test_a_static_model_that_adapts_is_to_be_given_as_a_defence() -> None:
    told = static(AdaptsToItsInput(builders.base().module))["optimizes_at_inference"]
    assert "Give the model without its adaptation, and the adaptation as one of the defences" in told


@pytest.mark.usefixtures("_short")
def test_a_static_model_that_hides_its_gradients_is_told() -> None:
    told = static(Quantises(builders.base().module))["zero_gradients"]
    assert told.startswith("AutoAttack on the static model: ")


def test_without_autoattack_nothing_is_said_of_it() -> None:
    assert static(AdaptsToItsInput(builders.base().module), attacks=["transfer_pgd"]) == {}


@pytest.mark.usefixtures("_short")
def test_an_audit_of_defences_shows_the_flags_of_its_static_model() -> None:
    given = {
        "kind": "transductive_attack",
        "defences": [{"name": "identity"}],
        "attacks": ["transfer_autoattack"],
        "epsilon": 0.15,
        "autoattack_queries": 10,
    }
    model = builders.classifier(AdaptsToItsInput(builders.base().module))
    result, _ = run_check(DEFENCES, TransductiveAttackParams.model_validate(given), model, (POINTS, LABELS))
    assert "optimizes_at_inference" in {flag.code for flag in result.flags}
    assert result.estimates["static_robustness"].value is not None
    assert robust_accuracy.SECOND not in result.estimates
