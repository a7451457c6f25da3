"""Where to compute."""

import os

import torch

from seatrial.store.settings import Settings
from workers.processors import keep_places_apart


def choose_device(settings: Settings) -> torch.device:
    """Return the device of the settings; ``auto`` is the first GPU when there is one.

    Called when work begins, never at import: touching CUDA before a fork breaks the child.
    """
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(settings.device)


def prepare(settings: Settings) -> torch.device:
    """Set up torch for repeatable work in this process and return its device.

    The number of CPU threads decides how sums are split, so every worker of a deployment uses the same.
    """
    keep_places_apart()
    torch.set_num_threads(settings.torch_threads or os.cpu_count() or 1)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return choose_device(settings)


def describe(device: torch.device) -> str:
    """Return the device's name for people."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
