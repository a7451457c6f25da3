"""Exported programs: the same bits as the module they were exported from, and what is refused when it is loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seatrial.ingest.exported.operators import ASSERTIONS, OPERATORS, PREFIX, SWITCHED_OFF
from seatrial.store.settings import Settings
from tests.ingest.exported_programs import LINEAR, exported, exported_manifest, node, nodes_of, ref
from tests.models.builders import CPU, manifest
from tests.models.exportable import CLASSES, KINDS, SHAPE, Plain, export, made
from workers.errors import TargetError
from workers.models.checks import check_target
from workers.models.exported_module import ExportedModule
from workers.models.image_classifier import ImageClassifier
from workers.models.loading import load_image_classifier

EXPORTED = manifest(
    {"kind": "exported"}, input={"shape": list(SHAPE), "mean": [0.0], "std": [1.0]}, labels=list("abcd")
)


def _load(path: Path, described: Any = EXPORTED, limits: Settings | None = None) -> ImageClassifier:
    return load_image_classifier(described, path, "archive", CPU, limits=limits)


def _by_hand(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "hand.pt2"
    path.write_bytes(exported(**changes))
    return path


def _outputs(module: Callable[[Tensor], Tensor], images: Tensor) -> tuple[Tensor, Tensor]:
    images = images.clone().requires_grad_(True)
    logits = module(images)
    (gradient,) = torch.autograd.grad(logits.log_softmax(1)[:, 0].sum(), images)
    return logits.detach(), gradient


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_are_those_of_the_module_to_the_bit(tmp_path: Path, kind: str) -> None:
    module = made(kind)
    classifier = _load(export(module, tmp_path / "m.pt2"))
    assert isinstance(classifier.module, ExportedModule)
    for count in (1, 2, 7):
        images = torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(count))
        for ours, theirs in zip(_outputs(classifier.logits, images), _outputs(module, images), strict=True):
            assert torch.equal(ours, theirs)
    assert float(_outputs(classifier.logits, images)[1].abs().sum()) > 0
    assert classifier.parameters == sum(one.numel() for one in module.parameters())
    assert classifier.values_per_image
    assert not any(one.requires_grad for one in classifier.module.parameters())


# torch's own code, when it decomposes.
@pytest.mark.drill
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_core_operators_will_do_as_well(tmp_path: Path) -> None:
    module = made("attention")
    program = torch.export.export(
        module, (torch.rand(2, *SHAPE),), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=4096)},)
    )
    torch.export.save(program.run_decompositions({}), tmp_path / "core.pt2")
    images = torch.rand(3, *SHAPE)
    assert torch.equal(_load(tmp_path / "core.pt2").logits(images), module(images))


def test_a_fixed_batch_is_filled_up(tmp_path: Path) -> None:
    module = made("residual")
    classifier = _load(export(module, tmp_path / "m.pt2", batch=3))
    for count in (1, 3, 7):
        images = torch.rand(count, *SHAPE)
        filled = torch.cat([images, torch.zeros(-count % 3, *SHAPE)])
        ours, theirs = _outputs(classifier.logits, images), _outputs(module, filled)
        if count <= 3:
            assert torch.equal(ours[0], theirs[0][:count])
            assert torch.equal(ours[1], theirs[1][:count])
        assert torch.allclose(ours[0], theirs[0][:count], atol=1e-6)
    assert check_target(classifier, EXPORTED).facts.classes == CLASSES


def test_normalisation_stands_in_the_graph_or_in_the_manifest(tmp_path: Path) -> None:
    module = made("residual")
    path = export(module, tmp_path / "m.pt2")
    spec = {"shape": list(SHAPE), "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
    outside = manifest({"kind": "exported"}, input=spec, labels=list("abcd"))
    images = torch.rand(2, *SHAPE)
    normalised = (images - torch.tensor(spec["mean"]).view(3, 1, 1)) / torch.tensor(spec["std"]).view(3, 1, 1)
    assert torch.equal(_load(path, outside).logits(images), module(normalised))


def test_images_that_are_each_standardised_by_themselves_stay_so(tmp_path: Path) -> None:
    class Standardised(Plain):
        def forward(self, x: Tensor) -> Tensor:
            least = torch.full_like(x[:, :1, :1, :1], x[0].numel() ** -0.5)
            spread = torch.max(x.std((1, 2, 3), keepdim=True), least)
            return super().forward((x - x.mean((1, 2, 3), keepdim=True)) / spread)

    module = Standardised().eval().requires_grad_(False)
    classifier = _load(export(module, tmp_path / "m.pt2"))
    images = torch.cat([torch.rand(2, *SHAPE), torch.full((1, *SHAPE), 0.5)])
    for ours, theirs in zip(_outputs(classifier.logits, images), _outputs(module, images), strict=True):
        assert torch.equal(ours, theirs)


def test_half_precision_is_given_and_gives_float32(tmp_path: Path) -> None:
    class Halved(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.conv(x)[:, :, ::2, ::2].flatten(1))

    module = Halved().eval().bfloat16()
    torch.export.save(torch.export.export(module, (torch.rand(2, *SHAPE).bfloat16(),)), tmp_path / "m.pt2")
    images = torch.rand(2, *SHAPE)
    assert torch.equal(_load(tmp_path / "m.pt2").logits(images), module(images.bfloat16()).float())


def test_an_archive_by_hand_computes_what_it_says(tmp_path: Path) -> None:
    weight, bias = torch.from_numpy(LINEAR[:32].copy()).view(2, 16), torch.from_numpy(LINEAR[32:].copy())
    images = torch.rand(5, 1, 4, 4)
    logits = _load(_by_hand(tmp_path), exported_manifest()).logits(images)
    assert torch.allclose(logits, images.flatten(1) @ weight.T + bias, atol=1e-6)


def _inserted(target: str, *inputs: Any, **named: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the hand-written graph: an operator more, whose result becomes what is flattened."""

    def change(document: dict[str, Any]) -> None:
        nodes = nodes_of(document)
        nodes[2]["inputs"][0]["arg"] = ref("y")
        nodes[2:2] = [node(target, *inputs, outputs=[ref("y")], **named)]

    return change


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (_inserted("torch.ops.aten.add_.Tensor", ref("p_w"), {"as_int": 1}), "program-keeps-state", "fc.weight"),
        (_inserted("torch.ops.aten.conv2d.default", ref("x"), ref("p_w")), "program-failed", "aten.conv2d.default"),
        (_inserted("torch.ops.aten.relu.default", {"as_string": "x"}), "program-failed", "aten.relu.default"),
        (_inserted("torch.ops.aten.relu.default", ref("x"), ref("x")), "program-failed", "aten.relu.default"),
        (_inserted("torch.ops.aten.repeat.default", ref("x"), {"as_ints": [1, 2**20, 99, 99]}), "program-failed", ""),
        (
            _inserted("torch.ops.aten.zeros.default", {"as_ints": [2**30, 2**30]}, device={"as_device": {}}),
            "program-failed",
            "",
        ),
    ],
)
def test_a_program_that_cannot_be_run_is_refused_before_it_is(
    tmp_path: Path, change: Any, code: str, told: str
) -> None:
    with pytest.raises(TargetError) as caught:
        _load(_by_hand(tmp_path, change_graph=change), exported_manifest())
    assert caught.value.problem.code == code
    assert told in caught.value.problem.detail


def test_a_program_that_computes_too_much_is_refused(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        nodes = nodes_of(document)
        nodes[2:2] = [
            node("torch.ops.aten.repeat.default", ref("x"), {"as_ints": [1, 2**20, 99, 99]}, outputs=[ref("much")])
        ]

    with pytest.raises(TargetError) as caught:
        _load(_by_hand(tmp_path, change_graph=change), exported_manifest())
    assert caught.value.problem.code == "activations-too-large"


def test_sizes_grow_no_further_than_memory_does(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        size = {"as_sym_int": {"as_name": "n0"}}
        nodes_of(document)[2:2] = [
            node("_operator.add", {"as_int": 2**60}, {"as_int": 1}, outputs=[size]),
        ]

    with pytest.raises(TargetError, match=r"_operator\.add"):
        _load(_by_hand(tmp_path, change_graph=change), exported_manifest())


def test_images_a_program_writes_to_are_not_the_callers(tmp_path: Path) -> None:
    classifier = _load(
        _by_hand(tmp_path, change_graph=_inserted("torch.ops.aten.mul_.Tensor", ref("x"), {"as_float": 2.0})),
        exported_manifest(),
    )
    images = torch.rand(2, 1, 4, 4)
    before = images.clone()
    first, second = classifier.module(images), classifier.module(images)
    assert torch.equal(images, before)
    assert torch.equal(first, second)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    class Broken(Plain):
        def __init__(self) -> None:
            super().__init__()
            nn.init.constant_(self.head.bias, float("nan"))

    with pytest.raises(TargetError) as caught:
        _load(export(Broken().eval(), tmp_path / "m.pt2"))
    assert caught.value.problem.code == "weights-not-finite"
    assert "head.bias" in caught.value.problem.detail


def test_no_operator_on_the_list_can_do_more_than_compute() -> None:
    for target in (*OPERATORS, *ASSERTIONS):
        name, overload = target.removeprefix(PREFIX).split(".")
        operator = getattr(getattr(torch.ops.aten, name), overload)
        tags = {str(tag) for tag in operator.tags}
        assert not {tag for tag in tags if "nondeterministic_seeded" in tag or "data_dependent" in tag} or (
            target in SWITCHED_OFF or target == PREFIX + "index.Tensor" or target in ASSERTIONS
        ), target
        types = {str(one.type) for one in operator._schema.arguments}
        assert not {one for one in types if "Generator" in one or "Storage" in one or "Stream" in one}, target
        if target in SWITCHED_OFF:
            position, named = SWITCHED_OFF[target]
            assert operator._schema.arguments[position].name == named


def test_the_reader_never_calls_torchs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = export(made("plain"), tmp_path / "m.pt2")

    def never(*given: object, **named: object) -> None:
        raise AssertionError("an upload was given to what executes it")

    for owner, name in ((torch.export, "load"), (torch, "load"), (torch.serialization, "load")):
        monkeypatch.setattr(owner, name, never)
    monkeypatch.setattr("pickle.loads", never)
    monkeypatch.setattr("pickle.Unpickler", never)
    monkeypatch.setattr("sympy.sympify", never)
    assert _load(path).classes == CLASSES


def test_the_lines_of_the_documentation_make_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "models-and-data.md").read_text(encoding="utf-8")
    lines = page.partition("## Exported programs")[2].partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(lines, {"model": made("plain").train(), "shape": SHAPE})
    images = torch.rand(3, *SHAPE)
    assert torch.equal(_load(tmp_path / "model.pt2").logits(images), made("plain")(images))
