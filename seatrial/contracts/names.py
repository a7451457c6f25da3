"""Names people give: which signs they are made of, refused in words and not by a pattern."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


@dataclass(frozen=True)
class Signs:
    """What annotates a text of ASCII letters, digits and a few signs, which begins with a letter or a digit.

    In a JSON schema it is a ``pattern``; the error ``signs_not_allowed`` says the same in words.

    Attributes:
        further: The signs beside letters and digits, the hyphen last.

    >>> from pydantic import TypeAdapter
    >>> TypeAdapter(Annotated[str, Signs("._-")]).validate_python("v1.0")
    'v1.0'
    """

    further: str

    @property
    def pattern(self) -> str:
        """Return the same as a regular expression."""
        return f"^[A-Za-z0-9][A-Za-z0-9{self.further}]*$"

    def _checked(self, text: str) -> str:
        if re.fullmatch(self.pattern[1:-1], text) is None:
            raise PydanticCustomError(
                "signs_not_allowed",
                "Use letters, digits and {signs} only, beginning with a letter or a digit",
                {"signs": " ".join(self.further)},
            )
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the text after whatever else is asked of it."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the pattern."""
        return {**handler(schema), "pattern": self.pattern}


Name = Annotated[
    str,
    Field(min_length=1, max_length=100, description="Name, unique with its version.", examples=["mnist-cnn"]),
    Signs("._-"),
]
"""The name of a model or a dataset."""

VERSION_SIGNS = Signs("._+-")

Version = Annotated[
    str, Field(min_length=1, max_length=50, description="Version as its owner counts.", examples=["3"]), VERSION_SIGNS
]
"""The version of one."""
