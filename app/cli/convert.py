"""``seatrial convert``: a model that is accepted, of a state dict or of code; the workers' torch reads it."""

import subprocess
import sys
from pathlib import Path

import click

from app.cli.serve import require_worker_extra
from seatrial import floors


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to write to."
)
@click.option(
    "--architecture",
    help="KIND:PARAMETER=NUMBER,... or torchvision:NAME or timm:NAME.  [default: the one these tensors are of]",
)
@click.option(
    "--layers",
    help='Layers of a torch.nn.Sequential as JSON, [["conv", 1, 32, 3, 1, 1], ["relu"], ...], or a file of it.',
)
@click.option("--factory", help="PACKAGE.MODULE:FUNCTION that returns the network; it is imported and run here.")
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a class name a line.",
)
@click.option("--shape", help="Channels,height,width of the images; of an ONNX file of rows, the number of columns.")
@click.option("--mean", help="Channel means on the [0, 1] scale; 0 for none.")
@click.option("--std", help="Channel standard deviations on the [0, 1] scale; 1 for none.")
@click.option("--name", help="Name of the model.  [default: that of FILE]")
@click.option("--version", help="Version of the model.  [default: 1]")
def convert(file: Path | None, output: Path, **options: str | Path | None) -> None:
    """Make a model of FILE, a state dict of torch (.pt, .pth, .bin, .ckpt), on this machine and without a service.

    FILE is read with weights_only=True, which runs nothing that is in it. A known architecture is recognised by the
    names and shapes of its tensors, and written as safetensors. With --factory, the network that your code returns is
    given the weights of FILE, if there is one, and written as an exported program. Either stands beside a
    manifest.json, as `seatrial gate --model` takes it. An .onnx file is checked as a worker does, and written beside
    one too.
    """
    require_worker_extra()
    arguments = [] if file is None else [str(file)]
    for name, value in {"output": output, **options}.items():
        if value is not None:
            arguments.append(f"--{name}={value}")
    done = subprocess.run(floors.command("workers.conversion", *arguments), check=False)  # noqa: S603
    sys.exit(done.returncode)
