"""The graphs that tests hold against onnxruntime: built with onnx, computed by onnxruntime, kept in one file.

    pip install onnx onnxruntime        # in an environment of its own: neither is a dependency
    python benchmarks/onnx_graphs.py tests/models/onnx_graphs.npz

Last run with onnx 1.23.2 and onnxruntime 1.32.0. Five graphs: two layers with alpha and beta of Gemm; a CNN with uneven
padding, groups and a shape worked out by Shape, Gather and Concat; a residual network in NHWC; an attention block; and
a scaler and linear classifier as skl2onnx writes a pipeline of scikit-learn.
"""

import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(0)
FLOAT = TensorProto.FLOAT
node = helper.make_node


def drawn(*sizes: int) -> Any:
    """Return float32 weights."""
    return (RANDOM.normal(size=sizes) * 0.4).astype("f4")


def built(name: str, nodes: list[Any], tensors: dict[str, Any], shape: list[int]) -> bytes:
    """Return a file of one graph from ``x`` (n, ...) to ``y`` (n, 3)."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", FLOAT, ["n", *shape])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 3])],
        [numpy_helper.from_array(values, key) for key, values in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model.SerializeToString()  # type: ignore[no-any-return]


def integers(*values: int) -> Any:
    """Return a list of sizes or axes."""
    return np.array(values, "i8")


def mlp() -> bytes:
    """Return two layers that end in a softmax."""
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["h"], transB=1, alpha=0.5, beta=2.0),
        node("LeakyRelu", ["h"], ["a"], alpha=0.2),
        node("MatMul", ["a", "w2"], ["m"]),
        node("Add", ["m", "b2"], ["z"]),
        node("Softmax", ["z"], ["y"], axis=-1),
    ]
    return built("mlp", nodes, {"w1": drawn(6, 5), "b1": drawn(6), "w2": drawn(6, 3), "b2": drawn(3)}, [5])


def cnn() -> bytes:
    """Return convolutions, pools and a reshape to a shape the graph works out."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c"], pads=[0, 1, 1, 1], strides=[1, 1], kernel_shape=[2, 3]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["b"], epsilon=1e-3),
        node("Clip", ["b", "low", "high"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "w2"], ["c2"], group=2, pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("HardSwish", ["c2"], ["hs"]),
        node("AveragePool", ["hs"], ["ap"], kernel_shape=[2, 2], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Shape", ["ap"], ["sizes"]),
        node("Gather", ["sizes", "zero"], ["batch"]),
        node("Unsqueeze", ["batch", "axis"], ["first"]),
        node("Concat", ["first", "rest"], ["shape"], axis=0),
        node("Reshape", ["ap", "shape"], ["flat"]),
        node("Gemm", ["flat", "w3", "b3"], ["y"]),
    ]
    tensors = {
        **{"w1": drawn(4, 1, 2, 3), "b1": drawn(4), "scale": 1 + drawn(4), "shift": drawn(4), "mean": drawn(4)},
        **{"variance": np.abs(drawn(4)) + np.float32(0.5), "low": np.array(0, "f4"), "high": np.array(6, "f4")},
        **{"w2": drawn(6, 2, 3, 3), "w3": drawn(54, 3), "b3": drawn(3), "zero": np.array(0, "i8")},
        **{"axis": integers(0), "rest": integers(-1)},
    }
    return built("cnn", nodes, tensors, [1, 8, 8])


def residual() -> bytes:
    """Return a residual block on images whose channels come last."""
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("Conv", ["t", "w1"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "w2"], ["c2"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Add", ["c2", "r"], ["s"]),
        node("Mul", ["s", "k"], ["scaled"]),
        node("Sigmoid", ["scaled"], ["gate"]),
        node("Mul", ["gate", "s"], ["swish"]),
        node("GlobalAveragePool", ["swish"], ["g"]),
        node("Flatten", ["g"], ["flat"], axis=1),
        node("Gemm", ["flat", "w3", "b3"], ["y"], transB=1),
    ]
    tensors = {"w1": drawn(4, 3, 3, 3), "w2": drawn(4, 4, 3, 3), "k": np.array(1.5, "f4"), "w3": drawn(3, 4)}
    return built("residual", nodes, {**tensors, "b3": drawn(3)}, [6, 6, 3])


def attention() -> bytes:
    """Return an attention block, with a GELU written out."""
    nodes = [
        node("Squeeze", ["x", "axis"], ["rows"]),
        node("LayerNormalization", ["rows", "scale", "shift"], ["l"], axis=-1, epsilon=1e-5),
        node("MatMul", ["l", "w1"], ["qkv"]),
        node("Split", ["qkv", "thirds"], ["q", "k", "v"], axis=-1),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["a"]),
        node("Div", ["a", "d"], ["scaled"]),
        node("Softmax", ["scaled"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Add", ["o", "rows"], ["r"]),
        node("Div", ["r", "root"], ["e0"]),
        node("Erf", ["e0"], ["e1"]),
        node("Add", ["e1", "one"], ["e2"]),
        node("Mul", ["r", "e2"], ["gelu"]),
        node("Slice", ["gelu", "start", "end", "axis"], ["c"]),
        node("ReduceMean", ["gelu"], ["mean"], axes=[1], keepdims=0),
        node("Squeeze", ["c", "axis"], ["cs"]),
        node("Concat", ["cs", "mean"], ["both"], axis=-1),
        node("Gemm", ["both", "w2", "b2"], ["y"]),
    ]
    tensors = {
        **{"scale": 1 + drawn(8), "shift": drawn(8), "w1": drawn(8, 24), "thirds": integers(8, 8, 8)},
        **{"d": np.array(8**0.5, "f4"), "root": np.array(2**0.5, "f4"), "one": np.array(1, "f4")},
        **{"start": integers(0), "end": integers(1), "axis": integers(1), "w2": drawn(16, 3), "b2": drawn(3)},
    }
    return built("attention", nodes, tensors, [1, 5, 8])


def pipeline() -> bytes:
    """Return a scaler and a linear classifier, whose label stands beside its probabilities."""
    own = "ai.onnx.ml"
    told = {"classlabels_ints": [0, 1, 2], "multi_class": 1, "post_transform": "SOFTMAX"}
    weights = {"coefficients": drawn(12).tolist(), "intercepts": drawn(3).tolist()}
    nodes = [
        node("Scaler", ["x"], ["s"], domain=own, offset=[0.1, 0.2, 0.3, 0.4], scale=[1.0, 2.0, 0.5, 1.5]),
        node("LinearClassifier", ["s"], ["label", "y"], domain=own, **told, **weights),
    ]
    return built("sklearn", nodes, {}, [4])


def main() -> None:
    """Write files, inputs and onnxruntime's outputs."""
    arrays = {}
    made = {"mlp": mlp, "cnn": cnn, "residual": residual, "attention": attention, "sklearn": pipeline}
    for name, make in made.items():
        data = make()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        given = RANDOM.normal(size=(3, *session.get_inputs()[0].shape[1:])).astype("f4")
        arrays[f"{name}_onnx"], arrays[f"{name}_x"] = np.frombuffer(data, "u1"), given
        arrays[f"{name}_y"] = session.run(["y"], {"x": given})[0]
    np.savez_compressed(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
