"""Exported programs, changed where they could do harm: operators, arguments, shapes, payloads, containers."""

import json
import zipfile
from collections.abc import Mapping
from random import Random
from typing import Any

from seatrial.ingest.exported.operators import ARITHMETIC, OPERATORS
from tests.fuzz.mutations import NUMBERS, damaged, document, encoded, value
from tests.ingest.builders import zipped

HOSTILE = (
    "torch.ops.mylib.run.default", "torch.ops.aten.from_file.default", "torch.ops.higher_order.cond", "os.system",
    "builtins.eval", "_operator.attrgetter", "torch.ops.aten.rand.default", "torch.ops.aten.__class__.mro",
)  # fmt: skip
FORMULA = "__import__('os').system('true')"
_SIZES = (-(2**62), -2, -1, 0, 1, 2, 3, 7, 64, 4097, 2**31, 2**33, 2**62)
_TARGETS = (*OPERATORS, *ARITHMETIC)


def mutated(random: Random, files: Mapping[str, bytes]) -> bytes:
    """Return an archive of these files after one or two changes."""
    changed = dict(files)
    for _ in range(random.randint(1, 2)):
        kind = random.randrange(10)
        if kind < 7:
            _change_graph(random, changed)
        elif kind == 7:
            name = random.choice([one for one in changed if one.endswith(".json")] or list(changed))
            changed[name] = _change_document(random, changed[name])
        elif kind == 8:
            name = random.choice(list(changed))
            changed[name] = damaged(random, changed[name])
        else:
            name = random.choice(list(changed))
            data = changed.pop(name)
            if random.random() < 0.5:
                changed[random.choice((name + "x", "n/" + name, "../" + name, name.upper()))] = data
    data = zipped(changed, zipfile.ZIP_STORED)
    return damaged(random, data) if random.random() < 0.1 else data


def _change_document(random: Random, data: bytes) -> bytes:
    try:
        return encoded(random, document(random, json.loads(data)))
    except (ValueError, RecursionError):
        return data


def _change_graph(random: Random, files: dict[str, bytes]) -> None:
    name = next((one for one in files if one.endswith("models/model.json")), None)
    if name is None:
        return
    try:
        graph = json.loads(files[name])
        nodes = graph["graph_module"]["graph"]["nodes"]
        for _ in range(random.randint(1, 2)):
            _change_node(random, nodes, graph)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return
    files[name] = json.dumps(graph).encode("utf-8", "surrogatepass")


def _change_node(random: Random, nodes: list[Any], graph: Any) -> None:
    node = random.choice(nodes)
    kind = random.randrange(10)
    if kind < 2:
        node["target"] = random.choice(_TARGETS)
    elif kind == 2 and random.random() < 0.2:
        node["target"] = random.choice(HOSTILE)
    elif kind < 6:
        given = random.choice(node["inputs"])
        (member,) = given["arg"]
        if member == "as_tensor" and random.random() < 0.8:
            return
        given["arg"] = _argument(random, member, given["arg"][member])
    elif kind == 6:
        node["inputs"].append({"name": "", "arg": {"as_int": random.choice(_SIZES)}, "kind": random.choice((1, 2))})
    elif kind == 7:
        random.shuffle(node["inputs"])
    elif kind == 8:
        # A value that is computed elsewhere, or not yet.
        names = [one for other in nodes for one in other["outputs"] if "as_tensor" in one]
        random.choice(node["inputs"])["arg"] = random.choice(names)
    else:
        sizes = random.choice(list(graph["graph_module"]["graph"]["tensor_values"].values()))["sizes"]
        formula = {"as_expr": {"expr_str": FORMULA, "hint": {"as_int": 2}}}
        sizes[random.randrange(len(sizes))] = formula if random.random() < 0.5 else {"as_int": random.choice(_SIZES)}


def _argument(random: Random, member: str, told: Any) -> dict[str, Any]:
    if member in ("as_ints", "as_sym_ints") and random.random() < 0.8:
        changed = list(told)
        size = random.choice(_SIZES)
        changed[random.randrange(len(changed))] = size if member == "as_ints" else {"as_int": size}
        return {member: changed * random.choice((1, 1, 1, 2))}
    if member == "as_int" and random.random() < 0.8:
        return {member: random.choice(_SIZES)}
    if member == "as_float" and random.random() < 0.8:
        return {member: random.choice((0.0, -1.0, 1e308, 1e-308, "Infinity", "NaN"))}
    if random.random() < 0.3:
        return {random.choice(("as_none", "as_int", "as_string", "as_ints", "as_bool", "as_device")): told}
    return {member: random.choice((random.choice(NUMBERS), value(random)))}
