"""A run in a process of its own: trains, says every step, and writes the weights it ends in.

``python -m tests.training.killed_run FOLDER FILE DELAY_S``
"""

import sys
import time
from pathlib import Path

from safetensors.torch import save_file

from seatrial.contracts.training import methods
from tests.training.builders import cnn, image_data
from workers.training.checkpoints import CheckpointFolder
from workers.training.engine import train


def main(folder: Path, file: Path, delay_s: float) -> None:
    spec = methods()["high_temperature"]
    params = spec.params.model_validate(
        {
            "method": "high_temperature",
            "training_temperature": 2,
            "epochs": 3,
            "batch_size": 4,
            "micro_batch_size": 3,
            "learning_rate": 0.05,
            "milestones": [2],
        }
    )
    model = cnn()
    method = spec.load()(params, model)
    finish = method.finish

    def slowly(step: object) -> bool:
        time.sleep(delay_s)
        print("step", flush=True)
        found: bool = finish(step)
        return found

    method.finish = slowly
    kept = CheckpointFolder(folder)
    train(
        model,
        method,
        params,
        image_data(40),
        image_data(20, seed=1),
        seed=7,
        checkpoint=kept.load(),
        save=kept.save,
        save_every=3,
    )
    save_file({name: value.contiguous() for name, value in model.module.state_dict().items()}, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
