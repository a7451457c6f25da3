"""Fitting uploaded tensors to a module: prefixes, common aliases, and a mismatch said in full."""

import re
from collections.abc import Mapping

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
_NORMALISATION = re.compile(r"(^|\.)(mean|std|mu|sigma)$")
_COUNTER = "num_batches_tracked"
_SHOWN = 5


def strip_prefixes(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without the prefixes all names share, however many there are.

    >>> sorted(strip_prefixes({"module.model.conv1.weight": torch.zeros(1), "module.model.bn1.bias": torch.zeros(1)}))
    ['bn1.bias', 'conv1.weight']
    """
    tensors = dict(state)
    while prefix := next((prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in tensors)), ""):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        if not tensors:
            break
    return tensors


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
