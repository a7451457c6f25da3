"""How long it takes from ``git clone`` to the first verdict on one's own model.

python3 scripts/first_verdict.py [--keep FOLDER]

Clones this repository, installs into a virtual environment of its own what the README says, makes what a person would
come with, a checkpoint of torchvision's ResNet-18 and a folder of images in a folder for each class, and runs the
README's two commands on them, the gate with examples/policies/first-look.yaml: 32 images, the paper's two attacks of
few steps. What decides a release, the check's own effort on 500 images, takes hours of such a network on a CPU. The
making is not counted. The last line tells the seconds of each part and of all, and
beside them those of the processor, which a busy machine leaves as they are.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLASSES = {"apples": (200, 60, 50), "leaves": (60, 160, 60), "plums": (90, 60, 150), "skies": (120, 180, 230)}
SIDE, PER_CLASS = 32, 40
VERDICTS = {0: "passed", 1: "failed", 3: "inconclusive"}


def main() -> int:
    """Take the way of a newcomer, and return 0 where it ended in a verdict."""
    parser = argparse.ArgumentParser(description="Time the way from a clone to the first verdict.")
    parser.add_argument("--keep", type=Path, help="Folder to work in, which is kept.")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make is not None:
        make(asked.make)
        return 0
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="seatrial-first-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return walk(folder)
    finally:
        if asked.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def walk(folder: Path) -> int:
    """Clone, install, convert and gate in a folder."""
    clone, seatrial = folder / "seatrial", folder / "seatrial" / ".venv" / "bin" / "seatrial"
    took = {"clone": timed("git", "clone", "--quiet", str(ROOT), str(clone))[1]}
    took["install"] = timed("scripts/setup", "zoo", cwd=clone)[1]
    timed(str(seatrial.parent / "python"), "scripts/first_verdict.py", "--make", str(folder), cwd=clone)
    normalised = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")
    shape = ("--shape", f"3,{SIDE},{SIDE}", "--labels", "classes.txt", "-o", "model")
    took["convert"] = timed(str(seatrial), "convert", "resnet18.pth", *normalised, *shape, cwd=folder)[1]
    gate = (str(seatrial), "gate", "--model", "model", "--data", "images")
    gate += ("--policy", str(clone / "examples" / "policies" / "first-look.yaml"))
    status, took["gate"] = timed(*gate, cwd=folder, may_end_with=VERDICTS)
    parts = ", ".join(f"{name} {seconds:.0f} s (processor {used:.0f} s)" for name, (seconds, used) in took.items())
    all_of_it = sum(seconds for seconds, _ in took.values())
    print(f"first verdict ({VERDICTS[status]}) after {all_of_it:.0f} s: {parts}")
    return 0


def timed(
    *command: str, cwd: Path | None = None, may_end_with: dict[int, str] | None = None
) -> tuple[int, tuple[float, float]]:
    """Run a command and return its status, its seconds and those of the processor; end everything where it failed."""
    print("$", *command, flush=True)
    began, used = time.monotonic(), processor_s()
    status = subprocess.run(command, cwd=cwd, check=False).returncode
    if status != 0 and status not in (may_end_with or {}):
        sys.exit(f"{command[0]} ended with status {status}")
    return status, (time.monotonic() - began, processor_s() - used)


def processor_s() -> float:
    """Return the seconds of the processor that commands have taken so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make(folder: Path) -> None:
    """Write ``resnet18.pth``, as ``torch.save(model.state_dict(), ...)`` writes it, ``classes.txt`` and ``images/``."""
    import numpy as np
    import torch
    from PIL import Image

    from workers.models.zoo import import_torchvision

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    model = import_torchvision().models.resnet18(num_classes=len(CLASSES))
    colours = np.array(list(CLASSES.values()), np.float32)[:, :, None, None]
    mean, std = (torch.tensor(one)[:, None, None] for one in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))

    def photographs(
        labels: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    ) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        coarse = random.normal(0, 150, (len(labels), 3, 8, 8)).repeat(SIDE // 8, 2).repeat(SIDE // 8, 3)
        fine = random.normal(0, 60, (len(labels), 3, SIDE, SIDE))
        return np.clip(colours[labels] + coarse + fine, 0, 255).astype(np.uint8)

    # Of so few steps the running averages forget the first, when all was wrong.
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 0.3
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(40):
        labels = random.integers(0, len(CLASSES), 32)
        pixels = (torch.from_numpy(photographs(labels)).float() / 255 - mean) / std
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pixels), torch.from_numpy(labels)).backward()
        optimizer.step()
    torch.save(model.state_dict(), folder / "resnet18.pth")
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in sorted(CLASSES)))
    for label, name in enumerate(CLASSES):
        target = folder / "images" / name
        target.mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(photographs(np.full(PER_CLASS, label))):
            Image.fromarray(image.transpose(1, 2, 0)).save(target / f"{number:03}.png")


if __name__ == "__main__":
    sys.exit(main())
