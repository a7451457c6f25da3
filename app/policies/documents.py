"""Policies as YAML, read as the JSON they stand for: whatever JSON could not say is refused, whatever is odd is told.

The scalars are those of YAML 1.2's core schema (section 10.3.2), so ``no`` is a text and ``1e-3`` a number; YAML 1.1,
which most libraries read, has it the other way round.
"""

import json
import re
from typing import Any, ClassVar

import yaml
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

MAX_YAML_BYTES = 128 * 1024
"""A policy of 200 rules, each with every field and a comment, has less; reading this much takes two seconds."""

_MAX_DEPTH = 20
_STR, _INT, _FLOAT = "tag:yaml.org,2002:str", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_BOOL, _NULL = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"
_SEQ, _MAP = "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"


class YamlError(ValueError):
    """A text is not YAML, or says what JSON could not; the message tells the line."""


class _Loader(Reader, Scanner, Parser, Composer, SafeConstructor, BaseResolver):
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        # A few aliases of aliases name more values than there is memory.
        if isinstance(event, AliasEvent):
            self._refuse("aliases (`*name`) are not accepted: write it out", event)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._refuse("it is nested too deeply", event)
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, MappingNode):
            self._refuse("a mapping is wanted here", node)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, ScalarNode) or key.tag != _STR:
                self._refuse("a key is a text: put it in quotes", key)
            if key.value in seen:
                self._refuse(f"the key {key.value[:100]!r} is there twice", key)
            seen.add(key.value)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    def _refuse(self, reason: str, at: Any) -> None:
        raise ConstructorError(None, None, reason, at.start_mark)


def _unknown(loader: _Loader, node: Node) -> None:
    raise ConstructorError(None, None, f"tag {node.tag[:100]!r} is not accepted", node.start_mark)


# An empty scalar is looked up under the empty string.
for _tag, _pattern, _first in (
    (_NULL, r"^(?:~|null|Null|NULL|)$", ["", "~", "n", "N"]),
    (_BOOL, r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    (_INT, r"^[-+]?[0-9]+$", list("-+0123456789")),
    (_FLOAT, r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)
_Loader.yaml_constructors = {
    _NULL: lambda loader, node: None,
    _BOOL: lambda loader, node: node.value.lower() == "true",
    _INT: lambda loader, node: int(node.value, 10),
    _FLOAT: lambda loader, node: float(node.value),
    _STR: SafeConstructor.construct_yaml_str,
    _SEQ: SafeConstructor.construct_yaml_seq,
    _MAP: SafeConstructor.construct_yaml_map,
    None: _unknown,
}


def yaml_to_json(raw: bytes) -> str:
    r"""Return the JSON text a YAML document stands for.

    Args:
        raw: One document, UTF-8.

    Raises:
        YamlError: It is not YAML; it is larger than ``MAX_YAML_BYTES``; it has aliases, a key twice, tags of its own,
            several documents, or values JSON has not.

    >>> yaml_to_json(b"name: no  # a text\nrules: [{max: 1e-3}]")
    '{"name": "no", "rules": [{"max": 0.001}]}'
    """
    if len(raw) > MAX_YAML_BYTES:
        raise YamlError(f"it has {len(raw):,} bytes; at most {MAX_YAML_BYTES:,} are read")
    try:
        return json.dumps(_Loader(raw.decode("utf-8-sig")).get_single_data(), allow_nan=False)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark
        where = f"line {at.line + 1}, column {at.column + 1}: " if at is not None else ""
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(where + reason) from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(str(error).partition("\n")[0]) from error


def rule_lines(raw: bytes) -> list[int]:
    r"""Return the lines, from 1, that the rules of a policy document begin at; none for what is no policy.

    >>> rule_lines(b"name: a\nrules:\n  - {metric: m, max: 1}\n  - metric: n\n")
    [3, 4]
    """
    try:
        document = _Loader(raw[:MAX_YAML_BYTES].decode("utf-8-sig")).get_single_node()
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    members = document.value if isinstance(document, MappingNode) else []
    rules = next((value for key, value in members if isinstance(key, ScalarNode) and key.value == "rules"), None)
    return [one.start_mark.line + 1 for one in rules.value] if isinstance(rules, SequenceNode) else []
