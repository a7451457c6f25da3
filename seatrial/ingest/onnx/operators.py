"""The operators an ONNX graph may name, and what each is in the operators of torch that exported programs may name."""

from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from seatrial.ingest.exported.arguments import Argument, Value
from seatrial.ingest.inspection.errors import OperatorRefusedError
from seatrial.ingest.onnx.lowering import Ints, Item, Lowering, Operator, Shape, Size, cast_name, known_ints
from seatrial.ingest.onnx.model import MAX_AXES, Node, Tensor


def _unary(name: str, *args: Argument) -> Operator:
    return lambda graph, node: graph.run(name, graph.taken(node, 0), *args)


def _binary(name: str, arithmetic: str = "") -> Operator:
    def lower(graph: Lowering, node: Node) -> Item:
        items = graph.item(node, 0), graph.item(node, 1)
        sizes = [known_ints(one) if isinstance(one, Tensor) else one for one in items]
        # Sizes are worked out as integers, unless both are plain tensors.
        if arithmetic and any(isinstance(one, Ints) for one in items) and all(isinstance(one, Ints) for one in sizes):
            return _on_sizes(graph, arithmetic, sizes[0], sizes[1])  # type: ignore[arg-type]
        return graph.run(name, graph.taken(node, 0), graph.taken(node, 1))

    return lower


def _on_sizes(graph: Lowering, arithmetic: str, left: Ints, right: Ints) -> Ints:
    count = max(len(left.values), len(right.values))
    pairs = zip(*(one.values * (count if len(one.values) == 1 else 1) for one in (left, right)), strict=True)
    return Ints(
        tuple(_calculate(graph, arithmetic, a, b) for a, b in pairs), is_scalar=left.is_scalar and right.is_scalar
    )


def _calculate(graph: Lowering, arithmetic: str, a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        result = {"add": a + b, "sub": a - b, "mul": a * b, "floordiv": a // (b or 1)}[arithmetic]
        if abs(result) >= 2**48:
            raise ValueError("a size beyond any memory")
        return result
    return graph.run(f"_operator.{arithmetic}", a, b)


def _many(name: str) -> Operator:
    def lower(graph: Lowering, node: Node) -> Item:
        result = graph.taken(node, 0)
        for position in range(1, len(node.inputs)):
            result = graph.run(name, result, graph.taken(node, position))
        return result

    return lower


def _with(name: str, **attributes: float) -> Operator:
    """Return an operator whose attributes are the further arguments, with ONNX's defaults."""
    return lambda graph, node: graph.run(
        name, graph.taken(node, 0), *[real(node, key, default) for key, default in attributes.items()]
    )


def real(node: Node, name: str, default: float) -> float:
    """Return an attribute that is a number."""
    return float(node.attributes.get(name, default))


def whole(node: Node, name: str, default: int) -> int:
    """Return an attribute that is a whole number."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise TypeError(name)
    return value


def listed(node: Node, name: str, default: list[int]) -> list[int]:
    """Return an attribute that lists whole numbers."""
    value = node.attributes.get(name) or default
    if not isinstance(value, list) or not all(isinstance(one, int) for one in value) or len(value) > 32:
        raise TypeError(name)
    return value


def _same(graph: Lowering, node: Node) -> Item:
    item = graph.item(node, 0)
    return graph.taken(node, 0) if item is None else item


def _dropout(graph: Lowering, node: Node) -> Item:
    mode = graph.item(node, 2)
    if mode is not None and (not isinstance(mode, Tensor) or any(bytes(mode.raw))):
        raise OperatorRefusedError(f"{node.where} is in training: export the model for inference")
    return graph.taken(node, 0)


def _constant(graph: Lowering, node: Node) -> Item:
    told = node.attributes
    if isinstance(told.get("value"), Tensor):
        return told["value"]  # type: ignore[no-any-return]
    for name, kind in (("value_float", "<f4"), ("value_floats", "<f4"), ("value_int", "<i8"), ("value_ints", "<i8")):
        if name in told:
            array = np.array(told[name], dtype=kind)
            return Tensor(array.dtype.name, array.shape, array.tobytes())
    raise OperatorRefusedError(f"{node.where} holds no tensor of numbers")


def _shape(graph: Lowering, node: Node) -> Item:
    if "end" not in node.attributes and "start" not in node.attributes:
        return Shape(graph.taken(node, 0))
    first, stop = whole(node, "start", 0), node.attributes.get("end")
    if first < 0 or not isinstance(stop, int) or stop < 0:
        raise OperatorRefusedError(f"{node.where} counts axes from the end: export it with a plain Shape")
    given = graph.taken(node, 0)
    return Ints(tuple(graph.run("sym_size.int", given, axis) for axis in range(first, stop)))


def _gather(graph: Lowering, node: Node) -> Item:
    source, axis = graph.item(node, 0), whole(node, "axis", 0)
    if isinstance(source, (Ints, Shape)):
        chosen = graph.ints(node, 1)
        if chosen is None or axis != 0:
            raise ValueError("axis")
        places = [one for one in chosen.values if isinstance(one, int)]
        if isinstance(source, Shape):
            sizes = (graph.run("sym_size.int", source.tensor, at) for at in places)
            return Ints(tuple(sizes), is_scalar=chosen.is_scalar)
        return Ints(tuple(source.values[at] for at in places), is_scalar=chosen.is_scalar)
    index = graph.item(node, 1)
    known = known_ints(index) if isinstance(index, Tensor) else None
    if known is not None and known.is_scalar:
        return graph.run("select.int", graph.taken(node, 0), axis, known.values[0])
    if known is None or any(isinstance(one, int) and one < 0 for one in known.values):
        raise OperatorRefusedError(
            f"{node.where} picks by numbers that examples hold: a classifier of numbers does not"
        )
    return graph.run("index_select.default", graph.taken(node, 0), axis, graph.taken(node, 1))


def _sizes_or(on_sizes: Callable[[Ints, Node], Ints], otherwise: Operator) -> Operator:
    def lower(graph: Lowering, node: Node) -> Item | list[Item]:
        item = graph.item(node, 0)
        if isinstance(item, Ints):
            return on_sizes(item, node)
        return otherwise(graph, node)

    return lower


def _cast(graph: Lowering, node: Node) -> Item:
    item = graph.item(node, 0)
    if isinstance(item, (Ints, Shape)) and node.attributes.get("to") in (6, 7):
        return item
    return graph.run("to.dtype", graph.taken(node, 0), cast_name(node.attributes.get("to")))


def _concat(graph: Lowering, node: Node) -> Item:
    items = [graph.item(node, at) for at in range(len(node.inputs))]
    if any(isinstance(one, Ints) for one in items):
        lists = [graph.ints(node, at) for at in range(len(items))]
        return Ints(tuple(size for one in lists if one is not None for size in one.values))
    return graph.run("cat.default", tuple(graph.taken(node, at) for at in range(len(items))), whole(node, "axis", 0))


def _reshape(graph: Lowering, node: Node) -> Item:
    like, given = graph.item(node, 1), graph.taken(node, 0)
    if isinstance(like, Shape):
        return graph.run("view_as.default", graph.run("contiguous.default", given), like.tensor)
    sizes = graph.ints(node, 1)
    if sizes is None:
        raise ValueError("shape")
    is_copied = not whole(node, "allowzero", 0)
    wanted = tuple(
        graph.run("sym_size.int", given, at) if size == 0 and is_copied else size
        for at, size in enumerate(sizes.values)
    )
    return graph.run("reshape.default", given, wanted)


def _expand(graph: Lowering, node: Node) -> Item:
    like = graph.item(node, 1)
    if isinstance(like, Shape):
        return graph.run("expand_as.default", graph.taken(node, 0), like.tensor)
    sizes = graph.ints(node, 1)
    if sizes is None:
        raise ValueError("shape")
    return graph.run("expand.default", graph.taken(node, 0), tuple(-1 if one == 1 else one for one in sizes.values))


def _flatten(graph: Lowering, node: Node) -> Item:
    axis, given = whole(node, "axis", 1), graph.taken(node, 0)
    if axis == 0:
        return graph.run("unsqueeze.default", graph.run("flatten.using_ints", given, 0, -1), 0)
    flat = graph.run("flatten.using_ints", given, axis, -1)
    return flat if axis == 1 else graph.run("flatten.using_ints", flat, 0, axis - 1 if axis > 0 else -2)


def _transpose(graph: Lowering, node: Node) -> Item:
    order = listed(node, "perm", [])
    return (
        graph.run("permute.default", graph.taken(node, 0), tuple(order))
        if order
        else graph.run("numpy_T.default", graph.taken(node, 0))
    )


def _squeeze(graph: Lowering, node: Node) -> Item:
    axes = graph.known(node, 1)
    if axes is None:
        raise OperatorRefusedError(f"{node.where} drops all axes of size 1, the batch's too where it has one example")
    return graph.run("squeeze.dims", graph.taken(node, 0), axes)


def _unsqueeze(graph: Lowering, node: Node) -> Item:
    axes, result = graph.known(node, 1) or (), graph.taken(node, 0)
    if len(axes) > 1 and min(axes) < 0:
        raise OperatorRefusedError(f"{node.where} adds several axes counted from the end")
    for axis in sorted(axes):
        result = graph.run("unsqueeze.default", result, axis)
    return result


def _slice(graph: Lowering, node: Node) -> Item:
    source = graph.item(node, 0)
    begins, ends = graph.known(node, 1), graph.known(node, 2)
    axes, steps = graph.known(node, 3), graph.known(node, 4)
    if begins is None or ends is None:
        raise ValueError("starts")
    if isinstance(source, Shape):
        if not 0 <= begins[0] <= ends[0] <= MAX_AXES:
            raise OperatorRefusedError(f"{node.where} cuts a shape at its end")
        return Ints(tuple(graph.run("sym_size.int", source.tensor, at) for at in range(begins[0], ends[0])))
    if isinstance(source, Ints):
        return Ints(source.values[begins[0] : ends[0] : (steps or (1,))[0]])
    result = graph.taken(node, 0)
    for at, (first, stop) in enumerate(zip(begins, ends, strict=True)):
        axis, step = axes[at] if axes else at, steps[at] if steps else 1
        if step < 1:
            raise OperatorRefusedError(f"{node.where} goes backwards")
        result = graph.run("slice.Tensor", result, axis, first, min(stop, 2**62), step)
    return result


def _split(graph: Lowering, node: Node) -> list[Item]:
    axis, sizes = whole(node, "axis", 0), graph.known(node, 1)
    if sizes is None:
        raise OperatorRefusedError(f"{node.where} does not say its sizes: export it with opset 17")
    given = graph.taken(node, 0)
    return list(graph.run_all("split_with_sizes.default", given, sizes, axis, outputs=len(node.outputs), several=True))


def _filled(graph: Lowering, node: Node) -> Item:
    sizes, told = graph.known(node, 0), node.attributes.get("value")
    if sizes is None or (told is not None and not isinstance(told, Tensor)):
        raise ValueError("shape")
    kind, raw = (told.type, bytes(told.raw)) if told is not None else ("float32", b"\0\0\0\0")
    count = int(np.prod(sizes, dtype=object)) if sizes else 1
    if not 0 <= count <= 2**20:
        raise OperatorRefusedError(f"{node.where} fills {count:,} values: at most {2**20:,} are accepted")
    return Tensor(kind, tuple(sizes), raw * count)


def _clip(graph: Lowering, node: Node) -> Item:
    return graph.run("clamp.default", graph.taken(node, 0), graph.number(node, 1), graph.number(node, 2))


def _gelu(graph: Lowering, node: Node) -> Item:
    return graph.run("gelu.default", graph.taken(node, 0), approximate=str(node.attributes.get("approximate", "none")))


def _hard_sigmoid(graph: Lowering, node: Node) -> Item:
    scaled = graph.run("mul.Scalar", graph.taken(node, 0), real(node, "alpha", 0.2))
    return graph.run("clamp.default", graph.run("add.Scalar", scaled, real(node, "beta", 0.5)), 0.0, 1.0)


def _where(graph: Lowering, node: Node) -> Item:
    return graph.run("where.self", *[graph.taken(node, at) for at in range(3)])


def _softmax(name: str) -> Operator:
    return lambda graph, node: graph.run(name, graph.taken(node, 0), whole(node, "axis", -1))


def _reduce(name: str) -> Operator:
    def lower(graph: Lowering, node: Node) -> Item:
        axes = graph.known(node, 1)
        axes = axes if axes is not None else tuple(listed(node, "axes", []))
        if not axes:
            raise OperatorRefusedError(f"{node.where} reduces all axes, the batch's too")
        keeps = bool(whole(node, "keepdims", 1))
        if name == "linalg_vector_norm.default":
            return graph.run(name, graph.taken(node, 0), 2.0, axes, keeps)
        return graph.run(name, graph.taken(node, 0), axes, keeps)

    return lower


def pads_of(node: Node, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and after each axis."""
    how = node.attributes.get("auto_pad", "NOTSET")
    if how == "VALID":
        return (0,) * axes, (0,) * axes
    if how != "NOTSET":
        raise OperatorRefusedError(f"{node.where} pads by {how!r:.20}: export it with explicit pads")
    pads = listed(node, "pads", [0] * 2 * axes)
    if len(pads) != 2 * axes or min(pads) < 0:
        raise ValueError("pads")
    return tuple(pads[:axes]), tuple(pads[axes:])


def padded(graph: Lowering, given: Value, before: tuple[int, ...], after: tuple[int, ...], fill: float) -> Value:
    """Return a value with a border along its last axes."""
    both = tuple(size for pair in zip(reversed(before), reversed(after), strict=True) for size in pair)
    return graph.run("constant_pad_nd.default", given, both, fill)


_SIMPLE = {
    "Abs": "abs", "Ceil": "ceil", "Cos": "cos", "Erf": "erf", "Exp": "exp", "Floor": "floor", "HardSwish": "hardswish",
    "Log": "log", "Mish": "mish", "Neg": "neg", "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu",
    "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Softplus": "softplus", "Sqrt": "sqrt",
    "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_PAIRS = {
    "And": ("logical_and.default", ""), "Equal": ("eq.Tensor", ""), "Greater": ("gt.Tensor", ""),
    "GreaterOrEqual": ("ge.Tensor", ""), "Less": ("lt.Tensor", ""), "LessOrEqual": ("le.Tensor", ""),
    "Or": ("logical_or.default", ""), "Pow": ("pow.Tensor_Tensor", ""), "MatMul": ("matmul.default", ""),
    "PRelu": ("where.self", ""), "Add": ("add.Tensor", "add"), "Sub": ("sub.Tensor", "sub"),
    "Mul": ("mul.Tensor", "mul"), "Div": ("div.Tensor", "floordiv"),
}  # fmt: skip


def _prelu(graph: Lowering, node: Node) -> Item:
    given, slope = graph.taken(node, 0), graph.taken(node, 1)
    positive, negative = graph.run("clamp_min.default", given, 0.0), graph.run("clamp_max.default", given, 0.0)
    return graph.run("add.Tensor", positive, graph.run("mul.Tensor", negative, slope))


OWN: MappingProxyType[str, Operator] = MappingProxyType(
    {
        **{kind: _unary(f"{name}.default") for kind, name in _SIMPLE.items()},
        **{kind: _binary(*names) for kind, names in _PAIRS.items()},
        "PRelu": _prelu,
        "Max": _many("maximum.default"),
        "Min": _many("minimum.default"),
        "Sum": _many("add.Tensor"),
        "LeakyRelu": _with("leaky_relu.default", alpha=0.01),
        "Elu": _with("elu.default", alpha=1.0),
        "Selu": _unary("selu.default"),
        "HardSigmoid": _hard_sigmoid,
        "Gelu": _gelu,
        "Clip": _clip,
        "Where": _where,
        "Identity": _same,
        "Dropout": _dropout,
        "Constant": _constant,
        "ConstantOfShape": _filled,
        "Shape": _shape,
        "Gather": _gather,
        "Cast": _cast,
        "Concat": _concat,
        "Reshape": _reshape,
        "Expand": _expand,
        "Flatten": _flatten,
        "Transpose": _transpose,
        "Squeeze": _sizes_or(lambda item, _: Ints(item.values, is_scalar=True), _squeeze),
        "Unsqueeze": _sizes_or(lambda item, _: Ints(item.values), _unsqueeze),
        "Slice": _slice,
        "Split": _split,
        "Softmax": _softmax("softmax.int"),
        "LogSoftmax": _softmax("log_softmax.int"),
        "ReduceMean": _reduce("mean.dim"),
        "ReduceSum": _reduce("sum.dim_IntList"),
        "ReduceMax": _reduce("amax.default"),
        "ReduceMin": _reduce("amin.default"),
        "ReduceL2": _reduce("linalg_vector_norm.default"),
    }
)
"""Operators on values and shapes, by name; layers stand in :mod:`seatrial.ingest.onnx.layers`."""
