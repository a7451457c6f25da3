"""Exported programs: what is read of the archive, and what is refused with which words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.models.inspection import inspect_model
from seatrial.ingest.exported.archive import read_exported
from seatrial.ingest.exported.arguments import Value
from seatrial.ingest.exported.operators import ARITHMETIC, ASSERTIONS, OPERATORS, SWITCHED_OFF
from seatrial.ingest.exported.program import Batch
from seatrial.ingest.inspection.errors import (
    ContentError,
    InspectionError,
    MalformedFileError,
    ManifestMismatchError,
    OperatorRefusedError,
    PickleRefusedError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.store.settings import Settings
from tests.ingest.builders import model_manifest, safetensors, tarred, torch_zip, zipped
from tests.ingest.exported_programs import (
    BATCH,
    CONSTANTS,
    GRAPH,
    WEIGHTS,
    exported,
    exported_manifest,
    files,
    node,
    nodes_of,
    packed,
    ref,
    tensor,
)

LIMITS = Settings()
Document = dict[str, Any]


def _inspect(tmp_path: Path, data: bytes, manifest: Any = None, limits: Settings = LIMITS) -> str:
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    return inspect_model(path, "model.pt2", manifest or exported_manifest(), limits)


def _refused(tmp_path: Path, data: bytes, error: type[InspectionError], *told: str) -> None:
    with pytest.raises(error) as caught:
        _inspect(tmp_path, data)
    for words in told:
        assert words in caught.value.detail


def test_an_archive_is_read_as_steps_over_numbered_values(tmp_path: Path) -> None:
    assert _inspect(tmp_path, exported()) == "archive"
    archive = read_exported(tmp_path / "model.pt2", LIMITS)
    program = archive.program
    assert (program.input_shape, program.output_shape, program.input_type) == ((1, 4, 4), (2,), "float32")
    assert program.batch == Batch(1, 4096)
    assert [step.target.rsplit(".", 2)[-2] for step in program.steps] == ["sym_size", "_operator", "view", "linear"]
    assert program.steps[-1].args == (Value(5), Value(0), Value(1))
    assert [archive.tensors[slot].sizes for slot in program.sources] == [(2, 16), (2,)]
    # What nobody takes any more is let go where it was last taken; weights stay.
    assert [step.frees for step in program.steps] == [(), (4,), (2, 3), (5,)]


def test_another_container_of_the_same_files_will_do(tmp_path: Path) -> None:
    assert _inspect(tmp_path, tarred(files())) == "archive"
    assert _inspect(tmp_path, zipped(files())) == "archive"


def test_a_fixed_batch_is_told(tmp_path: Path) -> None:
    def fix(document: Document) -> None:
        document["graph_module"]["graph"]["tensor_values"]["x"] = tensor(8, 1, 4, 4)

    _inspect(tmp_path, exported(change_graph=fix))
    assert read_exported(tmp_path / "model.pt2", LIMITS).program.batch == Batch(8, 8)


def _target(name: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        nodes_of(document)[2]["target"] = name

    return change


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("torch.ops.mylib.frobnicate.default", "operators that a library adds to torch are not here"),
        ("torch.ops.aten.from_file.default", "write `forward` with other operators"),
        ("torch.ops.aten.rand.default", "draws no random numbers"),
        ("torch.ops.aten.empty.memory_format", "write `forward` with other operators"),
        ("torch.ops.higher_order.cond", "graphs inside of graphs"),
        ("torch.ops.higher_order.wrap_with_set_grad_enabled", "without `torch.no_grad()`"),
        ("_operator.attrgetter", "operators of torch only"),
        ("_operator.pow", "operators of torch only"),
        ("builtins.eval", "operators of torch only"),
        ("os.system", "operators of torch only"),
        ("torch.ops.aten.view.default ", "write `forward` with other operators"),
    ],
)
def test_operators_that_are_not_on_the_list_are_refused_by_name(tmp_path: Path, target: str, told: str) -> None:
    _refused(tmp_path, exported(change_graph=_target(target)), OperatorRefusedError, repr(target), told)


def test_graphs_and_objects_as_arguments_are_refused(tmp_path: Path) -> None:
    for kind in ("as_graph", "as_operator", "as_custom_obj"):

        def change(document: Document, kind: str = kind) -> None:
            nodes_of(document)[2]["inputs"][1]["arg"] = {kind: {"name": "g"}}

        _refused(tmp_path, exported(change_graph=change), OperatorRefusedError, "are not run")


def test_what_is_on_only_in_training_is_refused(tmp_path: Path) -> None:
    for name, arguments in {
        "dropout.default": ({"as_float": 0.5}, {"as_bool": True}),
        "batch_norm.default": (*[{"as_none": True}] * 4, {"as_bool": True}),
        "scaled_dot_product_attention.default": (ref("x"), ref("x"), {"as_none": True}, {"as_float": 0.1}),
    }.items():

        def change(document: Document, name: str = name, arguments: Any = arguments) -> None:
            nodes_of(document)[2:2] = [node(f"torch.ops.aten.{name}", ref("x"), *arguments, outputs=[ref("y")])]

        _refused(tmp_path, exported(change_graph=change), OperatorRefusedError, "model.eval()")


def _sized(formula: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        values = document["graph_module"]["graph"]["tensor_values"]
        for name in ("x", "flat", "logits"):
            values[name]["sizes"][0] = {"as_expr": {"expr_str": formula, "hint": {"as_int": 2}}}
        document["range_constraints"] = {formula: {"min_val": 1, "max_val": 9}}
        document["guards_code"] = [formula]

    return change


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('pathlib').Path('{marker}').touch()",
        "open('{marker}', 'w')",
        "Symbol('s77').func('x')",
        "(lambda: 2)()",
        "[exit][0]()",
    ],
)
def test_a_formula_that_sympy_would_run_is_refused(tmp_path: Path, formula: str) -> None:
    marker = tmp_path / "executed"
    data = exported(change_graph=_sized(formula.format(marker=marker)))
    _refused(tmp_path, data, OperatorRefusedError, "sympy.sympify", "never run here")
    assert not marker.exists()


def test_a_formula_of_sizes_is_not_evaluated(tmp_path: Path) -> None:
    formula = "Mul(Integer(2), floor(Symbol('s77', positive=True, integer=True)))"
    assert _inspect(tmp_path, exported(change_graph=_sized(formula))) == "archive"
    # Of a size that is a formula, nothing is known before the graph is run.
    assert read_exported(tmp_path / "model.pt2", LIMITS).program.batch == Batch(1, None)


def test_pickled_tensors_are_refused_by_name(tmp_path: Path) -> None:
    def pickled(config: Document) -> None:
        config["fc.bias"]["use_pickle"] = True

    _refused(tmp_path, exported(change_weights=pickled), PickleRefusedError, "weights 'fc.bias'", "torch 2.13")
    constant = {"mask": {"path_name": "tensor_0", "is_param": False, "use_pickle": True, "tensor_meta": tensor(2)}}
    odd = {"config": constant}
    more = {CONSTANTS: json.dumps(odd).encode(), "m/data/constants/tensor_0": bytes(8)}
    _refused(tmp_path, packed({**files(), **more}), PickleRefusedError, "constants 'mask'")
    odd["config"]["mask"].update(use_pickle=False, path_name="custom_obj_0")
    more[CONSTANTS] = json.dumps(odd).encode()
    _refused(tmp_path, packed({**files(), **more}), PickleRefusedError, "custom_obj_0")
    assert _inspect(tmp_path, exported()) == "archive"


@pytest.mark.parametrize(
    "change",
    [
        {"path_name": "../../../etc/passwd"},
        {"path_name": "weight_7"},
        {"tensor_meta": tensor(2, 2**20)},
        {"tensor_meta": {**tensor(2, 16), "strides": [{"as_int": 16}, {"as_int": 2}]}},
        {"tensor_meta": {**tensor(2, 16), "storage_offset": {"as_int": 1}}},
        {"tensor_meta": {**tensor(2, 16), "strides": [{"as_int": -16}, {"as_int": 1}]}},
        {"tensor_meta": {**tensor(2**30, 2**30), "strides": [{"as_int": 0}, {"as_int": 0}]}},
        {"tensor_meta": {**tensor(2, 16), "sizes": [{"as_int": 2}, BATCH]}},
        {"tensor_meta": tensor(2, 16, dtype=9)},
        {"tensor_meta": {**tensor(2, 16), "layout": 1}},
        {"tensor_meta": None},
    ],
)
def test_a_tensor_that_is_not_its_file_is_refused_before_it_is_made(tmp_path: Path, change: Document) -> None:
    def changed(config: Document) -> None:
        config["fc.weight"].update(change)

    with pytest.raises(InspectionError, match=r"fc\.weight"):
        _inspect(tmp_path, exported(change_weights=changed))


def _set(path: str, value: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        *parts, last = path.split(".")
        at: Any = document
        for part in parts:
            at = at[int(part) if part.isdigit() else part]
        at[int(last) if last.isdigit() else last] = value

    return change


_NODES = "graph_module.graph.nodes"
_SPECS = "graph_module.signature"


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        (_set("schema_version.major", 9), UnsupportedFormatError, "torch 2.13"),
        (_set("schema_version", None), UnsupportedFormatError, "torch 2.13"),
        (_set("graph_module", []), MalformedFileError, "torch 2.13"),
        (_set(f"{_NODES}.3.inputs.0.arg", ref("later")), MalformedFileError, "cannot be read"),
        (_set(f"{_NODES}.2.outputs.0", ref("x")), MalformedFileError, "twice"),
        (_set(f"{_NODES}.2.inputs.1.arg", {"as_int": 2**70}), MalformedFileError, "cannot be read"),
        (_set(f"{_NODES}.2.inputs.1.arg", {"as_float": 10**400}), MalformedFileError, "cannot be read"),
        (_set(f"{_NODES}.2.inputs.1.arg", {"as_complex": {}}), MalformedFileError, "no operator here takes"),
        (_set(f"{_SPECS}.input_specs.0", {"user_input": {"arg": ref("p_w")}}), ContentError, "more than one tensor"),
        (_set(f"{_SPECS}.input_specs.0", {"custom_obj": {}}), OperatorRefusedError, "no objects"),
        (_set(f"{_SPECS}.output_specs", []), ContentError, "0 results"),
        (
            _set(f"{_SPECS}.output_specs.0", {"buffer_mutation": {"arg": {"name": "logits"}, "buffer_name": "n"}}),
            ContentError,
            "model.eval()",
        ),
        (_set(f"{_NODES}.2.inputs.1.arg", {"as_ints": [1] * 3}), None, ""),
        (_set(f"{_NODES}.2.inputs.1.arg", {"as_sym_ints": [{"as_name": "size"}] * 5000}), UploadTooLargeError, "4,096"),
        (_set(_NODES, [{}] * 20_001), UploadTooLargeError, "20,000"),
        (_set("graph_module.graph.tensor_values.x", tensor(10**6, 1, 4, 4)), ContentError, "dynamic_shapes"),
    ],
)  # fmt: skip
def test_a_graph_that_is_wrong_says_why(tmp_path: Path, change: Any, error: Any, told: str) -> None:
    data = exported(change_graph=change)
    if error is None:
        assert _inspect(tmp_path, data) == "archive"
    else:
        _refused(tmp_path, data, error, told)


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"input": {"shape": [3, 4, 4], "mean": [0.0], "std": [1.0]}}, "/manifest/input/shape", "[1, 4, 4]"),
        ({"labels": ["a", "b", "c"]}, "/manifest/labels", "[2] values"),
    ],
)
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, changes: Document, field: str, told: str) -> None:
    with pytest.raises(ManifestMismatchError, match="the manifest") as caught:
        _inspect(tmp_path, exported(), exported_manifest(**changes))
    assert caught.value.field == field
    assert told in caught.value.detail


def test_the_wrong_architecture_is_told_either_way(tmp_path: Path) -> None:
    with pytest.raises(ManifestMismatchError, match="is an exported program"):
        _inspect(tmp_path, exported(), model_manifest())
    with pytest.raises(ManifestMismatchError, match=r"torch\.export\.save"):
        _inspect(tmp_path, safetensors())


def test_documents_beyond_any_graph_are_not_parsed(tmp_path: Path) -> None:
    _refused(tmp_path, packed({**files(), GRAPH: b"[" * 7_000_000}), UploadTooLargeError, "more than any graph")
    _refused(tmp_path, packed({**files(), GRAPH: b"{" * 100}), MalformedFileError, "not JSON")
    _refused(tmp_path, packed({**files(), WEIGHTS: b"[]"}), MalformedFileError, "lists no tensors")
    _refused(tmp_path, packed({**files(), "m/archive_format": b"pt1"}), UnsupportedFormatError, "torch 2.13")
    _refused(tmp_path, packed({**files(), "m/byteorder": b"big"}), UnsupportedFormatError, "big-endian")
    _refused(tmp_path, packed({**files(), "n/x": b""}), MalformedFileError, "one folder")
    _refused(tmp_path, torch_zip(), InspectionError)
    small = LIMITS.model_copy(update={"max_archive_bytes": 1000})
    with pytest.raises(UploadTooLargeError):
        _inspect(tmp_path, exported(), limits=small)


def test_every_name_on_the_list_has_one_reason() -> None:
    assert not set(OPERATORS) & set(ARITHMETIC) | set(OPERATORS) & set(ASSERTIONS)
    assert set(SWITCHED_OFF) <= set(OPERATORS)
    assert all((*OPERATORS.values(), *ARITHMETIC.values(), *ASSERTIONS.values()))
