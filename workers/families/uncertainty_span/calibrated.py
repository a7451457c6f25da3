"""The temperature that models are compared at: fitted to the clean logits, so that their scale buys nothing."""

import numpy as np
import torch
from torch import Tensor

from workers.attacks.entropy_range import margin_temperature
from workers.calibration.scaling import fit_temperature


def calibrated_temperature(logits: Tensor, labels: Tensor) -> float | None:
    """Return the likeliest temperature of clean logits, as if one example more, of the median margin, had been wrong.

    Dividing all logits by c divides it by c. Without the one more error, a model that has every example right would be
    at temperature 0, where there is no entropy to move.

    Args:
        logits: (n, classes), finite.
        labels: (n,) int64; those that are no class of the model are left out.

    Returns:
        None where the likelihood has no best one: no example, logits that do not differ, or labels they do not tell of.
    """
    known = labels < logits.shape[1]
    logits, labels = logits[known], labels[known]
    if len(logits) == 0:
        return None
    middle = margin_temperature(logits).argsort(stable=True)[len(logits) // 2]
    wrong = logits[middle].argsort(descending=True, stable=True)[1]
    seen, truth = torch.cat([logits, logits[middle, None]]), torch.cat([labels, wrong[None]])
    found = fit_temperature(seen.double().cpu().numpy(), truth.cpu().numpy().astype(np.int64))
    return found.temperature if found.degenerate is None else None
