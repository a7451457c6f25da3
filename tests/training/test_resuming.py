"""A run that is left and taken up again ends where it would have ended, to the bit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from seatrial.hardening.cross_entropy import HighTemperatureParams
from tests.servers import ROOT
from tests.training import killed_run
from tests.training.builders import bert, cnn, image_data, text_data
from workers.training.checkpoints import Checkpoint, CheckpointError, CheckpointFolder
from workers.training.engine import Outcome, train
from workers.training.methods.plain import CrossEntropy


def _params(**more: object) -> HighTemperatureParams:
    body = {"method": "high_temperature", "epochs": 2, "batch_size": 8, "learning_rate": 0.01, "milestones": [1]}
    return HighTemperatureParams.model_validate({**body, **more})


def _train(params: HighTemperatureParams, **more: object) -> tuple[dict[str, Tensor], Outcome]:
    model = cnn()
    done = train(
        model,
        CrossEntropy(params, model),
        params,
        image_data(40),
        image_data(20, seed=1),
        seed=3,
        **more,  # type: ignore[arg-type]
    )
    return {name: value.clone() for name, value in model.module.state_dict().items()}, done


def _equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.training.killed_run", *map(str, arguments)]


@pytest.mark.slow
def test_a_run_killed_in_mid_epoch_and_resumed_ends_in_the_weights_of_an_undisturbed_one(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    undisturbed, killed = tmp_path / "undisturbed.safetensors", tmp_path / "killed.safetensors"
    killed_run.main(tmp_path / "a", undisturbed, 0)
    with subprocess.Popen(
        _command(tmp_path / "b", killed, 0.05), cwd=ROOT, env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        # 10 steps an epoch, saved after the third: the fifteenth is in the second epoch, two after a save.
        for _ in range(15):
            assert process.stdout.readline() == b"step\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    state = json.loads((tmp_path / "b" / "checkpoint.json").read_bytes())["state"]
    assert (state["epoch"], state["step"]) == (1, 3)
    done = subprocess.run(_command(tmp_path / "b", killed, 0), cwd=ROOT, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    # Three of the ten steps of the second epoch are not done again.
    assert done.stdout.count(b"step") == 7 + 10
    assert _equal(load_file(undisturbed), load_file(killed))


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_every_checkpoint_leads_to_the_same_weights_and_curves(optimizer: str) -> None:
    params = _params(optimizer=optimizer, micro_batch_size=3)
    saved: list[Checkpoint] = []
    weights, done = _train(params, save=saved.append, save_every=2)
    assert len(saved) == 6
    for one in saved:
        again, outcome = _train(params, checkpoint=Checkpoint.from_bytes(*one.to_bytes()))
        assert _equal(weights, again)
        assert outcome == done


def test_texts_resume_too_with_dropout_and_tied_weights() -> None:
    params = _params(batch_size=4, learning_rate=0.001)
    saved: list[Checkpoint] = []

    def run(checkpoint: Checkpoint | None) -> dict[str, Tensor]:
        model = bert()
        data, held_out = text_data(16), text_data(8, seed=1)
        train(
            model,
            CrossEntropy(params, model),
            params,
            data,
            held_out,
            seed=0,
            checkpoint=checkpoint,
            save=saved.append,
            save_every=3,
        )
        return {name: value.clone() for name, value in model.module.state_dict().items()}

    weights = run(None)
    assert _equal(weights, run(Checkpoint.from_bytes(*saved[0].to_bytes())))


def test_a_checkpoint_of_another_run_is_refused() -> None:
    saved: list[Checkpoint] = []
    _train(_params(), save=saved.append)
    with pytest.raises(CheckpointError, match="other parameters"):
        _train(_params(learning_rate=0.02), checkpoint=saved[0])


def test_a_folder_keeps_one_whole_checkpoint_and_refuses_a_damaged_one(tmp_path: Path) -> None:
    kept = CheckpointFolder(tmp_path)
    assert kept.load() is None
    _train(_params(), save=kept.save)
    assert len(list(tmp_path.iterdir())) == 2
    (file,) = tmp_path.glob("*.safetensors")
    # What a process leaves that is killed while it writes the next one.
    (tmp_path / "checkpoint.json.part").write_bytes(b"{")
    found = kept.load()
    assert found is not None
    assert found.document["state"]["epoch"] == 2
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError):
        kept.load()


def test_a_global_generator_is_left_as_it_was_and_does_not_matter() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    weights, _ = _train(_params())
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert _equal(weights, _train(_params())[0])
