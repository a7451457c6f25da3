"""Ids and names as they come in a path or a query: one pattern for each, whatever route they come to.

What does not fit one is a 422 before a database sees it: Postgres takes no NUL, and whoever asks for a control
character made a mistake that "there is no such thing" would not tell.
"""

import re
from typing import Annotated

from fastapi import Path, Query

ID = r"^[A-Za-z0-9_-]{1,100}$"
"""An id of anything, and what stands for one: the position or kind of a check."""
FILE = r"^[A-Za-z0-9_.-]{1,100}$"
"""Name of a stage or of a figure."""
VERSIONED_NAME = r"^[A-Za-z0-9._-]{1,100}$"
"""Name of a model or a dataset."""
POLICY = r"^[a-z0-9_@-]{1,100}$"
"""An id, a name or ``name@version`` of a policy."""

AuditId = Annotated[
    str, Path(pattern=ID, description="Id of the audit.", examples=["aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])
]
CheckName = Annotated[
    str, Path(pattern=ID, description="Id of the check, its position from 0, or its kind where only one has it.")
]
FigureName = Annotated[str, Path(pattern=FILE, description="One of the check's `figures`.")]
ModelId = Annotated[
    str, Path(pattern=ID, description="Id of the model.", examples=["mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])
]
ModelName = Annotated[str, Path(pattern=VERSIONED_NAME, description="Name of the model, over its versions.")]
DatasetId = Annotated[
    str, Path(pattern=ID, description="Id of the dataset.", examples=["dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c12"])
]
HardeningId = Annotated[
    str, Path(pattern=ID, description="Id of the hardening.", examples=["hrd_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])
]
KeyId = Annotated[str, Path(pattern=ID, description="Id of the key.")]
WebhookId = Annotated[str, Path(pattern=ID, description="Id of the webhook.")]
DeliveryId = Annotated[str, Path(pattern=ID, description="Id of the delivery.")]
PolicyReference = Annotated[
    str,
    Path(
        pattern=POLICY,
        description="Id, name (its newest version), `name@version`, or a shipped one: `lenient`, `standard`, `strict`.",
    ),
]

OfModel = Annotated[str | None, Query(pattern=ID, description="Only of this model.")]
OfModelName = Annotated[
    str | None, Query(pattern=VERSIONED_NAME, description="List only those of models of this name.")
]
OfName = Annotated[str | None, Query(pattern=VERSIONED_NAME, description="List only those of this name.")]


def is_id(text: str) -> bool:
    r"""Return whether a text may be an id.

    >>> is_id("aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"), is_id("aud_\x00"), is_id("aud_1\n")
    (True, False, False)
    """
    return re.fullmatch(ID.strip("^$"), text) is not None


_PREFIXES = {"model": "mdl", "dataset": "dat", "audit": "aud", "hardening": "hrd", "plan": "pln", "policy": "pol"}


def no_such(kind: str, identifier: str) -> str:
    """Return the sentence about an id that a project does not have; an id of something else is called that.

    >>> no_such("model", "mdl_1")
    'There is no model mdl_1 in this project.'
    >>> no_such("model", "dat_1")
    'dat_1 is the id of a dataset, and this takes that of a model (mdl_...).'
    """
    prefix = identifier.partition("_")[0]
    other = next((one for one, known in _PREFIXES.items() if known == prefix), kind)
    if other == kind or kind not in _PREFIXES:
        return f"There is no {kind} {identifier} in this project."
    articles = ["an" if one[0] in "aeiou" else "a" for one in (other, kind)]
    return (
        f"{identifier} is the id of {articles[0]} {other}, and this takes that of {articles[1]} {kind} "
        f"({_PREFIXES[kind]}_...)."
    )
