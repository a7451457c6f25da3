"""Memory an audit of images takes beside what its estimate says: ``python -m benchmarks.audit_memory [CASE ...]``.

Each case runs in a process of its own. The model is checked as an upload is, which counts what an example takes; the
estimate is that of ``POST /v1/audits/estimate``; the measured number is the growth of the process's resident memory to
its peak during all stages of a check. A check of two examples comes first, so that kernels and libraries are loaded.
Linux only (/proc).
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.resident import growth, measure_each, tell
from benchmarks.training_memory import LABELS, MANIFEST
from seatrial.contracts.models import ModelManifest
from seatrial.contracts.registry import family as family_spec
from seatrial.families.cost import cost_of
from tests.families.in_memory import Model, run_check
from workers.models.checks import check_target
from workers.models.image_classifier import ImageClassifier
from workers.runtime.families import find_family

SPAN: dict[str, Any] = {"kind": "uncertainty_span", "epsilon": 0.0078431, "steps": 2, "effort": "quick"}
CERTIFIED: dict[str, Any] = {"kind": "certified_calibration", "sigma": 0.25, "n": 200, "n0": 100}
ATTACKED: dict[str, Any] = {"epsilon": 0.0078431, "steps": 4, "queries": 20}
CASES: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "ResNet-18 at 224, span, 16 images": ("resnet", 224, 16, SPAN),
    "ResNet-18 at 64, span and AutoAttack, 64 images": ("resnet", 64, 64, SPAN | {"robust_accuracy": ATTACKED}),
    "ViT-tiny at 224, span, 16 images": ("vit", 224, 16, SPAN),
    "ResNet-18 at 224, certified": ("resnet", 224, 4, CERTIFIED),
    "ViT-tiny at 224, certified": ("vit", 224, 4, CERTIFIED),
    "ResNet-18 at 64, span, 64 images": ("resnet", 64, 64, SPAN),
    "ResNet-18 at 64, span of effort standard, 32 images": ("resnet", 64, 32, SPAN | {"effort": "standard"}),
    "ViT-tiny at 64, certified": ("vit", 64, 8, CERTIFIED),
    "ResNet-18 at 64, certified and attacked, 32 images": (
        "resnet",
        64,
        32,
        CERTIFIED | {"ace_attacks": ["ace_lower_true"], "attack_steps": 2, "attack_draws": 2},
    ),
}


class OfTransformers(nn.Module):
    """A classifier of transformers as a function of images."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (batch, classes)."""
        logits: Tensor = self.network(images).logits
        return logits


def make(kind: str, size: int) -> nn.Module:
    """Return a network with random weights."""
    from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    if kind == "vit":
        config = ViTConfig(
            hidden_size=192,
            num_hidden_layers=12,
            num_attention_heads=3,
            intermediate_size=768,
            num_labels=10,
            image_size=size,
        )
        return OfTransformers(ViTForImageClassification(config))
    layers = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
    return OfTransformers(ResNetForImageClassification(ResNetConfig(**layers, num_labels=10)))


def run(module: nn.Module, size: int, count: int, body: dict[str, Any]) -> None:
    """Run every stage of a check on images of one batch."""
    params = family_spec(body["kind"]).params.model_validate(body)
    draw = torch.Generator().manual_seed(0)
    data = torch.rand(count, 3, size, size, generator=draw), torch.arange(count) % 10
    run_check(find_family(body["kind"]), params, Model(module, 10), data, batch_size=count)


def measure(case: str) -> None:
    """Print estimate and measured growth of one case."""
    kind, size, count, body = CASES[case]
    torch.set_num_threads(1)
    module = make(kind, size).eval().requires_grad_(False)
    classifier = ImageClassifier(
        module, labels=LABELS, input_shape=(3, size, size), mean=[0.5], std=[0.25], device=torch.device("cpu")
    )
    manifest: dict[str, Any] = {**MANIFEST, "task": "image-classification", "labels": LABELS}
    manifest |= {"input": {"shape": [3, size, size], "mean": [0.5], "std": [0.25]}}
    facts = check_target(classifier, ModelManifest.model_construct(**manifest)).facts.model_dump(mode="json")
    params = family_spec(body["kind"]).params.model_validate(body)
    told = cost_of(params, count, {}, facts, batch_size=count).memory_bytes
    assert told is not None
    run(module, size, 2, body)
    # The weights were there before.
    tell(case, told - 4 * facts["parameters"], growth(lambda: run(module, size, count, body)))


def main() -> None:
    """Print a line for each case."""
    measure_each(CASES, measure, what="audit", description=__doc__)


if __name__ == "__main__":
    main()
