"""Loading the members of an ensemble, from one file or from several."""

import re
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from seatrial.contracts.architectures import EnsembleArchitecture
from seatrial.contracts.models import ModelManifest
from workers.errors import TargetError
from workers.models.passes import Passes

_MEMBER = re.compile(r"^(?:[A-Za-z_]\w*\.)?(\d+)\.(.+)$")
"""Begins the names of a member's tensors: ``members.0.``, ``models.0.`` or, of a bare ``nn.ModuleList``, ``0.``."""

Load = Callable[[ModelManifest, Mapping[str, Tensor], int], tuple[nn.Module, int]]
"""Of one member: its manifest, its tensors and its number to the network and the values it computes for one image."""


def load_members(
    manifest: ModelManifest, architecture: EnsembleArchitecture, states: Sequence[Mapping[str, Tensor]], load: Load
) -> tuple[Passes, int]:
    """Return the ensemble, and the values it computes for one image.

    Args:
        manifest: Of the ensemble: members share labels, input and normalisation.
        architecture: Of the ensemble.
        states: Tensors of every file, prefixes stripped; of one file, whose names say the member, or of one a member.
        load: Makes a member.

    Raises:
        TargetError: Members and weights do not fit each other; says which member.
    """
    parts = [*states] if len(states) > 1 else split(states[0])
    wanted = len(architecture.members)
    if len(parts) != wanted:
        raise TargetError(
            "member-count-mismatch",
            "Weights and manifest differ in members",
            f"the weights are of {len(parts)} members, the manifest lists {wanted}: names of tensors begin with "
            "members.0., members.1., ... in one file, or an archive holds a file a member",
            field="/manifest/architecture/members",
        )
    members, values = [], 0
    for number, (member, state) in enumerate(zip(architecture.members, parts, strict=True)):
        try:
            module, more = load(manifest.model_copy(update={"architecture": member}), state, number)
        except TargetError as error:
            told = error.problem
            raise TargetError(
                told.code, told.title, f"member {number}: {told.detail}", field=_field_of(told.field, number)
            ) from error
        members.append(module)
        values += more
    return Passes(members), values


def _field_of(field: str | None, number: int) -> str | None:
    inside = "/manifest/architecture"
    if field is None or not (field + "/").startswith(inside + "/"):
        return field
    return f"{inside}/members/{number}{field.removeprefix(inside)}"


def split(state: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the tensors of every member under their own names, in order; [] where names do not say their member.

    >>> [sorted(one) for one in split({"models.1.a": Tensor(), "models.0.a": Tensor(), "models.0.b": Tensor()})]
    [['a', 'b'], ['a']]
    """
    found: dict[int, dict[str, Tensor]] = {}
    for name, tensor in state.items():
        told = _MEMBER.match(name)
        if told is None:
            return []
        found.setdefault(int(told[1]), {})[told[2]] = tensor
    return [found[number] for number in range(len(found))] if sorted(found) == [*range(len(found))] else []
