"""Fitting uploaded tensors to a module: prefixes, common aliases, and a mismatch said in full."""

import re
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn

from workers.errors import TargetError

PREFIXES = ("module.", "model.", "_orig_mod.", "net.", "network.", "backbone.", "state_dict.")
"""What DataParallel, wrappers and ``torch.compile`` put before every name."""

# Old names on the left; applied only where the name on the right is wanted and otherwise missing.
ALIASES: tuple[tuple[str, str], ...] = (
    (r"^fc\.", "linear."),
    (r"^linear\.", "fc."),
    (r"^classifier\.", "linear."),
    (r"^classifier\.", "fc."),
    (r"\.downsample\.", ".shortcut."),
    (r"\.shortcut\.(?:0\.)?", ".convShortcut."),
    (r"^conv1\.", "0."),
    (r"^conv2\.", "3."),
    (r"^fc1\.", "7."),
    (r"^fc2\.", "9."),
)
# TRADES-style WideResNet code defines this group and never calls it.
_UNUSED = re.compile(r"^sub_block1\.")
_NORMALISATION = re.compile(r"(?:^|\.)(?:new_)?(mean|std|mu|sigma)$")
_MAX_CHANNELS = 4
# Statistics are passed on with three or four digits; what CIFAR-10's common ones differ by is 3.5e-3.
_TOLERANCE = 1e-3
_COUNTER = "num_batches_tracked"
_SHOWN = 5


def strip_prefixes(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without the prefixes all names share, however many there are.

    What normalises images may stand outside of the network: it need not share them.

    >>> sorted(strip_prefixes({"module.model.conv1.weight": torch.zeros(1), "module.model.bn1.bias": torch.zeros(1)}))
    ['bn1.bias', 'conv1.weight']
    """
    tensors = dict(state)
    while inside := [name for name, tensor in tensors.items() if not _is_normalisation(name, tensor)]:
        prefix = next((prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in inside)), "")
        if not prefix:
            break
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def take_normalisation(state: dict[str, Tensor], wanted: Collection[str] = ()) -> dict[str, list[float]]:
    """Remove what a network normalises with, and return it as ``mean`` and ``std`` of a manifest.

    RobustBench's models hold ``mu`` and ``sigma`` of shape (1, channels, 1, 1) beside the network, others
    ``normalizer.mean`` or ``new_mean``.

    Args:
        state: Changed in place.
        wanted: Names that are tensors of the network itself.

    Returns:
        Both lists, one value or one per channel; nothing where not both are there, and nothing is then removed.

    >>> state = {"mu": torch.tensor([0.5]).view(1, 1, 1, 1), "sigma": torch.tensor([0.25]), "w": torch.zeros(1)}
    >>> take_normalisation(state), list(state)
    ({'mean': [0.5], 'std': [0.25]}, ['w'])
    """
    names = [name for name, tensor in state.items() if name not in wanted and _is_normalisation(name, tensor)]
    roles = {"mean" if name.endswith(("mean", "mu")) else "std": name for name in names}
    if len(roles) != 2:
        return {}
    found = {role: [float(f"{value:.7g}") for value in state[name].flatten().tolist()] for role, name in roles.items()}
    for name in names:
        del state[name]
    return {role: found[role] for role in ("mean", "std")}


def normalisation_mismatch(held: Mapping[str, Sequence[float]], told: Mapping[str, Sequence[float]]) -> str:
    """Return how what the weights hold and what is told of normalisation differ; empty where they do not.

    >>> normalisation_mismatch({"mean": [0.5], "std": [0.25]}, {"mean": [0.5, 0.5, 0.5], "std": [1.0]})
    'the weights hold a std of [0.25], the manifest says [1.0]'
    """
    parts = []
    for role, values in held.items():
        given = list(told[role])
        most = max(len(values), len(given))
        pairs = zip((list(values) * most)[:most], (given * most)[:most], strict=True)
        if len({len(values), len(given), 1}) > 2 or any(abs(one - other) > _TOLERANCE for one, other in pairs):
            parts.append(f"the weights hold a {role} of {list(values)}, the manifest says {given}")
    return "; ".join(parts)


def _is_normalisation(name: str, tensor: Tensor) -> bool:
    return _NORMALISATION.search(name) is not None and tensor.numel() <= _MAX_CHANNELS


def fit_state(module: nn.Module, state: Mapping[str, Tensor], architecture: str) -> None:
    """Give the module these tensors, as float32 where they are floating, without copying what already is.

    The module may live on the meta device: nothing is allocated for an architecture larger than its weights.

    Args:
        module: Its names and shapes are what is wanted.
        state: Prefixes stripped.
        architecture: Its name, for messages.

    Raises:
        TargetError: Names or shapes differ; says which, the first few of each.
    """
    wanted = module.state_dict()
    given = _rename({name: tensor for name, tensor in state.items() if not _UNUSED.match(name)}, set(wanted))
    # Checkpoints from before PyTorch 0.4.1 have no counters, and eval mode does not read them.
    for name, tensor in wanted.items():
        if name.endswith(_COUNTER) and name not in given:
            given[name] = torch.zeros_like(tensor, device="cpu")
    missing = sorted(set(wanted) - set(given))
    unexpected = sorted(set(given) - set(wanted))
    reshaped = [name for name in wanted if name in given and given[name].shape != wanted[name].shape]
    if not missing and not unexpected and (channels := _other_channels(wanted, given, reshaped)):
        raise TargetError(
            "input-shape-mismatch",
            "The weights take images of other channels",
            f"{channels[0]} of the weights takes {channels[1]} channels, and input.shape in the manifest begins with "
            f"{channels[2]}: it should begin with {channels[1]} (channels, height, width)",
            field="/manifest/input/shape",
        )
    if missing or unexpected or reshaped:
        raise TargetError(
            "state-dict-mismatch",
            "The weights do not fit the architecture",
            _describe(architecture, missing, unexpected, [(n, wanted[n], given[n]) for n in reshaped], len(wanted)),
            field="/manifest/architecture",
        )
    _check_values(given, wanted)
    module.load_state_dict(
        {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in given.items()}, assign=True
    )


def _other_channels(
    wanted: Mapping[str, Tensor], given: Mapping[str, Tensor], reshaped: Sequence[str]
) -> tuple[str, int, int] | None:
    """Return the first convolution with the channels it takes and those asked for, where nothing else differs."""
    first = next((name for name, tensor in wanted.items() if tensor.ndim == 4), None)
    if first is None or list(reshaped) != [first] or given[first].ndim != 4:
        return None
    ours, theirs = wanted[first].shape, given[first].shape
    if (ours[0], *ours[2:]) != (theirs[0], *theirs[2:]):
        return None
    return first, theirs[1], ours[1]


def _rename(given: dict[str, Tensor], wanted: set[str]) -> dict[str, Tensor]:
    for pattern, replacement in ALIASES:
        renamed = {name: re.sub(pattern, replacement, name) for name in given if name not in wanted}
        changes = {old: new for old, new in renamed.items() if old != new and new in wanted and new not in given}
        if len(set(changes.values())) == len(changes):
            given = {changes.get(name, name): tensor for name, tensor in given.items()}
    return given


def _check_values(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    for name, tensor in given.items():
        # Counters, and tables of positions in windows, are whole numbers in the network too.
        if tensor.is_complex() or (not tensor.is_floating_point() and wanted[name].is_floating_point()):
            raise TargetError(
                "weights-not-float",
                "Some weights are not floating point numbers",
                f"tensor {name} has type {str(tensor.dtype).removeprefix('torch.')}: quantised weights have no "
                "gradients; send float weights",
                field="/file",
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.float()).all()):
            raise TargetError(
                "weights-not-finite",
                "Some weights are not finite",
                f"tensor {name} holds NaN or infinity: training has diverged, or the file is damaged",
                field="/file",
            )


def _describe(
    architecture: str, missing: list[str], unexpected: list[str], reshaped: list[tuple[str, Tensor, Tensor]], total: int
) -> str:
    parts = []
    if missing:
        parts.append(f"{len(missing)} of {total} tensors are missing: {_some(missing)}")
    if unexpected:
        parts.append(f"{len(unexpected)} are unexpected: {_some(unexpected)}")
    if reshaped:
        shown = [f"{name} is {list(given.shape)}, needs {list(wanted.shape)}" for name, wanted, given in reshaped]
        parts.append(f"{len(reshaped)} have another shape: {_some(shown)}")
    if any(_NORMALISATION.search(name) for name in unexpected):
        parts.append("mean and std belong into the manifest's input, not into the weights")
    return f"architecture {architecture}: " + "; ".join(parts)


def _some(items: list[str]) -> str:
    more = f", ... ({len(items) - _SHOWN} more)" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
