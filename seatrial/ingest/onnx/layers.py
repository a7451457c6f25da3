"""Layers of ONNX, convolutions to linear classifiers, in the operators of torch that exported programs may name."""

from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from seatrial.ingest.exported.arguments import TorchName, Value
from seatrial.ingest.inspection.errors import OperatorRefusedError
from seatrial.ingest.onnx.lowering import Item, Lowering, Operator
from seatrial.ingest.onnx.model import Node, Tensor
from seatrial.ingest.onnx.operators import OWN, listed, padded, pads_of, real, whole


def _conv(graph: Lowering, node: Node) -> Item:
    weight = _stored(graph, node, 1)
    axes = len(weight.sizes) - 2
    if axes not in (1, 2, 3):
        raise ValueError(f"weights of shape {weight.sizes}")
    before, after = pads_of(node, axes)
    given = graph.taken(node, 0)
    if before != after:
        given, before = padded(graph, given, before, after, 0.0), (0,) * axes
    return graph.run(
        "convolution.default",
        given,
        graph.taken(node, 1),
        None if graph.item(node, 2) is None else graph.taken(node, 2),
        tuple(listed(node, "strides", [1] * axes)),
        before,
        tuple(listed(node, "dilations", [1] * axes)),
        False,
        (0,) * axes,
        whole(node, "group", 1),
    )


def _gemm(graph: Lowering, node: Node) -> Item:
    left, right = graph.taken(node, 0), graph.taken(node, 1)
    if whole(node, "transA", 0):
        left = graph.run("t.default", left)
    is_linear = whole(node, "transB", 0)
    product = graph.run("linear.default" if is_linear else "matmul.default", left, right)
    alpha, beta = real(node, "alpha", 1.0), real(node, "beta", 1.0)
    if alpha != 1.0:
        product = graph.run("mul.Scalar", product, alpha)
    if graph.item(node, 2) is None or beta == 0.0:
        return product
    return graph.run("add.Tensor", product, graph.taken(node, 2), alpha=beta)


def _batch_norm(graph: Lowering, node: Node) -> Item:
    if whole(node, "training_mode", 0):
        raise OperatorRefusedError(f"{node.where} is in training: export the model for inference")
    given, scale, bias, mean, variance = (graph.taken(node, at) for at in range(5))
    epsilon = real(node, "epsilon", 1e-5)
    return graph.run("batch_norm.default", given, scale, bias, mean, variance, False, 0.1, epsilon, False)


def _layer_norm(graph: Lowering, node: Node) -> Item:
    scale = _stored(graph, node, 1)
    axis = whole(node, "axis", -1)
    if axis >= 0 or -axis != len(scale.sizes):
        raise OperatorRefusedError(f"{node.where} counts its axis from the front: export it with axis -1")
    bias = None if graph.item(node, 2) is None else graph.taken(node, 2)
    epsilon = real(node, "epsilon", 1e-5)
    return graph.run(
        "layer_norm.default", graph.taken(node, 0), scale.sizes, graph.taken(node, 1), bias, epsilon, False
    )


def _instance_norm(graph: Lowering, node: Node) -> Item:
    given, scale, bias = (graph.taken(node, at) for at in range(3))
    epsilon = real(node, "epsilon", 1e-5)
    return graph.run("instance_norm.default", given, scale, bias, None, None, True, 0.0, epsilon, False)


def _max_pool(graph: Lowering, node: Node) -> Item:
    kernel, strides, before, after = _window(node)
    given, dilations = graph.taken(node, 0), tuple(listed(node, "dilations", [1] * len(kernel)))
    if before != after or any(2 * pad > size for pad, size in zip(before, kernel, strict=True)):
        given, before = padded(graph, given, before, after, float("-inf")), (0,) * len(kernel)
    name = f"max_pool{len(kernel)}d.default"
    return graph.run(name, given, kernel, strides, before, dilations, bool(whole(node, "ceil_mode", 0)))


def _average_pool(graph: Lowering, node: Node) -> Item:
    kernel, strides, before, after = _window(node)
    if before != after or set(listed(node, "dilations", [1])) != {1} or whole(node, "ceil_mode", 0):
        raise OperatorRefusedError(f"{node.where} pads its sides differently, is dilated or rounds up: not supported")
    counts_padding = bool(whole(node, "count_include_pad", 0))
    name = f"avg_pool{len(kernel)}d.default"
    return graph.run(name, graph.taken(node, 0), kernel, strides, before, False, counts_padding)


def _window(node: Node) -> tuple[tuple[int, ...], ...]:
    kernel = listed(node, "kernel_shape", [])
    if len(kernel) not in (1, 2, 3):
        raise ValueError("kernel_shape")
    strides = listed(node, "strides", [1] * len(kernel))
    return (tuple(kernel), tuple(strides), *pads_of(node, len(kernel)))


def _over_images(name: str) -> Operator:
    return lambda graph, node: graph.run(name, graph.taken(node, 0), (-2, -1), True)


def _pad(graph: Lowering, node: Node) -> Item:
    if node.attributes.get("mode", "constant") != "constant" or graph.item(node, 3) is not None:
        raise OperatorRefusedError(f"{node.where} pads otherwise than with a constant on all axes: not supported")
    pads = graph.known(node, 1) or ()
    half = len(pads) // 2
    return padded(graph, graph.taken(node, 0), pads[:half], pads[half:], graph.number(node, 2) or 0.0)


def _linear_classifier(graph: Lowering, node: Node) -> list[Item]:
    """Return the label and the scores; binary classifiers may have the scores of one class alone."""
    weights, biases = node.attributes["coefficients"], node.attributes.get("intercepts")
    classes = len(biases) if biases else len(_class_labels(node))
    shaped = np.array(weights, dtype="<f4").reshape(classes, -1)
    bias = graph.value(_tensor(np.array(biases or [0.0] * classes, dtype="<f4")))
    scores = graph.run("linear.default", _as_float(graph, node), graph.value(_tensor(shaped)), bias)
    if classes == 1:
        scores = graph.run("cat.default", (graph.run("neg.default", scores), scores), 1)
    after = node.attributes.get("post_transform", "NONE")
    if after == "SOFTMAX":
        scores = graph.run("softmax.int", scores, 1)
    elif after == "LOGISTIC":
        scores = graph.run("sigmoid.default", scores)
    elif after != "NONE":
        raise OperatorRefusedError(f"{node.where} ends in {after!r:.20}: NONE, SOFTMAX and LOGISTIC are supported")
    return [graph.run("argmax.default", scores, 1), scores]


def _class_labels(node: Node) -> list[Any]:
    found = node.attributes.get("classlabels_strings") or node.attributes.get("classlabels_ints")
    if not isinstance(found, list):
        raise TypeError("classlabels")
    return found


def _scaler(graph: Lowering, node: Node) -> Item:
    result = _as_float(graph, node)
    steps: list[tuple[str, str]] = [("offset", "sub.Tensor"), ("scale", "mul.Tensor")]
    for name, operator in steps:
        if node.attributes.get(name):
            constant = graph.value(_tensor(np.array(node.attributes[name], dtype="<f4")))
            result = graph.run(operator, result, constant)
    return result


def _normalizer(graph: Lowering, node: Node) -> Item:
    given = _as_float(graph, node)
    order = {"MAX": float("inf"), "L1": 1.0, "L2": 2.0}[node.attributes.get("norm", "MAX")]
    norm = graph.run("linalg_vector_norm.default", given, order, (1,), True)
    return graph.run("div.Tensor", given, graph.run("clamp_min.default", norm, 1e-30))


def _as_float(graph: Lowering, node: Node) -> Value:
    return graph.run("to.dtype", graph.taken(node, 0), _FLOAT32)


def _stored(graph: Lowering, node: Node, position: int) -> Tensor:
    item = graph.item(node, position)
    if not isinstance(item, Tensor) or prod(item.sizes) == 0:
        raise OperatorRefusedError(f"{node.where} takes weights that the graph computes, or none")
    return item


def _tensor(values: np.ndarray) -> Tensor:
    return Tensor(values.dtype.name, values.shape, values.tobytes())


_FLOAT32 = TorchName("float32")

OPERATORS: MappingProxyType[str, Operator] = MappingProxyType(
    {
        **OWN,
        "Conv": _conv,
        "Gemm": _gemm,
        "BatchNormalization": _batch_norm,
        "LayerNormalization": _layer_norm,
        "InstanceNormalization": _instance_norm,
        "MaxPool": _max_pool,
        "AveragePool": _average_pool,
        "GlobalAveragePool": _over_images("mean.dim"),
        "GlobalMaxPool": _over_images("amax.default"),
        "Pad": _pad,
        "ai.onnx.ml:LinearClassifier": _linear_classifier,
        "ai.onnx.ml:Scaler": _scaler,
        "ai.onnx.ml:Normalizer": _normalizer,
    }
)
"""How each operator that may be named is run; what is not here is refused."""
