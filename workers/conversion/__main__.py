"""``python -m workers.conversion``: make a model of a state dict or of code; ``seatrial convert`` runs it."""

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors.torch import save_file

from seatrial.contracts.models import IMAGES, TABLES, ModelManifest
from seatrial.store.settings import Settings
from workers.conversion import factory
from workers.conversion.errors import ConversionError
from workers.conversion.known import recognise
from workers.conversion.state import read_state
from workers.errors import TargetError
from workers.models.state_dicts import normalisation_mismatch, take_normalisation
from workers.models.torch_onnx import load_onnx

WEIGHTS, ONNX, MANIFEST = "model.safetensors", "model.onnx", "manifest.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert, and return the exit status: 0 done, 2 refused."""
    asked = _parser().parse_args(arguments)
    try:
        told = convert(asked)
    except ConversionError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except ValidationError as error:
        first = error.errors()[0]
        print(f"Error: {'.'.join(map(str, first['loc']))}: {first['msg']}", file=sys.stderr)
        return 2
    print(told)
    return 0


def convert(asked: argparse.Namespace) -> str:
    """Write the model, and return what was written.

    Raises:
        ConversionError: Nothing was written.
    """
    output: Path = asked.output
    if (output / MANIFEST).exists():
        raise ConversionError(f"{output / MANIFEST} is there already: name another folder with -o")
    if asked.layers is not None and (asked.factory is not None or asked.architecture is not None):
        raise ConversionError("--layers says what the network is: leave --architecture and --factory out")
    if asked.file is None and asked.factory is None:
        raise ConversionError("give FILE, or --factory package.module:make, or both")
    if asked.file is not None and asked.file.suffix == ".onnx":
        return _take_onnx(asked, output)
    state = read_state(asked.file) if asked.file is not None else None
    normalisation = take_normalisation(state) if state is not None and asked.factory is None else {}
    manifest = _manifest(asked, normalisation)
    if different := normalisation_mismatch(normalisation, manifest["input"]):
        raise ConversionError(f"{different}: leave --mean and --std out")
    if asked.factory is not None:
        return _export(asked.factory, state, manifest, output)
    assert state is not None  # noqa: S101 - one of the two was given
    lacking = []
    if not {"mean", "std"} <= set(manifest["input"]):
        lacking.append(
            "how pixels are normalised: give --mean and --std on the [0, 1] scale, one value or one per channel "
            "(0 and 1 for none)"
        )
    if asked.layers is not None and "shape" not in manifest["input"]:
        lacking.append("how large images are: give --shape channels,height,width")
    if lacking:
        raise ConversionError(f"the file does not say {'; nor '.join(lacking)}")
    described = recognise(state, manifest, _layers(asked.layers) or _architecture(asked.architecture))
    output.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous().clone() for name, tensor in state.items()}, output / WEIGHTS)
    _write(described, output)
    return f"{output}: {WEIGHTS}, {MANIFEST} ({json.dumps(described.architecture.model_dump(mode='json'))})"


def _take_onnx(asked: argparse.Namespace, output: Path) -> str:
    """Write an ONNX file beside its manifest, after loading it as a worker does."""
    manifest = _manifest(asked, {})
    shape = manifest["input"].get("shape")
    missing = {
        "--shape (channels,height,width of images, or columns of rows)": shape,
        "--labels (a file with a class name a line)": manifest["labels"],
    }
    if lacking := [option for option, given in missing.items() if given is None]:
        raise ConversionError(f"an ONNX file does not say these, so give them: {' and '.join(lacking)}")
    if len(shape) == 1:
        given = manifest.pop("input")
        columns = [f"column {number}" for number in range(shape[0])]
        features = {name: given[name] for name in ("mean", "std") if name in given}
        manifest |= {"task": TABLES, "features": {"columns": columns, **features}}
    else:
        manifest["input"] = {"mean": [0.0], "std": [1.0], **manifest["input"]}
    described = ModelManifest.model_validate({**manifest, "architecture": {"kind": "onnx"}})
    try:
        load_onnx(described, asked.file, torch.device("cpu"), limits=Settings())
    except TargetError as error:
        raise ConversionError(f"{error.problem.title}: {error.problem.detail}") from error
    output.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(asked.file, output / ONNX)
    _write(described, output)
    return f"{output}: {ONNX}, {MANIFEST}"


def _export(name: str, state: dict[str, Any] | None, manifest: dict[str, Any], output: Path) -> str:
    if "shape" not in manifest["input"]:
        raise ConversionError("--shape is needed with --factory: channels,height,width of the images, e.g. 3,224,224")
    module = factory.make(name)
    if state is not None:
        factory.give_weights(module, state)
    classes = factory.classes_of(module, manifest["input"]["shape"])
    manifest["labels"] = manifest["labels"] or [str(number) for number in range(classes)]
    manifest["input"] = {"mean": [0.0], "std": [1.0], **manifest["input"]}
    described = ModelManifest.model_validate({**manifest, "architecture": {"kind": "exported"}})
    with factory.scratch() as folder:
        path = Path(folder) / factory.PROGRAM
        factory.export(module, manifest["input"]["shape"], path)
        difference = factory.check_export(module, described, path)
        output.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, output / factory.PROGRAM)
    _write(described, output)
    return (
        f"{output}: {factory.PROGRAM}, {MANIFEST}; read as a worker reads it, its logits differ from the network's by "
        f"{difference:g}"
    )


def _manifest(asked: argparse.Namespace, normalisation: dict[str, list[float]]) -> dict[str, Any]:
    given: dict[str, Any] = dict(normalisation)
    for name in ("shape", "mean", "std"):
        if getattr(asked, name) is not None:
            given[name] = getattr(asked, name)
    labels = None
    if asked.labels is not None:
        labels = [line.strip() for line in asked.labels.read_text(encoding="utf-8").splitlines() if line.strip()]
    stem = asked.file.stem if asked.file is not None else asked.factory.rpartition(":")[2]
    name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in stem).strip("._-") or "model"
    return {
        "name": asked.name or name,
        "version": asked.version,
        "task": IMAGES,
        "input": given,
        "labels": labels,
    }


def _architecture(text: str | None) -> dict[str, Any] | None:
    """Return ``kind:parameter=number,...``, or ``torchvision:name``, as the manifest has it.

    >>> _architecture("wide_resnet:depth=28,width=10")
    {'kind': 'wide_resnet', 'depth': 28, 'width': 10}
    >>> _architecture("torchvision:resnet18")
    {'kind': 'torchvision', 'name': 'resnet18'}
    """
    if text is None:
        return None
    kind, _, rest = text.partition(":")
    if kind in ("torchvision", "timm"):
        return {"kind": kind, "name": rest}
    pairs = [one.partition("=") for one in rest.split(",") if one]
    if any(not sign for _, sign, _ in pairs):
        raise ConversionError(f"--architecture {text}: write kind:parameter=number,parameter=number")
    return {"kind": kind, **{name: int(value) if value.isdecimal() else value for name, _, value in pairs}}


def _layers(text: str | None) -> dict[str, Any] | None:
    """Return the layers of a sequence, given as JSON or as a file of it, as the manifest has them.

    >>> _layers('[["flatten"], ["linear", 784, 10]]')
    {'kind': 'layers', 'layers': [['flatten'], ['linear', 784, 10]]}
    """
    if text is None:
        return None
    path = Path(text)
    try:
        found = json.loads(text if text.lstrip().startswith(("[", "{")) else path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConversionError(f"--layers: neither a JSON list of layers nor a file with one: {error}") from error
    # A manifest's architecture says the same.
    layers = found.get("layers") if isinstance(found, dict) else found
    return {"kind": "layers", "layers": layers}


def _write(manifest: ModelManifest, output: Path) -> None:
    text = json.dumps(manifest.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False)
    (output / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _numbers(kind: type) -> Any:
    def parse(text: str) -> list[Any]:
        return [kind(part) for part in text.replace(",", " ").split()]

    return parse


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="seatrial convert", description="Make a model that is accepted.")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--architecture")
    parser.add_argument("--layers")
    parser.add_argument("--factory")
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--shape", type=_numbers(int))
    parser.add_argument("--mean", type=_numbers(float))
    parser.add_argument("--std", type=_numbers(float))
    parser.add_argument("--name")
    parser.add_argument("--version", default="1")
    return parser


if __name__ == "__main__":
    sys.exit(main())
