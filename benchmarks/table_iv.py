"""Table IV of Ledda et al.: models sorted by their mean uncertainty span, with accuracies and deviations.

    python -m benchmarks.table_iv --models FOLDER --images test.npz --epsilon 0.0313725 [--name cifar] [--samples 100]

FOLDER holds pairs of NAME.safetensors and NAME.json (``dataset``, ``arch`` as a list of layers or
``["ResNetCifar", n]`` for 6n + 2 layers, ``normalisation``); those of another ``dataset`` than ``--name`` are left out.
A service of the benchmark's own is started, models and data are uploaded and audited as anybody's are, and what is
printed is ``GET /v1/leaderboard``: rank and rank interval by MUS, clean and robust accuracy, MUS and MSUS with their
intervals and deviations over the images, and the doubts that the audit has about them.

The attacks are the paper's (l_inf, 150 steps, effort ``quick``). Robust accuracy is of AutoAttack's standard version
with the steps and queries given, and so an upper bound where those are few.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seatrial.client import Client
from seatrial.contracts.leaderboards import LeaderboardRow
from seatrial.reporting.numbers import format_estimate
from tests.servers import eventually, free_port
from tests.snippets.conftest import is_ready

COLUMNS = ("clean_accuracy", "robust_accuracy", "mus", "mus_std", "msus", "msus_std")


@contextmanager
def service() -> Iterator[str]:
    """Run one in a folder that is deleted afterwards, and return its address."""
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        command = [sys.executable, "-m", "seatrial", "serve", "--port", str(port), "--home", home]
        with Path(home, "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as running:
            url = f"http://127.0.0.1:{port}"
            try:
                eventually(lambda: is_ready(url), timeout_s=120, what="the service")
                yield url
            finally:
                running.terminate()
                running.wait(60)


def manifest(note: dict[str, Any], classes: list[str], shape: list[int]) -> dict[str, Any] | None:
    """Return what a note says as a manifest; None where no built-in architecture is named."""
    kind, *numbers = note["arch"]
    architecture: dict[str, Any]
    if kind == "ResNetCifar":
        architecture = {"kind": "resnet_cifar", "depth": 6 * numbers[0] + 2}
    elif isinstance(kind, list):
        architecture = {"kind": "layers", "layers": note["arch"]}
    else:
        return None
    return {
        "name": note["name"],
        "version": "1",
        "task": "image-classification",
        "architecture": architecture,
        "input": {"shape": shape, "mean": note["normalisation"]["mean"], "std": note["normalisation"]["std"]},
        "labels": classes,
    }


def row_of(row: LeaderboardRow) -> str:
    """Return a model's row of the table."""
    ranks = f"{row.rank} [{row.rank_low}, {row.rank_high}]"
    found = (row.estimates.get(name) for name in COLUMNS)
    cells = [ranks, row.model_name, *("-" if one is None else format_estimate(one) for one in found)]
    return "| " + " | ".join([*cells, ", ".join(flag.code for flag in row.flags) or "-"]) + " |"


def main() -> None:
    """Audit every model of the folder alike, and print the leaderboard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help=".npz with images and labels")
    parser.add_argument("--name", default="cifar", help="`dataset` of the notes to take")
    parser.add_argument("--shape", type=int, nargs=3, default=[3, 32, 32])
    parser.add_argument("--epsilon", type=float, default=8 / 255)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--robust-steps", type=int, default=20)
    parser.add_argument("--robust-queries", type=int, default=100)
    options = parser.parse_args()
    robust = {"version": "standard", "steps": options.robust_steps, "queries": options.robust_queries}
    check = {"kind": "uncertainty_span", "epsilon": options.epsilon, "steps": options.steps, "effort": "quick"}
    task = {"version": "1", "task": "image-classification"}
    with service() as url, Client(url) as client:
        data = client.add_dataset(options.images, {"name": options.name, **task}).id
        audits = []
        for path in sorted(options.models.glob("*.json")):
            note = json.loads(path.read_text())
            described = manifest(note, [str(number) for number in range(10)], options.shape)
            if note["dataset"] != options.name:
                continue
            if described is None:
                print(f"{note['name']}: {note['arch'][0]} is no built-in architecture; export it", file=sys.stderr)
                continue
            model = client.add_model(path.with_suffix(".safetensors"), described, wait_s=120)
            audits.append(
                client.submit(model.id, data, [{**check, "robust_accuracy": robust}], samples=options.samples)
            )
        for audit in audits:
            print(f"{audit.model}: {client.wait(audit.id).state}", file=sys.stderr)
        board = client.leaderboard(data, "uncertainty_span", metric="mus")
        titles = ("rank", "model", "clean", "robust", "MUS", "sigma", "MSUS", "sigma", "doubts")
        print("| " + " | ".join(titles) + " |\n" + "| --- " * len(titles) + "|")
        print("\n".join(row_of(row) for row in board.rows))
        print(f"\n{client.leaderboard_table(data, 'uncertainty_span', 'markdown', metric='mus')}")


if __name__ == "__main__":
    main()
