"""The stage alone, in memory, and what it is run on."""

from typing import Any

import pyarrow as pa
import torch

from seatrial.contracts.estimates import Flag
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams
from tests.attacks.autoattack import networks
from tests.families.in_memory import Context, Data, Model
from workers.families import robust_accuracy
from workers.families.protocol import Shard

CNN = Model(networks.NET, 5)
IMAGES = torch.rand(21, 1, 6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
PREDICTIONS = networks.NET(IMAGES).argmax(1)
# One label of seven is not what the network says.
LABELS = torch.where(torch.arange(21) % 7 == 2, (PREDICTIONS + 1) % 5, PREDICTIONS)
DATA = (IMAGES, LABELS)


def parameters(**changes: Any) -> RobustAccuracyParams:
    """Return parameters that take a moment and break some of ``DATA``."""
    return RobustAccuracyParams.model_validate({"epsilon": 0.015, "steps": 12, "queries": 60} | changes)


def attack(
    params: RobustAccuracyParams, model: Model = CNN, data: Data = DATA, *, batch_size: int = 21, shards: int = 1
) -> pa.Table:
    """Run the stage in shards of whole batches and return its records."""
    count = len(data[0])
    step = -(-count // batch_size // shards) * batch_size
    pieces = [Shard("robust_accuracy", start, min(start + step, count)) for start in range(0, count, step)]
    return pa.concat_tables(
        [robust_accuracy.run(params, Context(model, data, piece, batch_size, count)) for piece in pieces]
    )


def flags(params: RobustAccuracyParams, model: Model = CNN, data: Data = DATA, **how: Any) -> dict[str, Flag]:
    """Return the flags of an attack, by code."""
    records = attack(params, model, data, **how)
    return {flag.code: flag for flag in robust_accuracy.doubt(records, robust_accuracy.make_ensemble(params))}
