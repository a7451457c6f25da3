"""The command that makes a model of a file nobody may load here: told in the same words wherever one is refused."""

from collections.abc import Iterable

CONVERT = (
    "`seatrial convert FILE -o FOLDER` makes a model of a state dict or an ONNX file, and `seatrial convert --factory "
    "package.module:make -o FOLDER` of the code that builds a network; run it where the file may be trusted"
)
"""What helps, as the end of a refusal."""


def is_torch_archive(names: Iterable[str]) -> bool:
    """Tell whether the files of an archive are those of ``torch.save`` or of TorchScript, which hold pickles.

    >>> is_torch_archive(["archive/data.pkl", "archive/data/0"]), is_torch_archive(["model.safetensors"])
    (True, False)
    """
    return any(name.partition("/")[2] in ("data.pkl", "constants.pkl") for name in names)
