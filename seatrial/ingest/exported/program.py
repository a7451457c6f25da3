"""The graph of an exported program, checked and turned into steps over numbered values.

Format: ``torch/_export/serde/schema.py``, major version 8. Sizes that vary are expressions there, strings that torch
hands to sympy, which evaluates them. Here none is: the graph's own integer operators compute every size when it runs.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from seatrial.ingest.exported.arguments import TYPES, Argument, member, parse_argument, values_in
from seatrial.ingest.exported.operators import ARITHMETIC, ASSERTIONS, OPERATORS, SWITCHED_OFF, hint
from seatrial.ingest.inspection.errors import (
    ContentError,
    MalformedFileError,
    OperatorRefusedError,
    UnsupportedFormatError,
    UploadTooLargeError,
)

SCHEMA_MAJOR = 8
EXPORT_WITH = "export it with torch 2.13"
MAX_NODES = 20_000
"""Most operators of a graph; a Swin transformer has 2,000."""
MAX_FAN = 4096
"""Most values one operator takes, or gives."""
MAX_USES = 20_000
"""Most times one value is taken."""
MAX_REFERENCES = 200_000
"""Most values all operators take together."""
MAX_BATCH = 4096
"""Largest batch a graph may be fixed to."""
MAX_AXES = 16

_SYMBOL = re.compile(r"Symbol\('(\w{1,50})'(?:, \w{1,20}=\w{1,5}){0,5}\)|(\w{1,50})")
_EVAL = "call `model.eval()` before exporting it"


@dataclass(frozen=True)
class Step:
    """One operator of the graph.

    Attributes:
        target: Its name, one of those allowed.
        args: Positional arguments.
        kwargs: Arguments by name.
        outputs: Numbers of its results; None for one that nobody has named.
        is_several: Whether its results come in a list or a tuple.
        frees: Numbers of the values nobody takes after it.
    """

    target: str
    args: tuple[Argument, ...]
    kwargs: Mapping[str, Argument]
    outputs: tuple[int | None, ...]
    is_several: bool
    frees: tuple[int, ...] = ()

    def references(self) -> list[int]:
        """Return the numbers of the values it takes."""
        return [slot for one in (*self.args, *self.kwargs.values()) for slot in values_in(one)]


@dataclass(frozen=True)
class Source:
    """A tensor the graph is given from the archive.

    Attributes:
        folder: ``weights`` or ``constants``.
        name: Its name there.
        is_parameter: Whether it was trained.
    """

    folder: str
    name: str
    is_parameter: bool


@dataclass(frozen=True)
class Batch:
    """How many examples the graph takes at once, from ``lowest`` to ``highest``."""

    lowest: int
    highest: int | None


@dataclass(frozen=True)
class Program:
    """A graph with one tensor in and one out.

    Attributes:
        steps: Its operators in order.
        sources: The tensors it is given, by number.
        slots: How many values are numbered.
        input: Number of the images.
        output: Number of the logits.
        input_type: Type of the images, as torch calls it.
        input_shape: Sizes of one image; None where any will do.
        output_shape: Sizes of what it gives for one image; None where it varies.
        batch: How many images at once.
    """

    steps: tuple[Step, ...]
    sources: Mapping[int, Source]
    slots: int
    input: int
    output: int
    input_type: str
    input_shape: tuple[int | None, ...]
    output_shape: tuple[int | None, ...]
    batch: Batch


def parse_program(document: Any) -> Program:
    """Return the program that the JSON of a graph describes.

    Raises:
        UnsupportedFormatError: It is of another version of the format.
        OperatorRefusedError: It names an operator that is not allowed.
        UploadTooLargeError: It has more operators, or takes more values, than any classifier.
        ContentError: It takes or gives something else than one tensor, or keeps something from one call to the next.
        MalformedFileError: It contradicts itself.
    """
    if not isinstance(document, dict):
        raise MalformedFileError("the graph of the exported program must be a JSON object")
    _check_version(document)
    try:
        module = document["graph_module"]
        graph, signature = module["graph"], module["signature"]
        reader = _Reader()
        reader.read_inputs(signature["input_specs"])
        output = reader.read_output_name(signature["output_specs"])
        reader.read_nodes(graph["nodes"])
        return reader.finish(output, graph["tensor_values"], document.get("range_constraints"))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise MalformedFileError(
            f"the graph of the exported program lacks something, or holds something else there ({error!r:.100}): "
            f"{EXPORT_WITH}"
        ) from error


class _Reader:
    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._sources: dict[int, Source] = {}
        self._steps: list[Step] = []
        self._input: str | None = None

    def read_inputs(self, specs: list[Any]) -> None:
        for spec in specs:
            kind, told = member(spec, "an input of the exported program")
            if kind == "user_input":
                self._read_user_input(told)
            elif kind == "parameter":
                self._add_source(told["arg"]["name"], Source("weights", told["parameter_name"], is_parameter=True))
            elif kind == "buffer":
                folder = "weights" if told["persistent"] else "constants"
                self._add_source(told["arg"]["name"], Source(folder, told["buffer_name"], is_parameter=False))
            elif kind == "tensor_constant":
                source = Source("constants", told["tensor_constant_name"], is_parameter=False)
                self._add_source(told["arg"]["name"], source)
            elif kind != "constant_input":
                # A constant is in the graph already: it was put in while it was traced.
                raise OperatorRefusedError(
                    f"the exported program takes {kind!r:.60}: only tensors are given to a graph here, and no objects"
                )
        if self._input is None:
            raise ContentError("the exported program takes no tensor: it must take a batch of images")

    def _read_user_input(self, told: Any) -> None:
        kind, tensor = member(told["arg"], "an input of the exported program")
        if kind != "as_tensor" or self._input is not None:
            raise ContentError(
                "the exported program takes more than one tensor: it must take a batch of images alone. Wrap the "
                "model in a module whose `forward(images)` fills in the rest"
            )
        self._input = tensor["name"]
        self._name(tensor["name"])

    def _add_source(self, name: Any, source: Source) -> None:
        if not isinstance(source.name, str):
            raise TypeError("the name of a tensor is no text")
        self._sources[self._name(name)] = source

    def _name(self, name: Any) -> int:
        if not isinstance(name, str) or name in self._slots:
            raise MalformedFileError(f"the exported program names the value {name!r:.100} twice, or not by a text")
        self._slots[name] = len(self._slots)
        return self._slots[name]

    def read_output_name(self, specs: list[Any]) -> str:
        kinds = [member(spec, "an output of the exported program") for spec in specs]
        for kind, _ in kinds:
            if kind in ("buffer_mutation", "parameter_mutation", "user_input_mutation"):
                raise ContentError(
                    f"the exported program changes its own state with every call ({kind}): {_EVAL}, and keep "
                    "counters out of `forward`"
                )
        tensors = [told["arg"].get("as_tensor") for kind, told in kinds if kind == "user_output"]
        if len(kinds) != 1 or len(tensors) != 1 or tensors[0] is None:
            raise ContentError(
                f"the exported program gives {len(kinds)} results: it must give one tensor of logits. Wrap the model "
                "in a module whose `forward` returns the logits alone"
            )
        return str(tensors[0]["name"])

    def read_nodes(self, nodes: list[Any]) -> None:
        if len(nodes) > MAX_NODES:
            raise UploadTooLargeError(
                f"the exported program has {len(nodes):,} operators; at most {MAX_NODES:,} are accepted"
            )
        references = 0
        for number, node in enumerate(nodes):
            target = node["target"]
            where = f"operator {number} of the exported program ({target!r:.100})"
            _check_operator(target, where)
            if target in ASSERTIONS:
                continue
            step = self._read_step(target, node, where)
            taken = len(step.references())
            references += taken
            if max(taken, len(step.outputs)) > MAX_FAN or references > MAX_REFERENCES:
                raise UploadTooLargeError(
                    f"{where} takes or gives more than {MAX_FAN:,} values, or all together take more than "
                    f"{MAX_REFERENCES:,}"
                )
            self._steps.append(step)

    def _read_step(self, target: str, node: Any, where: str) -> Step:
        args: list[Argument] = []
        kwargs: dict[str, Argument] = {}
        for given in node["inputs"]:
            argument = parse_argument(given["arg"], self._slots, where)
            if given.get("kind") != 1:
                kwargs[str(given["name"])] = argument
            elif kwargs:
                raise MalformedFileError(f"{where} has an argument without a name after one with a name")
            else:
                args.append(argument)
        _check_switched_off(target, args, kwargs, where)
        outputs, is_several = self._read_outputs(node["outputs"], where)
        return Step(target, tuple(args), kwargs, outputs, is_several)

    def _read_outputs(self, given: list[Any], where: str) -> tuple[tuple[int | None, ...], bool]:
        named = [member(one, where) for one in given]
        if len(named) == 1 and named[0][0] == "as_tensors":
            return tuple(self._name(one["name"]) for one in named[0][1]), True
        outputs: list[int | None] = []
        for kind, told in named:
            if kind == "as_tensor":
                outputs.append(self._name(told["name"]))
            elif kind in ("as_sym_int", "as_sym_bool"):
                outputs.append(self._name(told["as_name"]))
            elif kind == "as_none":
                outputs.append(None)
            else:
                raise MalformedFileError(f"{where} gives {kind!r:.60}, which no operator here does")
        return tuple(outputs), len(outputs) > 1

    def finish(self, output: str, tensors: Mapping[str, Any], ranges: Any) -> Program:
        if self._input is None or output not in self._slots:
            raise MalformedFileError(f"the exported program gives {output!r:.100}, which no operator of it computes")
        uses = Counter(slot for step in self._steps for slot in step.references())
        if uses and max(uses.values()) > MAX_USES:
            raise UploadTooLargeError(f"the exported program takes one value more than {MAX_USES:,} times")
        input_type, sizes = _sizes(tensors[self._input])
        _, given = _sizes(tensors[output])
        if len(sizes) < 2 or not given:
            raise ContentError("the exported program must take a batch of images, and give a row of logits for each")
        return Program(
            steps=with_frees(self._steps, keep={self._slots[output], *self._sources}),
            sources=self._sources,
            slots=len(self._slots),
            input=self._slots[self._input],
            output=self._slots[output],
            input_type=input_type,
            input_shape=tuple(size if isinstance(size, int) else None for size in sizes[1:]),
            output_shape=tuple(size if isinstance(size, int) else None for size in given[1:]),
            batch=_batch(sizes[0], ranges or {}),
        )


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("schema_version")
    major = version.get("major") if isinstance(version, dict) else None
    if major != SCHEMA_MAJOR:
        raise UnsupportedFormatError(
            f"the exported program has version {major!r:.20} of the format, and {SCHEMA_MAJOR} is read here: "
            f"{EXPORT_WITH}"
        )


def _check_operator(target: Any, where: str) -> None:
    if not isinstance(target, str):
        raise MalformedFileError(f"{where} has no name")
    if target not in OPERATORS and target not in ARITHMETIC and target not in ASSERTIONS:
        raise OperatorRefusedError(f"{where} is not one of the operators that are run: {hint(target)}")


def _check_switched_off(target: str, args: list[Argument], kwargs: Mapping[str, Argument], where: str) -> None:
    if target not in SWITCHED_OFF:
        return
    position, name = SWITCHED_OFF[target]
    value = args[position] if position < len(args) else kwargs.get(name, 0)
    if not isinstance(value, (bool, int, float)) or value:
        raise OperatorRefusedError(f"{where} has {name} = {value!r:.20}, as in training: {_EVAL}")


# Formulas are constructors of sympy and torch, `Mul(Integer(2), Symbol('s77', integer=True))`: their names are
# CapWords, and nothing of an object is asked for. Lower case, only these two are called.
_CODE = re.compile(r"__|\.\s*[A-Za-z_]|[\[{;\\\n]|\blambda\b|(?<![\w.])(?!floor\b|ceiling\b)[a-z_]\w*\s*\(")


def _sizes(meta: Any) -> tuple[str, list[int | str]]:
    """Return the type of a tensor, and its sizes; the name of the symbol where one varies."""
    if meta["dtype"] not in TYPES or len(meta["sizes"]) > MAX_AXES:
        raise ContentError(f"the exported program takes or gives a tensor of type {meta['dtype']!r:.20}, or odd shape")
    sizes: list[int | str] = []
    for one in meta["sizes"]:
        kind, told = member(one, "a size in the exported program")
        if kind == "as_int":
            if type(told) is not int or not 0 <= told < 2**31:
                raise MalformedFileError(f"a size in the exported program is {told!r:.40}")
            sizes.append(told)
        else:
            if _CODE.search(told["expr_str"]):
                raise OperatorRefusedError(
                    f"a size in the exported program is the code {told['expr_str']!r:.80}, where a formula of sizes "
                    "must be: torch.export.load would evaluate it (sympy.sympify), and it is never run here; export "
                    "the program again"
                )
            symbol = _SYMBOL.fullmatch(told["expr_str"])
            # Anything else is a formula; it is never evaluated, and what it gives is found when the graph runs.
            sizes.append((symbol[1] or symbol[2]) if symbol else "")
    return TYPES[meta["dtype"]][0], sizes


def _batch(size: int | str, ranges: Mapping[str, Any]) -> Batch:
    if isinstance(size, int):
        if not 1 <= size <= MAX_BATCH:
            raise ContentError(
                f"the exported program takes batches of {size:,}; 1 to {MAX_BATCH:,} are accepted: export it with a "
                'batch that varies, `dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=4096)},)`'
            )
        return Batch(size, size)
    bounds = ranges.get(size) or {}
    lowest, highest = bounds.get("min_val"), bounds.get("max_val")
    for bound in (lowest, highest):
        if bound is not None and type(bound) is not int:
            raise MalformedFileError(f"the range of the batch in the exported program is {bounds!r:.60}")
    lowest = max(lowest or 1, 1)
    if lowest > MAX_BATCH or (highest is not None and highest < lowest):
        raise ContentError(f"the exported program takes batches of {lowest:,} and more, at most {highest}")
    return Batch(lowest, highest)


def with_frees(steps: list[Step], keep: set[int]) -> tuple[Step, ...]:
    """Say after which step each value is not taken any more: eager code frees it there as well."""
    kept = set(keep)
    done: list[Step] = []
    for step in reversed(steps):
        own = {slot for slot in step.outputs if slot is not None}
        frees = (set(step.references()) | own) - kept
        kept |= frees
        done.append(replace(step, frees=tuple(sorted(frees))))
    return tuple(reversed(done))
