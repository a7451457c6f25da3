"""The part of a model's upload form that follows from the architectures a manifest may name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, get_args

from pydantic import BaseModel

from app.console.values import read_json, read_number
from app.web.problems import InvalidRequestError
from seatrial.contracts.architectures import Architecture
from seatrial.contracts.endpoints import PARTS, PLURALS, SERVED

POINTER = "/manifest/architecture/"
ENDPOINT = "endpoint"
"""The architecture without a file, and the field that takes all of it as one JSON object."""

_OTHER_FIELDS = (
    *("name", "version", "task", "architecture", "shape", "mean", "std", "labels", "clean_accuracy", "file"),
    *("features", "takes", ENDPOINT),
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of an architecture, as the contract has it.

    Attributes:
        name: Name in the manifest.
        schema: Its JSON schema.
        is_required: Whether the manifest must give it.
    """

    name: str
    schema: Mapping[str, Any]
    is_required: bool

    @property
    def field(self) -> str:
        """Its field in the form, which has others beside it."""
        return f"architecture_{self.name}" if self.name in _OTHER_FIELDS else self.name

    @property
    def types(self) -> set[str]:
        """JSON types of its values; "object" for a type that is described elsewhere."""
        return {one.get("type", "object") for one in self.schema.get("anyOf", [self.schema])} - {"null"}

    @property
    def is_json(self) -> bool:
        """Whether its values are lists or objects, which take several lines."""
        return not self.types <= {"string", "integer", "number", "boolean"}

    def parse(self, text: str) -> Any:
        """Return its value; what is of another type stays a text, for the contract to refuse.

        Raises:
            InvalidRequestError: A list or an object is not JSON.
        """
        if self.is_json:
            return read_json(text, POINTER + self.name)
        if "boolean" in self.types and text in ("true", "false"):
            return text == "true"
        return read_number(text) if self.types & {"integer", "number"} else text


@dataclass(frozen=True)
class ArchitectureField:
    """A field of the form, shared by the architectures that have a parameter of this name.

    Attributes:
        name: Name in the form.
        title: Name for people.
        helps: What to fill in, for each of the architectures.
        kinds: The architectures.
        is_required: Whether one of them cannot be without it.
        is_json: Whether it takes several lines.
        placeholder: An example of what to fill in.
    """

    name: str
    title: str
    helps: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...]
    is_required: bool
    is_json: bool
    placeholder: str


class ArchitectureForm:
    """What the form offers for a union of architectures that their ``kind`` tells apart.

    Attributes:
        titles: Name for people of each kind.
        parameters: Parameters of each kind. An endpoint's are one object, so none are listed.
        served: Kinds that are one object.
        places: Placeholders in an endpoint's request, by task.
    """

    served = SERVED
    places: ClassVar = {task: [PLURALS[part] for part in parts] for task, parts in PARTS.items()}

    def __init__(self, union: Any) -> None:
        self.titles: dict[str, str] = {}
        self.parameters: dict[str, list[Parameter]] = {}
        for one in get_args(get_args(union)[0]):
            told = one.model_fields["kind"]
            (kind,) = get_args(told.annotation)
            self.titles[kind] = told.title or str(told.description).removesuffix(".")
            self.parameters[kind] = [] if kind in SERVED else _parameters(one)

    @cached_property
    def fields(self) -> list[ArchitectureField]:
        """The fields for all parameters."""
        having: dict[str, dict[str, Parameter]] = {}
        for kind, parameters in self.parameters.items():
            for one in parameters:
                having.setdefault(one.field, {})[kind] = one
        return [self._field(name, by_kind) for name, by_kind in having.items()]

    def read(self, kind: str, said: Mapping[str, str]) -> dict[str, Any]:
        """Return an architecture from what stands in the fields; those of other architectures are left out.

        Raises:
            InvalidRequestError: A list or an object is not JSON, or what it cannot be without is not there.

        >>> ARCHITECTURES.read("wide_resnet", {"depth": "28", "width": "ten", "layers": "left over"})
        {'kind': 'wide_resnet', 'depth': 28, 'width': 'ten'}
        """
        if kind in SERVED:
            endpoint = read_json(said.get(ENDPOINT, ""), POINTER)
            if not isinstance(endpoint, dict):
                raise InvalidRequestError("Give a JSON object.", pointer=POINTER)
            return {"kind": kind, **endpoint}
        for one in self.parameters.get(kind, ()):
            if one.is_required and not said.get(one.field):
                help_ = one.schema.get("description", "")
                raise InvalidRequestError(
                    f"{self.titles[kind]} needs it, and nothing was filled in. {help_}".rstrip(),
                    pointer=POINTER + one.name,
                )
        given = [one for one in self.parameters.get(kind, ()) if one.is_required or said.get(one.field)]
        return {"kind": kind, **{one.name: one.parse(said.get(one.field, "")) for one in given}}

    def field_of(self, pointer: str, kind: str = "") -> str | None:
        """Return the field that a pointer into a manifest is about; None outside the architecture.

        >>> [ARCHITECTURES.field_of("/manifest/architecture" + end) for end in ("/kind", "/layers/3", "/url", "")]
        ['architecture', 'layers', 'endpoint', None]
        >>> ARCHITECTURES.field_of("/manifest/architecture/model", "chat")
        'endpoint'
        """
        if kind in SERVED and (pointer + "/").startswith(POINTER) and pointer != POINTER + "kind":
            return ENDPOINT
        if not pointer.startswith(POINTER):
            return None
        name = pointer.removeprefix(POINTER).partition("/")[0]
        if name == "kind":
            return "architecture"
        every = (one for parameters in self.parameters.values() for one in parameters)
        return next((one.field for one in every if one.name == name), ENDPOINT)

    def _field(self, name: str, by_kind: Mapping[str, Parameter]) -> ArchitectureField:
        schemas = {kind: one.schema for kind, one in by_kind.items()}
        helps = {kind: schema.get("description", "") for kind, schema in schemas.items()}
        is_one = len(set(helps.values())) == 1
        first = next(iter(schemas.values()))
        examples = [json.dumps(one) for schema in schemas.values() for one in schema.get("examples", ())]
        return ArchitectureField(
            name=name,
            title=first["title"],
            helps=((" ".join(helps), next(iter(helps.values()))),)
            if is_one
            else tuple((kind, f"{self.titles[kind]}: {text}") for kind, text in helps.items()),
            kinds=tuple(schemas),
            is_required=any(one.is_required for one in by_kind.values()),
            is_json=any(one.is_json for one in by_kind.values()),
            placeholder=next(iter(examples), ""),
        )


def _parameters(architecture: type[BaseModel]) -> list[Parameter]:
    schema = architecture.model_json_schema()
    required = schema.get("required", ())
    return [Parameter(name, one, name in required) for name, one in schema["properties"].items() if name != "kind"]


ARCHITECTURES = ArchitectureForm(Architecture)
