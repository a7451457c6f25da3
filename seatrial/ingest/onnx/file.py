"""An ONNX file: the program in it, and where its tensors' bytes are."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.contracts.architectures import OnnxArchitecture
from seatrial.ingest.exported.program import Program
from seatrial.ingest.inspection.errors import MalformedFileError
from seatrial.ingest.onnx.layers import OPERATORS
from seatrial.ingest.onnx.lowering import Lowering
from seatrial.ingest.onnx.model import Tensor, parse_model


@dataclass(frozen=True)
class OnnxProgram:
    """A graph in torch's operators.

    Attributes:
        program: The graph.
        tensors: What it is given, by number; bytes of the open file.
    """

    program: Program
    tensors: dict[int, Tensor]


@contextmanager
def open_onnx(path: Path, architecture: OnnxArchitecture) -> Iterator[OnnxProgram]:
    """Yield the program of a file; nothing of it is copied, run or looked for elsewhere.

    Raises:
        InspectionError: It is no ONNX graph that can be run; the message says why.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise MalformedFileError("the ONNX file is empty")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # The mapping ends with the last view of it.
        lowering = Lowering(parse_model(memoryview(mapped)), OPERATORS)
        is_probability = architecture.outputs == "probabilities"
        program = lowering.program(architecture.output, is_probability=is_probability)
        yield OnnxProgram(program, lowering.tensors)
