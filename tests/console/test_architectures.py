"""An architecture that the contract gains has its place in the form, and nothing else is written for it."""

import json
from typing import Annotated, Literal, get_args

import pytest
from pydantic import Field

from app.console import architectures
from app.console.architectures import ArchitectureForm
from app.console.manifests import field_of, model_manifest
from app.web.problems import InvalidRequestError
from seatrial.contracts.architectures import Architecture
from seatrial.contracts.base import Request
from seatrial.contracts.endpoints import SERVED
from tests.console.conftest import Console, elements


class Mixer(Request):
    """Made up for this test: a parameter of each type, one shared with others, one named as another field is."""

    kind: Literal["mixer"] = Field(description="MLP-Mixer.")
    depth: int = Field(ge=1, description="Blocks.", examples=[8])
    patch: int | None = Field(default=None, description="Side of a patch in pixels.")
    rate: float = Field(default=0.0, description="Dropout.")
    activation: Literal["gelu", "relu"] = Field(description="Non-linearity.")
    pools: bool = Field(default=False, description="Whether it pools.")
    widths: list[int] = Field(description="Channels of each block.", examples=[[64, 128]])
    version: str = Field(default="", description="Variant.")


@pytest.fixture
def form(monkeypatch: pytest.MonkeyPatch) -> ArchitectureForm:
    """The form of a contract that has it."""
    known = get_args(Architecture)[0]
    made = ArchitectureForm(Annotated[known | Mixer, Field(discriminator="kind")])
    monkeypatch.setattr(architectures, "ARCHITECTURES", made)
    return made


FILLED = {
    "name": "m",
    "version": "3",
    "task": "image-classification",
    "architecture": "mixer",
    "depth": "8",
    "rate": "0.5",
    "activation": "relu",
    "pools": "true",
    "widths": "[64, 128]",
    "architecture_version": "S/16",
    "layers": "left over from another choice",
}


@pytest.mark.usefixtures("form")
def test_the_page_offers_it_and_shows_its_fields_when_it_is_chosen(console: Console) -> None:
    page = console.get("/models")
    assert '<option value="mixer">MLP-Mixer</option>' in page.text
    shown_for = {}
    # Each field stands in the element that is hidden unless one of its architectures is chosen.
    for part in page.text.split('<div data-of="architecture" data-for="')[1:]:
        kinds, _, inside = part.partition('"')
        shown_for[inside.partition(' name="')[2].partition('"')[0]] = kinds.split()
    assert shown_for == {
        "dropout": ["layers", "torchvision", "timm"],
        "members": ["ensemble"],
        "layers": ["layers"],
        "depth": ["resnet_cifar", "wide_resnet", "resnet_32x32", "dm_wide_resnet", "mixer"],
        "activation": ["dm_wide_resnet", "mixer"],
        "width": ["wide_resnet", "dm_wide_resnet"],
        **{name: ["mixer"] for name in ("patch", "rate", "pools", "widths", "architecture_version")},
        "architecture_name": ["torchvision", "timm"],
        **{name: ["onnx"] for name in ("output", "outputs")},
        **{name: ["predictions"] for name in ("example_id", "probabilities", "logits", "arm", "model", "model_column")},
        "precision": ["huggingface"],
        "endpoint": ["endpoint", "chat", "completions"],
    }
    assert {one["name"] for one in elements(page, "textarea")} == {
        *("layers", "members", "widths", "probabilities", "logits", "endpoint", "labels", "features")
    }
    assert "MLP-Mixer: Blocks." in page.text
    assert 'placeholder="[64, 128]"' in page.text


def test_its_fields_reach_the_manifest_with_their_types(form: ArchitectureForm) -> None:
    told = json.loads(model_manifest(FILLED))["architecture"]
    assert told == {
        "kind": "mixer",
        "depth": 8,
        "rate": 0.5,
        "activation": "relu",
        "pools": True,
        "widths": [64, 128],
        "version": "S/16",
    }
    assert Mixer.model_validate(told).patch is None
    with pytest.raises(InvalidRequestError, match=r"MLP-Mixer needs it.* Blocks\.") as refused:
        form.read("mixer", {"widths": "[]"})
    assert field_of(refused.value.errors[0].pointer) == "depth"


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", [name for name in Mixer.model_fields if name not in ("kind", "version")])
def test_what_is_wrong_with_a_parameter_stands_beside_its_field(name: str) -> None:
    assert field_of(f"/manifest/architecture/{name}") == name
    assert field_of(f"/manifest/architecture/{name}/0") == name


@pytest.mark.usefixtures("form")
def test_a_parameter_named_as_another_field_has_a_field_of_its_own() -> None:
    assert field_of("/manifest/architecture/version") == "architecture_version"
    assert field_of("/manifest/version") == "version"


@pytest.mark.usefixtures("form")
def test_a_list_that_is_no_json_is_refused_at_its_place() -> None:
    with pytest.raises(InvalidRequestError, match="not JSON") as refused:
        model_manifest({**FILLED, "widths": "64 and 128"})
    assert field_of(refused.value.errors[0].pointer) == "widths"


def test_names_in_the_help_of_a_field_are_code(console: Console) -> None:
    page = console.get("/models").text
    assert "`" not in page
    assert "<code>bfloat16</code>" in page


def test_every_shipped_architecture_is_offered_with_all_its_parameters() -> None:
    shipped = architectures.ARCHITECTURES
    for one in get_args(get_args(Architecture)[0]):
        (kind,) = get_args(one.model_fields["kind"].annotation)
        offered = {field.name for field in shipped.fields if kind in field.kinds}
        # The model has a name too.
        fields = {"architecture_name" if name == "name" else name for name in one.model_fields if name != "kind"}
        expected = set() if kind in SERVED else fields
        assert offered == expected, f"the upload form lacks parameters of {kind}"
        assert shipped.titles[kind]
