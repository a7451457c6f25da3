"""The body of a check: the parameters of one family, told apart by ``kind``."""

from typing import TYPE_CHECKING, Annotated, TypeAlias, Union

from pydantic import Field

from seatrial.contracts.family import FamilyParams
from seatrial.contracts.registry import families

if TYPE_CHECKING:
    CheckParams: TypeAlias = FamilyParams
else:
    # The families are known when the program runs and not before.
    CheckParams = Annotated[
        Union[tuple(spec.params for spec in families().values())],  # noqa: UP007 - a union of a tuple
        Field(discriminator="kind"),
    ]
