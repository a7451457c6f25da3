"""ONNX files that are refused, each with its reason, and what is read off the others."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.models.inspection import inspect_model
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.exported.operators import OPERATORS as TORCH
from seatrial.ingest.exported.operators import PREFIX
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.store.settings import Settings
from tests.ingest.onnx_files import BIAS, WEIGHT, body, field, linear, model, node, port, tensor

EXTERNAL = field(14, 1) + field(13, field(1, "location") + field(2, "../../etc/passwd"))
X = [port("x", ["n", 1, 4, 4])]


def inspect(path: Path, data: bytes, **changes: Any) -> str:
    file = path / "model.onnx"
    file.write_bytes(data)
    return inspect_model(file, "model.onnx", ModelManifest.model_validate(body(**changes)), Settings())


def test_a_graph_is_taken(tmp_path: Path) -> None:
    assert inspect(tmp_path, linear()) == "onnx"


def _before(kind: str, domain: str = "", **attributes: Any) -> bytes:
    first = node(kind, ["x"], ["h"], domain=domain, **attributes)
    return linear(nodes=[first, node("Flatten", ["h"], ["flat"]), node("Gemm", ["flat", "w", "b"], ["y"], transB=1)])


REFUSED: list[tuple[bytes, str]] = [
    (linear(tensors={"w": tensor("w", WEIGHT, EXTERNAL), "b": BIAS}), "external data"),
    (_before("Frobnicate", "com.acme"), "custom operators are code that is not in the file"),
    (_before("Loop"), "control flow is not run"),
    (_before("RandomNormalLike"), "draws no random numbers"),
    (_before("TreeEnsembleClassifier", "ai.onnx.ml"), "it has no gradients; send its predictions"),
    (_before("StringNormalizer"), "serve it by onnxruntime and describe it as an endpoint"),
    (linear(nodes=[node("If", ["x"], ["y"]) + field(5, field(1, "then_branch") + field(6, b""))]), "holds a graph"),
    (linear(more=field(25, b"")), "functions of its own"),
    (linear(more=field(20, b"")), "a graph for training"),
    (linear(opset=9), "opset 9, and 13 to 23 are read here"),
    (linear(opset=99), "opset 99"),
    (linear(tensors={"w": WEIGHT[:, :3], "b": BIAS, "c": tensor("c", BIAS)[:-4] + b""}), "ends within a value"),
    (linear(tensors={"w": field(1, 5) + field(2, 1) + field(8, "w") + field(9, b"1234")}), "needs 20 bytes, and has 4"),
    (linear(tensors={"w": field(1, 2**40) + field(2, 1) + field(8, "w")}), "has the shape"),
    (linear(tensors={"w": field(1, 1) + field(2, 8) + field(8, "w") + field(9, b"1")}), "type number 8"),
    (linear(inputs=[*X, port("z", ["n", 2])]), "takes 2 inputs"),
    (linear(outputs=[port("y", ["n", 3]), port("flat", ["n", 16])]), "say which by `output`"),
    (linear(outputs=[port("nothing", ["n", 3])]), "which no operator of it computes"),
    (linear(outputs=[port("y", ["n", 4])]), "gives [4] values per example, the manifest names 3 labels"),
    (linear(inputs=[port("x", ["n", 3, 4, 4])]), "takes images of shape [3, 4, 4]"),
    (linear(nodes=[node("Gemm", ["later", "w", "b"], ["y"])]), "which nothing before it computes"),
    (linear(nodes=[node("Flatten", ["x"], ["y"]), node("Flatten", ["x"], ["y"])]), "'y' twice"),
    (_before("Dropout")[:-9], "ends within"),
    (b"\x08\x09", "holds no graph"),
    (b"\xff" * 40, "damaged, or not ONNX"),
    (b"", "has no bytes"),
]


@pytest.mark.parametrize(("data", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
def test_what_cannot_be_run_is_refused_with_its_reason(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(InspectionError, match=r"(?i)onnx") as refused:
        inspect(tmp_path, data)
    assert said in refused.value.detail


def test_another_architecture_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(InspectionError, match="is an ONNX file: its architecture is"):
        inspect(tmp_path, linear(), architecture={"kind": "lenet"})


def test_a_pickle_called_onnx_is_none(tmp_path: Path) -> None:
    with pytest.raises(InspectionError, match="pickle"):
        inspect(tmp_path, b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.")


def test_an_operator_in_training_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("Flatten", ["x"], ["flat"]),
        node("BatchNormalization", ["flat", "s", "s", "s", "s"], ["n"], training_mode=1),
        node("Gemm", ["n", "w", "b"], ["y"], transB=1),
    ]
    with pytest.raises(InspectionError, match="in training"):
        inspect(tmp_path, linear(nodes=nodes, tensors={"w": WEIGHT, "b": BIAS, "s": np.ones(16, "<f4")}))


def test_a_fan_out_ends(tmp_path: Path) -> None:
    """A graph that doubles itself is refused by what it takes before it is run, or runs in the trace's limits."""
    nodes = [node("Concat", ["x"] * 5000, ["h"], axis=1), node("Flatten", ["h"], ["y"])]
    with pytest.raises(InspectionError, match="4,096 values"):
        inspect(tmp_path, model(nodes, {}))


def test_every_operator_that_is_written_is_on_the_list_of_torch_s() -> None:
    told = "".join(Path(f"seatrial/ingest/onnx/{name}.py").read_text() for name in ("operators", "layers", "lowering"))
    named = set(re.findall(r'"((?:[a-z]\w*)\.(?:default|Tensor|Scalar|int|dim|dims|self|dtype|using_ints)\w*)"', told))
    assert len(named) > 40
    assert {f"{PREFIX}{one}" for one in named} <= set(TORCH)
