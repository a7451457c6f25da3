"""What is made once for all processes of a run of the tests."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

_folders: list[Path] = []


def use(folder: Path) -> None:
    """Share through this folder from here on."""
    _folders[:] = [folder]


def once(name: str, make: Callable[[], dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return what ``make`` returned in whichever process asked for it by this name first."""
    if not _folders:
        return make()
    file = _folders[0] / f"{name}.safetensors"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            save_file(make(), file)
    return load_file(file)
