"""Exported programs written by hand, as ``torch.export.save`` of torch 2.13 writes them: no torch, and in no time."""

import copy
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seatrial.contracts.models import ModelManifest
from tests.ingest.builders import model_manifest, zipped

GRAPH = "m/models/model.json"
WEIGHTS = "m/data/weights/model_weights_config.json"
CONSTANTS = "m/data/constants/model_constants_config.json"
BATCH = {"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 2}}}
LABELS = ["even", "odd"]
LINEAR = (np.arange(34, dtype="<f4") - 17) / 17
"""Weights (2, 16) and biases (2,) of the one layer."""


def exported_manifest(**changes: Any) -> ModelManifest:
    """Return the manifest of :func:`exported`."""
    return model_manifest(**exported_body(**changes))


def exported_body(**changes: Any) -> dict[str, Any]:
    return {
        "name": "parity",
        "version": "1",
        "task": "image-classification",
        "architecture": {"kind": "exported"},
        "input": {"shape": [1, 4, 4], "mean": [0.0], "std": [1.0]},
        "labels": LABELS,
        **changes,
    }


def tensor(*sizes: int | dict[str, Any], dtype: int = 7) -> dict[str, Any]:
    told = [size if isinstance(size, dict) else {"as_int": size} for size in sizes]
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, {"as_int": step})
        step *= size if isinstance(size, int) else 1
    return {
        "dtype": dtype, "sizes": told, "requires_grad": False, "device": {"type": "cpu", "index": None},
        "strides": strides, "storage_offset": {"as_int": 0}, "layout": 7,
    }  # fmt: skip


def ref(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def node(target: str, *inputs: Any, outputs: list[Any], **named: Any) -> dict[str, Any]:
    given = [{"name": "", "arg": one, "kind": 1} for one in inputs]
    given += [{"name": name, "arg": one, "kind": 2} for name, one in named.items()]
    return {"target": target, "inputs": given, "outputs": outputs, "metadata": {}, "name": "n"}


def graph() -> dict[str, Any]:
    """Return the graph of ``linear(flatten(images))``, which looks its batch size up as larger ones do."""
    size = {"as_sym_int": {"as_name": "size"}}
    nodes = [
        node("torch.ops.aten.sym_size.int", ref("x"), {"as_int": 0}, outputs=[size]),
        node("_operator.mul", size, {"as_int": 16}, outputs=[{"as_sym_int": {"as_name": "many"}}]),
        node(
            "torch.ops.aten.view.default",
            ref("x"),
            {"as_sym_ints": [{"as_name": "size"}, {"as_int": 16}]},
            outputs=[ref("flat")],
        ),
        node("torch.ops.aten.linear.default", ref("flat"), ref("p_w"), ref("p_b"), outputs=[ref("logits")]),
    ]
    return {
        "graph_module": {
            "graph": {
                "inputs": [ref("p_w"), ref("p_b"), ref("x")],
                "outputs": [ref("logits")],
                "nodes": nodes,
                "tensor_values": {"x": tensor(BATCH, 1, 4, 4), "flat": tensor(BATCH, 16), "logits": tensor(BATCH, 2)},
                "sym_int_values": {}, "sym_bool_values": {},
            },
            "signature": {
                "input_specs": [
                    {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "fc.weight"}},
                    {"parameter": {"arg": {"name": "p_b"}, "parameter_name": "fc.bias"}},
                    {"user_input": {"arg": ref("x")}},
                ],
                "output_specs": [{"user_output": {"arg": ref("logits")}}],
            },
            "module_call_graph": [],
        },
        "opset_version": {"aten": 10},
        "range_constraints": {"s77": {"min_val": 1, "max_val": 4096}},
        "schema_version": {"major": 8, "minor": 20},
        "torch_version": "2.13.0",
    }  # fmt: skip


def weights() -> dict[str, Any]:
    def entry(path: str, *sizes: int) -> dict[str, Any]:
        return {"path_name": path, "is_param": True, "use_pickle": False, "tensor_meta": tensor(*sizes)}

    return {"config": {"fc.weight": entry("weight_0", 2, 16), "fc.bias": entry("weight_1", 2)}}


def files(
    change_graph: Callable[[dict[str, Any]], None] = lambda document: None,
    change_weights: Callable[[dict[str, Any]], None] = lambda document: None,
    **more: Any,
) -> dict[str, bytes]:
    """Return the files of an archive, after changes of its two documents."""
    changed, config = copy.deepcopy(graph()), copy.deepcopy(weights())
    change_graph(changed)
    change_weights(config["config"])
    return {
        "m/data/weights/weight_0": LINEAR[:32].tobytes(),
        "m/data/weights/weight_1": LINEAR[32:].tobytes(),
        WEIGHTS: json.dumps(config).encode(),
        CONSTANTS: b'{"config": {}}',
        GRAPH: json.dumps(changed).encode(),
        "m/data/sample_inputs/model.pt": b"PK\x03\x04 a pickle that nobody reads",
        "m/archive_format": b"pt2",
        "m/archive_version": b"0",
        "m/byteorder": b"little",
        "m/.data/serialization_id": b"1",
        **more,
    }


def exported(**changes: Any) -> bytes:
    """Return an archive; see :func:`files`."""
    return packed(files(**changes))


def packed(given: Mapping[str, bytes]) -> bytes:
    return zipped(given, zipfile.ZIP_STORED)


def nodes_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = document["graph_module"]["graph"]["nodes"]
    return listed
